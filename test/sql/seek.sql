-- Seeks: forwards and backwards, by offset, to a time, to the end.
\getenv inputdir PG_ABS_SRCDIR
\set topic seek
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION at(of_queue text, of_group text DEFAULT 'g') RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s:%s', partition, committed), ' ' ORDER BY partition) FROM cursors c WHERE c.queue = of_queue AND c.consumer_group = of_group
$$;
-- What the group gets next from each partition, without moving it.
CREATE FUNCTION next(of_queue text, of_group text DEFAULT 'g') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	BEGIN
		SELECT string_agg(format('%s:%s#%s', partition, first, attempts), ' ' ORDER BY partition) INTO answer
		FROM (SELECT partition, min(msg_offset) AS first, max(attempt) AS attempts FROM queen.pop(of_queue, of_group, 100, max_partitions => 10) GROUP BY 1) m;
		RAISE EXCEPTION 'take back';
	EXCEPTION WHEN raise_exception THEN
		RETURN answer;
	END;
END
$$;
CREATE PROCEDURE push_each(queue text, partition text, n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		PERFORM queen.push(push_each.queue, to_jsonb(i), push_each.partition);
		COMMIT;
	END LOOP;
END
$$;

-- Partition a: a segment of ten; b: five segments of one; c: a segment of three.
SELECT count(queen.push('seek', to_jsonb(i), 'a')) FROM generate_series(0, 9) i;
CALL push_each('seek', 'b', 5);
SELECT count(queen.push('seek', to_jsonb(i), 'c')) FROM generate_series(0, 2) i;
SELECT queen.subscribe('seek', 'g');
-- A group without cursors gets them.
SELECT queen.seek('seek', 'g', 2, 'b');
SELECT at('seek'), next('seek');
-- All partitions; into the middle of a segment; behind the end is the end.
SELECT queen.seek('seek', 'g', 4);
SELECT at('seek'), next('seek');
SELECT queen.seek('seek', 'g', 9223372036854775807);
SELECT at('seek'), next('seek');
-- Backwards, to one in a segment, to the first.
SELECT queen.seek('seek', 'g', 7, 'a');
SELECT at('seek'), next('seek');
SELECT queen.seek('seek', 'g', 0);
SELECT at('seek'), next('seek');
-- To the end; what comes later is next. Only the one partition.
SELECT queen.seek_to_end('seek', 'g', 'a');
SELECT at('seek');
SELECT queen.seek_to_end('seek', 'g');
SELECT at('seek');
CALL push_each('seek', 'a', 1);
SELECT next('seek');
-- Other groups stay where they are.
SELECT queen.subscribe('seek', 'other', 'latest');
SELECT queen.seek('seek', 'g', 1);
SELECT at('seek'), at('seek', 'other');

-- A lease is lost, and what was counted is forgotten: attempts, the delay of a nacked message, its error.
SELECT queen.seek('seek', 'g', 0);
SELECT count(*) FROM take('seek', 'g', 3, 'b');
SELECT queen.seek('seek', 'g', 1, 'b');
SELECT attempts(
	'SELECT queen.ack(lease())',
	'SELECT queen.ack(lease(), 0)',
	'SELECT queen.nack(lease())',
	'SELECT queen.extend(lease())',
	'SELECT queen.release(lease())');
SELECT msg_offset, attempt FROM take('seek', 'g', 2, 'b');
SELECT queen.nack(lease(), delay => '1 hour', error => 'no good');
SELECT count(*) FROM take('seek', 'g', 2, 'b');
SELECT queen.seek('seek', 'g', 1, 'b');
SELECT committed, lease, batch_end, batch_count, lease_until, attempt_offset, attempts, delivered_to, blocked_until, last_error FROM cursors WHERE queue = 'seek' AND consumer_group = 'g' AND partition = 'b';
SELECT count(*) FROM queen.pg_stat_queen_blocked WHERE queue = 'seek';
SELECT msg_offset, attempt FROM take('seek', 'g', 2, 'b');
-- An ack that was done is still known.
SELECT queen.ack(lease());
SELECT queen.seek('seek', 'g', 0, 'b');
SELECT queen.ack(lease());
-- Ahead of messages that are never completed, also a poison.
SELECT count(*) FROM take('seek', 'g', 1, 'c');
SELECT time_passes('seek');
SELECT msg_offset, attempt FROM take('seek', 'g', 5, 'c');
SELECT queen.seek('seek', 'g', 1, 'c');
SELECT msg_offset, attempt FROM take('seek', 'g', 5, 'c');
SELECT count(*) FROM queen.dead_letters WHERE queue = 'seek';

-- In a transaction: several times, taken back with a savepoint; also in the levels that pop refuses.
BEGIN;
SELECT queen.seek('seek', 'g', 3, 'b');
SELECT at('seek');
SAVEPOINT s;
SELECT queen.seek('seek', 'g', i, 'b') FROM generate_series(0, 40) i OFFSET 40;
SELECT at('seek');
ROLLBACK TO s;
SELECT at('seek');
ROLLBACK;
SELECT at('seek');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT queen.seek('seek', 'g', 2), queen.seek('seek', 'other', 0);
SELECT at('seek'), at('seek', 'other');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queen.seek_to_end('seek', 'g');
COMMIT;
SELECT at('seek'), at('seek', 'other');
-- What this very transaction has pushed is not there yet: it is next.
BEGIN;
SELECT count(queen.push('seek', '"mine"', 'b'));
SELECT queen.seek_to_end('seek', 'g', 'b');
COMMIT;
SELECT message FROM queen.pop('seek', 'g', partition => 'b');
-- A queue without partitions: nowhere.
SELECT queen.subscribe('seek nothing', 'g');
SELECT queen.seek('seek nothing', 'g', 0), queen.seek_to_end('seek nothing', 'g'), queen.seek_to_time('seek nothing', 'g', 'now');

-- To a time, in a log of 120 segments of one to four messages with a hole here and there, of which the first are deleted: for
-- each segment its time, one before and one behind, the answer that a scan gives. Times lie apart unevenly, and some are the same.
CREATE PROCEDURE push_some() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..120 LOOP
		PERFORM queen.push('seek times', to_jsonb(i), 'p') FROM generate_series(0, i % 4);
		COMMIT;
	END LOOP;
END
$$;
CALL push_some();
CREATE VIEW segments AS SELECT s.*, row_number() OVER (ORDER BY base_offset) AS n FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'seek times';
UPDATE queen.log_segments s SET created_at = '2020-01-01 UTC'::timestamptz + interval '1 s' * ((n / 3) * (n / 3)) FROM segments v WHERE (s.partition_id, s.base_offset) = (v.partition_id, v.base_offset);
DELETE FROM queen.log_segments s USING segments v WHERE (s.partition_id, s.base_offset) = (v.partition_id, v.base_offset) AND (v.n < 10 OR v.n IN (30, 31, 32, 33, 60, 61, 119) OR v.n BETWEEN 70 AND 90);
INSERT INTO queen.log_starts SELECT partition_id, min(base_offset), min(created_at) FROM segments GROUP BY 1;
SELECT queen.subscribe('seek times', 'g');
CREATE FUNCTION wrong(t timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	expected bigint := coalesce((SELECT min(base_offset) - 1 FROM segments WHERE created_at >= t), (SELECT max(end_offset) FROM segments));
	found bigint;
BEGIN
	PERFORM queen.seek_to_time('seek times', 'g', t);
	SELECT committed INTO found FROM cursors WHERE queue = 'seek times';
	RETURN CASE WHEN found IS DISTINCT FROM expected THEN format('%s: %s instead of %s', t, found, expected) END;
END
$$;
SELECT count(*), count(wrong(created_at + interval '1 microsecond' * d)) AS wrong FROM segments, generate_series(-1, 1) d;
SELECT wrong('infinity'), wrong('-infinity'), wrong('2020-01-01 UTC'), wrong('294276-12-31 UTC'), wrong('4713-01-01 BC');
-- A group that starts at the time stands there too.
CREATE FUNCTION wrong_start(t timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text;
BEGIN
	PERFORM queen.unsubscribe('seek times', 'start');
	PERFORM queen.subscribe('seek times', 'start', t::text);
	SELECT string_agg(format('%s %s', l.committed, (SELECT min(msg_offset) FROM queen.pop('seek times', 'start') WHERE l.lag > 0)), ' ') INTO found FROM queen.lag('seek times', 'start') l;
	RETURN (SELECT format('%s: %s', t, found) WHERE found IS DISTINCT FROM (SELECT format('%s %s', min(base_offset) - 1, min(base_offset)) FROM segments WHERE created_at >= t));
END
$$;
SELECT count(*), count(wrong_start(created_at + interval '1 microsecond' * d)) AS wrong FROM segments, generate_series(-1, 0) d;
-- An offset that is not retained any more is the first that is.
SELECT queen.seek('seek times', 'g', 3);
SELECT committed = (SELECT min(base_offset) - 1 FROM segments) AS first FROM cursors WHERE queue = 'seek times' AND consumer_group = 'g';
SELECT msg_offset = (SELECT min(base_offset) FROM segments) AS first FROM queen.pop('seek times', 'g');
