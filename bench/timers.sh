#!/usr/bin/env bash
# timers.sh: timers that are due at once, in one queue over 100 partitions, fired by the pulse: TIMERS ("10000 100000 1000000") of them, of some 200
# bytes, and the largest number once more while a snapshot is held. Then how late timers are at RATE (1000) a second for SECONDS_EACH, alone
# and beside as many pending ones that are due next year.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

counts=${TIMERS:-10000 100000 1000000} rate=${RATE:-1000}
most=${counts##* }
export PGOPTIONS="-c client_min_messages=warning"
make_messages
answer "SELECT queen.create_queue('drain'), queen.create_queue('steady'), queen.create_queue('far')" >/dev/null

fires() { # on or off: and wait until the pulse knows
	answer "ALTER SYSTEM SET queen.timers = $1" >/dev/null
	answer 'SELECT pg_reload_conf()' >/dev/null
	sleep 1
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
	answer "SELECT round($1 / extract(epoch FROM max(s.created_at) - min(s.created_at))) FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'drain'"
}

# late: p50, p99 and the most, in milliseconds, of timers that become due at the rate
late() {
	answer "SELECT count(queen.schedule('steady', 'k' || i, (SELECT message FROM messages WHERE messages.n = 1 + i % 100), deliver_at => now() + interval '5 s' + i * interval '1 s' / $rate, partition => 'p' || i % 100)) FROM generate_series(1, $rate * $each) i" >/dev/null
	answer 'SELECT queen.reset_timer_stats()' >/dev/null
	until [ "$(answer "SELECT queen.next_timer('steady') IS NULL")" = t ]; do sleep 1; done
	answer "SELECT format('%s | %s | %s', round(late_p50::numeric, 1), round(late_p99::numeric, 1), round(late_max::numeric, 1)) FROM queen.pg_stat_queen_timers WHERE queue = 'steady'"
}

printf '| due at once | timers/s |\n|---|---|\n'
for n in $counts; do printf '| %s | %s |\n' "$n" "$(drain "$n")"; done
psql -qX -c 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(100000)' >/dev/null 2>&1 &
holder=$!
printf '| %s, a snapshot held | %s |\n' "$most" "$(drain "$most")"
kill "$holder" && answer "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(100000)%' AND pid <> pg_backend_pid()" >/dev/null

printf '\n| late by ms, at %s/s | p50 | p99 | most |\n|---|---|---|---|\n' "$rate"
printf '| alone | %s |\n' "$(late)"
answer "SELECT count(queen.schedule('far', 'k' || i, '1', delay => '1 year')) FROM generate_series(1, $most) i" >/dev/null
printf '| %s pending | %s |\n' "$most" "$(late)"
