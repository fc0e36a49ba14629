-- Where a call may not run: other isolation levels, read-only transactions, two-phase commit, security-restricted operations.
\getenv inputdir PG_ABS_SRCDIR
\set topic bad_context
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SELECT count(queen.push('context', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT count(*) FROM take('context');

-- pop outside READ COMMITTED.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT attempt($$SELECT queen.pop('context')$$);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT attempt($$SELECT queen.pop('context', auto_ack => true)$$);
COMMIT;
SET default_transaction_isolation = 'repeatable read';
SELECT * FROM queen.pop('context');
RESET default_transaction_isolation;
-- READ UNCOMMITTED is READ COMMITTED in PostgreSQL.
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT msg_offset FROM queen.pop('context', 'uncommitted');
COMMIT;

-- A read-only transaction: nothing that writes, all that reads.
BEGIN READ ONLY;
SELECT attempts(
	$$SELECT queen.create_queue('context')$$,
	$$SELECT queen.configure('context', '{}')$$,
	$$SELECT queen.push('context', '1')$$,
	$$SELECT queen.push_batch('context', '[1]')$$,
	$$SELECT queen.push_batch('context', '[]')$$,
	$$SELECT queen.push_bytes('context', 'x')$$,
	$$SELECT queen.pop('context')$$,
	$$SELECT queen.pop('no such queue')$$,
	$$SELECT queen.ack(lease())$$,
	$$SELECT queen.ack_all(ARRAY[lease()])$$,
	$$SELECT queen.nack(lease())$$,
	$$SELECT queen.extend(lease())$$,
	$$SELECT queen.release(lease())$$,
	$$SELECT queen.subscribe('context', 'default')$$,
	$$SELECT queen.unsubscribe('context', 'default')$$,
	$$SELECT queen.seek('context', 'default', 0)$$,
	$$SELECT queen.seek_to_time('context', 'default', 'now')$$,
	$$SELECT queen.seek_to_end('context', 'default')$$,
	$$SELECT queen.pause('context')$$,
	$$SELECT queen.resume('context')$$,
	$$SELECT queen.purge_dead('context')$$,
	$$SELECT queen.redrive('context')$$,
	$$SELECT queen.verify(true)$$,
	$$SELECT queen.push('context', '1', delay => '1 s')$$,
	$$SELECT queen.schedule('context', 'k', '1', delay => '1 s')$$,
	$$SELECT queen.cancel('context', 'k')$$,
	$$SELECT queen.cancel_prefix('context', 'k')$$,
	$$SELECT queen.schedule_cron('context', 'k', '@hourly', '1')$$,
	$$SELECT queen.unschedule_cron('context', 'k')$$,
	$$SELECT queen.list_crons('context')$$,
	$$SELECT queen.fire_timers()$$,
	$$SELECT queen.peek_timer('context', 'k')$$,
	$$SELECT queen.list_timers('context')$$,
	$$SELECT queen.count_timers('context')$$,
	$$SELECT queen.next_timer('context')$$,
	$$SELECT queen.list_dead('context')$$,
	$$SELECT queen.find('context', '01a22a47-f93b-72a8-9510-e48d22f938ee')$$,
	$$SELECT queen.verify()$$,
	$$SELECT queen.list_groups('context')$$,
	$$SELECT queen.lag('context', 'default')$$,
	$$SELECT queen.peek('context')$$,
	$$SELECT * FROM queen.list_queues()$$,
	$$SELECT * FROM queen.status()$$,
	$$SELECT * FROM queen.pg_stat_queen_blocked$$);
COMMIT;
SET default_transaction_read_only = on;
SELECT queen.push('context', '1');
\echo :LAST_ERROR_SQLSTATE
RESET default_transaction_read_only;
-- A transaction that is read-only only inside a savepoint.
BEGIN;
SELECT count(queen.push('context', '"before"'));
SAVEPOINT s;
SET TRANSACTION READ ONLY;
SELECT attempt($$SELECT queen.push('context', '1')$$);
ROLLBACK TO s;
SELECT count(queen.push('context', '"after"'));
COMMIT;
SELECT array_agg(message) FROM queen.peek('context', from_offset => 10);

-- PREPARE TRANSACTION after a call that does more than push to what is there: refused, nothing remains; after one that reads it works.
BEGIN;
SELECT count(queen.push('context prepared', '"prepared"'));
CREATE TABLE prepared ();
PREPARE TRANSACTION 'queen regress new queue';
\echo :LAST_ERROR_SQLSTATE
BEGIN;
SELECT msg_offset FROM queen.pop('context', 'prepared');
PREPARE TRANSACTION 'queen regress pop';
BEGIN;
SELECT queen.ack(lease());
PREPARE TRANSACTION 'queen regress ack';
BEGIN;
SELECT queen.create_queue('context prepared');
PREPARE TRANSACTION 'queen regress queue';
BEGIN;
SELECT queen.subscribe('context', 'prepared 2');
PREPARE TRANSACTION 'queen regress subscribe';
BEGIN;
SELECT queen.unsubscribe('context', 'unknown');
PREPARE TRANSACTION 'queen regress unsubscribe';
BEGIN;
SELECT queen.seek_to_end('context', 'default');
PREPARE TRANSACTION 'queen regress seek';
BEGIN;
SELECT queen.pause('context');
PREPARE TRANSACTION 'queen regress pause';
BEGIN;
SELECT count(queen.push('context', '1', delay => '1 day'));
PREPARE TRANSACTION 'queen regress push later';
BEGIN;
SELECT count(queen.push_bytes('context', '1', delay => '1 day'));
PREPARE TRANSACTION 'queen regress push bytes later';
BEGIN;
SELECT s.verdict FROM queen.schedule('context', 'k', '1', delay => '1 day') s;
PREPARE TRANSACTION 'queen regress schedule';
SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'queen regress%';
SELECT consumer_group, paused, leased FROM queen.list_groups('context') WHERE consumer_group IN ('default', 'prepared 2');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'context prepared';
SELECT to_regclass('prepared');
SELECT max(msg_offset) FROM queen.peek('context', max_messages => 100);
SELECT msg_offset, attempt FROM queen.pop('context', 'prepared');
BEGIN;
SELECT max(msg_offset) FROM queen.peek('context', max_messages => 100);
PREPARE TRANSACTION 'queen regress peek';
ROLLBACK PREPARED 'queen regress peek';
-- The session goes on.
SELECT count(queen.push('context', '"on it goes"'));
SELECT queen.ack(lease());

-- Security-restricted operations: expressions of an index, materialized views, also as another owner.
CREATE FUNCTION sneak(what text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF what = 'push' THEN
		PERFORM queen.push('context sneaked', '1');
	ELSIF what = 'pop' THEN
		PERFORM queen.pop('context', 'sneaked');
	ELSIF what = 'create' THEN
		PERFORM queen.create_queue('context sneaked');
	ELSIF what = 'subscribe' THEN
		PERFORM queen.subscribe('context', 'sneaked');
	ELSIF what = 'unsubscribe' THEN
		PERFORM queen.unsubscribe('context', 'default');
	ELSIF what = 'seek' THEN
		PERFORM queen.seek('context', 'default', 0);
	ELSIF what = 'pause' THEN
		PERFORM queen.pause('context');
	ELSIF what = 'peek' THEN
		RETURN (SELECT count(*)::text FROM queen.peek('context'));
	END IF;
	RETURN what;
END
$$;
CREATE ROLE regress_queen_owner;
GRANT USAGE, CREATE ON SCHEMA test_bad_context TO regress_queen_owner;
GRANT USAGE ON SCHEMA queen TO regress_queen_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO regress_queen_owner;
SET ROLE regress_queen_owner;
CREATE TABLE indexed (what text);
CREATE MATERIALIZED VIEW viewed AS SELECT sneak(what) FROM indexed;
INSERT INTO indexed VALUES ('push');
RESET ROLE;
SELECT attempts(
	'CREATE INDEX ON indexed (test_bad_context.sneak(what))',
	'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'pop';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'create';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'subscribe';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'unsubscribe';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'seek';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'pause';
SELECT attempts('CREATE INDEX ON indexed (test_bad_context.sneak(what))', 'REFRESH MATERIALIZED VIEW viewed');
UPDATE indexed SET what = 'peek';
SELECT attempts('REFRESH MATERIALIZED VIEW viewed');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'context sneaked';
SELECT count(*) FROM cursors WHERE consumer_group = 'sneaked';
-- The same functions run where nothing is restricted: as a row is written.
CREATE TABLE expressions (what text, done text GENERATED ALWAYS AS (test_bad_context.sneak(what)) STORED);
INSERT INTO expressions VALUES ('push');
SELECT stored('context sneaked');

-- In a function that is called STABLE, in a CHECK, a DEFAULT, a rule: a push is a push.
CREATE FUNCTION stable_push() RETURNS uuid LANGUAGE sql STABLE AS $$ SELECT queen.push('context stable', '"stable"') $$;
SELECT count(stable_push());
CREATE TABLE defaults (n int CHECK (queen.push('context stable', to_jsonb(n)) IS NOT NULL), id uuid DEFAULT queen.push('context stable', '"default"'));
INSERT INTO defaults VALUES (1), (2);
CREATE RULE also AS ON DELETE TO defaults DO ALSO SELECT count(queen.push('context stable', to_jsonb('rule ' || OLD.n)));
DELETE FROM defaults WHERE n = 2;
SELECT count(*), count(*) FILTER (WHERE message = '"default"') AS defaults, count(*) FILTER (WHERE message::text LIKE '"rule%') AS rules FROM queen.peek('context stable');

DROP OWNED BY regress_queen_owner CASCADE;
DROP ROLE regress_queen_owner;
