#!/usr/bin/env bash
# pgmq.sh: queen's log against pgmq: pushing, consuming, and what a message costs in WAL and processor time.
#
#   PGMQ=dir make bench    dir: pgmq's sources (the repository's top, or its pgmq-extension). It is SQL alone, and is installed
#                          into the benchmark's private copy of the server, nowhere else.
#   CLIENTS="1 8 48"       how many clients;   REPS, SECONDS_EACH, SYNC: see bench/common.sh
#   a quick look: PGMQ=dir BENCHES=pgmq REPS=1 SECONDS_EACH=1 SYNC=off CLIENTS=8 make bench
#
# Interleaved pairs, medians. Both get the same 100 messages in the text form in which a driver sends them (but for the row
# that says otherwise: there they are jsonb in the server, as where a trigger pushes), and both give all messages to the
# client: joined into one value, since pgbench keeps one row of an answer. A consumer takes and completes in two commits
# (with auto_ack, and with pgmq.pop, in one).
#
# Before each run the backlog is filled up, in commits of 100 messages, and the tables are vacuumed and analyzed; a run that
# leaves less than a tenth of its backlog does not count and is made again with a larger one. Messages consumed are counted
# in the tables: a call that finds nothing counts for nothing. pgmq's queue of the pushes is emptied after each run.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

counts=${CLIENTS:-1 8 48}

[ -n "${PGMQ:-}" ] || die "where are pgmq's sources? PGMQ=dir make bench"
install_pgmq

make_messages
psql -qX -v ON_ERROR_STOP=1 <<'SQL' >/dev/null
SET client_min_messages = warning;
CREATE EXTENSION pgmq;
SELECT pgmq.create(name) FROM unnest('{push,consume}'::text[]) name;
CREATE TABLE made (json jsonb, sql jsonb[]);
ALTER TABLE made ALTER json SET STORAGE EXTERNAL, ALTER sql SET STORAGE EXTERNAL;
INSERT INTO made SELECT jsonb_agg(message ORDER BY n), array_agg(message ORDER BY n) FROM messages;
SQL
json_array=$(answer "SELECT json FROM made") sql_array=$(answer "SELECT sql FROM made")
pops_many=$(answer "SELECT count(*) FROM pg_proc WHERE pronamespace = 'pgmq'::regnamespace AND proname = 'pop' AND pronargs = 2")

# ---- scripts ----

cat >"$dir/queen_push.sql" <<'SQL'
\set p random(1, :partitions)
SELECT count(*) FROM queen.push_batch(:queue, :messages, partition => 'p' || :p);
SQL
cat >"$dir/pgmq_push.sql" <<'SQL'
SELECT count(*) FROM pgmq.send_batch(:queue, :messages::jsonb[]);
SQL
cat >"$dir/queen_push_made.sql" <<'SQL'
\set p random(1, :partitions)
SELECT count(*) FROM made, queen.push_batch(:queue, json, partition => 'p' || :p);
SQL
cat >"$dir/pgmq_push_made.sql" <<'SQL'
SELECT count(*) FROM made, pgmq.send_batch(:queue, sql);
SQL
# every partition gets as many
cat >"$dir/queen_fill.sql" <<'SQL'
\set i :i + 1
\set p (:i * 4 + :client_id) % :partitions
SELECT count(*) FROM queen.push_batch(:queue, :messages, partition => 'p' || :p);
SQL
cat >"$dir/queen_consume.sql" <<'SQL'
SELECT count(*) AS n, min(lease::text) AS lease, string_agg(message::text, '') AS body FROM queen.pop(:queue, max_messages => :batch) \gset
\if :n
SELECT queen.ack(:lease);
\endif
SQL
cat >"$dir/pgmq_consume.sql" <<'SQL'
SELECT count(*) AS n, array_agg(msg_id) AS ids, string_agg(message::text, '') AS body FROM pgmq.read(:queue, 30, :batch) \gset
\if :n
SELECT count(*) FROM pgmq.delete(:queue, :ids::bigint[]);
\endif
SQL
cat >"$dir/queen_take.sql" <<'SQL'
SELECT count(*) AS n, string_agg(message::text, '') AS body FROM queen.pop(:queue, max_messages => :batch, auto_ack => true) \gset
SQL
echo "SELECT count(*) AS n, string_agg(message::text, '') AS body FROM pgmq.pop(:queue${pops_many/1/, :batch}) \\gset" |
	sed 's/:queue0/:queue/' >"$dir/pgmq_take.sql"

