-- Counts of work queues' messages: whatever changes a message, they agree with the messages. Two sessions: test/specs/iso_rollup.spec.
\getenv inputdir PG_ABS_SRCDIR
\set topic rollup
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
SET statement_timeout = '60 s';

-- "priority: ready/in flight" of a queue, and in how many rows; whether a recount says the same, of all queues.
CREATE FUNCTION counted(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(format('%s: %s/%s', priority, ready, in_flight), ', ' ORDER BY priority DESC), 'none') || ' in ' || coalesce(sum(n), 0)
		|| CASE WHEN EXISTS (SELECT FROM queen.rollup_drift()) THEN ', wrong' ELSE '' END
	FROM (SELECT s.priority, sum(s.ready_count) AS ready, sum(s.in_flight_count) AS in_flight, count(*) AS n
		FROM queen.queue_priority_state_shard s JOIN queen.queues q USING (log_id) WHERE q.name = counted.queue GROUP BY s.priority) p
$$;
CREATE FUNCTION drift() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s priority %s shard %s: %s/%s', q.name, d.priority, d.shard, d.ready, d.in_flight)
	FROM queen.rollup_drift() d LEFT JOIN queen.queues q USING (log_id) ORDER BY 1
$$;
CREATE TABLE held (message jsonb, message_id uuid, receipt uuid);
CREATE FUNCTION dequeued(queue text, n int DEFAULT 1) RETURNS bigint LANGUAGE sql AS $$
	WITH d AS (INSERT INTO held SELECT message, message_id, receipt FROM queen.dequeue(dequeued.queue, n) RETURNING 1) SELECT count(*) FROM d
