#!/usr/bin/env bash
# wake.sh: how soon a waiting consumer knows of a push, against a bare commit in the same run.
#
# PUSHERS (8) sessions commit single messages into one partition, RATE (100 and 1000) a second together, and as many bare INSERTs of one row beside
# them; CONSUMERS (1) sessions CALL queen.wait, pop all there is with auto_ack, and wait again. A message says when its push began, on the server; the consumer notes
# when its wait returned. Counted are messages whose push began while somebody waited; what came while the consumer was at its pop is waited for by nobody.
# Against it: how long the bare INSERTs took, from sending to the answer, without what pgbench was late by itself. REPS times; the table shows medians
# of the runs. Run it by "make bench"; BENCHES=wake, RATES, PUSHERS, CONSUMERS, SYNC="on off", REPS=3, SECONDS_EACH=5 by default.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

rates=${RATES:-100 1000} pushers=${PUSHERS:-8} consumers=${CONSUMERS:-1}

psql -qX -v ON_ERROR_STOP=1 >/dev/null <<'SQL'
SELECT queen.create_queue('wake'), queen.subscribe('wake', 'g');
CREATE TABLE bare (message jsonb);
SQL
cat >"$dir/push.sql" <<'SQL'
SELECT queen.push('wake', to_jsonb(extract(epoch FROM clock_timestamp())), 'p');
SQL
cat >"$dir/bare.sql" <<'SQL'
INSERT INTO bare VALUES (to_jsonb(extract(epoch FROM clock_timestamp())));
SQL

# percentile P of the numbers that are read, in milliseconds with two digits; – without any
percentile() { sort -g | awk -v p="$1" '{ v[NR] = $1 } END { if (NR) printf "%.2f\n", v[int((NR - 1) * p / 100) + 1]; else print "–" }'; }

head_row synchronous_commit "messages/s" waits "wake p50" p99 "bare commit p50" p99 "more, p50" p99
for sync in $syncs; do
	for rate in $rates; do
		forget
		for ((rep = 1; rep <= reps; rep++)); do
			rm -f "$dir"/log.* "$dir"/waits.*
			for ((i = 1; i <= consumers; i++)); do
				PGOPTIONS="-c synchronous_commit=$sync" /usr/bin/python3 "$PWD/wake_consumer.py" "$((each + 1))" >"$dir/waits.$i" &
			done
			sleep 0.5
			PGOPTIONS="-c synchronous_commit=$sync" pgbench -n -M prepared -c "$pushers" -j 1 -T "$each" -R "$((2 * rate))" --log --log-prefix="$dir/log" \
				-f "$dir/push.sql" -f "$dir/bare.sql" >"$dir/report" 2>"$dir/errors" || { cat "$dir/errors" >&2; die "pgbench failed"; }
			wait
			# client, transaction, latency, script, seconds, µs, late by
			awk '$4 == 1 { print ($3 - $7) / 1000 }' "$dir"/log.* >"$dir/bare.ms"
			cat "$dir"/waits.* >"$dir/wake.ms"
			note waits "$(wc -l <"$dir/wake.ms")"
			for p in 50 99; do
				note wake$p "$(percentile $p <"$dir/wake.ms")"
				note bare$p "$(percentile $p <"$dir/bare.ms")"
				note more$p "$(awk -v a="$(last wake$p)" -v b="$(last bare$p)" 'BEGIN { printf "%+.2f\n", a - b }')"
			done
		done
		row "$sync" "$rate" "$(median waits)" "$(median wake50 2) ms" "$(median wake99 2) ms" "$(median bare50 2) ms" "$(median bare99 2) ms" "$(median more50 2) ms" "$(median more99 2) ms"
	done
done
