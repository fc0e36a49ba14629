#!/usr/bin/env bash
# state_load.sh [WAY SYNC]: load on one work queue, for bench/state.sh, which sources it; by itself it makes the queue, runs one load behind a fifth of it for
# what is looked up once, and prints messages a second.
#
#   single   a client enqueues a message, takes one and acknowledges it
#   batch    the same with 100 in a call
#   mixed    single enqueues, and dequeues of 100, a hundred to one
#
# A message is counted when it is enqueued.
# shellcheck shell=bash
# shellcheck disable=SC2154 # common.sh sets them
# shellcheck disable=SC2034 # for who sources it
load_ways="single batch mixed"

make_load() {
	answer "SELECT queen.create_queue('load', 'work')" >/dev/null
	load_text=$(answer "SELECT jsonb_agg(message ORDER BY n) FROM messages")
	cat >"$dir/put.sql" <<'SQL'
SELECT queen.enqueue('load', '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would enqueue it"}');
SQL
	cat >"$dir/take.sql" <<'SQL'
SELECT count(*) AS n, array_agg(message_id) AS ids, array_agg(receipt) AS receipts FROM queen.dequeue('load', :batch) \gset
\if :n
SELECT count(*) FROM queen.acknowledge_batch(:ids::uuid[], :receipts::uuid[]);
\endif
SQL
	cat "$dir/put.sql" "$dir/take.sql" >"$dir/single.sql"
	{ echo "SELECT count(*) FROM queen.enqueue_batch('load', :messages);" && cat "$dir/take.sql"; } >"$dir/batch.sql"
}

# load WAY SYNC: messages/s
load() {
	local clients=${CLIENTS_OF_LOAD:-8} seconds=${SECONDS_OF_LOAD:-$each}
	[ -n "${LOAD_GOES_ON:-}" ] || answer "TRUNCATE queen.messages" >/dev/null
	case $1 in
		single) run single "$clients" "$2" -T "$seconds" -D batch=1 && reported tps ;;
		batch) run batch "$clients" "$2" -T "$seconds" -D batch=100 -D messages="$load_text" && awk -v tps="$(reported tps)" 'BEGIN { printf "%.0f\n", tps * 100 }' ;;
		mixed)
			run take "$clients" "$2" -T "$seconds" -D batch=100 -f "$dir/put.sql@100"
			# of the scripts that were run those that put
			awk -v tps="$(reported tps)" 'BEGIN { printf "%.0f\n", tps * 100 / 101 }'
			;;
	esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	. "$(dirname "$0")/common.sh"
	make_messages
	make_load
	SECONDS_OF_LOAD=$(((each + 4) / 5)) load "$1" "$2" >/dev/null
	load "$1" "$2"
fi