# ---- backlogs ----

queen_backlog() { # QUEUE: messages behind the group's positions; without a position, the whole partition
	answer "SELECT coalesce(sum(t.tail - coalesce(c.committed, -1)), 0) FROM queen.queues q JOIN queen.log_partitions p USING (log_id)
		CROSS JOIN LATERAL (SELECT end_offset AS tail FROM queen.log_segments s WHERE s.partition_id = p.partition_id
			ORDER BY base_offset DESC LIMIT 1) t
		LEFT JOIN queen.log_cursors c USING (partition_id) WHERE q.name = '$1'"
}
pgmq_backlog() { answer "SELECT count(*) FROM pgmq.q_$1"; }

declare -A need=([queen]=$((200000 * each)) [pgmq]=$((30000 * each)))

# fill SIDE QUEUE PARTITIONS: up to what is needed, by 4 clients in commits of 100 messages
fill() {
	local side=$1 queue=$2 partitions=$3 missing
	missing=$((need[$side] - $("${side}_backlog" "$queue")))
	if [ "$missing" -gt 0 ]; then
		case $side in
			queen) run queen_fill 4 off -t $(((missing / 10000 + 1) * 25)) -D i=0 -D queue="$queue" -D partitions="$partitions" -D messages="$json_array" ;;
			pgmq) run pgmq_push 4 off -t $(((missing / 10000 + 1) * 25)) -D queue="$queue" -D messages="$sql_array" ;;
		esac
	fi
	case $side in
		queen) psql -qX -c "VACUUM ANALYZE queen.log_segments, queen.log_cursors, queen.log_consumers" ;;
		pgmq) psql -qX -c "VACUUM ANALYZE pgmq.q_$queue" ;;
	esac
}

# consume SIDE SCRIPT QUEUE PARTITIONS BATCH CLIENTS SYNC: as measure, and sets messages
consume() {
	local side=$1 script=$2 queue=$3 partitions=$4 batch=$5 clients=$6 sync=$7 before after
	while :; do
		fill "$side" "$queue" "$partitions"
		before=$("${side}_backlog" "$queue")
		measure "${side}_$script" "$clients" "$sync" -D queue="$queue" -D batch="$batch"
		after=$("${side}_backlog" "$queue")
		[ $((after * 10)) -lt "$before" ] || break
		need[$side]=$((need[$side] * 2))
	done
	messages=$((before - after))
}

# push SIDE SCRIPT QUEUE PARTITIONS CLIENTS SYNC: as measure, and sets messages
push() {
	local side=$1 script=$2 queue=$3 partitions=$4 clients=$5 sync=$6 before
	case $side in
		queen)
			before=$(queen_backlog "$queue")
			measure "queen_$script" "$clients" "$sync" -D queue="$queue" -D partitions="$partitions" -D messages="$json_array"
			messages=$(($(queen_backlog "$queue") - before))
			;;
		pgmq)
			measure "pgmq_$script" "$clients" "$sync" -D queue="$queue" -D messages="$sql_array"
			messages=$(pgmq_backlog "$queue")
			answer "SELECT pgmq.purge_queue('$queue')" >/dev/null
			;;
	esac
}

# ---- tables ----

# note_side SIDE: of the run that was made last
note_side() {
	note "$1" "$(quotient "$messages" "$seconds")"
	note "$1_wal" "$(quotient "$wal" "$messages")"
	note "$1_cpu" "$(quotient "$server_us" "$messages")"
	note "$1_client" "$(quotient "$client_us" "$messages")"
	note "$1_full" "$(quotient "$messages" "$scripts")"
}

