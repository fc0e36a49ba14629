-- pop: how much, from where, in which order, for whom; and what a transaction that took and pushed leaves.
\getenv inputdir PG_ABS_SRCDIR
\set topic pop
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- One message, or as many as there are up to max_messages, with what a consumer needs to know.
SELECT count(queen.push('pop', to_jsonb(i), headers => jsonb_build_object('h', i))) FROM generate_series(0, 9) i;
SELECT queue, partition, msg_offset, message, payload, headers, attempt, consumer_group, lease IS NOT NULL AS has_lease,
	round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds
FROM queen.pop('pop');
-- The partition is under lease: nothing more of it until that ends, for this group; another group has its own position.
SELECT count(*) FROM take('pop', max_messages => 5);
SELECT msg_offset, attempt FROM take('pop', 'second', 3);
SELECT consumer_group, count(*), count(DISTINCT lease) AS leases, count(DISTINCT message_id) AS ids FROM taken GROUP BY 1;
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('pop', 'second', 100);
SELECT queen.ack(lease());
SELECT count(*) FROM take('pop', 'second');
-- A group that comes later begins at the first message; a message pushed then reaches all.
SELECT count(queen.push('pop', '10'));
SELECT count(*), min(msg_offset), max(msg_offset) FROM take('pop', 'third', 100);
SELECT msg_offset, message FROM take('pop', 'second');
SELECT queen.ack(lease());

-- The lease's time: the call's, the queue's, the default.
SELECT queen.create_queue('pop lease', options => '{"lease_time": "2 minutes"}');
SELECT count(queen.push('pop lease', '1', p)) FROM unnest(ARRAY['a', 'b', 'c', 'd']) p;
SELECT partition, round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds FROM queen.pop('pop lease', partition => 'a');
SELECT partition, round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds FROM queen.pop('pop lease', partition => 'b', lease_time => '1 s');
SELECT partition, round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds FROM queen.pop('pop lease', partition => 'c', lease_time => '12 hours');
SELECT queen.configure('pop lease', '{"lease_time": 77}') ->> 'lease_time' AS lease_time;
SELECT partition, round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds FROM queen.pop('pop lease', partition => 'd');

-- Several partitions: sorted by (partition, msg_offset), bytewise; one lease each; the budget counts messages of all.
SELECT count(queen.push('pop several', to_jsonb(i), p)) FROM generate_series(0, 2) i, unnest(ARRAY['b', 'B', 'a', 'é', 'ab', '10', '9', ' ']) p;
SELECT count(*) FROM take('pop several', max_messages => 100, max_partitions => 100);
SELECT partition, array_agg(msg_offset ORDER BY ordinality) AS offsets, count(DISTINCT lease) AS leases FROM taken GROUP BY partition ORDER BY min(ordinality);
SELECT bool_and(ordinality = rank) AS sorted FROM (SELECT ordinality, rank() OVER (ORDER BY partition COLLATE "C", msg_offset) FROM taken) t;
SELECT queen.ack_all((SELECT array_agg(DISTINCT lease) FROM taken));
SELECT count(*) FROM take('pop several', max_messages => 100, max_partitions => 100);
-- Which partitions a smaller budget reaches is left open; how many, and that each gives its first messages, is not.
SELECT count(*), count(DISTINCT partition) AS partitions, count(*) FILTER (WHERE msg_offset = 0) AS firsts FROM queen.pop('pop several', 'budget 7', 7, max_partitions => 100);
SELECT count(*), count(DISTINCT partition) AS partitions FROM queen.pop('pop several', 'budget 1', 1, max_partitions => 100);
SELECT count(*), count(DISTINCT partition) AS partitions FROM queen.pop('pop several', 'partitions 3', 100, max_partitions => 3);
SELECT count(*), count(DISTINCT partition) AS partitions FROM queen.pop('pop several', 'partitions 1', 100);
-- Until nothing is left, one partition at a time.
SELECT count(*), count(DISTINCT partition) AS partitions, max(msg_offset) FROM generate_series(1, 20) i, queen.pop('pop several', 'walk', 2 + i * 0);
SELECT count(*) FROM queen.pop('pop several', 'walk');

