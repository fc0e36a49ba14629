#!/usr/bin/env bash
# timers.sh: what the fire does, and what timers cost that wait.
#
#   drain  TIMERS ("10000 100000 1000000") timers of some 200 bytes that are due, in one queue over 100 partitions, fired by the pulse, REPS times
#          in turn; the largest number also while another session holds a snapshot from before they were scheduled, and in the end once beside
#          QUEUES (1000) queues with a timer each that is due next year
#   late   how late timers are at RATE (1000) a second for SECONDS_EACH, and what the server costs when it does nothing for as long: alone, and
#          beside as many timers as the largest number that are due next year
#   reach  WAITS (200) timers of two seconds, ten a second, each with a consumer that waits: how long behind its time it has the message
# PARTS="drain late reach" picks.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

counts=${TIMERS:-10000 100000 1000000} rate=${RATE:-1000}
most=${counts##* } least=${counts%% *}
export PGOPTIONS="-c client_min_messages=warning"
make_messages
answer "SELECT queen.create_queue('drain'), queen.create_queue('steady'), queen.create_queue('far')" >/dev/null

fires() { # on or off: and wait until the pulse knows
	answer "ALTER SYSTEM SET queen.timers = $1" >/dev/null
	answer 'SELECT pg_reload_conf()' >/dev/null
	sleep 1
}

# hold: a snapshot, until release
hold() {
	psql -qX -c 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class; SELECT pg_sleep(100000)' >/dev/null 2>&1 &
	sleep 1
}
release() { # psql's end does not end its query
	answer "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(100000)' AND pid <> pg_backend_pid()" >/dev/null
	wait
}

# drain COUNT: timers a second, from the first commit to the last
drain() {
	fires off
	answer "SELECT queen.purge_queue('drain')" >/dev/null
	answer "SELECT count(queen.schedule('drain', 'k' || i, (SELECT message FROM messages WHERE messages.n = 1 + i % 100), delay => '-1 s', partition => 'p' || i % 100)) FROM generate_series(1, $1) i" >/dev/null
	answer 'VACUUM ANALYZE queen.log_timers' >/dev/null
	answer 'CHECKPOINT' >/dev/null
	fires on
	until [ "$(answer "SELECT queen.next_timer('drain') IS NULL")" = t ]; do sleep 0.1; done
	[ "$(answer "SELECT sum(s.end_offset - s.base_offset + 1) FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'drain'")" = "$1" ] ||
		die "not all timers came"
	answer "SELECT round($1 / extract(epoch FROM max(s.created_at) - min(s.created_at))) FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'drain'"
}

# late: p50, p99 and the most, in milliseconds, of timers that become due at the rate
late() {
	answer "SELECT count(queen.schedule('steady', 'k' || i, (SELECT message FROM messages WHERE messages.n = 1 + i % 100), deliver_at => now() + interval '5 s' + i * interval '1 s' / $rate, partition => 'p' || i % 100)) FROM generate_series(1, $rate * $each) i" >/dev/null
	answer 'SELECT queen.reset_timer_stats()' >/dev/null
	until [ "$(answer "SELECT queen.next_timer('steady') IS NULL")" = t ]; do sleep 1; done
	answer "SELECT format('%s | %s | %s', round(late_p50::numeric, 1), round(late_p99::numeric, 1), round(late_max::numeric, 1)) FROM queen.pg_stat_queen_timers WHERE queue = 'steady'"
}

# rest: processor time of a server that does nothing, in thousandths of a core
rest() {
	local before
	before=$(server_cpu)
	sleep "$each"
	quotient "$(($(server_cpu) - before))" "$((each * 1000))" 2
}

drains() {
	local i n
	for ((i = 1; i <= reps; i++)); do
		for n in $counts; do note "drain.$n" "$(drain "$n")"; done
		hold
		note held "$(drain "$most")"
		release
		note kept "$(quotient "$(last held)" "$(last "drain.$most")")"
	done
	head_row 'due at once' 'timers/s' 'from – to' "against $least"
	for n in $counts; do row "$n" "$(median "drain.$n")" "$(range "drain.$n")" "$(quotient "$(median "drain.$n")" "$(median "drain.$least")" 2)"; done
	row "$most, a snapshot held" "$(median held)" "$(range held)" "$(median kept 2) of $most without"
	answer "SELECT count(queen.schedule('later' || i, 'k', '1', delay => '1 year')) FROM generate_series(1, ${QUEUES:-1000}) i" >/dev/null
	note beside "$(drain "$most")"
	answer "SELECT count(queen.cancel('later' || i, 'k')) FROM generate_series(1, ${QUEUES:-1000}) i" >/dev/null
	row "$most beside ${QUEUES:-1000} queues" "$(median beside)" "" "$(quotient "$(median beside)" "$(median "drain.$most")" 2) of $most without"
}

lateness() {
	local alone beside
	head_row "late by ms, at $rate/s" 'p50' 'p99' 'most' 'nothing happens: ‰ of a core'
	alone=$(late)
	row alone "$alone" "$(rest)"
	answer "SELECT count(queen.schedule('far', 'k' || i, '1', delay => '1 year')) FROM generate_series(1, $most) i" >/dev/null
	answer 'VACUUM ANALYZE queen.log_timers' >/dev/null
	answer 'CHECKPOINT' >/dev/null
	beside=$(late)
	row "$most pending" "$beside" "$(rest)"
}

# One consumer, a statement for each message; the clock is read behind the pop, and is the one that the timers go by.
reaching() {
	local i waits=${WAITS:-200} consumer
	answer "SELECT queen.create_queue('reach'), queen.subscribe('reach', 'default')" >/dev/null
	for ((i = 1; i <= waits; i++)); do
		echo "SELECT round(((extract(epoch FROM clock_timestamp()) - (message ->> 'due')::numeric) * 1000), 1) FROM queen.pop('reach', wait => '60 s', auto_ack => true);"
	done | psql -qXAt >"$dir/reached.sample" &
	consumer=$!
	for ((i = 1; i <= waits; i++)); do
		echo "SELECT queen.schedule('reach', 'k$i', jsonb_build_object('due', extract(epoch FROM d)), deliver_at => d) FROM (SELECT clock_timestamp() + interval '2 s') t (d); SELECT pg_sleep(0.1);"
	done | psql -qXAt >/dev/null
	wait "$consumer"
	[ "$(wc -l <"$dir/reached.sample")" = "$waits" ] || die "not all of $waits came"
	head_row "a timer of 2 s is with its consumer, ms late, $waits of them" p50 p99 most
	row '' "$(median reached 1)" "$(sorted reached | awk -v n="$waits" 'NR == int(n * 0.99) { print }')" "$(sorted reached | tail -n 1)"
}

for part in ${PARTS:-drain late reach}; do
	case $part in
		drain) drains ;;
		late) lateness ;;
		reach) reaching ;;
		*) die "no part $part" ;;
	esac
	echo
done
