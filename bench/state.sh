#!/usr/bin/env bash
# state.sh: the state of queues: what reading and collecting it costs, and what keeping it up to date costs whoever changes a message.
#
#   PARTS="read shallow logs lease held rollup"  which; "shards" too: each number of shards is built for it
#   BACKLOGS="10000 1000000"   messages of one queue        QUEUES=10000 DEPTH=10   shallow queues
#   PARTITIONS="1000 100000"   of one log, with a group     MINUTE=60, HELD_CLIENTS=4: as for bench/held_snapshot.sh
#   SHARDS="1 8 32 64"         REPS, SECONDS_EACH, SYNC: see bench/common.sh
#   a quick look: BENCHES=state REPS=1 SECONDS_EACH=2 SYNC=off MINUTE=4 make bench
#
# read: the view's rows of a queue against count(*) of its table, vacuumed, all by prepared statements; a collection by the backlog. A tenth of the messages is in
# flight. Reading the view costs a client hardly more than SELECT 1, so the quotient is of what it takes in the server: a loop of PL/pgSQL, whose own part is in it. shallow: a collection of many queues against counting their messages by queue, priority and state, with the oldest of each, by one process. logs: a collection by
# the keeper, when nothing has happened and while a client pushes and pops. Times of collections are what pg_stat_queen_collector says: the median of 5 × REPS.
#
# lease: with and without the index of the oldest in flight. rollup, shards: the checkout is copied, what is measured is taken out by sed, and built; servers of the
# variants run in turn, each made anew for each repetition: 8 clients on one queue, in the ways of bench/state_load.sh.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

parts=${PARTS:-read shallow logs lease held rollup} backlogs=${BACKLOGS:-10000 1000000} partitions=${PARTITIONS:-1000 100000}
queues=${QUEUES:-10000} depth=${DEPTH:-10} minute=${MINUTE:-60} clients=${HELD_CLIENTS:-4} shards=${SHARDS:-1 8 32 64}
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
holder=
finish() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT

