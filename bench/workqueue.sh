#!/usr/bin/env bash
# workqueue.sh: work queues: enqueuing and dequeuing against pgmq, what a claim costs by the backlog, and under a held snapshot.
#
#   PGMQ=dir make bench    dir: pgmq's sources, see bench/pgmq.sh; without, the comparison is left out
#   CLIENTS="1 8"          how many clients;   REPS, SECONDS_EACH, SYNC: see bench/common.sh
#   BACKLOGS="1000 1000000"  messages that a claim is measured at;   MINUTE=60, WORK_CLIENTS=4: as for bench/held_snapshot.sh
#   PARTS="pgmq claim held"    which of them
#   a quick look: BENCHES=workqueue REPS=1 SECONDS_EACH=1 SYNC=off CLIENTS=8 BACKLOGS="1000 100000" MINUTE=5 make bench
#
# Interleaved pairs, medians. Both sides get the same 100 messages as text and give all messages to the client, joined into one value. A
# consumer takes and completes in two commits. Before each run of consumers the backlog is filled up, in commits of 100, and the table vacuumed and
# analyzed; a run that leaves less than a tenth of its backlog is made again with a larger one.
#
# A claim: one client enqueues a message, takes one and acknowledges it, at a queue of so many messages, for SECONDS_EACH behind a fifth of that for what a
# session looks up once; its time is that of the last two statements as pgbench reports it. The held snapshot: each
# client enqueues a message, takes one and acknowledges it; MINUTE s clean, then 5 × MINUTE s while another session holds a snapshot, an ANALYZE in the
# middle; then the queue is filled with 100,000 messages, drained, and measured for MINUTE s more: right behind a drain; and once more without it.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

counts=${CLIENTS:-1 8} backlogs=${BACKLOGS:-1000 1000000} minute=${MINUTE:-60} workers=${WORK_CLIENTS:-4} parts=${PARTS:-pgmq claim held}
holder=
finish() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT

make_messages
sides=queen
if [ -n "${PGMQ:-}" ]; then
	install_pgmq
	psql -qX -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION IF NOT EXISTS pgmq' -c "SELECT pgmq.create('work')" >/dev/null
	sides+=" pgmq"
fi
json_array=$(answer "SELECT jsonb_agg(message ORDER BY n) FROM messages") sql_array=$(answer "SELECT array_agg(message ORDER BY n) FROM messages")
answer "SELECT queen.create_queue('work', 'work')" >/dev/null

# ---- scripts ----

cat >"$dir/queen_put.sql" <<'SQL'
SELECT count(*) FROM queen.enqueue_batch(:queue, :messages);
SQL
cat >"$dir/pgmq_put.sql" <<'SQL'
SELECT count(*) FROM pgmq.send_batch('work', :messages::jsonb[]);
SQL
cat >"$dir/queen_take.sql" <<'SQL'
SELECT count(*) AS n, array_agg(message_id) AS ids, array_agg(receipt) AS receipts, string_agg(message::text, '') AS body FROM queen.dequeue(:queue, :batch) \gset
\if :n
SELECT count(*) FROM queen.acknowledge_batch(:ids::uuid[], :receipts::uuid[]);
\endif
SQL
cat >"$dir/pgmq_take.sql" <<'SQL'
SELECT count(*) AS n, array_agg(msg_id) AS ids, string_agg(message::text, '') AS body FROM pgmq.read('work', 30, :batch) \gset
\if :n
SELECT count(*) FROM pgmq.delete('work', :ids::bigint[]);
\endif
SQL
cat >"$dir/queen_single.sql" <<'SQL'
SELECT queen.enqueue('work', '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would enqueue it"}');
SQL
cat >"$dir/pgmq_single.sql" <<'SQL'
SELECT pgmq.send('work', '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would enqueue it"}');
SQL
cat >"$dir/round.sql" <<'SQL'
SELECT queen.enqueue('held', '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would enqueue it"}');
SELECT count(*) AS n, array_agg(message_id) AS ids, array_agg(receipt) AS receipts FROM queen.dequeue('held') \gset
\if :n
SELECT count(*) FROM queen.acknowledge_batch(:ids::uuid[], :receipts::uuid[]);
\endif
SQL

cat >"$dir/claim.sql" <<'SQL'
SELECT queen.enqueue(:queue, '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would enqueue it"}');
SELECT message_id, receipt, message FROM queen.dequeue(:queue) \gset
SELECT queen.acknowledge(:message_id::uuid, :receipt::uuid);
SQL

queen_backlog() { answer "SELECT count(*) FROM queen.messages m JOIN queen.queues USING (log_id) WHERE name = '$1'"; }
pgmq_backlog() { answer "SELECT count(*) FROM pgmq.q_$1"; }
tidy() { psql -qX -c "VACUUM ANALYZE $([ "$1" = queen ] && echo queen.messages || echo pgmq.q_work)"; }
declare -A text=([queen]=$json_array [pgmq]=$sql_array) need=([queen]=$((30000 * each)) [pgmq]=$((30000 * each)))

