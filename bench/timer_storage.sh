#!/usr/bin/env bash
# timer_storage.sh: what the storage settings of queen.log_timers are worth (sql/10_tables.sql has the figures beside them).
#
#   fillfactor  of FILLFACTORS ("100 70"), in turn, REPS times: PENDING (200000) timers over a year, each moved once in an order of no kind,
#               then drained; how fast, and how large the table and its indexes are then
#   autovacuum  RATES ("1000 5000 20000") timers a second that are scheduled and fired, MINUTE (60) seconds each, with autovacuum looking every NAPTIME (15)
#               seconds (the default is 60) by the table's own settings and by the server's: its runs on the table, how much of the time one of
#               the three workers was at it, its share of the processor time of the server, and how large the table is in the end
# STORAGE="fillfactor autovacuum" picks.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

pending=${PENDING:-200000} minute=${MINUTE:-60}
export PGOPTIONS="-c client_min_messages=warning"
make_messages
answer "SELECT queen.create_queue('stored')" >/dev/null

# timed NAME SQL: thousands of timers a second
timed() {
	local before
	before=$(date +%s%N)
	answer "$2" >/dev/null
	note "$1" "$(quotient "$((pending * 1000000))" "$(($(date +%s%N) - before))" 2)"
}

fillfactor() {
	answer 'ALTER SYSTEM SET queen.timers = off' >/dev/null
	answer 'SELECT pg_reload_conf()' >/dev/null
	for ((i = 1; i <= reps; i++)); do
		for f in ${FILLFACTORS:-100 70}; do
			answer "ALTER TABLE queen.log_timers SET (fillfactor = $f)" >/dev/null
			answer 'VACUUM FULL queen.log_timers' >/dev/null
			timed "schedule.$f" "SELECT count(queen.schedule('stored', 'k' || i, (SELECT message FROM messages WHERE messages.n = 1 + i % 100), delay => i * 7919 % 31536000 * interval '1 s', partition => 'p' || i % 100)) FROM generate_series(1, $pending) i"
			timed "move.$f" "SELECT count(queen.schedule('stored', 'k' || (i::bigint * 104729 % $pending + 1), (SELECT message FROM messages WHERE messages.n = 1 + i % 100), delay => '-1 s', partition => 'p' || i % 100)) FROM generate_series(1, $pending) i"
			note "size.$f" "$(answer "SELECT pg_total_relation_size('queen.log_timers')::numeric / 1e6")"
			timed "fire.$f" "SELECT queen.fire_timers($pending)"
			[ "$(answer "SELECT queen.count_timers('stored')")" = 0 ] || die "timers are left"
		done
	done
	head_row fillfactor 'scheduled, 1,000/s' 'moved' 'fired' 'MB before the fire'
	for f in ${FILLFACTORS:-100 70}; do row "$f" "$(median "schedule.$f" 1)" "$(median "move.$f" 1)" "$(median "fire.$f" 1)" "$(median "size.$f" 0)"; done
	answer 'ALTER SYSTEM RESET queen.timers' >/dev/null
	answer 'SELECT pg_reload_conf()' >/dev/null
}

autovacuum() {
	local log_at before used n elapsed whose settings
	local own="autovacuum_vacuum_scale_factor autovacuum_vacuum_threshold autovacuum_vacuum_cost_delay toast.autovacuum_vacuum_cost_delay"
	answer "ALTER SYSTEM SET log_autovacuum_min_duration = 0" >/dev/null
	answer "ALTER SYSTEM SET autovacuum_naptime = '${NAPTIME:-15}'" >/dev/null
	answer 'SELECT pg_reload_conf()' >/dev/null
	cat >"$dir/storage.sql" <<'SQL'
\set p random(1, 100)
\set k random(1, 1000000000)
SELECT queen.schedule('stored', 'k' || :k, '{"order": 4711, "state": "paid", "note": "two hundred bytes or so of a message, as an application would push it"}', delay => '1 s', partition => 'p' || :p);
SQL
	settings=$(answer "SELECT string_agg(o, ', ') FROM (SELECT unnest(reloptions) FROM pg_class WHERE oid = 'queen.log_timers'::regclass UNION ALL
		SELECT 'toast.' || unnest(t.reloptions) FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = 'queen.log_timers'::regclass) s (o)")
	head_row 'asked, timers/s' 'settings' 'scheduled and fired' 'late p99, ms' 'runs of autovacuum' 'part of the time that one worker is at it' "its part of the server's processor time" 'MB in the end'
	for n in ${RATES:-1000 5000 20000}; do
		for whose in own server; do
			if [ "$whose" = server ]; then answer "ALTER TABLE queen.log_timers RESET (${own// /, })" >/dev/null; fi
			answer 'VACUUM FULL queen.log_timers' >/dev/null
			run storage 8 off -T 5 -R "$n"
			answer 'SELECT queen.reset_timer_stats()' >/dev/null
			log_at=$(wc -c <"$QUEEN_SERVER_LOG") before=$(server_cpu)
			run storage 8 off -T "$minute" -R "$n"
			used=$(($(server_cpu) - before))
			# the lines of a run on the table: "automatic vacuum of table", … "system usage: CPU: user: 0.10 s, system: 0.02 s, elapsed: 0.30 s"
			elapsed=$(tail -c "+$((log_at + 1))" "$QUEEN_SERVER_LOG" | awk '
				/automatic (vacuum|analyze) of table/ { ours = /queen\.log_timers"/; runs += ours }
				ours && /system usage/ { gsub(",", ""); for (i = 1; i < NF; i++) { if ($i == "user:" || $i == "system:") cpu += $(i + 1); if ($i == "elapsed:") elapsed += $(i + 1) } ours = 0 }
				END { printf "%d %.3f %.3f\n", runs, elapsed, cpu }')
			read -r runs seconds_at cpu <<<"$elapsed"
			row "$n" "$whose" "$(quotient "$(reported tps)" 1 0)" "$(answer "SELECT round(late_p99::numeric, 1) FROM queen.pg_stat_queen_timers WHERE queue = 'stored'")" \
				"$runs" "$(quotient "$seconds_at" "$minute" 3)" "$(quotient "${cpu}" "$(quotient "$used" 1000000)" 3)" "$(answer "SELECT pg_total_relation_size('queen.log_timers') / 1000000")"
			until [ "$(answer "SELECT queen.next_timer('stored') IS NULL")" = t ]; do sleep 0.5; done
			answer "ALTER TABLE queen.log_timers SET ($settings)" >/dev/null
		done
	done
}

for part in ${STORAGE:-fillfactor autovacuum}; do
	"$part"
	echo
done