-- By partition: that one or none; max_partitions has no meaning then.
SELECT partition, msg_offset FROM take('pop several', 'pinned', 100, 'ab', 100);
SELECT count(*) FROM take('pop several', 'pinned', 100, 'ab');
SELECT count(*) FROM take('pop several', 'pinned', 100, 'AB');

-- auto_ack: no lease, done with the commit.
SELECT count(queen.push('pop auto', to_jsonb(i))) FROM generate_series(0, 5) i;
SELECT msg_offset, message, attempt, lease, lease_until FROM queen.pop('pop auto', max_messages => 2, auto_ack => true);
SELECT msg_offset FROM take('pop auto', max_messages => 2, auto_ack => true);
BEGIN;
SELECT msg_offset FROM take('pop auto', auto_ack => true);
SELECT msg_offset FROM take('pop auto', auto_ack => true);
SELECT count(*) FROM take('pop auto', auto_ack => true);
ROLLBACK;
SELECT msg_offset, attempt FROM take('pop auto', max_messages => 10, auto_ack => true);
SELECT count(*) FROM take('pop auto');
-- It respects a lease of the same group, and takes what is left of a lost one, alone and counted.
SELECT count(queen.push('pop auto', to_jsonb(i))) FROM generate_series(6, 8) i;
SELECT msg_offset FROM take('pop auto', max_messages => 2);
SELECT count(*) FROM queen.pop('pop auto', auto_ack => true);
SELECT time_passes('pop auto');
SELECT msg_offset, attempt FROM queen.pop('pop auto', max_messages => 10, auto_ack => true);
SELECT attempt('SELECT queen.ack(lease())');
SELECT msg_offset, attempt FROM queen.pop('pop auto', max_messages => 10, auto_ack => true);
SELECT msg_offset, attempt FROM queen.pop('pop auto', max_messages => 10, auto_ack => true);

-- A pop that is rolled back took nothing: lease, position and group are as before.
SELECT count(queen.push('pop rollback', to_jsonb(i))) FROM generate_series(0, 3) i;
BEGIN;
SELECT msg_offset, attempt FROM take('pop rollback', max_messages => 2);
ROLLBACK;
SELECT count(*) FROM queen.log_groups g JOIN queen.queues q USING (queue_id) WHERE q.name = 'pop rollback';
SELECT msg_offset, attempt FROM take('pop rollback');
SELECT queen.ack(lease());
BEGIN;
SELECT msg_offset FROM take('pop rollback', max_messages => 2);
SELECT queen.ack(lease());
SELECT msg_offset FROM take('pop rollback', max_messages => 2);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT msg_offset, attempt FROM take('pop rollback', max_messages => 1);
ROLLBACK TO s;
SELECT msg_offset, attempt FROM take('pop rollback', max_messages => 2);
SAVEPOINT s;
SELECT queen.ack(lease());
ROLLBACK TO s;
SELECT count(*) FROM queen.pop('pop rollback');
SELECT queen.ack(lease());
COMMIT;
SELECT msg_offset, attempt FROM take('pop rollback', max_messages => 10);
SELECT queen.ack(lease());

-- Two pops in one transaction: the second meets the first one's lease, other partitions are open to it.
SELECT count(queen.push('pop twice', to_jsonb(i), p)) FROM generate_series(0, 3) i, unnest(ARRAY['a', 'b']) p;
BEGIN;
SELECT partition, msg_offset FROM take('pop twice', max_messages => 2, only_partition => 'a');
SELECT partition, msg_offset FROM take('pop twice', max_messages => 2);
SELECT count(*) FROM queen.pop('pop twice');
SELECT partition, msg_offset FROM take('pop twice', 'other', 1, 'a');
COMMIT;
SELECT count(*) FROM queen.pop('pop twice');
-- Popped and acknowledged in one statement.
SELECT count(queen.push('pop statement', to_jsonb(i), p)) FROM generate_series(0, 3) i, unnest(ARRAY['a', 'b']) p;
SELECT sum(queen.ack(lease)) FROM (SELECT DISTINCT lease FROM queen.pop('pop statement', max_messages => 6, max_partitions => 2)) m;
WITH m AS MATERIALIZED (SELECT * FROM queen.pop('pop statement', max_messages => 6, max_partitions => 2)),
	a AS MATERIALIZED (SELECT queen.ack_all(array_agg(DISTINCT lease)) AS acked FROM m)
