#!/usr/bin/env bash
# idle.sh: what it costs that consumers wait and nothing happens.
#
# QUEUES (10000) queues with PARTITIONS (100000) partitions among them, whose messages the group has all completed; WAITERS (100) sessions wait for any
# partition, each of another queue. After SETTLE (10) seconds, in which rings are walked for the first time, the processor time of all of the server's
# processes in IDLE_SECONDS (60) is read from /proc; the same before anybody waits, and with the waiters as pops that wait. The bar is 1 % of a core. Run it by
# "make bench"; BENCHES=idle, QUEUES, PARTITIONS, WAITERS, SETTLE, IDLE_SECONDS.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

queues=${QUEUES:-10000} partitions=${PARTITIONS:-100000} waiters=${WAITERS:-100} settle=${SETTLE:-10} idle=${IDLE_SECONDS:-60}
export PGOPTIONS="-c synchronous_commit=off -c client_min_messages=warning"

psql -qX -v ON_ERROR_STOP=1 <<SQL
CREATE PROCEDURE fill() LANGUAGE plpgsql AS \$\$
BEGIN
	FOR n IN 1 .. $queues LOOP
		PERFORM count(queen.push('q' || n, '0', partition => 'p' || i)) FROM generate_series(1, $partitions / $queues) i;
		COMMIT;
		PERFORM queen.subscribe('q' || n, 'g', 'latest');
		COMMIT;
	END LOOP;
END
\$\$;
CALL fill();
VACUUM ANALYZE;
CHECKPOINT;
SQL

# server_ns: nanoseconds that the server's processes have run, and, of those that have ended, what common.sh counts. Its steps of 10 ms a process would
# hide what a hundred that sleep do.
server_ns() {
	local pid
	for pid in "$QUEEN_SERVER_PID" $(cat /proc/[0-9]*/stat 2>/dev/null | awk -v server="$QUEEN_SERVER_PID" '{ id = $1; sub(/^.*\) /, "") } $2 == server { print id }'); do
		cat "/proc/$pid/schedstat" 2>/dev/null || true
	done | awk -v ended="$(awk -v ticks="$(getconf CLK_TCK)" '{ sub(/^.*\) /, ""); print ($14 + $15) * 1e9 / ticks }' "/proc/$QUEEN_SERVER_PID/stat")" \
		'{ sum += $1 } END { printf "%.0f\n", sum + ended }'
}

# cost: per cent of a core in the next $idle seconds
cost() {
	local before
	before=$(server_ns)
	sleep "$idle"
	awk -v ns="$(($(server_ns) - before))" -v s="$idle" 'BEGIN { printf "%.2f %%\n", ns / s / 1e7 }'
}

# wait_all STATEMENT: with %s for the queue
wait_all() {
	local pids=() i
	for ((i = 1; i <= waiters; i++)); do
		# shellcheck disable=SC2059 # the format is the statement
		psql -qXAt -c "$(printf "$1" "q$((i * queues / waiters))")" >/dev/null 2>&1 &
		pids+=($!)
	done
	sleep "$settle"
	[ "$(answer 'SELECT sum(waiting) FROM queen.pg_stat_queen_hotlist')" = "$waiters" ] || die "not all of them wait"
	cost
	answer "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%queen.%' AND backend_type = 'client backend'" >/dev/null
	wait "${pids[@]}" 2>/dev/null || true
}

head_row "who waits" "server, of a core"
row nobody "$(cost)"
row "$waiters × CALL queen.wait" "$(wait_all "CALL queen.wait('%s', 'g', '1 h')")"
row "$waiters × queen.pop(wait)" "$(wait_all "SELECT FROM queen.pop('%s', 'g', wait => '1 h')")"
