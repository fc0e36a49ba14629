#!/usr/bin/env bash
# held_snapshot.sh: what a long transaction elsewhere in the database costs the log.
#
# Four clients push, pop and acknowledge on ten partitions of one queue: WARM s to warm up, MINUTE s clean, then 5 × MINUTE s
# while another session holds a snapshot (an ANALYZE of queen's tables in the middle), then the snapshot goes and it is
# MINUTE s clean again. Prints the script's runs a second in each part, and the fifth minute against the mean of the two clean ones
# (before and after: the machine drifts). For comparison the same with the cursor as one plain row, updated by SQL. DESIGNS=timers: each
# run schedules a timer that is due, and the pulse fires it, ten partitions of another queue; what has not been fired when a part ends fails the
# benchmark, but for as much as a hundredth of it.
# Run it by "make bench". MINUTE=60, HELD_CLIENTS=4 and DESIGNS="queen timers plain" by default; SYNC=on for durable commits (off shows
# more: nothing is hidden behind the disk).
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

minute=${MINUTE:-60} warm=${WARM:-15} sync=${SYNC:-off} clients=${HELD_CLIENTS:-4}
export PGOPTIONS="-c synchronous_commit=$sync"
holder=
finish() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT

cat >"$dir/queen.sql" <<'SQL'
\set p random(1, 10)
SELECT queen.push('held', '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would push it"}', partition => 'p' || :p);
SELECT count(*) AS n, coalesce((array_agg(lease))[1]::text, '') AS lease FROM queen.pop('held', max_messages => 10) \gset
\if :n
SELECT queen.ack(:lease);
\endif
SQL

cat >"$dir/timers.sql" <<'SQL'
\set p random(1, 10)
\set k random(1, 1000000000)
SELECT queen.schedule('held timers', 'k' || :k, '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would push it"}', delay => '0', partition => 'p' || :p);
SQL

# the naive design: a plain row with the position, updated at take and at ack
cat >"$dir/plain.sql" <<'SQL'
\set p random(1, 10)
INSERT INTO plain_log (p, message) VALUES (:p, '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would push it"}');
UPDATE plain_cursor SET lease = lease + 1 WHERE p = :p;
UPDATE plain_cursor SET committed = committed + 1 WHERE p = :p;
SQL

psql -qX <<'SQL'
CREATE TABLE plain_log (id bigserial PRIMARY KEY, p int, message jsonb);
CREATE TABLE plain_cursor (p int PRIMARY KEY, lease bigint NOT NULL DEFAULT 0, committed bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO plain_cursor (p) SELECT g FROM generate_series(1, 10) g;
SQL

# load SCRIPT SECONDS: prints transactions a second
load() {
	local runs
	run "$1" "$clients" "$sync" -T "$2"
	runs=$(reported "number of transactions actually processed")
	[ "$(answer "SELECT queen.count_timers('held timers') * 100 > $runs")" = f ] || die "timers are left behind"
	reported tps
}

hold() {
	psql -qX -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT count(*) FROM pg_class' \
		-c "SELECT pg_sleep($((minute * 6)))" >/dev/null 2>&1 &
	holder=$!
	sleep 1
}

release() {
	kill "$holder" 2>/dev/null || true
	wait "$holder" 2>/dev/null || true
	holder=
	# psql's end does not end its query: end the backend that we started, by its query
	psql -qXAt -c "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%' AND pid <> pg_backend_pid()" >/dev/null
	sleep 1
}

analyze() {
	psql -qX <<'SQL'
ANALYZE queen.log_cursors, queen.log_consumers, queen.log_segments, queen.log_partitions, queen.log_timers, plain_log, plain_cursor;
SQL
}

head_row "design" "clean before" "held 1" "2" "3 (ANALYZE)" "4" "5" "clean after" "5th / clean"
for design in ${DESIGNS:-queen timers plain}; do
	load "$design" "$warm" >/dev/null
	before=$(load "$design" "$minute")
	hold
	held=()
	for i in 1 2 3 4 5; do
		[ "$i" != 3 ] || analyze
		fifth=$(load "$design" "$minute")
		held+=("$(quotient "$fifth" 1 0)")
	done
	release
	psql -qX -c "VACUUM queen.log_cursors" -c "VACUUM queen.log_timers" -c "VACUUM plain_cursor"
	after=$(load "$design" "$minute")
	ratio=$(awk -v f="$fifth" -v b="$before" -v a="$after" 'BEGIN { printf "%.2f", f / ((a + b) / 2) }')
	row "$design" "$(quotient "$before" 1 0)" "${held[@]}" "$(quotient "$after" 1 0)" "$ratio"
done