SELECT acked, (SELECT count(*) FROM m) AS popped FROM a;
SELECT count(*) FROM queen.pop('pop statement', max_partitions => 2);

-- Pop and push in one transaction: what is pushed comes to light with the commit, and does not come back at once.
SELECT count(queen.push('pop push', '"in"'));
BEGIN;
SELECT message FROM take('pop push');
SELECT count(queen.push('pop push', '"out 1"')), count(queen.push('pop push out', '"out 2"'));
SELECT queen.ack(lease());
SELECT count(*) FROM queen.pop('pop push', max_messages => 10);
SELECT count(*) FROM queen.pop('pop push out');
COMMIT;
SELECT message FROM take('pop push');
SELECT message FROM take('pop push out');
-- Rolled back: taken again, and nothing was pushed.
SELECT count(queen.push('pop push 2', '"in"'));
BEGIN;
SELECT message, attempt FROM take('pop push 2');
SELECT count(queen.push('pop push 2', '"out"'));
SELECT queen.ack(lease());
ROLLBACK;
SELECT message, attempt FROM take('pop push 2', max_messages => 10);

-- Exactly once in effect: the work's own rows, the push and the ack are one.
CREATE TABLE done (message jsonb);
SELECT count(queen.push('pop work', to_jsonb(i))) FROM generate_series(1, 10) i;
DO $$
DECLARE
	m record;
	n int := 0;
BEGIN
	LOOP
		n := n + 1;
		BEGIN
			SELECT * INTO m FROM queen.pop('pop work', max_messages => 1);
			EXIT WHEN NOT FOUND;
			INSERT INTO done VALUES (m.message);
			PERFORM queen.push('pop work next', m.message);
			PERFORM queen.ack(m.lease);
			IF n % 3 = 0 THEN
				RAISE EXCEPTION 'the work fails';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
SELECT array_agg(message) FROM done;
SELECT stored('pop work next');

-- Through a hole in the log: the messages around it come in one batch, and are counted right.
SELECT count(queen.push('pop hole', to_jsonb(i))) FROM generate_series(0, 1) i;
SELECT count(queen.push('pop hole', to_jsonb(i))) FROM generate_series(2, 3) i;
SELECT count(queen.push('pop hole', to_jsonb(i))) FROM generate_series(4, 5) i;
DELETE FROM queen.log_segments s USING queen.log_partitions p JOIN queen.queues q USING (log_id)
WHERE q.name = 'pop hole' AND s.partition_id = p.partition_id AND s.base_offset = 2;
SELECT msg_offset FROM take('pop hole', max_messages => 3);
SELECT queen.ack(lease(), 3);
SELECT queen.ack(lease(), 4);
SELECT msg_offset FROM take('pop hole', max_messages => 3);
SELECT queen.ack(lease());
SELECT msg_offset FROM take('pop hole', 'second', 2);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('pop hole', 'second', 2);
SELECT queen.nack(lease(), delay => '0');
SELECT msg_offset, attempt FROM take('pop hole', 'second', 2);
SELECT attempt('SELECT queen.nack(lease(), 3)');
SELECT queen.nack(lease(), 4, dead => true);
SELECT msg_offset, attempt FROM take('pop hole', 'second', 2);

-- Other shapes of a call.
SELECT count(queen.push('pop shapes', to_jsonb(i))) FROM generate_series(0, 5) i;
SELECT (p.m).msg_offset, (p.m).message FROM (SELECT queen.pop('pop shapes', 'list', 2) AS m) p;
SELECT message FROM queen.pop('pop shapes', 'limit', 3) LIMIT 1;
SELECT count(*) FROM queen.pop('pop shapes', 'limit', 3);
PREPARE popping(text, text, int) AS SELECT msg_offset FROM queen.pop($1, $2, $3, auto_ack => true);
EXECUTE popping('pop shapes', 'prepared', 2);
EXECUTE popping('pop shapes', 'prepared', 3);
EXECUTE popping('pop shapes', 'prepared', 100);
BEGIN;
DECLARE c CURSOR FOR SELECT msg_offset FROM queen.pop('pop shapes', 'cursor', 100);
FETCH 2 FROM c;
MOVE ALL FROM c;
COMMIT;
SELECT count(*) FROM queen.pop('pop shapes', 'cursor');
