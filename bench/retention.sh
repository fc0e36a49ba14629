#!/usr/bin/env bash
# retention.sh: does retention keep up, and what do pushes feel of it?
#
# PUSHERS clients push batches of BATCH messages to 20 partitions of one queue, as fast as they can, POPPERS clients take and
# complete them, completed_retention is a minute. For MINUTE s nothing is deleted, for the comparison; then, for
# 10 × MINUTE s, one session calls queen.maintain() every second. Prints the table's and its indexes' sizes in each minute,
# how they moved over the last five, the backlog, and how long pushes took in both parts. Run it by "make bench";
# BENCHES=retention, MINUTE=60, PUSHERS=2, POPPERS=2, BATCH=20, SYNC=off by default.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

minute=${MINUTE:-60} sync=${SYNC:-off} pushers=${PUSHERS:-2} poppers=${POPPERS:-2} batch=${BATCH:-20}
export PGOPTIONS="-c synchronous_commit=$sync"
children=()
finish() {
	local child
	for child in ${children[@]+"${children[@]}"}; do kill "$child" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap finish EXIT

make_messages
psql -qX -v ON_ERROR_STOP=1 >/dev/null <<SQL
SELECT queen.create_queue('kept', options => jsonb_build_object('completed_retention', $minute));
SELECT queen.subscribe('kept', 'g');
CREATE TABLE batch AS SELECT jsonb_agg(message ORDER BY n) AS messages FROM messages WHERE n <= $batch;
SQL
cat >"$dir/push.sql" <<'SQL'
\set p random(1, 20)
SELECT count(*) FROM batch, queen.push_batch('kept', messages, partition => 'p' || :p);
SQL
cat >"$dir/pop.sql" <<'SQL'
SELECT count(*) FROM queen.pop('kept', 'g', 2000, max_partitions => 4, auto_ack => true);
SQL

# load SECONDS NAME: pushers, whose latencies are logged, and poppers
load() {
	pgbench -n -M prepared -c "$poppers" -j 1 -T "$1" -f "$dir/pop.sql" >/dev/null 2>&1 &
	children+=($!)
	(cd "$dir" && pgbench -n -M prepared -c "$pushers" -j 1 -T "$1" -f push.sql -l --log-prefix="$2" >/dev/null 2>&1) &
	children+=($!)
}
# latencies NAME: milliseconds, p50 p99 p99.9 and the longest, and how many there were
latencies() {
	cat "$dir/$1".* | awk '{ print $3 }' | sort -n |
		awk '{ v[NR] = $1 / 1000 } END { printf "%.1f | %.1f | %.1f | %.1f | %d", v[int(NR * 0.5) + 1], v[int(NR * 0.99) + 1], v[int(NR * 0.999) + 1], v[NR], NR }'
}
megabytes() { answer "SELECT round($1 / 1048576.0, 1)"; }
table_size() { megabytes "pg_table_size('queen.log_segments')"; }
index_size() { megabytes "(pg_indexes_size('queen.log_segments') + pg_table_size('queen.log_cursors') + pg_indexes_size('queen.log_cursors'))"; }
backlog() { answer "SELECT coalesce(sum(lag), 0) FROM queen.lag('kept', 'g')"; }

load "$minute" without
wait
load "$((10 * minute))" with
end=$((SECONDS + 10 * minute))
(while [ "$SECONDS" -lt "$end" ]; do
	psql -qX -c 'CALL queen.maintain()' >/dev/null
	sleep 1
done) &
children+=($!)

echo "| minute | table, MB | indexes and cursors, MB | backlog, messages |"
echo "|---|---|---|---|"
for m in 1 2 3 4 5 6 7 8 9 10; do
	sleep $((end - (10 - m) * minute - SECONDS))
	table=$(table_size) index=$(index_size)
	note table "$table"
	note index "$index"
	echo "| $m | $table | $index | $(backlog) |"
done
wait
echo
growth() { awk 'NR == 5 { first = $1 } END { printf "%+.0f %%", ($1 / first - 1) * 100 }' "$dir/$1.sample"; }
echo "Over the last five minutes: table $(growth table), indexes and cursors $(growth index)."
echo
echo "| pushes of $batch messages, $pushers clients | p50, ms | p99 | p99.9 | longest | pushes |"
echo "|---|---|---|---|---|---|"
echo "| nothing is deleted | $(latencies without) |"
echo "| queen.maintain() every second | $(latencies with) |"
