-- queen.maintain() walks all partitions of all queues, whichever was born first.
\getenv inputdir PG_ABS_SRCDIR
\set topic maintain_walk
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SELECT queen.create_queue('walk_b');
SELECT queen.create_queue('walk_a', options => '{"completed_retention": 0}');
SELECT count(queen.push(q, '1', partition => p)) FROM (VALUES ('walk_a', 'p1'), ('walk_b', 'p1'), ('walk_a', 'p2'), ('walk_b', 'p2')) v (q, p);
-- those of a were born before the last one of b
SELECT count(*) FROM queen.pop('walk_a', max_messages => 10, max_partitions => 10, auto_ack => true);
SELECT pg_sleep(0.01);
CALL queen.maintain();
SELECT p.name, s.log_start, (SELECT count(*) FROM queen.log_segments l WHERE l.partition_id = p.partition_id) AS segments
FROM queen.queues q JOIN queen.log_partitions p USING (log_id) LEFT JOIN queen.log_starts s USING (partition_id)
WHERE q.name = 'walk_a' ORDER BY 1;

-- A drop reads no segment when no transaction is open that may have written one.
CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS $$
	SELECT pg_stat_get_xact_tuples_fetched('queen.log_segments'::regclass) + sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint
	FROM pg_index WHERE indrelid = 'queen.log_segments'::regclass
$$;
SELECT count(queen.push('walk_c', to_jsonb(n), 'p' || n)) FROM generate_series(1, 500) n;
BEGIN;
SELECT reads() AS before \gset
SELECT queen.drop_queue('walk_c');
SELECT reads() - :before AS read;
COMMIT;

-- A step looks at so many filings, however many there are that have to wait: the next one goes on behind them.
CREATE EXTENSION queen_test;
INSERT INTO queen.log_dropped (dropped_id, partition_id, dropped_at) SELECT 1000000 + n, 1000000 + n, clock_timestamp() FROM generate_series(1, 2500) n;
SELECT * FROM queen_test_dropped_step(1000001, 0);
SELECT * FROM queen_test_dropped_step(1001001, 7);
SELECT * FROM queen_test_dropped_step(1002001, 0);
-- one that need not wait is met behind all of them
INSERT INTO queen.log_dropped (dropped_id, partition_id, dropped_at) VALUES (1002501, 1002501, clock_timestamp() - interval '2 h');
CREATE FUNCTION pass(OUT left_over bigint, OUT others bigint) LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(*) FILTER (WHERE dropped_id = 1002501), count(*) FILTER (WHERE dropped_id > 1000000 AND dropped_id <> 1002501) INTO left_over, others FROM queen.log_dropped;
END $$;
DO $$
BEGIN
	-- a snapshot of autovacuum's may delay it
	FOR i IN 1..100 LOOP
		COMMIT;
		EXIT WHEN (SELECT left_over FROM pass()) = 0;
		PERFORM queen_test_dropped_step(1002400, 0);
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT * FROM pass();
DELETE FROM queen.log_dropped WHERE dropped_id > 1000000;
DROP EXTENSION queen_test;
