-- Consumer groups: subscribe, unsubscribe, list_groups, lag.
\getenv inputdir PG_ABS_SRCDIR
\set topic groups
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
CREATE EXTENSION queen_test;

-- Where groups stand: "partition:committed/end lag state", with what the oldest message is instead of its time.
CREATE FUNCTION standing(queue text, consumer_group text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s:%s/%s %s %s%s', l.partition, l.committed, l.end_offset, l.lag, l.state,
		' since ' || (SELECT min(m.msg_offset) FROM queen.peek(standing.queue, l.partition, max_messages => 1000) m WHERE m.enqueued_at = l.oldest_at)), ', ')
	FROM queen.lag(standing.queue, standing.consumer_group) l
$$;
-- When the segment that holds a message was pushed.
CREATE FUNCTION pushed_at(of_queue text, partition text, at_offset bigint) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT enqueued_at FROM queen.peek(of_queue, partition, at_offset, 1)
$$;
CREATE PROCEDURE push_each(queue text, partition text, n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		PERFORM queen.push(push_each.queue, to_jsonb(i), push_each.partition);
		COMMIT;
	END LOOP;
END
$$;
CREATE VIEW group_ids AS SELECT q.name AS queue, g.name, group_id FROM queen.log_groups g JOIN queen.queues q USING (queue_id);

CALL push_each('groups', 'a', 3);
CALL push_each('groups', 'b', 2);
-- Three groups: at the beginning, at the end, at a time: its very instant, one before, one after, and times before and behind all.
SELECT queen.subscribe('groups', 'earliest');
SELECT queen.subscribe('groups', 'default start', 'earliest');
SELECT queen.subscribe('groups', 'latest', 'latest');
SELECT queen.subscribe('groups', 'time', pushed_at('groups', 'a', 1)::text);
SELECT queen.subscribe('groups', 'before', (pushed_at('groups', 'a', 1) - interval '1 microsecond')::text);
SELECT queen.subscribe('groups', 'after', (pushed_at('groups', 'a', 1) + interval '1 microsecond')::text);
SELECT queen.subscribe('groups', 'long ago', '-infinity');
SELECT queen.subscribe('groups', 'now', clock_timestamp()::text);
SELECT g, standing('groups', g) FROM unnest(ARRAY['earliest', 'default start', 'latest', 'time', 'before', 'after', 'long ago', 'now']) g;
SELECT consumer_group, start_at IS NULL AS no_start, start_at = '-infinity' AS long_ago, paused, created_at = active_at AS new, partitions, lag, leased, blocked,
	oldest_at = pushed_at('groups', 'a', 0) AS first FROM queen.list_groups('groups');
-- Only latest has cursors: the others stand where they start.
SELECT consumer_group, partition, committed, era, changes FROM cursors WHERE queue = 'groups' ORDER BY 1, 2;
-- What each gets.
SELECT g, (SELECT string_agg(partition || m.msg_offset, ' ') FROM queen.pop('groups', g, 100, max_partitions => 10) m) AS got
FROM unnest(ARRAY['earliest', 'latest', 'time', 'before', 'after', 'long ago', 'now']) g;
SELECT consumer_group, partition, committed FROM cursors WHERE queue = 'groups' AND consumer_group NOT IN ('latest', 'earliest', 'long ago') ORDER BY 1, 2;
-- A partition that is born later: all of it, for each of them; a time lies before it.
CALL push_each('groups', 'c', 2);
CALL push_each('groups', 'b', 1);
SELECT g, standing('groups', g) FROM unnest(ARRAY['earliest', 'latest', 'time', 'now']) g;
SELECT g, (SELECT string_agg(partition || m.msg_offset, ' ') FROM queen.pop('groups', g, 100, max_partitions => 10) m) AS got FROM unnest(ARRAY['latest', 'now']) g;

-- A group that is there stays as it is, whatever start says.
SELECT array_agg(group_id) AS before FROM group_ids WHERE queue = 'groups' \gset
SELECT queen.subscribe('groups', g, s) FROM unnest(ARRAY['latest', 'earliest', 'time']) g, unnest(ARRAY['earliest', 'latest', '2000-01-01']) s;
SELECT array_agg(group_id) = :'before' AS the_same FROM group_ids WHERE queue = 'groups';
SELECT g, standing('groups', g) FROM unnest(ARRAY['latest', 'time']) g;
-- So does one that a pop subscribed.
SELECT count(*) FROM queen.pop('groups', 'popped', auto_ack => true);
SELECT queen.subscribe('groups', 'popped', 'latest');
SELECT consumer_group, lag FROM queen.list_groups('groups') WHERE consumer_group = 'popped';

-- A first subscription makes the queue, as a first push does; what comes later is all its.
SELECT queen.subscribe('groups new', 'g', 'latest');
SELECT * FROM queen.lag('groups new', 'g');
SELECT consumer_group, partitions, lag, oldest_at FROM queen.list_groups('groups new');
CALL push_each('groups new', 'p', 1);
SELECT standing('groups new', 'g');
SET queen.auto_create = off;
SELECT attempt($$SELECT queen.subscribe('groups manual', 'g')$$);
RESET queen.auto_create;
SELECT * FROM queen.list_groups('groups new') WHERE consumer_group = 'no such group';

-- Rolled back it never was; in one transaction with pushes: latest gets them, since they are not there yet.
BEGIN;
SELECT queen.subscribe('groups', 'rolled back', 'latest');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT queen.subscribe('groups', 'savepoint', 'latest');
ROLLBACK TO s;
SELECT count(queen.push('groups', '"before"', 'a'));
SELECT queen.subscribe('groups', 'savepoint', 'latest');
SELECT count(queen.push('groups', '"behind"', 'a'));
COMMIT;
SELECT consumer_group FROM queen.list_groups('groups') WHERE consumer_group IN ('rolled back', 'savepoint');
SELECT message FROM queen.pop('groups', 'savepoint', 10);
-- In other isolation levels: the latest is the latest all the same.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM queen.list_groups('groups') WHERE consumer_group = 'repeatable';
SELECT queen.subscribe('groups', 'repeatable', 'latest');
SELECT sum(lag) FROM queen.lag('groups', 'repeatable');
COMMIT;

-- States: idle, ready, leased, blocked. A lag counts what is leased.
CALL push_each('groups states', 'idle', 2);
CALL push_each('groups states', 'ready', 3);
CALL push_each('groups states', 'leased', 4);
CALL push_each('groups states', 'blocked', 5);
CALL push_each('groups states', 'over', 1);
SELECT count(*) FROM queen.pop('groups states', 'g', 10, 'idle', auto_ack => true);
SELECT count(*) FROM queen.pop('groups states', 'g', 2, 'ready', auto_ack => true);
SELECT count(*) FROM queen.pop('groups states', 'g', 2, 'leased', auto_ack => true);
SELECT count(queen.nack(lease, delay => '1 hour')) FROM queen.pop('groups states', 'g', 1, 'blocked');
SELECT count(*) FROM queen.pop('groups states', 'g', 1, 'over');
SELECT time_passes('groups states');
UPDATE queen.log_cursors c SET blocked_until = c.blocked_until + interval '1 day' * 366 FROM cursors v WHERE v.queue = 'groups states' AND (v.partition_id, v.group_id) = (c.partition_id, c.group_id);
SELECT count(*) FROM queen.pop('groups states', 'g', 1, 'leased');
SELECT * FROM unnest(string_to_array(standing('groups states', 'g'), ', '));
SELECT consumer_group, partitions, lag, leased, blocked, oldest_at = pushed_at('groups states', 'ready', 2) AS oldest FROM queen.list_groups('groups states');
SELECT bool_and(l.partition = p) AS in_order FROM queen.lag('groups states', 'g') WITH ORDINALITY l, unnest(ARRAY['idle', 'ready', 'leased', 'blocked', 'over']) WITH ORDINALITY n(p, i) WHERE i = l.ordinality;
-- A hole that a rolled-back push has left counts until it is passed.
CALL push_each('groups holes', 'p', 5);
DELETE FROM queen.log_segments s USING queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'groups holes' AND s.partition_id = p.partition_id AND base_offset IN (1, 2);
SELECT count(*) FROM queen.pop('groups holes', 'g', auto_ack => true);
SELECT standing('groups holes', 'g');
SELECT count(*) FROM queen.pop('groups holes', 'g', auto_ack => true);
SELECT standing('groups holes', 'g');
SELECT queen.subscribe('groups holes', 'latest', 'latest'), queen.subscribe('groups holes', 'time', pushed_at('groups holes', 'p', 3)::text);
SELECT standing('groups holes', 'latest'), standing('groups holes', 'time');
-- What retention has deleted is no lag; who starts at the beginning starts behind it.
DELETE FROM queen.log_segments s USING queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'groups holes' AND s.partition_id = p.partition_id AND base_offset = 0;
INSERT INTO queen.log_starts SELECT partition_id, 3, clock_timestamp() FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'groups holes';
SELECT queen.subscribe('groups holes', 'early'), queen.subscribe('groups holes', 'long ago', '-infinity');
SELECT g, standing('groups holes', g) FROM unnest(ARRAY['early', 'long ago']) g;
SELECT msg_offset FROM queen.pop('groups holes', 'early', 10, auto_ack => true);
DELETE FROM queen.log_segments s USING queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'groups holes' AND s.partition_id = p.partition_id;
UPDATE queen.log_starts l SET log_start = 5 FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'groups holes' AND l.partition_id = p.partition_id;
SELECT queen.subscribe('groups holes', 'last', 'latest');
SELECT g, standing('groups holes', g) FROM unnest(ARRAY['g', 'last', 'early', 'long ago']) g;
CALL push_each('groups holes', 'p', 1);
SELECT g, standing('groups holes', g) FROM unnest(ARRAY['g', 'last', 'early', 'long ago']) g;

-- Unsubscribe: the group is gone at once, its lease is lost; a new one under the name has nothing of it.
CALL push_each('groups gone', 'p', 3);
CALL push_each('groups gone', 'q', 3);
SELECT count(*) FROM queen.pop('groups gone', 'other', 1, 'p', auto_ack => true);
SELECT count(*) FROM take('groups gone', 'g', 2, 'p');
SELECT count(*) FROM queen.pop('groups gone', 'g', 3, 'q', auto_ack => true);
SELECT group_id AS old FROM group_ids WHERE queue = 'groups gone' AND name = 'g' \gset
SELECT queen.unsubscribe('groups gone', 'g'), queen.unsubscribe('groups gone', 'g'), queen.unsubscribe('groups gone', 'nobody');
SELECT consumer_group FROM queen.list_groups('groups gone');
SELECT attempts(
	'SELECT queen.ack(lease())',
	'SELECT queen.nack(lease())',
	'SELECT queen.extend(lease())',
	'SELECT queen.release(lease())',
	$$SELECT * FROM queen.lag('groups gone', 'g')$$,
	$$SELECT queen.seek_to_end('groups gone', 'g')$$);
SELECT partition, msg_offset, attempt FROM queen.pop('groups gone', 'g', 10, max_partitions => 2);
SELECT group_id > :old AS another FROM group_ids WHERE queue = 'groups gone' AND name = 'g';
SELECT attempt('SELECT queen.ack(lease())');
-- Its cursors are deleted piece by piece; nobody else's.
CREATE PROCEDURE clean(of_queue text, steps int DEFAULT 1000000) LANGUAGE plpgsql AS $$
DECLARE
	stop timestamptz := clock_timestamp() + interval '1 minute';
BEGIN
	-- statements of other tests that have begun before the unsubscription delay it
	WHILE steps > 0 AND clock_timestamp() < stop AND EXISTS (SELECT FROM queen.log_retired_groups JOIN queen.queues USING (log_id) WHERE name = of_queue) LOOP
		COMMIT;
		IF test_groups.queen_test_retired_groups_step() THEN
			steps := steps - 1;
		ELSE
			PERFORM pg_sleep(0.01);
		END IF;
		COMMIT;
	END LOOP;
END
$$;
SELECT count(*) FROM queen.log_cursors WHERE group_id = :old;
CALL clean('groups gone');
SELECT (SELECT count(*) FROM queen.log_cursors WHERE group_id = :old) AS cursors, (SELECT count(*) FROM queen.log_consumers WHERE group_id = :old) AS consumers, (SELECT count(*) FROM queen.log_retired_groups WHERE group_id = :old) AS filed;
SELECT consumer_group, partition, committed FROM cursors WHERE queue = 'groups gone' ORDER BY 1, 2;
-- Not while its transaction runs, and not when that is rolled back.
BEGIN;
SELECT queen.unsubscribe('groups gone', 'g');
SELECT queen_test_retired_groups_step();
SELECT count(*) FROM cursors WHERE queue = 'groups gone';
SELECT queen.subscribe('groups gone', 'g', 'latest');
SELECT standing('groups gone', 'g');
ROLLBACK;
SELECT consumer_group, partitions, leased FROM queen.list_groups('groups gone');
-- In pieces of a thousand partitions, each of which may be the last for a while.
SELECT count(queen.push('groups many', to_jsonb(i), 'p' || i)) FROM generate_series(1, 1500) i;
SELECT count(*) FROM queen.pop('groups many', 'stays', 100000, max_partitions => 1000, auto_ack => true);
SELECT queen.subscribe('groups many', 'g', 'latest'), queen.subscribe('groups many', 'h', 'latest');
SELECT consumer_group, partitions, lag FROM queen.list_groups('groups many');
SELECT queen.unsubscribe('groups many', 'g');
CALL clean('groups many', 1);
SELECT consumer_group, count(*) FROM cursors WHERE queue = 'groups many' GROUP BY 1 ORDER BY 1;
SELECT count(*), count(next_partition) FROM queen.log_retired_groups JOIN queen.queues USING (log_id) WHERE name = 'groups many';
SELECT count(*) FROM queen.log_cursors LEFT JOIN queen.log_groups g USING (group_id) JOIN queen.log_partitions USING (partition_id) JOIN queen.queues q ON q.log_id = log_partitions.log_id WHERE q.name = 'groups many' AND g.name IS NULL;
SELECT queen.unsubscribe('groups many', 'h');
CALL clean('groups many');
SELECT (SELECT count(*) FROM queen.log_cursors JOIN queen.log_partitions USING (partition_id) JOIN queen.queues USING (log_id) WHERE queues.name = 'groups many') AS cursors,
	(SELECT count(*) FROM queen.log_consumers JOIN queen.log_partitions USING (partition_id) JOIN queen.queues USING (log_id) WHERE queues.name = 'groups many') AS consumers;

-- The last pop, also one that found nothing, is noted when a minute has passed since the one that was noted.
SELECT queen.subscribe('groups active', 'g');
SELECT count(*) FROM queen.pop('groups active', 'g');
SELECT active_at = created_at AS untouched FROM queen.list_groups('groups active');
UPDATE queen.log_groups g SET active_at = g.active_at - interval '59 s' FROM group_ids v WHERE v.queue = 'groups active' AND g.group_id = v.group_id;
SELECT count(*) FROM queen.pop('groups active', 'g');
SELECT active_at < created_at AS untouched FROM queen.list_groups('groups active');
UPDATE queen.log_groups g SET active_at = g.active_at - interval '1 s' FROM group_ids v WHERE v.queue = 'groups active' AND g.group_id = v.group_id;
SELECT count(*) FROM queen.pop('groups active', 'g');
SELECT active_at > created_at AS touched FROM queen.list_groups('groups active');
UPDATE queen.log_groups g SET active_at = g.active_at - interval '1 day' FROM group_ids v WHERE v.queue = 'groups active' AND g.group_id = v.group_id;
SELECT queen.pause('groups active', 'g');
SELECT count(*) FROM queen.pop('groups active', 'g');
SELECT active_at > created_at AS touched, paused FROM queen.list_groups('groups active');

DROP EXTENSION queen_test;
