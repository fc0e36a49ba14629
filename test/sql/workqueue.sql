-- Work queues: what one session sees of them. Two of them: test/specs/iso_work*.spec; rolled back deliveries, which need shared memory: test/t.
\getenv inputdir PG_ABS_SRCDIR
\set topic workqueue
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
SET statement_timeout = '60 s';

-- What is delivered, in order: "message priority attempt"; receipts are kept by message.
CREATE TABLE held (message jsonb, message_id uuid, receipt uuid, visible_until timestamptz, at timestamptz);
CREATE FUNCTION dequeued(queue text, n int DEFAULT 1, visibility interval DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d queen.delivery;
	out text := '';
BEGIN
	FOR d IN SELECT * FROM queen.dequeue(dequeued.queue, n, dequeued.visibility) LOOP
		DELETE FROM held h WHERE h.message_id = d.message_id;
		INSERT INTO held VALUES (d.message, d.message_id, d.receipt, d.visible_until, clock_timestamp());
		out := concat_ws(' | ', nullif(out, ''), format('%s %s %s', d.message, d.priority, d.attempt));
	END LOOP;
	RETURN out;
END
$$;
CREATE FUNCTION acked(which jsonb) RETURNS boolean LANGUAGE sql AS $$ SELECT queen.acknowledge(message_id, receipt) FROM held WHERE message = which $$;
CREATE FUNCTION over(which jsonb) RETURNS boolean LANGUAGE sql AS
	$$ SELECT queen.change_visibility(message_id, receipt, '0') IS NOT NULL FROM held WHERE message = which $$;
CREATE FUNCTION rejected(which jsonb, error text DEFAULT NULL) RETURNS boolean LANGUAGE sql AS
	$$ SELECT queen.reject(message_id, receipt, rejected.error) FROM held WHERE message = which $$;
CREATE FUNCTION counts(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s: %s/%s/%s/%s', priority, ready, in_flight, exhausted, expired), ', ' ORDER BY ordinality)
	FROM queen.count_messages(counts.queue) WITH ORDINALITY
$$;

-- Kinds: each has its own functions, and says which those of the other are.
SELECT queen.create_queue('work jobs', 'work', '{"visibility_timeout": "1 minute", "max_delivery_attempts": 3, "message_ttl": "1 hour", "retry_delay": 0}');
SELECT queen.create_queue('work jobs', 'work');
SELECT queen.create_queue('work log');
SELECT kind, partitions, options FROM queen.list_queues() WHERE queue = 'work jobs';
SELECT attempts(
	$$SELECT queen.create_queue('work jobs')$$,
	$$SELECT queen.create_queue('work log', 'work')$$,
	$$SELECT queen.push('work jobs', '1')$$,
	$$SELECT queen.push_batch('work jobs', '[1]')$$,
	$$SELECT queen.push_bytes('work jobs', '1')$$,
	$$SELECT queen.push('work jobs', '1', delay => '1 s')$$,
	$$SELECT queen.pop('work jobs')$$,
	$$SELECT queen.pop('work jobs', wait => '1 s')$$,
	$$SELECT queen.peek('work jobs')$$,
	$$SELECT queen.subscribe('work jobs', 'g')$$,
	$$SELECT queen.unsubscribe('work jobs', 'g')$$,
	$$SELECT queen.seek('work jobs', 'g', 0)$$,
	$$SELECT queen.seek_to_end('work jobs', 'g')$$,
	$$SELECT queen.list_groups('work jobs')$$,
	$$SELECT queen.lag('work jobs', 'g')$$,
	$$SELECT queen.pause('work jobs', 'g')$$,
	$$SELECT queen.hotlist_candidates('work jobs', 'g', 1)$$,
	$$SELECT queen.enqueue('work log', '1')$$,
	$$SELECT queen.enqueue('work log', '1', delay => '1 s')$$,
	$$SELECT queen.enqueue_batch('work log', '[]')$$,
	$$SELECT queen.dequeue('work log')$$,
	$$SELECT queen.count_messages('work log')$$,
	$$SELECT queen.configure('work jobs', '{"lease_time": 1}')$$,
	$$SELECT queen.configure('work jobs', '{"compression": "none"}')$$,
	$$SELECT queen.configure('work log', '{"message_ttl": 1}')$$);

-- A push whose queue becomes a work queue before its commit fails there.
BEGIN;
SELECT count(queen.push('work late', '1'));
SELECT queen.create_queue('work late', 'work');
COMMIT;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'work late';

-- Options and arguments out of range.
SELECT attempts(
	$$SELECT queen.configure('work jobs', '{"visibility_timeout": 0.9}')$$,
	$$SELECT queen.configure('work jobs', '{"visibility_timeout": "6 h 1 s"}')$$,
	$$SELECT queen.configure('work jobs', '{"max_delivery_attempts": 0}')$$,
	$$SELECT queen.configure('work jobs', '{"max_delivery_attempts": 101}')$$,
	$$SELECT queen.configure('work jobs', '{"message_ttl": "31 days"}')$$,
	$$SELECT queen.configure('work jobs', '{"message_ttl": null, "visibility_timeout": 21600, "max_delivery_attempts": 100}')$$,
	$$SELECT queen.enqueue('work jobs', '1', 'urgent')$$,
	$$SELECT queen.enqueue('work jobs', '1', 'HIGH')$$,
	$$SELECT queen.enqueue('work jobs', '1', '')$$,
	$$SELECT queen.enqueue('work jobs', '1', ttl => '0')$$,
	$$SELECT queen.enqueue('work jobs', '1', ttl => '31 days')$$,
	$$SELECT queen.enqueue('work jobs', '1', headers => '[]')$$,
	$$SELECT queen.enqueue('work jobs', '1', delay => '1 s', deliver_at => now())$$,
	$$SELECT queen.enqueue('work jobs', '1', deliver_at => 'infinity')$$,
	$$SELECT queen.enqueue_batch('work jobs', '{}')$$,
	$$SELECT queen.enqueue_batch('work jobs', '1')$$,
	$$SELECT queen.dequeue('work jobs', 0)$$,
	$$SELECT queen.dequeue('work jobs', 10001)$$,
	$$SELECT queen.dequeue('work jobs', visibility => '0.5 s')$$,
	$$SELECT queen.dequeue('work jobs', visibility => '7 h')$$,
	$$SELECT queen.dequeue('work jobs', wait => '-1 s')$$,
	$$SELECT queen.change_visibility(gen_random_uuid(), gen_random_uuid(), '-1 s')$$,
	$$SELECT queen.change_visibility(gen_random_uuid(), gen_random_uuid(), '7 h')$$,
	$$SELECT queen.acknowledge_batch(ARRAY[gen_random_uuid()], '{}')$$,
	$$SELECT queen.acknowledge_batch(ARRAY[NULL]::uuid[], ARRAY[gen_random_uuid()])$$);
SELECT queen.configure('work jobs', '{"visibility_timeout": "1 minute", "max_delivery_attempts": 3, "message_ttl": "1 hour"}');

-- Priorities, and first in first out within each; a message of the own transaction is there at once.
SELECT count(queen.enqueue('work jobs', to_jsonb(p || n), p)) FROM unnest('{low,high,medium}'::text[]) p, generate_series(1, 2) n;
BEGIN;
SELECT count(queen.enqueue('work jobs', '"own"', 'high', headers => '{"h": 1}'));
SELECT counts('work jobs');
SELECT dequeued('work jobs', 4);
SELECT dequeued('work jobs', 10);
COMMIT;
SELECT counts('work jobs');
SELECT visible_until - at BETWEEN '55 s' AND '60 s' AS a_minute FROM held;
SELECT dequeued('work jobs', 10);
SELECT acked('"own"'), acked('"own"');
SELECT count(*) FROM queen.acknowledge_batch((SELECT array_agg(message_id ORDER BY message_id) FROM held), (SELECT array_agg(receipt ORDER BY message_id) FROM held)) a WHERE a;
SELECT counts('work jobs');
SELECT count(*) FROM queen.messages;
-- in the order of the arguments, a pair that is there twice once
TRUNCATE held;
SELECT count(*) FROM queen.enqueue_batch('work jobs', '["a", "b", "c", null]');
SELECT dequeued('work jobs', 4);
SELECT queen.acknowledge_batch(ARRAY[c.message_id, gen_random_uuid(), a.message_id, c.message_id, b.message_id], ARRAY[c.receipt, a.receipt, a.receipt, c.receipt, a.receipt])
FROM held a, held b, held c WHERE a.message = '"a"' AND b.message = '"b"' AND c.message = '"c"';
SELECT acked('"b"'), acked('null');
-- … also behind a heartbeat in the same transaction; one whose receipt is wrong before is no reason against the right one
TRUNCATE held;
SELECT count(*) FROM queen.enqueue_batch('work jobs', '["d", "e"]');
SELECT dequeued('work jobs', 2);
BEGIN;
SELECT count(queen.change_visibility(message_id, receipt, '1 min')) FROM held;
SELECT queen.acknowledge_batch(ARRAY[d.message_id, e.message_id, d.message_id, e.message_id, d.message_id], ARRAY[d.receipt, d.receipt, d.receipt, e.receipt, d.receipt])
FROM held d, held e WHERE d.message = '"d"' AND e.message = '"e"';
COMMIT;
SELECT queen.acknowledge_batch('{}', '{}');
SELECT count(*) FROM queen.enqueue_batch('work jobs', '[]');

-- A receipt is good once, for its message, in its tenant, as long as nobody else has the message, and in time.
SELECT count(queen.enqueue('work jobs', '"x"')), count(queen.enqueue('work jobs', '"y"'));
SELECT dequeued('work jobs', 2);
SELECT queen.acknowledge(x.message_id, y.receipt), queen.reject(x.message_id, y.receipt), queen.change_visibility(x.message_id, y.receipt, '1 s')
FROM held x, held y WHERE x.message = '"x"' AND y.message = '"y"';
SET queen.tenant = '00000000-0000-0000-0000-000000000001';
SELECT acked('"x"'), rejected('"x"'), over('"x"');
RESET queen.tenant;
SELECT over('"x"'), acked('"x"'), over('"x"'), rejected('"x"');
CREATE TABLE stale AS SELECT * FROM held WHERE message = '"x"';
SELECT dequeued('work jobs', 2);
SELECT queen.acknowledge(message_id, receipt), queen.reject(message_id, receipt), queen.change_visibility(message_id, receipt, '1 s') FROM stale;
SELECT acked('"x"'), acked('"y"'), acked('"y"');

-- One whose visibility is over comes before those that were never delivered, of its priority.
SELECT count(queen.enqueue('work jobs', '"1"')), count(queen.enqueue('work jobs', '"2"')), count(queen.enqueue('work jobs', '"3"', 'high'));
SELECT dequeued('work jobs', 2);
SELECT over('"1"'), over('"3"');
SELECT dequeued('work jobs', 10);
SELECT queen.change_visibility(message_id, receipt, '2 h') BETWEEN clock_timestamp() + '119 minutes' AND clock_timestamp() + '121 minutes' FROM held WHERE message = '"2"';
-- 3 is in its last delivery after this, and so the only one of its call
SELECT over('"1"'), over('"3"');
SELECT dequeued('work jobs', 10);
SELECT dequeued('work jobs', 10);
SELECT dequeued('work jobs', 10);
-- given up, and not in the way of what can be taken
SELECT over('"1"'), over('"3"');
SELECT count(queen.enqueue('work jobs', '"4"', 'low'));
SELECT counts('work jobs');
SELECT dequeued('work jobs', 10);
SELECT message, priority, attempts, error, consumer_group, partition, msg_offset FROM queen.list_dead('work jobs');

-- … a hundred by a call, or as many as it may deliver.
SELECT queen.create_queue('work many', 'work', '{"max_delivery_attempts": 1}');
SELECT count(*) FROM queen.enqueue_batch('work many', (SELECT jsonb_agg(n) FROM generate_series(1, 500) n));
SELECT count(queen.change_visibility(message_id, receipt, '0')) FROM queen.dequeue('work many', 500);
SELECT count(queen.enqueue('work many', '"live"'));
SELECT dequeued('work many', 10);
SELECT exhausted FROM queen.count_messages('work many') WHERE priority = 'medium';
SELECT dequeued('work many', 250);
SELECT exhausted FROM queen.count_messages('work many') WHERE priority = 'medium';

-- Rejected: again after the delay, which is 0 here, or given up; with the error.
SELECT rejected('"4"', 'first'), rejected('"4"', 'again');
SELECT dequeued('work jobs', 10);
SELECT last_error, receipt IS NULL FROM queen.messages WHERE message = '"4"';
SELECT rejected('"4"');
SELECT dequeued('work jobs', 10), rejected('"4"', 'third');
SELECT message, attempts, error FROM queen.list_dead('work jobs') WHERE message = '"4"';
SELECT queen.configure('work jobs', '{"retry_delay": "1 h"}') ->> 'retry_delay';
SELECT rejected('"2"');
SELECT visible_at > clock_timestamp() + '59 minutes' AS later FROM queen.messages WHERE message = '"2"';
SELECT dequeued('work jobs', 10), counts('work jobs');

-- What has to come alone is passed by ten times at most, also by what has a higher priority: then a call begins with it.
CREATE FUNCTION rounds(queue text, n int) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM queen.enqueue(queue, to_jsonb(i), 'high');
		RETURN NEXT dequeued(queue, 10);
	END LOOP;
END
$$;
SELECT queen.create_queue('work alone', 'work', '{"max_delivery_attempts": 2}');
SELECT count(queen.enqueue('work alone', '"last"'));
SELECT dequeued('work alone'), over('"last"');
SELECT rounds('work alone', 12);

-- Dead letters go back with their priority, as new messages.
SELECT place FROM queen.list_dead('work jobs') d, queen.find('work jobs', d.message_id) WHERE message = '"3"';
SELECT queen.redrive('work jobs');
SELECT count(*) FROM queen.list_dead('work jobs');
SELECT message, headers -> 'queen_redriven' ? 'message_id' AS redriven, priority, attempt FROM queen.dequeue('work jobs', 10);
SELECT count(*) FROM queen.messages m, queen.find('work jobs', m.message_id) f WHERE f.place = 'work';
SELECT queen.redrive('work jobs');

-- Paused: nothing is delivered, all else goes on.
SELECT queen.pause('work jobs'), queen.pause('work jobs');
SELECT count(queen.enqueue('work jobs', '"p"'));
SELECT dequeued('work jobs', 10);
SELECT queen.resume('work jobs');
SELECT dequeued('work jobs', 10), acked('"p"');

-- Expired: not delivered, and deleted, one that is in flight not before its visibility ends.
SELECT count(*) FROM queen.enqueue_batch('work expiry', '["short", "held"]', ttl => '1 s');
SELECT count(queen.enqueue('work expiry', '"long"', ttl => '1 h'));
SELECT count(queen.change_visibility(message_id, receipt, '0')) FROM queen.dequeue('work expiry', 1);
SELECT dequeued('work expiry', 1), dequeued('work expiry', 1);
SELECT over('"short"');
SELECT pg_sleep(1.1);
SELECT counts('work expiry');
SELECT dequeued('work expiry', 10), acked('"long"');
CALL queen.maintain();
SELECT message FROM queen.messages JOIN queen.queues USING (log_id) WHERE name = 'work expiry';
SELECT acked('"held"');

-- Timers: the queue is born as a work queue where a priority is given; a partition is for logs.
SELECT count(queen.enqueue('work timers', '"e"', 'low', '1 h', '{"h": 2}', delay => '0'));
SELECT s.verdict, t.verdict FROM queen.schedule('work timers', 'k', '"s"', delay => '0', priority => 'high') s, queen.schedule('work timers', 't', '"t"', delay => '0', ttl => '2 h') t;
SELECT f.place, f.partition FROM queen.log_timers t, queen.find('work timers', t.message_id) f WHERE timer_key = 'k';
SELECT queen.fire_timers();
SELECT verdict FROM queen.schedule('work timers', 'n', '"n"', delay => '0');
SELECT queen.fire_timers();
SELECT message, priority, headers, expires_at - enqueued_at AS ttl FROM queen.dequeue('work timers', 10);
SELECT attempts(
	$$SELECT queen.schedule('work timers', 'p', '1', delay => '0', partition => 'p')$$,
	$$SELECT queen.schedule('work timers', 'p', '1', delay => '0', partition => 'p', priority => 'low')$$,
	$$SELECT queen.schedule('work timers', 'p', '1', delay => '0', priority => 'none')$$,
	$$SELECT queen.schedule('work timers', 'p', '1', delay => '0', ttl => '0')$$,
	$$SELECT queen.schedule('work log', 'p', '1', delay => '0', ttl => '1 h')$$);
-- a rule's messages, too
SELECT verdict FROM queen.schedule_cron('work timers', 'r', '@every 1s', '"cron"');
SELECT pg_sleep(1.1);
SELECT queen.fire_timers() > 0;
SELECT DISTINCT message, priority, headers ? 'queen_cron' AS of_rule FROM queen.dequeue('work timers', 10);
SELECT queen.unschedule_cron('work timers', 'r');

-- Dead timers that were meant for a work queue: the redrive that makes their queue makes such a one.
SET queen.auto_create = off;
SET client_min_messages = error;
SELECT a.verdict, b.verdict FROM queen.schedule('work unborn', 'a', '"a"', delay => '0') a, queen.schedule('work unborn', 'b', '"b"', delay => '0', priority => 'high') b;
DO $$
BEGIN
	FOR i IN 1 .. 5 LOOP
		PERFORM queen.fire_timers();
		UPDATE queen.log_timers SET retry_at = deliver_at WHERE queue = 'work unborn';
	END LOOP;
END
$$;
RESET client_min_messages;
SELECT message, priority, timer_key FROM queen.list_dead('work unborn');
SELECT attempts($$SELECT queen.redrive('work unborn')$$);
RESET queen.auto_create;
SELECT queen.redrive('work unborn');
SELECT message, priority, headers -> 'queen_redriven' ->> 'timer_key' AS timer_key FROM queen.dequeue('work unborn', 10);

-- A queue that is of the other kind when they fire: one that was meant for a partition, or has a priority, is dead in the end.
SET client_min_messages = error;
SELECT a.verdict, b.verdict FROM queen.schedule('work kinds', 'a', '"a"', delay => '0', partition => 'p') a, queen.schedule('work kinds', 'b', '"b"', delay => '0') b;
SELECT c.verdict FROM queen.schedule('log kinds', 'c', '"c"', delay => '0', priority => 'high') c;
SELECT queen.create_queue('work kinds', 'work') IS NOT NULL, queen.create_queue('log kinds') IS NOT NULL;
DO $$
BEGIN
	FOR i IN 1 .. 5 LOOP
		PERFORM queen.fire_timers();
		UPDATE queen.log_timers SET retry_at = deliver_at WHERE queue IN ('work kinds', 'log kinds');
		COMMIT;
	END LOOP;
END
$$;
RESET client_min_messages;
SELECT message, partition, timer_key, error FROM queen.list_dead('work kinds');
SELECT message, priority, timer_key, error FROM queen.list_dead('log kinds');
SELECT message, priority FROM queen.dequeue('work kinds', 10);

-- Purged and dropped: out of sight at once, receipts are no good, and the rows go later.
SELECT count(*) FROM queen.enqueue_batch('work drop', '["a", "b"]');
SELECT dequeued('work drop');
SELECT queen.purge_queue('work drop');
SELECT acked('"a"'), counts('work drop'), dequeued('work drop');
SELECT count(queen.enqueue('work drop', '"c"'));
SELECT dequeued('work drop', 10);
SELECT queen.drop_queue('work drop');
SELECT acked('"c"'), dequeued('work drop', 10);
SELECT count(*) FROM queen.messages m WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = m.log_id);
CALL queen.maintain();
SELECT count(*) FROM queen.messages m WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = m.log_id);
-- what a transaction has put there before goes along, what it puts there afterwards is a new queue's
BEGIN;
SELECT count(queen.enqueue('work drop', '"before"'));
SELECT queen.drop_queue('work drop');
SELECT count(queen.enqueue('work drop', '"after"'));
COMMIT;
SELECT dequeued('work drop', 10);

