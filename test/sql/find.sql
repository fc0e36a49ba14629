-- find: where a message is.
\getenv inputdir PG_ABS_SRCDIR
\set topic find
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION found(queue text, id uuid, partition text DEFAULT NULL) RETURNS TABLE (place text, partition text, msg_offset bigint, consumer_group text, has_dead_id boolean, timely boolean) LANGUAGE sql AS $$
	SELECT place, partition, msg_offset, consumer_group, dead_id IS NOT NULL, enqueued_at BETWEEN now() - interval '10 minutes' AND clock_timestamp()
	FROM queen.find(found.queue, id, found.partition)
$$;
CREATE TABLE pushed (n int, id uuid);
-- In a partition of many segments of different sizes, each message is found where it is.
DO $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		INSERT INTO pushed SELECT i, queen.push_batch('find', jsonb_agg(j), 'p' || i % 3) FROM generate_series(1, 1 + i * i % 17) j;
		COMMIT;
	END LOOP;
END $$;
INSERT INTO pushed SELECT 100, queen.push_batch('find', jsonb_agg(j), 'large') FROM generate_series(1, 3456) j;
SELECT count(*) FROM pushed;
SELECT count(*), count(f.place) AS found, count(*) FILTER (WHERE f.message_id = p.id) AS right_one, bool_and(f.enqueued_at = f.at) AS right_time
FROM pushed p LEFT JOIN LATERAL (
	SELECT f.place, m.message_id, f.enqueued_at, m.enqueued_at AS at FROM queen.find('find', p.id) f, queen.peek('find', f.partition, f.msg_offset, 1) m) f ON true
WHERE p.n < 100;
SELECT count(*) AS found, count(DISTINCT f.msg_offset) AS distinct_offsets, bool_and(place = 'log' AND partition = 'large') FROM (SELECT * FROM pushed WHERE n = 100 ORDER BY id LIMIT 2000 OFFSET 990) p, queen.find('find', p.id, 'large') f;
-- In the partition that is named, or not.
SELECT id AS some FROM pushed WHERE n = 7 LIMIT 1 \gset
SELECT * FROM found('find', :'some');
SELECT * FROM found('find', :'some', 'p1');
SELECT * FROM found('find', :'some', 'p2');
SELECT * FROM found('find', :'some', 'no such partition');
SELECT queen.create_queue('find other');
SELECT * FROM found('find other', :'some');

-- Before its commit it is nowhere, and after a rollback.
BEGIN;
SELECT queen.push('find', '"late"') AS late \gset
SELECT * FROM found('find', :'late');
COMMIT;
SELECT * FROM found('find', :'late');
BEGIN;
SELECT queen.push('find', '"never"') AS never \gset
ROLLBACK;
SELECT * FROM found('find', :'never');
-- However long its commit took, and a little before its id's time where the clock was set back.
UPDATE queen.log_segments s SET created_at = s.created_at + interval '1 year' FROM queen.log_partitions p JOIN queen.queues q USING (log_id)
WHERE s.partition_id = p.partition_id AND q.name = 'find' AND p.name = 'Default';
SELECT place, enqueued_at > now() + interval '300 days' AS years_later FROM queen.find('find', :'late');
UPDATE queen.log_segments s SET created_at = s.created_at - interval '1 year 9 minutes' FROM queen.log_partitions p JOIN queen.queues q USING (log_id)
WHERE s.partition_id = p.partition_id AND q.name = 'find' AND p.name = 'Default';
SELECT place FROM queen.find('find', :'late');

-- Dead letters: a row for each group; also when the log has it no more; gone after a redrive, which makes a new one.
SELECT queen.push('find dead', '1') AS dead \gset
SELECT count(*) FROM take('find dead');
SELECT queen.nack(lease(), dead => true);
SELECT count(*) FROM take('find dead', 'other');
SELECT queen.nack(lease(), dead => true);
SELECT * FROM found('find dead', :'dead') ORDER BY place, consumer_group;
SELECT * FROM found('find dead', :'dead', 'Default') ORDER BY place, consumer_group;
SELECT * FROM found('find dead', :'dead', 'p');
SELECT * FROM found('find other', :'dead');
SELECT queen.purge_queue('find dead');
SELECT * FROM found('find dead', :'dead') ORDER BY place, consumer_group;
SELECT queen.redrive('find dead');
SELECT * FROM found('find dead', :'dead');
SELECT f.place, f.msg_offset FROM queen.peek('find dead') m, queen.find('find dead', m.message_id) f;
SELECT masked(headers::text), headers #>> '{queen_redriven,message_id}' = :'dead' AS its_id FROM queen.peek('find dead');

-- Only in the session's tenant.
SET queen.tenant = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
SELECT attempt(format('SELECT * FROM queen.find(''find'', %L)', :'some'));
SELECT queen.create_queue('find');
SELECT * FROM found('find', :'some');
RESET queen.tenant;

-- What is no message id: other versions and variants, a lease.
SELECT count(*) FROM take('find');
SELECT attempts(
	$$SELECT queen.find('find', '00000000-0000-0000-0000-000000000000')$$,
	$$SELECT queen.find('find', 'ffffffff-ffff-ffff-ffff-ffffffffffff')$$,
	$$SELECT queen.find('find', gen_random_uuid())$$,
	$$SELECT queen.find('find', '01a22a47-f93b-72a8-1510-e48d22f938ee')$$,
	$$SELECT queen.find('find', lease())$$);
-- The ends of time.
SELECT count(*) FROM queen.find('find', '00000000-0000-7000-8000-000000000000');
SELECT count(*) FROM queen.find('find', 'ffffffff-ffff-7fff-bfff-ffffffffffff');

-- Damage on the way is told.
SELECT queen.push('find bad', '1') AS bad \gset
UPDATE queen.log_segments s SET blob = set_byte(blob, octet_length(blob) - 1, 255 - get_byte(blob, octet_length(blob) - 1))
FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE s.partition_id = p.partition_id AND q.name = 'find bad';
SELECT attempt(format('SELECT * FROM queen.find(''find bad'', %L)', :'bad'));
SELECT queen.drop_queue('find bad');