$$;
CREATE FUNCTION acked(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE gone bigint;
BEGIN
	WITH h AS (DELETE FROM held WHERE message_id IN (SELECT message_id FROM held LIMIT n) RETURNING message_id, receipt)
	SELECT count(*) FILTER (WHERE queen.acknowledge(message_id, receipt)) INTO gone FROM h;
	RETURN gone;
END $$;
-- as SQL writes them: a row that the checks let in
CREATE FUNCTION rows_of(queue text, n int, priority int DEFAULT 2, shard int DEFAULT 0) RETURNS SETOF queen.messages LANGUAGE sql AS $$
	SELECT gen_random_uuid(), q.log_id, -i, now(), now() + interval '1 day', NULL::timestamptz, NULL::timestamptz, NULL::uuid, rows_of.priority::smallint, rows_of.shard::smallint,
		0::smallint, 'READY', '1'::jsonb, NULL::bytea, NULL::jsonb, NULL::text
	FROM queen.queues q, generate_series(1, n) i WHERE q.name = rows_of.queue
$$;
SELECT queen.create_queue(name, 'work', '{"retry_delay": 0, "max_delivery_attempts": 2}') FROM (VALUES ('rollup q'), ('rollup r')) names(name);
SELECT counted('rollup q');
SELECT log_id FROM queen.queues WHERE name = 'rollup q' \gset

-- The functions.
SELECT count(queen.enqueue('rollup q', '1', priority)) FROM (VALUES ('high'), ('medium'), ('low')) p(priority);
SELECT count(*) FROM queen.enqueue_batch('rollup q', jsonb_path_query_array('[1,2,3,4,5,6,7,8,9,10]', '$[*]'));
SELECT counted('rollup q');
SELECT dequeued('rollup q', 5);
SELECT counted('rollup q');
SELECT acked(2), counted('rollup q');
SELECT counted('rollup q');
-- a receipt that is held longer, a rejection, and a second delivery move nothing …
SELECT count(queen.change_visibility(message_id, receipt, '1 h')) FROM held;
SELECT bool_and(queen.reject(message_id, receipt)) FROM held;
DELETE FROM held;
SELECT changes AS before FROM queen.queue_priority_state_shard s JOIN queen.queues q USING (log_id) WHERE q.name = 'rollup q' AND priority = 2 \gset
SELECT dequeued('rollup q');
SELECT changes - :before AS changes, counted('rollup q') FROM queen.queue_priority_state_shard s JOIN queen.queues q USING (log_id) WHERE q.name = 'rollup q' AND priority = 2;
-- … and the last one is a burial
SELECT bool_and(queen.reject(message_id, receipt)) FROM held;
DELETE FROM held;
SELECT counted('rollup q'), count(*) FROM queen.dead_letters WHERE queue = 'rollup q' GROUP BY 1;
SELECT queen.redrive('rollup q'), counted('rollup q');
SELECT counted('rollup q');

-- A transaction that takes what it has put: nothing is written of what comes to nothing.
BEGIN;
SELECT count(*) FROM queen.enqueue_batch('rollup r', '[1,2,3]');
SELECT dequeued('rollup r', 3), acked(3);
SELECT counted('rollup r');
COMMIT;
SELECT counted('rollup r');

-- Savepoints: rolled back, released, and one in another.
BEGIN;
SELECT count(queen.enqueue('rollup r', '"out"'));
SAVEPOINT a;
SELECT count(*) FROM queen.enqueue_batch('rollup r', '[1,2]');
SAVEPOINT b;
SELECT count(*) FROM queen.enqueue_batch('rollup r', '[1,2,3,4]', 'high');
RELEASE b;
SELECT counted('rollup r');
ROLLBACK TO a;
SELECT count(*) FROM queen.enqueue_batch('rollup r', '[1,2]', 'low');
SAVEPOINT c;
SELECT dequeued('rollup r', 2);
RELEASE c;
SELECT counted('rollup r');
COMMIT;
SELECT counted('rollup r');
BEGIN;
SELECT acked(1);
ROLLBACK;
SELECT counted('rollup r');
SELECT acked(10);
SELECT counted('rollup r');
-- more of them than are looked at, with the same shards in each
DO $$
BEGIN
	FOR i IN 1 .. 500 LOOP
		BEGIN
			PERFORM queen.enqueue('rollup r', to_jsonb(i), CASE i % 3 WHEN 0 THEN 'high' WHEN 1 THEN 'medium' ELSE 'low' END);
			IF i % 5 = 0 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END $$;
SELECT counted('rollup r');
DELETE FROM queen.messages m USING queen.queues q WHERE q.log_id = m.log_id AND q.name = 'rollup r';
SELECT counted('rollup r');

-- SQL: rows of several shards by one statement …
INSERT INTO queen.messages SELECT * FROM rows_of('rollup r', 3) UNION ALL SELECT * FROM rows_of('rollup r', 4, 3, 31) UNION ALL SELECT * FROM rows_of('rollup q', 2, 1, 5);
SELECT counted('rollup r'), counted('rollup q');
-- … that moves states, priorities, shards, and queues …
UPDATE queen.messages m SET state = 'IN_FLIGHT', visible_at = now(), delivered_at = now(), delivery_attempts = 1 FROM queen.queues q
WHERE q.log_id = m.log_id AND q.name = 'rollup r' AND priority = 3;
SELECT counted('rollup r');
UPDATE queen.messages m SET priority = 1, shard = 7 FROM queen.queues q WHERE q.log_id = m.log_id AND q.name = 'rollup r';
SELECT counted('rollup r');
UPDATE queen.messages m SET log_id = r.log_id FROM queen.queues q, queen.queues r
WHERE q.log_id = m.log_id AND q.name = 'rollup q' AND r.name = 'rollup r' AND m.shard = 5;
SELECT counted('rollup r'), counted('rollup q');
-- … or nothing that is counted, in as many shards as there are
INSERT INTO queen.messages SELECT m.* FROM generate_series(1, 3) p, generate_series(0, 31) s, rows_of('rollup q', 3, p, s) m;
SELECT counted('rollup q');
SELECT sum(changes) AS before FROM queen.queue_priority_state_shard \gset
UPDATE queen.messages SET headers = '{}';
SELECT sum(changes) - :before AS changes, counted('rollup q') FROM queen.queue_priority_state_shard;
-- COPY, MERGE's parts by a CTE, and DELETE in a savepoint
CREATE TABLE kept AS SELECT * FROM queen.messages WHERE shard = 31;
DELETE FROM queen.messages WHERE shard = 31;
SELECT counted('rollup q');
WITH back AS (INSERT INTO queen.messages SELECT * FROM kept RETURNING message_id), moved AS (DELETE FROM queen.messages WHERE shard = 30 RETURNING 1)
SELECT (SELECT count(*) FROM back), (SELECT count(*) FROM moved);
SELECT counted('rollup q');
CREATE FUNCTION copied(queue text, n int, shard int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE data text;
BEGIN
	SELECT string_agg(concat_ws(E'\t', m.message_id, m.log_id, m.enqueue_order, m.enqueued_at, m.expires_at, m.priority, m.shard, 0, 'READY', '1'), E'\n')
	INTO data FROM rows_of(queue, n, 2, shard) m;
	EXECUTE format('COPY queen.messages (message_id, log_id, enqueue_order, enqueued_at, expires_at, priority, shard, delivery_attempts, state, message) FROM PROGRAM %L',
		E'cat <<rows\n' || data || E'\nrows');
END $$;
SELECT copied('rollup q', 5, 9);
SELECT counted('rollup q');
BEGIN;
SAVEPOINT s;
DELETE FROM queen.messages;
ROLLBACK TO s;
COMMIT;
SELECT counted('rollup q');

-- TRUNCATE: with what the transaction has done before, and behind it; rolled back.
BEGIN;
SELECT count(queen.enqueue('rollup q', '1', 'high'));
SAVEPOINT s;
DELETE FROM queen.messages WHERE shard = 3;
TRUNCATE queen.messages;
SELECT drift();
ROLLBACK TO s;
SELECT drift();
COMMIT;
SELECT counted('rollup q');
BEGIN;
SELECT count(queen.enqueue('rollup q', '1', 'high'));
TRUNCATE queen.messages;
SELECT count(queen.enqueue('rollup q', '1', 'low'));
COMMIT;
SELECT counted('rollup q'), counted('rollup r');

-- A session that applies what comes from elsewhere: each change is counted once.
SET session_replication_role = replica;
INSERT INTO queen.messages SELECT * FROM rows_of('rollup r', 3);
UPDATE queen.messages SET shard = 4 WHERE shard = 0 AND priority = 2;
SELECT copied('rollup r', 2, 4);
SELECT counted('rollup r');
DELETE FROM queen.messages WHERE message_id IN (SELECT message_id FROM queen.messages WHERE shard = 4 LIMIT 1);
SELECT counted('rollup r');
BEGIN;
TRUNCATE queen.messages;
COMMIT;
RESET session_replication_role;
SELECT counted('rollup r'), counted('rollup q');

-- Drift: a count that would fall below zero fails the commit, until it is mended. Nothing is clamped.
SELECT count(*) FROM queen.enqueue_batch('rollup q', '[1,2,3]');
SET session_replication_role = replica;
ALTER TABLE queen.messages DISABLE TRIGGER counted_row;
INSERT INTO queen.messages SELECT * FROM rows_of('rollup q', 2);
ALTER TABLE queen.messages ENABLE REPLICA TRIGGER counted_row;
RESET session_replication_role;
SELECT drift();
SELECT object LIKE 'log % priority 2, shard 0' AS object, problem, repaired FROM queen.verify() WHERE item = 'counts';
SELECT dequeued('rollup q', 3);
\set VERBOSITY sqlstate
SELECT dequeued('rollup q', 2);
\set VERBOSITY default
BEGIN;
DELETE FROM queen.messages m USING queen.queues q WHERE q.log_id = m.log_id AND q.name = 'rollup q' AND state = 'READY';
COMMIT;
SELECT counted('rollup q');
-- mended by who has notes of its own, and then goes back
BEGIN;
SELECT count(queen.enqueue('rollup q', '4'));
SAVEPOINT s;
SELECT queen.rollup_rebuild('rollup q'), queen.rollup_rebuild('rollup q');
SELECT drift();
ROLLBACK TO s;
SELECT drift();
SELECT queen.rollup_rebuild();
COMMIT;
SELECT counted('rollup q');
-- what has a delivery that rolled back comes alone, where that is counted
SELECT sum(dequeued('rollup q', 10)) FROM generate_series(1, 3);
SELECT counted('rollup q');
-- the other way: counts of messages that are not there, and rows that are gone
UPDATE queen.queue_priority_state_shard SET ready_count = ready_count + 5 WHERE log_id = :log_id AND shard = 0 AND priority = 2;
SELECT drift();
SELECT item, problem, repaired FROM queen.verify(repair => true) WHERE item = 'counts';
SELECT counted('rollup q');
-- each call mends anew what was damaged behind the last, or went back with it: behind COMMIT …
CREATE PROCEDURE damage() LANGUAGE sql AS $$ UPDATE queen.queue_priority_state_shard s SET ready_count = ready_count + 5 FROM queen.queues q
	WHERE q.log_id = s.log_id AND q.name = 'rollup q' AND s.priority = 2 AND s.shard = 0 $$;
CREATE FUNCTION mended() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(problem || ' ' || repaired, ', ') FROM queen.verify(true) WHERE item = 'counts' $$;
DO $$ BEGIN FOR i IN 1 .. 3 LOOP CALL damage(); COMMIT; RAISE NOTICE '%', mended(); COMMIT; END LOOP; END $$;
SELECT drift();
-- … ROLLBACK …
CALL damage();
DO $$ BEGIN RAISE NOTICE '%', mended(); ROLLBACK; RAISE NOTICE '%', mended(); END $$;
SELECT drift();
-- … and the end of a subtransaction; also where one expression is evaluated again
CALL damage();
DO $$
BEGIN
	BEGIN
		RAISE NOTICE '%', mended();
		RAISE EXCEPTION 'back';
	EXCEPTION WHEN raise_exception THEN
	END;
	RAISE NOTICE '%', mended();
END $$;
SELECT drift();
DO $$
DECLARE
	log bigint := (SELECT log_id FROM queen.queues WHERE name = 'rollup q');
	is_queues boolean;
BEGIN
	FOR i IN 1 .. 3 LOOP
		CALL damage();
		is_queues := queen.rollup_mend(log);
	END LOOP;
END $$;
SELECT drift();
CALL damage();
DO $$
DECLARE
	log bigint := (SELECT log_id FROM queen.queues WHERE name = 'rollup q');
	is_queues boolean;
BEGIN
	FOR i IN 1 .. 2 LOOP
		BEGIN
			is_queues := queen.rollup_mend(log);
			IF i = 1 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END $$;
SELECT drift();
DELETE FROM queen.queue_priority_state_shard WHERE log_id = :log_id AND priority = 3;
DELETE FROM queen.queue_priority_shards WHERE log_id = :log_id AND priority = 3;
SELECT count(queen.enqueue('rollup q', '1', 'high'));
SELECT counted('rollup q');
-- … or half gone: what is changed next begins at nothing, and is mended
DELETE FROM queen.queue_priority_state_shard WHERE log_id = :log_id;
SELECT count(queen.enqueue('rollup q', '1'));
SELECT count(*) FROM queen.rollup_drift() WHERE log_id = :log_id;
SELECT DISTINCT item, problem, repaired FROM queen.verify(repair => true) WHERE item = 'counts' ORDER BY problem;
SELECT counted('rollup q');
SELECT item, problem FROM queen.verify() WHERE item = 'counts';
-- … or the other half: what nothing says is there is counted on, made whole, or deleted where it is nobody's …
CREATE FUNCTION halve() RETURNS void LANGUAGE sql AS $$ DELETE FROM queen.queue_priority_shards s USING queen.queues q WHERE q.log_id = s.log_id AND q.name = 'rollup half' $$;
SELECT queen.create_queue(name, 'work') FROM (VALUES ('rollup half'), ('rollup beside')) names(name);
SELECT count(*) FROM queen.enqueue_batch('rollup half', '[1,2]'), queen.enqueue('rollup beside', '1');
SELECT halve(), dequeued('rollup half');
INSERT INTO queen.queue_priority_state_shard SELECT 900000000001, 2, 0, 0, 0, 0, 0;
SELECT count(*), problem, bool_and(repaired) AS repaired FROM queen.verify(repair => true) WHERE item = 'counts' GROUP BY problem;
SELECT item, problem FROM queen.verify() WHERE item = 'counts';
SELECT counted('rollup half'), count(*) FROM queen.queue_priority_state_shard WHERE log_id = 900000000001;
-- … and stops nobody's clean-up
SELECT log_id AS half FROM queen.queues WHERE name = 'rollup half' \gset
SELECT log_id AS beside FROM queen.queues WHERE name = 'rollup beside' \gset
SELECT halve(), queen.drop_queue('rollup half'), queen.drop_queue('rollup beside');
SET client_min_messages = error;
CALL queen.maintain();
RESET client_min_messages;
SELECT (SELECT count(*) FROM queen.messages WHERE log_id IN (:half, :beside)) AS messages,
	(SELECT count(*) FROM queen.queue_priority_state_shard WHERE log_id IN (:half, :beside)) AS counts,
	(SELECT count(*) FROM queen.log_dropped WHERE log_id IN (:half, :beside)) AS filed;
-- Who has seen much does not look again at once, but soon.
SELECT queen.create_queue('rollup deep', 'work');
SELECT count(*) FROM queen.enqueue_batch('rollup deep', (SELECT jsonb_agg(n) FROM generate_series(1, 6400) n));
UPDATE queen.messages m SET shard = 9 FROM queen.queues q WHERE q.log_id = m.log_id AND q.name = 'rollup deep';
SELECT dequeued('rollup deep', 1);
UPDATE queen.queue_priority_state_shard s SET ready_count = 0 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'rollup deep';
SELECT pg_sleep(1.1);
BEGIN;
SELECT dequeued('rollup deep', 1);
COMMIT;
SELECT queen.rollup_rebuild('rollup deep');
SELECT queen.drop_queue('rollup deep');
SELECT attempts(
	$$SELECT queen.rollup_rebuild('rollup none')$$,
	$$SELECT queen.rollup_rebuild('')$$,
	$$SELECT queen.counted()$$);
\set VERBOSITY sqlstate
UPDATE queen.queue_priority_state_shard SET in_flight_count = -1;
\set VERBOSITY default
SELECT queen.create_queue('rollup log');
SELECT attempt($$SELECT queen.rollup_rebuild('rollup log')$$);
CREATE TABLE other (LIKE queen.messages);
CREATE TRIGGER counted AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
SELECT attempt($$INSERT INTO other SELECT * FROM queen.messages$$);

-- Two phases.
BEGIN;
DELETE FROM queen.messages;
PREPARE TRANSACTION 'rollup';
-- Isolation levels: the row is changed by others meanwhile, and its era moves.
SELECT count(queen.enqueue('rollup q', to_jsonb(n))) FROM generate_series(1, 3) n;
DO $$ BEGIN FOR i IN 1 .. 40 LOOP PERFORM queen.enqueue('rollup q', to_jsonb(i)); COMMIT; END LOOP; END $$;
SELECT counted('rollup q');
SELECT era = changes / 16 AND era > 1 AS moved FROM queen.queue_priority_state_shard WHERE log_id = :log_id AND priority = 2 AND shard = 0;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(queen.enqueue('rollup q', '1'));
COMMIT;
SELECT counted('rollup q');

-- Purged: it begins anew. Dropped: its counts go with its messages.
SELECT queen.purge_queue('rollup q'), counted('rollup q');
SELECT count(queen.enqueue('rollup q', '1'));
SELECT counted('rollup q');
SELECT queen.drop_queue('rollup q'), queen.drop_queue('rollup r');
SET client_min_messages = error;
CALL queen.maintain();
RESET client_min_messages;
SELECT count(*) FROM queen.queue_priority_shards s WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = s.log_id);
SELECT count(*) FROM queen.queue_priority_state_shard s WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = s.log_id);

-- Another library's PRE_COMMIT, before ours, enqueues. One behind ours: 061.
SET client_min_messages = warning;
CREATE EXTENSION queen_test;
RESET client_min_messages;
SELECT queen.create_queue('rollup late', 'work');
BEGIN;
SELECT count(queen.enqueue('rollup late', '1'));
SELECT queen_test_run_at_commit($$SELECT queen.enqueue('rollup late', '2', 'high')$$);
COMMIT;
SELECT counted('rollup late');
DROP EXTENSION queen_test;
SELECT item, problem FROM queen.verify() WHERE item = 'counts';
-- nothing is left for other tests
SELECT queen.drop_queue('rollup late');
SET client_min_messages = error;
CALL queen.maintain();