-- Rolled back to a savepoint: never there, or there again.
BEGIN;
SAVEPOINT s;
SELECT count(queen.enqueue('work back', '"never"'));
ROLLBACK TO s;
SELECT count(queen.enqueue('work back', '"there"'));
SAVEPOINT t;
SELECT dequeued('work back', 10);
ROLLBACK TO t;
-- preloaded, it counts that delivery
SELECT dequeued('work back', 10) LIKE '"there" medium %' AS there;
COMMIT;
SELECT counts('work back'), acked('"there"');

-- auto_create
SET queen.auto_create = off;
SELECT attempts($$SELECT queen.enqueue('work none', '1')$$, $$SELECT queen.dequeue('work none')$$);
RESET queen.auto_create;

-- Isolation levels, and two phases.
SELECT count(queen.enqueue('work back', '"i"'));
SELECT dequeued('work back');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(queen.enqueue('work back', '"j"')), acked('"i"');
SELECT attempt($$SELECT queen.dequeue('work back')$$);
COMMIT;
BEGIN;
SELECT count(queen.enqueue('work back', '"k"'));
PREPARE TRANSACTION 'work';
SELECT dequeued('work back', 10), acked('"j"');

-- A message of some megabytes, and one of many kilobytes that is taken again and again.
SELECT count(queen.enqueue('work back', to_jsonb(repeat(md5('x'), 100000)), headers => jsonb_build_object('h', repeat('h', 100000))));
SELECT length(message #>> '{}'), length(headers ->> 'h') FROM queen.dequeue('work back');
SELECT count(queen.change_visibility(message_id, receipt, '0')), max(length(m.message #>> '{}'))
FROM queen.messages m JOIN queen.queues q USING (log_id) WHERE q.name = 'work back';
SELECT length(message #>> '{}'), queen.acknowledge(message_id, receipt) FROM queen.dequeue('work back');

-- All of it is as the table's checks say, which direct writes do not ask.
SELECT item, object, problem FROM queen.verify() WHERE item LIKE 'message%';
