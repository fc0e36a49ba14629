-- What has happened to queues is counted when it is committed. The same on a server where queen is not preloaded, which counts nothing: events.out;
-- events_1.out is of one that has it. Under load: test/t/063_events.pl.
\getenv inputdir PG_ABS_SRCDIR
\set topic events
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
SET statement_timeout = '60 s';

SELECT count(*) AS rows, bool_and(used <= places AND since <= now()) AS sane FROM queen.pg_stat_queen_events;

-- Of queues of a name that begins so: group or priority, and what was counted.
CREATE FUNCTION counted(prefix text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s %s: %s', q.name, coalesce('group ' || g.name, e.priority, 'log'),
		(SELECT string_agg(replace(c.key, '_', ' ') || ' ' || c.value, ', ' ORDER BY c.n)
			FROM (VALUES (1, 'added', e.added), (2, 'bytes', e.added_bytes), (3, 'delivered', e.delivered), (4, 'redelivered', e.redelivered), (5, 'completed', e.completed),
				(6, 'rejected', e.rejected), (7, 'dead', e.dead), (8, 'expired', e.expired)) c(n, key, value) WHERE c.value <> 0))
	FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) LEFT JOIN queen.log_groups g USING (group_id)
	WHERE starts_with(q.name, prefix) ORDER BY q.name COLLATE "C", q.tenant, g.name COLLATE "C" NULLS FIRST, e.priority COLLATE "C"
$$;

-- A log: what a group does counts for its queue as well.
SELECT queen.create_queue('events log', 'log', '{"retry_delay": 0, "max_deliveries": 2}');
SELECT count(queen.push('events log', '"123456789"')) FROM generate_series(1, 3);
SELECT count(queen.push_bytes('events log', '\x00112233', headers => '{}'));
SELECT count(*) FROM queen.push_batch('events log', '[1, 2, 3, 4, 5]');
SELECT counted('events log');
SELECT lease AS lease1, count(*) FROM queen.pop('events log', 'a', 4) GROUP BY lease \gset
SELECT :count AS popped, queen.ack(:'lease1', 1) AS acked, queen.ack(:'lease1', 1) AS again;
SELECT counted('events log');
-- what lies below is completed, the one that fails is not; it comes again, and is given up
SELECT queen.nack(:'lease1', 3);
SELECT counted('events log');
SELECT lease AS lease1 FROM queen.pop('events log', 'a', 4) \gset
SELECT queen.nack(:'lease1');
SELECT counted('events log');
-- another group, without leases
SELECT count(*) FROM queen.pop('events log', 'b', 100, auto_ack => true);
SELECT counted('events log');
-- what is given back was delivered; the head that comes again is none that was
SELECT lease AS lease1 FROM queen.pop('events log', 'a', 4) LIMIT 1 \gset
SELECT queen.release(:'lease1');
SELECT lease AS lease1 FROM queen.pop('events log', 'a', 4) LIMIT 1 \gset
SELECT queen.ack_all(ARRAY[:'lease1'::uuid]);
SELECT counted('events log');
-- what is dropped as a duplicate was not pushed
SELECT count(DISTINCT queen.push('events log', '6', dedup_key => 'k')) FROM generate_series(1, 3);
SELECT counted('events log') LIMIT 1;
-- what comes out of the dead letters is pushed
SELECT queen.redrive('events log');
SELECT counted('events log') LIMIT 1;

-- A work queue: by priority.
SELECT queen.create_queue('events work', 'work', '{"retry_delay": 0, "max_delivery_attempts": 2}');
SELECT count(queen.enqueue('events work', '"123456789"', priority, headers => '{}')) FROM (VALUES ('high'), ('medium'), ('low')) p(priority);
SELECT count(*) FROM queen.enqueue_batch('events work', '[1, 2, 3]', 'low');
CREATE TABLE held AS SELECT message_id, receipt FROM queen.dequeue('events work', 3);
SELECT counted('events work');
SELECT count(*) FILTER (WHERE queen.acknowledge(message_id, receipt)) FROM (SELECT * FROM held LIMIT 1) h;
-- who holds none counts for nothing
SELECT count(*) FILTER (WHERE queen.acknowledge(message_id, gen_random_uuid())) FROM held;
SELECT count(*) FILTER (WHERE queen.reject(message_id, receipt)) FROM held;
SELECT counted('events work');
-- the last deliveries, each alone
SELECT count(*) FILTER (WHERE queen.reject(message_id, receipt)) FROM queen.dequeue('events work', 3);
SELECT count(*) FILTER (WHERE queen.acknowledge(message_id, receipt)) FROM queen.dequeue('events work', 1);
SELECT counted('events work');
-- given up by who meets it
SELECT queen.configure('events work', '{"max_delivery_attempts": 1}') IS NOT NULL;
SELECT count(queen.change_visibility(message_id, receipt, '0')) FROM queen.dequeue('events work', 1);
SELECT count(*) FROM queen.dequeue('events work', 1);
SELECT counted('events work');
-- a batch of acknowledgements
SELECT queen.configure('events work', '{"max_delivery_attempts": null}') IS NOT NULL;
SELECT count(*) FROM queen.enqueue_batch('events work', '[1, 2, 3]', 'high');
SELECT count(*) FROM (SELECT queen.acknowledge_batch(array_agg(message_id), array_agg(receipt)) FROM queen.dequeue('events work', 3)) a;
SELECT counted('events work');
-- what expires
UPDATE queen.messages SET enqueued_at = now() - interval '2 s', expires_at = now() - interval '1 s' WHERE log_id = (SELECT log_id FROM queen.queues WHERE name = 'events work');
CALL queen.maintain();
SELECT counted('events work');

