-- A transaction's pushes beyond queen.push_buffer_size wait in a temporary file: order, savepoints and errors are the same.
\getenv inputdir PG_ABS_SRCDIR
\set topic spill
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
SET queen.push_buffer_size = '64kB';

-- Offsets contiguous, messages in the order of their pushes: how many there are of a queue, and whether that holds.
CREATE FUNCTION summary(queue text) RETURNS TABLE (partition text, messages bigint, first int, last int, ordered bool) LANGUAGE sql AS $$
	SELECT m.partition, count(*), min(n), max(n), bool_and(n > previous AND msg_offset = row - 1)
	FROM (
		SELECT m.partition, (m.message->>'n')::int AS n, msg_offset, row_number() OVER w AS row,
			lag((m.message->>'n')::int, 1, -1) OVER w AS previous
		FROM queen.pop(summary.queue, gen_random_uuid()::text, max_messages => 100000, max_partitions => 100) m
		WINDOW w AS (PARTITION BY m.partition ORDER BY msg_offset)) m
	GROUP BY m.partition ORDER BY m.partition COLLATE "C"
$$;
CREATE FUNCTION push_some(queue text, first int, last int, partitions int DEFAULT 1) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(queen.push(push_some.queue, jsonb_build_object('n', n, 'filler', repeat('x', 100)), 'p' || n % partitions))
	FROM generate_series(first, last) n
$$;

-- one partition, and several: few segments although pushes to the partitions alternate
SELECT push_some('one', 1, 5000);
SELECT * FROM summary('one');
SELECT push_some('several', 1, 5000, 3);
SELECT * FROM summary('several');
SELECT q.name, count(*) AS segments
FROM queen.log_segments JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)
WHERE q.name IN ('one', 'several') GROUP BY 1 ORDER BY 1;

-- a rolled back savepoint cuts the file back, wherever it began: in memory, at the file's end, inside what is on disk
BEGIN;
SELECT push_some('cut', 1, 100, 2);
SAVEPOINT a;
SELECT push_some('cut', 900000, 903000, 5);
SAVEPOINT b;
SELECT push_some('cut', 910000, 913000, 5);
RELEASE b;
ROLLBACK TO a;
SELECT push_some('cut', 101, 3000, 2);
SAVEPOINT c;
SELECT push_some('cut', 920000, 920003, 2);
ROLLBACK TO c;
SELECT push_some('cut', 3001, 3010, 2);
SAVEPOINT d;
SELECT push_some('cut', 3011, 6000, 2);
RELEASE d;
COMMIT;
SELECT * FROM summary('cut');

-- all of it rolled back, then something small: written from the file all the same
BEGIN;
SAVEPOINT a;
SELECT push_some('empty', 1, 3000);
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'empty';
BEGIN;
SAVEPOINT a;
SELECT push_some('little', 5, 3000);
ROLLBACK TO a;
SELECT push_some('little', 1, 2);
COMMIT;
SELECT * FROM summary('little');

-- a savepoint for each of many pushes, every third rolled back
DO $$
BEGIN
	FOR i IN 1..3000 LOOP
		BEGIN
			PERFORM push_some('many', i, i);
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END
$$;
SELECT partition, messages, first, last FROM summary('many');

-- a message larger than the buffer
BEGIN;
SELECT push_some('large', 1, 10);
SELECT queen.push('large', jsonb_build_object('n', 11, 'filler', repeat('y', 3000000)), 'p0') IS NOT NULL AS pushed;
SELECT push_some('large', 12, 20);
COMMIT;
SELECT * FROM summary('large');

-- no room for the file: an error at the push, and, since the file takes nothing more, at the commit: all or nothing
SET temp_file_limit = '200kB';
BEGIN;
SELECT push_some('full', 1, 10);
SAVEPOINT a;
SELECT left(attempt, 5) AS sqlstate FROM attempt($$ SELECT push_some('full', 11, 10000) $$);
SELECT push_some('full', 11, 20);
\set VERBOSITY sqlstate
COMMIT;
\set VERBOSITY default
RESET temp_file_limit;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'full';

-- what is out of range
SELECT left(attempt, 6) AS sqlstate FROM attempt($$ SET queen.push_buffer_size = '1kB' $$);
