#!/usr/bin/env bash
# idle.sh: what it costs that consumers wait and nothing happens.
#
# QUEUES (10000) queues with PARTITIONS (100000) partitions among them, whose messages the group has all completed; WAITERS (100) sessions wait for any
# partition, each of another queue. After SETTLE (10) seconds, in which rings are walked for the first time, the processor time of all of the server's
# processes in IDLE_SECONDS (60) is read from /proc (common.sh); the same before anybody waits, and with the waiters as pops that wait. The bar is 1 % of a core. Run it by
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

# cost: per cent of a core in the next $idle seconds
cost() {
	local before
	before=$(server_cpu)
	sleep "$idle"
	awk -v us="$(($(server_cpu) - before))" -v s="$idle" 'BEGIN { printf "%.2f %%\n", us / s / 1e4 }'
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
	cost
	answer "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%queen.%' AND backend_type = 'client backend'" >/dev/null
	wait "${pids[@]}" 2>/dev/null || true
}

head_row "who waits" "server, of a core"
row nobody "$(cost)"
row "$waiters × CALL queen.wait" "$(wait_all "CALL queen.wait('%s', 'g', '1 h')")"
row "$waiters × queen.pop(wait)" "$(wait_all "SELECT FROM queen.pop('%s', 'g', wait => '1 h')")"
