#!/usr/bin/env bash
# hotlist.sh: what a pop of any partition costs, by the number of partitions, with the hot-list and without.
#
# For each of SIZES (10 1000 10000 100000 1000000) a queue with as many partitions, each of which has had a message that its group has
# completed. Then ACTIVE per cent of the partitions (at least one) have one message each, and ROUNDS times a pop takes one message of
# any partition and a push puts another one into a random active partition, each committed; the pops are timed, inside the server,
# so that no client's time is in them. Then as many pops find nothing. Without the hot-list the pops end after LIMIT seconds. REPS
# times, sizes and kinds in turn; the tables show medians of medians, and each size against the smallest in the same turn.
# The first pop of a group walks the queue once, which is shown too. Run it by "make bench"; BENCHES=hotlist,
# SIZES, ACTIVE="1 0.01", ROUNDS=2000, LIMIT=5, REPS=3 by default.
# shellcheck disable=SC2154 # common.sh sets them
. "$(dirname "$0")/common.sh"

sizes=${SIZES:-10 1000 10000 100000 1000000} actives=${ACTIVE:-1 0.01} rounds=${ROUNDS:-2000} limit=${LIMIT:-5}
export PGOPTIONS="-c synchronous_commit=off -c client_min_messages=warning"

psql -qX -v ON_ERROR_STOP=1 <<'SQL'
CREATE TABLE pops (size bigint, active numeric, kind text, found bool, rep int, us float8);
CREATE TABLE walks (size bigint, ms float8);

-- partitions p1 … pSIZE, each with a message that group g has completed
CREATE PROCEDURE fill(queue text, size bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOR lowest IN 1 .. size BY 20000 LOOP
		PERFORM count(queen.push(queue, '0', partition => 'p' || i)) FROM generate_series(lowest, least(lowest + 19999, size)) i;
		COMMIT;
	END LOOP;
	PERFORM queen.subscribe(queue, 'g', 'latest');
	COMMIT;
END
$$;

-- rounds pops of one message; pushes in between keep as many partitions active
CREATE PROCEDURE probe(queue text, n bigint, share numeric, kind text, rounds int, seconds float8, rep int) LANGUAGE plpgsql AS $$
DECLARE
	partitions bigint[];
	began timestamptz;
	ended timestamptz := clock_timestamp() + seconds * interval '1 s';
	got bigint;
BEGIN
	SELECT array_agg(p) INTO partitions
	FROM (SELECT DISTINCT 1 + floor(random() * n)::bigint AS p FROM generate_series(1, greatest(1, ceil(n * share / 100))::bigint)) drawn;
	PERFORM count(queen.push(queue, to_jsonb(p), partition => 'p' || p)) FROM unnest(partitions) p;
	COMMIT;
	FOR i IN 1 .. rounds LOOP
		began := clock_timestamp();
		SELECT count(*) INTO got FROM queen.pop(queue, 'g', 1, auto_ack => true);
		INSERT INTO pops VALUES (n, share, kind, true, rep, extract(epoch FROM clock_timestamp() - began) * 1e6);
		COMMIT;
		IF got <> 1 THEN
			RAISE EXCEPTION 'a pop found % messages', got;
		END IF;
		PERFORM queen.push(queue, '1', partition => 'p' || partitions[1 + floor(random() * cardinality(partitions))::int]);
		COMMIT;
		EXIT WHEN clock_timestamp() > ended;
	END LOOP;
	-- what is left
	LOOP
		SELECT count(*) INTO got FROM queen.pop(queue, 'g', 10000, max_partitions => 1000, auto_ack => true);
		COMMIT;
		EXIT WHEN got = 0;
	END LOOP;
	ended := clock_timestamp() + seconds * interval '1 s';
	FOR i IN 1 .. rounds LOOP
		began := clock_timestamp();
		SELECT count(*) INTO got FROM queen.pop(queue, 'g', 1, auto_ack => true);
		INSERT INTO pops VALUES (n, share, kind, false, rep, extract(epoch FROM clock_timestamp() - began) * 1e6);
		COMMIT;
		EXIT WHEN clock_timestamp() > ended;
	END LOOP;
END
$$;
SQL

for size in $sizes; do
	psql -qX -v ON_ERROR_STOP=1 -c "CALL fill('q$size', $size)"
done
psql -qX -v ON_ERROR_STOP=1 -c 'VACUUM ANALYZE' >/dev/null
for size in $sizes; do
	psql -qX -v ON_ERROR_STOP=1 <<SQL >/dev/null
SELECT count(*) FROM queen.pop('q$size', 'g', 1, auto_ack => true);
INSERT INTO walks SELECT $size, last_reseed_time FROM queen.pg_stat_queen_hotlist WHERE queue = 'q$size';
SQL
done

for rep in $(seq "$reps"); do
	for active in $actives; do
		for size in $sizes; do
			psql -qX -v ON_ERROR_STOP=1 -c "CALL probe('q$size', $size, $active, 'on', $rounds, 60, $rep)"
			PGOPTIONS="$PGOPTIONS -c queen.hotlist=off" psql -qX -v ON_ERROR_STOP=1 \
				-c "CALL probe('q$size', $size, $active, 'off', $rounds, $limit, $rep)"
		done
	done
done

printf '| partitions | active, %% | the pop finds | hot-list, p50 µs | p99 µs | against the smallest | off, p50 µs | p99 µs |\n|---|---|---|---|---|---|---|---|\n'
psql -qXAt -v ON_ERROR_STOP=1 <<'SQL'
CREATE TEMP VIEW medians AS
	SELECT size, active, kind, found, rep, percentile_cont(0.5) WITHIN GROUP (ORDER BY us) AS p50,
		percentile_cont(0.99) WITHIN GROUP (ORDER BY us) AS p99
	FROM pops GROUP BY 1, 2, 3, 4, 5;
CREATE TEMP VIEW ratios AS
	SELECT m.size, m.active, m.kind, m.found, percentile_cont(0.5) WITHIN GROUP (ORDER BY m.p50) AS p50,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY m.p99) AS p99,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY m.p50 / s.p50) AS ratio
	FROM medians m JOIN medians s USING (active, kind, found, rep)
	WHERE s.size = (SELECT min(size) FROM pops) GROUP BY 1, 2, 3, 4;
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s |', o.size, o.active, CASE WHEN o.found THEN 'a message' ELSE 'nothing' END,
	round(o.p50::numeric, 1), round(o.p99::numeric, 1), round(o.ratio::numeric, 2), round(f.p50::numeric, 1), round(f.p99::numeric, 1))
FROM ratios o JOIN ratios f USING (size, active, found) WHERE o.kind = 'on' AND f.kind = 'off' ORDER BY o.found DESC, o.active DESC, o.size;
SQL
printf '\nThe first pop of a group walks the queue: '
answer "SELECT string_agg(format('%s partitions %s ms', size, round(ms::numeric, 1)), ', ' ORDER BY size) || '.' FROM walks"
printf 'Lost and found by walks (must be 0): %s\n' "$(answer 'SELECT coalesce(sum(reseed_repairs), 0) FROM queen.pg_stat_queen_hotlist')"
