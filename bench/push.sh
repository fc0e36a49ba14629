#!/usr/bin/env bash
# push.sh: what a commit with pushes costs against a bare INSERT of one row of the segment's size.
#
# Interleaved pairs (INSERT, push, INSERT, push …), REPS of them, SECONDS_EACH s each; prints the medians of commits a
# second, their ratio, the ratios' range, and the WAL of a message. The table that takes the bare INSERTs has the shape of
# queen.log_segments and its key. pgbench shares the machine. Run it by "make bench", on a server of its own.
set -euo pipefail

reps=${REPS:-3} each=${SECONDS_EACH:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

psql -qX <<'SQL'
CREATE TABLE bare (partition_id bigint, base_offset bigint, end_offset bigint, created_at timestamptz, blob bytea,
	PRIMARY KEY (partition_id, base_offset));
ALTER TABLE bare ALTER COLUMN blob SET STORAGE EXTERNAL;
CREATE SEQUENCE bare_offset CACHE 100;
-- messages of some 200 bytes, no two alike
CREATE TABLE messages AS SELECT n, jsonb_build_object('order', 1000000 + n, 'customer', md5(n::text), 'state', 'paid',
	'amount', n * 7.25, 'note', 'as an application would push it', 'token', md5((n * 31)::text)) AS message FROM generate_series(1, 100) n;
CREATE TABLE batches AS SELECT jsonb_agg(message ORDER BY n) AS messages FROM messages;
SQL

cat >"$dir/single.sql" <<'SQL'
SELECT queen.push('bench single', :message);
SQL
cat >"$dir/batch.sql" <<'SQL'
\set p random(1, 1000)
SELECT count(*) FROM batches, queen.push_batch('bench batch', messages, partition => 'p' || :p);
SQL
cat >"$dir/spread.sql" <<'SQL'
\set p random(1, 900)
SELECT count(queen.push('bench spread', message, partition => 'p' || (:p + n))) FROM messages;
SQL
cat >"$dir/bare.sql" <<'SQL'
\set p random(1, :partitions)
INSERT INTO bare VALUES (:p, nextval('bare_offset'), 0, clock_timestamp(), :blob);
SQL
message=$(psql -qXAt -c "SELECT message FROM messages WHERE n = 1")

# run SCRIPT CLIENTS SYNC OPTION…: commits a second
run() {
	local script=$1 clients=$2 sync=$3
	shift 3
	PGOPTIONS="-c synchronous_commit=$sync" pgbench -n -M prepared -c "$clients" -j 2 -T "$each" -f "$dir/$script.sql" "$@" 2>/dev/null |
		sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
wal() { psql -qXAt -c "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"; }
messages_of() { psql -qXAt -c "SELECT coalesce(sum(end_offset - base_offset + 1), 0) FROM queen.log_segments"; }

# compare NAME SCRIPT QUEUE PARTITIONS CLIENTS SYNC BAR
compare() {
	local name=$1 script=$2 queue=$3 partitions=$4 clients=$5 sync=$6 bar=$7 i size blob before count
	run "$script" 1 "$sync" -D message="$message" -t 1 >/dev/null 2>&1 || true
	PGOPTIONS="-c synchronous_commit=$sync" pgbench -n -M prepared -c 1 -t 20 -f "$dir/$script.sql" -D message="$message" >/dev/null 2>&1
	size=$(psql -qXAt -c "SELECT round(avg(length(blob)))::int FROM queen.log_segments JOIN queen.log_partitions USING (partition_id)
		JOIN queen.queues q USING (log_id) WHERE q.name = '$queue'")
	blob="\\x$(head -c "$size" /dev/urandom | od -An -v -tx1 | tr -d ' \n')"
	: >"$dir/push" && : >"$dir/bare" && : >"$dir/ratio" && : >"$dir/wal"
	for ((i = 0; i < reps; i++)); do
		run bare "$clients" "$sync" -D partitions="$partitions" -D blob="$blob" >>"$dir/bare"
		before=$(wal) count=$(messages_of)
		run "$script" "$clients" "$sync" -D message="$message" >>"$dir/push"
		awk -v w="$(($(wal) - before))" -v n="$(($(messages_of) - count))" 'BEGIN { printf "%.0f\n", w / (n ? n : 1) }' >>"$dir/wal"
		paste "$dir/push" "$dir/bare" | tail -n 1 | awk '{ printf "%.2f\n", $1 / $2 }' >>"$dir/ratio"
	done
	printf '| %s | %s | %s | %.0f | %.0f | %s | %s – %s | %s | %s |\n' "$name" "$clients" "$sync" "$(median <"$dir/push")" \
		"$(median <"$dir/bare")" "$(median <"$dir/ratio")" "$(sort -g "$dir/ratio" | head -n 1)" "$(sort -g "$dir/ratio" | tail -n 1)" \
		"$bar" "$(median <"$dir/wal")"
}

echo "| what | clients | synchronous_commit | push, commits/s | INSERT, commits/s | ratio | range | bar | WAL bytes a message |"
echo "|---|---|---|---|---|---|---|---|---|"
for sync in ${SYNC:-on off}; do
	compare "100 messages into one partition of 1,000" batch "bench batch" 1000 8 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 1 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 8 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 48 "$sync" "≥ 0.4"
	compare "100 messages over 100 partitions" spread "bench spread" 1000 8 "$sync" "≥ 0.15"
done