-- What is rolled back is not counted, to a savepoint either.
SELECT queen.create_queue('events sub'), queen.create_queue('events sub work', 'work');
BEGIN;
SELECT count(queen.push('events sub', '1')), count(queen.enqueue('events sub work', '1'));
ROLLBACK;
SELECT counted('events sub');
BEGIN;
SELECT count(queen.enqueue('events sub work', '1', 'high'));
SAVEPOINT a;
SELECT count(queen.enqueue('events sub work', '1', 'high')), count(queen.enqueue('events sub work', '1', 'low'));
SAVEPOINT b;
SELECT count(queen.enqueue('events sub work', '1', 'high'));
RELEASE b;
ROLLBACK TO a;
SAVEPOINT c;
SELECT count(queen.enqueue('events sub work', '1', 'high')), count(queen.push('events sub', '1'));
RELEASE c;
SELECT count(queen.push('events sub', '1'));
SAVEPOINT d;
SELECT count(queen.push('events sub', '1'));
ROLLBACK TO d;
SELECT counted('events sub') AS before_the_commit;
COMMIT;
SELECT counted('events sub');
BEGIN;
SELECT count(*) FROM queen.pop('events sub', 'g', 1);
SAVEPOINT a;
SELECT count(*) FROM queen.dequeue('events sub work', 10);
ROLLBACK TO a;
COMMIT;
SELECT counted('events sub');
-- many savepoints, each released, of many queues: what a commit counts is all of it
SELECT count(queen.create_queue('events many ' || i, 'work')) FROM generate_series(1, 60) i;
DO $$
BEGIN
	FOR i IN 0 .. 2999 LOOP
		BEGIN
			PERFORM queen.enqueue('events many ' || (1 + i % 60), '1', 'low');
			IF i % 10 = 9 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
SELECT sum(added), min(added), max(added) FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) WHERE starts_with(name, 'events many');
SELECT count(*) FROM queen.messages m JOIN queen.queues q USING (log_id) WHERE starts_with(name, 'events many');

-- A timer counts for the queue that it enters, when it does.
SELECT queen.create_queue('events later'), queen.create_queue('events later work', 'work');
SELECT queen.schedule('events later', 'k', '1', delay => '0') IS NOT NULL, queen.schedule('events later work', 'k', '1', delay => '0', priority => 'high') IS NOT NULL;
SELECT counted('events later');
SELECT queen.fire_timers() >= 2;
SELECT counted('events later');

-- A purge leaves counts as they are, those of groups too, which have other ids then; a drop forgets them, a new queue of that name begins at nothing.
SELECT counted('events log') AS before_the_purge;
SELECT queen.purge_queue('events log'), queen.purge_queue('events work');
SELECT counted('events log') UNION ALL SELECT counted('events work');
BEGIN;
SELECT queen.purge_queue('events log');
ROLLBACK;
SELECT counted('events log') OFFSET 1;
SELECT queen.unsubscribe('events log', 'b');
SELECT counted('events log') OFFSET 1;
SELECT array_agg(queue_id) AS ids FROM queen.queues WHERE name IN ('events log', 'events work') \gset
BEGIN;
SELECT queen.drop_queue('events log'), queen.drop_queue('events work');
ROLLBACK;
SELECT count(*) > 0 FROM queen.stat_events() WHERE queue_id = ANY (:'ids');
SELECT queen.drop_queue('events log'), queen.drop_queue('events work');
SELECT count(*) FROM queen.stat_events() WHERE queue_id = ANY (:'ids');

-- Reset: of one queue, of all. At once: a rollback takes nothing back.
SELECT queen.reset_state_stats('events nowhere');
BEGIN;
SELECT queen.reset_state_stats('events sub') >= now() AS answered;
ROLLBACK;
SELECT counted('events sub');
SELECT bool_and(stats_reset >= now() - interval '1 h') FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) WHERE q.name = 'events sub';
SELECT coalesce(queen.reset_state_stats(), now()) AS at \gset
SELECT counted('events sub');
SELECT bool_and(stats_reset = :'at') FROM queen.stat_events() e JOIN queen.queues q USING (queue_id) WHERE starts_with(q.name, 'events sub');
SELECT count(queen.push('events sub', '1'));
SELECT counted('events sub');

-- The views show it beside the state that was collected: zeros of what nothing was counted of, null where nothing counts.
SELECT queen.collect() IS NOT NULL AS collected;
SELECT kind, priority, added, added_bytes, delivered, redelivered, completed, rejected, dead_lettered, expirations, stats_reset <= now() AS since
FROM queen.pg_stat_queen_queues WHERE queue IN ('events sub', 'events later work') ORDER BY queue, priority;
SELECT consumer_group, delivered, redelivered, completed, rejected, dead_lettered, stats_reset <= now() AS since FROM queen.pg_stat_queen_groups WHERE queue = 'events sub';
SELECT count(*) > 0 AS and_all_priorities FROM queen.pg_stat_queen_queues HAVING count(*) FILTER (WHERE kind = 'work') % 3 = 0;

-- Another tenant's queue of the same name is another one.
SET queen.tenant = '00000000-0000-0000-0000-00000000e0e0';
SELECT queen.create_queue('events sub');
SELECT count(queen.push('events sub', '1')) FROM generate_series(1, 2);
SELECT queen.reset_state_stats('events sub') IS NOT NULL AS answered;
RESET queen.tenant;
SELECT counted('events sub');