# fill SIDE QUEUE COUNT: up to so many, by 4 clients in commits of 100 messages
fill() {
	local missing=$(($3 - $("$1_backlog" "$2")))
	[ "$missing" -le 0 ] || run "$1_put" 4 off -t $(((missing + 399) / 400)) -D queue="$2" -D messages="${text[$1]}"
	tidy "$1"
}

# consume SIDE BATCH CLIENTS SYNC: as measure, and sets messages
consume() {
	local before after
	while :; do
		fill "$1" work "${need[$1]}"
		before=$("$1_backlog" work)
		measure "$1_take" "$3" "$4" -D queue=work -D batch="$2"
		after=$("$1_backlog" work)
		[ $((after * 10)) -lt "$before" ] || break
		need[$1]=$((need[$1] * 2))
	done
	messages=$((before - after))
}

# ---- against pgmq ----

pair() { # WHAT CLIENTS SYNC
	local side n what=$1 clients=$2 sync=$3
	forget
	for ((n = 0; n < reps; n++)); do
		for side in $sides; do
			case $what in
				"enqueue 100") tidy "$side" && measure "${side}_put" "$clients" "$sync" -D queue=work -D messages="${text[$side]}" && messages=$((scripts * 100)) ;;
				"enqueue 1") tidy "$side" && measure "${side}_single" "$clients" "$sync" && messages=$scripts ;;
				"dequeue + acknowledge 100") consume "$side" 100 "$clients" "$sync" ;;
				"dequeue + acknowledge 1") consume "$side" 1 "$clients" "$sync" ;;
			esac
			note "$side" "$(quotient "$messages" "$seconds")"
			note "$side.wal" "$(quotient "$wal" "$messages")"
		done
	done
	if [ "$sides" = queen ]; then
		row "$what" "$sync" "$clients" "$(median queen)" – – "$(median queen.wal)" –
	else
		row "$what" "$sync" "$clients" "$(median queen)" "$(median pgmq)" "$(quotient "$(median queen)" "$(median pgmq)" 2)" "$(median queen.wal)" "$(median pgmq.wal)"
	fi
}
part_pgmq() {
	head_row "what" "synchronous_commit" "clients" "queen, messages/s" "pgmq, messages/s" "queen / pgmq" "WAL bytes a message, queen" "pgmq"
	local sync clients what
	for sync in $syncs; do
		for clients in $counts; do
			for what in "enqueue 100" "enqueue 1" "dequeue + acknowledge 100" "dequeue + acknowledge 1"; do
				pair "$what" "$clients" "$sync"
			done
		done
	done
	echo
}

# ---- a claim, by the backlog ----

part_claim() {
	local n backlog
	forget
	for ((n = 0; n < reps; n++)); do
		for backlog in $backlogs; do
			fill queen "of $backlog" "$backlog"
			run claim 1 off -T $(((each + 4) / 5)) -D queue="of $backlog"
			run claim 1 off -r -T "$each" -D queue="of $backlog"
			note "$backlog" "$(awk '/dequeue|acknowledge/ { us += 1000 * $1 } END { print us }' "$dir/report")"
		done
	done
	head_row "messages in the queue" "dequeue + acknowledge, µs"
	for backlog in $backlogs; do row "$backlog" "$(median "$backlog")"; done
	# shellcheck disable=SC2086 # a list
	set -- $backlogs
	printf '\nThe last against the first: %s\n\n' "$(quotient "$(median "${!#}")" "$(median "$1")" 2)"
}

# ---- a held snapshot ----

round() {
	run round "$workers" "${syncs##* }" -T "$1"
	reported tps
}
part_held() {
	local n clean held
	answer "SELECT queen.create_queue('held', 'work')" >/dev/null
	tidy queen
	round "$((minute / 4 + 1))" >/dev/null
	clean=$(round "$minute")
	psql -qX -c "BEGIN ISOLATION LEVEL REPEATABLE READ" -c "SELECT 1" -c "SELECT pg_sleep(86400)" >/dev/null 2>&1 &
	holder=$!
	sleep 1
	head_row "part" "enqueue + dequeue + acknowledge, runs/s" "against clean"
	row clean "$clean" 1
	for n in 1 2 3 4 5; do
		[ "$n" != 3 ] || psql -qX -c "ANALYZE queen.messages"
		held=$(round "$minute")
		row "held, part $n" "$held" "$(quotient "$held" "$clean" 2)"
	done
	run queen_put 4 off -t 250 -D queue=held -D messages="$json_array"
	run queen_take 4 off -t 260 -D queue=held -D batch=100
	held=$(round "$minute")
	row "behind a drain of 100,000" "$held" "$(quotient "$held" "$clean" 2)"
	# against the clean part alone, the machine's drift would pass for the snapshot's work
	kill "$holder" 2>/dev/null || true
	wait "$holder" 2>/dev/null || true
	holder=
	psql -qXAt -c "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%' AND pid <> pg_backend_pid()" >/dev/null
	tidy queen
	held=$(round "$minute")
	row "clean again" "$held" "$(quotient "$held" "$clean" 2)"
}

for part in $parts; do "part_$part"; done