has_part() { case " $parts " in *" $1 "*) ;; *) return 1 ;; esac; }
setting() { psql -qX -c "ALTER SYSTEM SET $1" -c 'SELECT pg_reload_conf()' >/dev/null; }
begin_anew() { psql -qX -c 'SET client_min_messages = error' -c 'DROP EXTENSION queen' -c 'CREATE EXTENSION queen'; }
# put QUEUE COUNT: in commits of 10,000
put() {
	psql -qX -v ON_ERROR_STOP=1 <<SQL >/dev/null
SELECT queen.create_queue('$1', 'work');
SELECT format('SELECT count(*) FROM generate_series(1, %s) i, LATERAL queen.enqueue_batch(%L, (SELECT jsonb_agg(message) FROM messages WHERE i > 0))', least(100, ($2 - c) / 100), '$1')
FROM generate_series(0, $2 - 1, 10000) c \gexec
SQL
}
# collections NAME COUNT [SQL NAME]: times in ms, by hand, of a session that has looked up what is looked up once, as the keeper's; between them times of a statement
collections() {
	local n script=$dir/collections.sql
	for ((n = 0; n < $2 + 2; n++)); do
		printf "SELECT queen.collect();\nSELECT '%s ' || last_time FROM queen.pg_stat_queen_collector;\n" "$1"
		[ $# -lt 4 ] || printf '\\timing on\n%s;\n\\timing off\n' "$3"
	done >"$script"
	psql -qXAt -v ON_ERROR_STOP=1 -c 'SET max_parallel_workers_per_gather = 0' -f "$script" |
		awk -v name="$1" -v other="${4:-}" '$1 == name { print name, $2 } $1 == "Time:" { print other, $2 }' |
		tail -n +$(($# < 4 ? 3 : 5)) >"$dir/times"
	while read -r n at; do note "$n" "$at"; done <"$dir/times"
}
# latency SCRIPT: ms
latency() {
	run "$1" 1 off -T "$each"
	sed -n 's/^latency average = \([0-9.]*\) ms/\1/p' "$dir/report"
}

# looped SQL: ms of one execution, of 20,000 in the server
looped() {
	psql -qXAt -v ON_ERROR_STOP=1 <<SQL
DO \$\$
DECLARE
	began timestamptz := clock_timestamp();
	found record;
BEGIN
	FOR n IN 1..20000 LOOP
		FOR found IN $1 LOOP END LOOP;
	END LOOP;
	PERFORM set_config('bench.took', (extract(epoch FROM clock_timestamp() - began) / 20)::text, false);
END
\$\$;
SELECT current_setting('bench.took');
SQL
}

make_messages
setting 'queen.collect_interval = 0'
cat >"$dir/view.sql" <<'SQL'
SELECT * FROM queen.pg_stat_queen_queues WHERE queue = 'deep';
SQL
echo 'SELECT 1;' >"$dir/one.sql"
cat >"$dir/count.sql" <<'SQL'
SELECT count(*) FROM queen.messages;
SQL

if has_part read; then
	forget
	for backlog in $backlogs; do
		begin_anew
		put deep "$backlog"
		psql -qXAt -c "SELECT count(*) FROM queen.dequeue('deep', $((backlog / 10 > 1000 ? 1000 : backlog / 10)), '1 h')" >/dev/null
		psql -qX -c 'VACUUM ANALYZE'
		collections "collect.$backlog" $((5 * reps))
		for ((n = 0; n < reps; n++)); do
			note "view.$backlog" "$(latency view)"
			note "one.$backlog" "$(latency one)"
			note "looped.$backlog" "$(looped "SELECT * FROM queen.pg_stat_queen_queues WHERE queue = 'deep'")"
			note "count.$backlog" "$(latency count)"
		done
	done
	head_row "messages in the queue" "its rows of the view, ms" "SELECT 1, ms" "the view in the server, ms" "count(*), ms" "count(*) / view in the server" "a collection, ms" "range"
	for backlog in $backlogs; do
		row "$backlog" "$(median "view.$backlog" 3)" "$(median "one.$backlog" 3)" "$(median "looped.$backlog" 4)" "$(median "count.$backlog" 2)" \
			"$(quotient "$(median "count.$backlog" 3)" "$(median "looped.$backlog" 4)" 0)" \
			"$(median "collect.$backlog" 3)" "$(range "collect.$backlog")"
	done
	# shellcheck disable=SC2086 # a list
	set -- $backlogs
	printf '\nA collection, the last against the first: %s\n\n' "$(quotient "$(median "collect.${!#}" 3)" "$(median "collect.$1" 3)" 2)"
fi

if has_part shallow; then
	forget
	begin_anew
	psql -qX >/dev/null <<SQL
SELECT count(queen.create_queue('s' || i, 'work')) FROM generate_series(1, $queues) i;
SELECT count(queen.enqueue('s' || i, message, (ARRAY['high', 'medium', 'low'])[1 + k % 3])) FROM generate_series(1, $queues) i, generate_series(1, $depth) k, messages WHERE n = 1;
VACUUM ANALYZE;
SQL
	collections collect $((5 * reps)) 'SELECT count(*) FROM (SELECT log_id, priority, state, count(*), min(enqueued_at) FROM queen.messages GROUP BY 1, 2, 3) c' count
	head_row "queues" "messages of each" "a collection, ms" "range" "counting, ms" "range" "collection / counting"
	row "$queues" "$depth" "$(median collect 1)" "$(range collect)" "$(median count 1)" "$(range count)" "$(quotient "$(median collect 3)" "$(median count 3)" 2)"
	echo
fi

# kept NAME: times of the keeper's next collections, as they end
kept() {
	local n last='' at
	for ((n = 0; n <= 5 * reps; )); do
		at=$(answer 'SELECT last_attempt FROM queen.pg_stat_queen_collector')
		if [ "$at" != "$last" ]; then
			# the first one may have begun before
			[ -z "$last" ] || note "$1" "$(answer 'SELECT last_time FROM queen.pg_stat_queen_collector')"
			last=$at
			n=$((n + 1))
		fi
		sleep 0.2
	done
}
if has_part logs; then
	forget
	cat >"$dir/trickle.sql" <<'SQL'
\set p random(1, :partitions)
SELECT queen.push('log', '1', partition => 'p' || :p);
SELECT count(*) FROM queen.pop('log', 'g', auto_ack => true);
SQL
	for count in $partitions; do
		begin_anew
		psql -qX >/dev/null <<SQL
SELECT count(queen.push('log', message, partition => 'p' || i)) FROM generate_series(1, $count) i, messages WHERE n = 1;
SELECT queen.subscribe('log', 'g'), queen.subscribe('log', 'idle');
SELECT queen.seek_to_end('log', 'g');
VACUUM ANALYZE;
SQL
		setting "queen.collect_interval = '1 s'"
		kept warm
		kept "idle.$count"
		pgbench -n -M prepared -c 1 -R 200 -T 3600 -D partitions="$count" -f "$dir/trickle.sql" >/dev/null 2>&1 &
		holder=$!
		kept "busy.$count"
		kill "$holder" 2>/dev/null || true
		wait "$holder" 2>/dev/null || true
		holder=
		setting 'queen.collect_interval = 0'
	done
	head_row "partitions, 2 groups" "nothing has happened, ms" "range" "200 pushes and pops a second, ms" "range"
	for count in $partitions; do
		row "$count" "$(median "idle.$count" 2)" "$(range "idle.$count")" "$(median "busy.$count" 1)" "$(range "busy.$count")"
	done
	echo
fi

# shellcheck source=bench/state_load.sh
. "$here/state_load.sh"
if has_part lease; then
	begin_anew
	make_load
	head_row "8 clients" "synchronous_commit" "with the index, messages/s" "without" "with / without"
	for sync in $syncs; do
		forget
		for ((n = 0; n < reps; n++)); do
			for index in with without; do
				psql -qX <<SQL
SET client_min_messages = error;
DROP INDEX IF EXISTS queen.messages_in_flight_age_idx;
$([ $index = without ] || echo "CREATE INDEX messages_in_flight_age_idx ON queen.messages (log_id, priority, enqueued_at) WHERE state = 'IN_FLIGHT';")
SQL
				for way in $load_ways; do note "$way.$index" "$(load "$way" "$sync")"; done
			done
		done
		for way in $load_ways; do row "$way" "$sync" "$(median "$way.with")" "$(median "$way.without")" "$(quotient "$(median "$way.with")" "$(median "$way.without")" 2)"; done
	done
	echo
fi

if has_part held; then
	begin_anew
	make_load
	setting "queen.collect_interval = '5 s'"
	head_row "part" "single, messages/s, $clients clients" "against clean" "a collection, ms (mean)"
	part() { # NAME
		local held
		answer 'SELECT queen.reset_collector_stats()' >/dev/null
		# what is dead stays where it is from part to part
		held=$(SECONDS_OF_LOAD=$minute CLIENTS_OF_LOAD=$clients LOAD_GOES_ON=1 load single "${syncs##* }")
		[ "$1" != clean ] || clean=$held
		row "$1" "${held%%.*}" "$(quotient "$held" "$clean" 2)" "$(answer 'SELECT round((total_time / attempts)::numeric, 1) FROM queen.pg_stat_queen_collector')"
	}
	SECONDS_OF_LOAD=$((minute / 4 + 1)) CLIENTS_OF_LOAD=$clients load single "${syncs##* }" >/dev/null
	part clean
	psql -qX -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT 1' -c 'SELECT pg_sleep(86400)' >/dev/null 2>&1 &
	holder=$!
	sleep 1
	for n in 1 2 3 4 5; do part "held, part $n"; done
	kill "$holder" 2>/dev/null || true
	psql -qXAt -c "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%' AND pid <> pg_backend_pid()" >/dev/null
	holder=
	answer 'VACUUM queen.messages' >/dev/null
	part "clean again"
	setting 'queen.collect_interval = 0'
	echo
fi

# ---- variants ----

# variant NAME SED FILE…: a copy of the checkout, changed and built
variant() {
	local to=$dir/$1 script=$2
	shift 2
	mkdir "$to"
	(cd "$top" && tar -cf - --exclude=./.git --exclude=./build --exclude='./*.so' .) | tar -xf - -C "$to"
	(cd "$to" && sed -i "$script" "$@" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s) >"$dir/build" 2>&1 || { cat "$dir/build" >&2; die "a variant does not build"; }
}
# in_variant NAME WAY SYNC: messages/s, on a server of its own
in_variant() {
	(cd "$dir/$1" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE SECONDS_EACH="$each" tools/with_server.sh -c shared_buffers=1GB -c max_wal_size=8GB \
		-c queen.collect_interval=0 bench/state_load.sh "$2" "$3")
}
compare() { # NAME…
	local name way sync n
	for sync in $syncs; do
		forget
		for ((n = 0; n < reps; n++)); do
			for way in $load_ways; do
				for name in "$@"; do note "$way.$name" "$(in_variant "$name" "$way" "$sync")"; done
			done
		done
		for way in $load_ways; do
			cells=()
			for name in "$@"; do cells+=("$(median "$way.$name")"); done
			row "$way" "$sync" "${cells[@]}" "$(quotient "${cells[0]}" "${cells[1]}" 2)"
		done
	done
	echo
}
if has_part rollup; then
	variant counted '' Makefile
	# what is noted is forgotten at once
	variant uncounted '/^rollup_note(/,/^}/s/^{/{\n\tif (most_shards > 0)\n\t\treturn;/' src/state/rollup.cpp
	head_row "8 clients, one queue" "synchronous_commit" "with counts, messages/s" "without" "with / without"
	compare counted uncounted
fi
if has_part shards; then
	names=()
	for count in $shards; do
		variant "shards$count" "s/most_shards = 32/most_shards = $count/; s/static_assert(most_shards == 1 << 5 && exponent_bits >= 5);//; s/BETWEEN 0 AND 31/BETWEEN 0 AND 63/
			/^spread_of(/,/^}/s/^{/{\n\tif (most_shards > 0)\n\t\treturn most_shards;/" src/state/spread.h src/state/spread.cpp sql/10_tables.sql
		names+=("shards$count")
	done
	# shellcheck disable=SC2086 # a list
	head_row "8 clients, one queue, messages/s" "synchronous_commit" $(printf '%s_shards ' $shards) "first / second"
	compare "${names[@]}"
fi
