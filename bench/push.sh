#!/usr/bin/env bash
# push.sh: what a commit with pushes costs against a bare INSERT of one row of the segment's size.
#
# Interleaved pairs (INSERT, push, INSERT, push …); prints the medians of commits a second, their ratio, the ratios' range,
# the processor time of the server for a commit, and the WAL of a message. The table that takes the bare INSERTs has the
# shape of queen.log_segments and its key. pgbench shares the machine. Settings: bench/common.sh. Run it by "make bench".
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

make_messages
psql -qX -v ON_ERROR_STOP=1 <<'SQL'
CREATE TABLE bare (partition_id bigint, base_offset bigint, end_offset bigint, created_at timestamptz, blob bytea,
	PRIMARY KEY (partition_id, base_offset));
ALTER TABLE bare ALTER COLUMN blob SET STORAGE EXTERNAL;
CREATE SEQUENCE bare_offset CACHE 100;
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
message=$(answer "SELECT message FROM messages WHERE n = 1")
messages_of() { answer "SELECT coalesce(sum(end_offset - base_offset + 1), 0) FROM queen.log_segments"; }

# compare NAME SCRIPT QUEUE PARTITIONS CLIENTS SYNC BAR
compare() {
	local name=$1 script=$2 queue=$3 partitions=$4 clients=$5 sync=$6 bar=$7 i size blob before
	run "$script" 1 "$sync" -D message="$message" -t 20
	size=$(answer "SELECT round(avg(length(blob)))::int FROM queen.log_segments JOIN queen.log_partitions USING (partition_id)
		JOIN queen.queues q USING (log_id) WHERE q.name = '$queue'")
	blob="\\x$(head -c "$size" /dev/urandom | od -An -v -tx1 | tr -d ' \n')"
	forget
	for ((i = 0; i < reps; i++)); do
		measure bare "$clients" "$sync" -D partitions="$partitions" -D blob="$blob"
		note bare "$rate"
		note bare_cpu "$(quotient "$server_us" "$scripts")"
		before=$(messages_of)
		measure "$script" "$clients" "$sync" -D message="$message"
		note push "$rate"
		note push_cpu "$(quotient "$server_us" "$scripts")"
		note wal "$(quotient "$wal" $(($(messages_of) - before)))"
		note ratio "$(quotient "$rate" "$(last bare)" 2)"
	done
	row "$name" "$clients" "$sync" "$(median push)" "$(median bare)" "$(median ratio 2)" "$(range ratio)" "$bar" \
		"$(median push_cpu)" "$(median bare_cpu)" "$(median wal)"
}

head_row "what" "clients" "synchronous_commit" "push, commits/s" "INSERT, commits/s" "ratio" "range" "bar" \
	"CPU µs a commit (server): push" "INSERT" "WAL bytes a message"
for sync in $syncs; do
	compare "100 messages into one partition of 1,000" batch "bench batch" 1000 8 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 1 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 8 "$sync" "≥ 0.8"
	compare "1 message into ONE partition" single "bench single" 1 48 "$sync" "≥ 0.4"
	compare "100 messages over 100 partitions" spread "bench spread" 1000 8 "$sync" "≥ 0.15"
done
