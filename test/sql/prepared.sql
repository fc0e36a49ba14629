-- PREPARE TRANSACTION: pushes to partitions that are there are written then, and seen when it is committed. Whatever else
-- uses queen refuses to be prepared.
\getenv inputdir PG_ABS_SRCDIR
\set topic prepared
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION push_it(message jsonb, partition text DEFAULT 'Default') RETURNS bool LANGUAGE sql AS $$
	SELECT queen.push('prepared', message, push_it.partition) IS NOT NULL
$$;
CREATE FUNCTION pop_all() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(message::text, ' ') FROM queen.pop('prepared', auto_ack => true, max_messages => 100)
$$;
CREATE VIEW blocked AS
	SELECT partition, msg_offset, reason, blocking_pid, blocking_gid, blocked_until FROM queen.pg_stat_queen_blocked WHERE queue = 'prepared';
-- The second phase is another session's, which tells nobody: who waits behind a prepared push looks again within a quarter of a second.
CREATE FUNCTION looked_at_again() RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(0.3)';
SELECT push_it('0');

-- committed late: what was pushed after it waits, in order, and says for whom
BEGIN;
SELECT push_it('1');
SAVEPOINT a;
SELECT push_it('-1');
ROLLBACK TO a;
SAVEPOINT b;
SELECT push_it('2');
RELEASE b;
PREPARE TRANSACTION 'queen one';
SELECT push_it('3');
SELECT pop_all();
SELECT pop_all();
SELECT * FROM blocked;
COMMIT PREPARED 'queen one';
SELECT looked_at_again();
SELECT pop_all();
SELECT * FROM blocked;

-- with a dedup_key: others would wait for it
BEGIN;
SELECT queen.push('prepared', '"key"', dedup_key => 'k') IS NOT NULL AS pushed;
PREPARE TRANSACTION 'queen key';
BEGIN;
SAVEPOINT a;
SELECT queen.push('prepared', '"key"', dedup_key => 'k') IS NOT NULL AS pushed;
ROLLBACK TO a;
PREPARE TRANSACTION 'queen key';
ROLLBACK PREPARED 'queen key';

-- rolled back late: a hole
BEGIN;
SELECT push_it('4');
PREPARE TRANSACTION 'queen two';
SELECT push_it('5');
SELECT pop_all();
ROLLBACK PREPARED 'queen two';
SELECT looked_at_again();
SELECT pop_all();

-- spilled
SET queen.push_buffer_size = '64kB';
BEGIN;
SELECT count(*) FROM generate_series(1, 3000) n WHERE push_it(to_jsonb(n));
PREPARE TRANSACTION 'queen three';
COMMIT PREPARED 'queen three';
SELECT looked_at_again();
SELECT count(*), min(message::int), max(message::int) FROM queen.pop('prepared', auto_ack => true, max_messages => 10000);

-- nothing is born: the name would stay taken until somebody ends the transaction
BEGIN;
SELECT push_it('6', 'new');
PREPARE TRANSACTION 'queen four';
BEGIN;
SELECT queen.push('prepared new', '6') IS NOT NULL;
PREPARE TRANSACTION 'queen four';
-- what was pushed to a new partition and rolled back does not matter
BEGIN;
SAVEPOINT a;
SELECT push_it('6', 'new');
ROLLBACK TO a;
SELECT push_it('6');
PREPARE TRANSACTION 'queen four';
COMMIT PREPARED 'queen four';
SELECT looked_at_again();

-- everything else refuses
BEGIN;
SELECT pop_all();
PREPARE TRANSACTION 'queen five';
BEGIN;
SELECT lease IS NOT NULL FROM queen.pop('prepared');
PREPARE TRANSACTION 'queen five';
BEGIN;
SELECT queen.configure('prepared', '{}') IS NOT NULL;
PREPARE TRANSACTION 'queen five';
-- but looking does not
BEGIN;
SELECT count(*) FROM queen.list_queues() WHERE queue LIKE 'prepared%';
PREPARE TRANSACTION 'queen five';
COMMIT PREPARED 'queen five';
SELECT looked_at_again();
SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'queen%';
SELECT pop_all();

-- nor is a timer scheduled or taken back
BEGIN;
SELECT s.verdict FROM queen.schedule('prepared', 'k', '"timer"', deliver_at => '2200-01-01') s;
PREPARE TRANSACTION 'queen six';
BEGIN;
SELECT queen.cancel('prepared', 'k');
PREPARE TRANSACTION 'queen six';
BEGIN;
SELECT s.verdict FROM queen.schedule_cron('prepared', 'k', '@hourly', '"rule"') s;
PREPARE TRANSACTION 'queen six';
BEGIN;
SELECT queen.unschedule_cron('prepared', 'k');
PREPARE TRANSACTION 'queen six';
SELECT queen.count_timers('prepared'), (SELECT count(*) FROM queen.list_crons('prepared')) AS rules;