# result NAME CLIENTS SYNC BAR: a row of the table of speeds, and one of costs for later
result() {
	row "$1" "$2" "$3" "$(median queen)" "$(median pgmq)" "$(median ratio 1)" "$(range ratio)" "$4"
	row "$1" "$2" "$3" "$(median queen_wal)" "$(median pgmq_wal)" "$(quotient "$(median queen_wal 3)" "$(median pgmq_wal 3)" 2)" \
		"$(median queen_cpu 1)" "$(median pgmq_cpu 1)" "$(quotient "$(median queen_cpu 3)" "$(median pgmq_cpu 3)" 2)" \
		"$(median queen_client 1)" "$(median pgmq_client 1)" "$(median queen_full 1)" "$(median pgmq_full 1)" >>"$dir/costs"
}

# compare NAME BAR CLIENTS SYNC QUEEN PGMQ: QUEEN and PGMQ are what consume or push is called with, without clients and sync
compare() {
	local name=$1 bar=$2 clients=$3 sync=$4 queen=$5 pgmq=$6 i
	forget
	for ((i = 0; i < reps; i++)); do
		$pgmq "$clients" "$sync"
		note_side pgmq
		$queen "$clients" "$sync"
		note_side queen
		note ratio "$(quotient "$(last queen)" "$(last pgmq)" 1)"
	done
	result "$name" "$clients" "$sync" "$bar"
}

# whole_life CLIENTS SYNC: push and consume together, from the rows of costs that have these clients
whole_life() {
	awk -F ' [|] ' -v clients="$1" -v sync="$2" '
		($1 == "| push, 100 partitions" || $1 == "| pop + ack, 100 partitions") && $2 == clients && $3 == sync {
			q_wal += $4; p_wal += $5; q_cpu += $7; p_cpu += $8; q_client += $10; p_client += $11
		}
		END {
			printf "| both, 100 partitions | %s | %s | %.0f | %.0f | %.2f | %.1f | %.1f | %.2f | %.1f | %.1f | – | – |\n", clients, sync,
				q_wal, p_wal, q_wal / p_wal, q_cpu, p_cpu, q_cpu / p_cpu, q_client, p_client
		}' "$dir/costs" >>"$dir/lives"
}

echo "pgmq $version; batches of 100 messages of some 200 bytes unless a row says otherwise."
echo
head_row "what" "clients" "synchronous_commit" "queen, messages/s" "pgmq, messages/s" "ratio" "range" "bar"
for sync in $syncs; do
	for clients in $counts; do
		compare "push, 100 partitions" "≥ 5" "$clients" "$sync" "push queen push push 100" "push pgmq push push 1"
	done
	compare "push, ONE partition" "" 8 "$sync" "push queen push push-one 1" "push pgmq push push 1"
	compare "push, 100 partitions, messages that are in the server" "≥ 5" 8 "$sync" "push queen push_made push 100" "push pgmq push_made push 1"
	for clients in $counts; do
		compare "pop + ack, 100 partitions" "≥ 10" "$clients" "$sync" "consume queen consume consume 100 100" "consume pgmq consume consume 1 100"
	done
	for clients in 1 8; do
		compare "pop + ack, ONE partition" "" "$clients" "$sync" "consume queen consume one 1 100" "consume pgmq consume consume 1 100"
	done
	if [ "$pops_many" = 1 ]; then
		compare "pop with auto_ack, 100 partitions, against pgmq.pop" "" 8 "$sync" "consume queen take consume 100 100" "consume pgmq take consume 1 100"
	fi
	compare "the same, one message a call" "" 8 "$sync" "consume queen take consume 100 1" "consume pgmq take consume 1 1"
	for clients in $counts; do whole_life "$clients" "$sync"; done
done
echo
echo "CPU in seconds a million messages (that is, µs a message): of the whole server, and of pgbench."
echo
head_row "what" "clients" "synchronous_commit" "WAL bytes a message: queen" "pgmq" "ratio (bar ≤ 0.25)" \
	"server's CPU: queen" "pgmq" "ratio" "pgbench's CPU: queen" "pgmq" "messages a call: queen" "pgmq"
cat "$dir/costs" "$dir/lives"
