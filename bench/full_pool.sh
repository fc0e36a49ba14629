#!/usr/bin/env bash
# full_pool.sh: PARTITIONS pending partitions and a hot-list with room for a part of them: everything is delivered once, the memory
# stays what it is, and the counters say what happened. Run it alone, by POOL=16MB BENCHES=full_pool make bench; PARTITIONS=1000000
# by default.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

partitions=${PARTITIONS:-1000000}
export PGOPTIONS="-c synchronous_commit=off -c client_min_messages=warning"
[ "$(answer 'SHOW queen.hotlist_size')" = "${POOL:-16MB}" ] ||
	die "the hot-list has $(answer 'SHOW queen.hotlist_size'): run POOL=${POOL:-16MB} BENCHES=full_pool make bench"

psql -qX -v ON_ERROR_STOP=1 >/dev/null <<SQL
CREATE TABLE got (partition text, message jsonb);
CREATE PROCEDURE fill() LANGUAGE plpgsql AS \$\$
BEGIN
	FOR lowest IN 1 .. $partitions BY 5000 LOOP
		PERFORM count(queen.push('big', to_jsonb(i), partition => 'p' || i)) FROM generate_series(lowest, least(lowest + 4999, $partitions)) i;
		COMMIT;
	END LOOP;
END
\$\$;
CREATE PROCEDURE drain() LANGUAGE plpgsql AS \$\$
DECLARE
	n bigint;
BEGIN
	LOOP
		INSERT INTO got SELECT partition, message FROM queen.pop('big', 'g', 1000, max_partitions => 1000, auto_ack => true);
		GET DIAGNOSTICS n = ROW_COUNT;
		COMMIT;
		EXIT WHEN n = 0;
	END LOOP;
END
\$\$;
-- a ring is there, so that marks meet the end of the pool
SELECT queen.push('big', '0', partition => 'first');
SELECT count(*) FROM queen.pop('big', 'g', auto_ack => true);
SELECT count(*) FROM queen.pop('big', 'g', auto_ack => true);
CALL fill();
SQL
state() { answer "SELECT format('%s of %s candidates, %s refused; %s pops by the tables', candidates_used, candidates, refused_candidates, by_tables_full) FROM queen.pg_stat_queen_hotlist_pool"; }
printf -- '- %s partitions pending, pool of %s: %s.\n' "$partitions" "$(answer 'SHOW queen.hotlist_size')" "$(state)"
start=$SECONDS
answer 'CALL drain()' >/dev/null
printf -- '- drained in %s s: %s.\n' "$((SECONDS - start))" "$(state)"
printf -- '- delivered: %s.\n' "$(answer "SELECT format('%s messages of %s partitions', count(*), count(DISTINCT partition)) FROM got")"
printf -- '- the ring: %s.\n' "$(answer "SELECT format('%s walks with %s rows, the last one %s ms; %s lost and found', reseeds, reseed_rows, round(last_reseed_time::numeric), reseed_repairs) FROM queen.pg_stat_queen_hotlist")"
