-- queen.maintain(), drop_queue, purge_queue: what goes, what stays, and what they are told.
\getenv inputdir PG_ABS_SRCDIR
\set topic maintain
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION push_it(queue text, message jsonb, partition text DEFAULT 'Default', dedup_key text DEFAULT NULL) RETURNS bool LANGUAGE sql AS $$
	SELECT queen.push(push_it.queue, message, push_it.partition, dedup_key => push_it.dedup_key) IS NOT NULL
$$;
CREATE FUNCTION log_of(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(p.name || '/' || m.msg_offset || '=' || m.message, ' ' ORDER BY p.name COLLATE "C", m.msg_offset)
	FROM queen.queues q JOIN queen.log_partitions p USING (log_id), queen.peek(q.name, p.name, max_messages => 1000) m WHERE q.name = log_of.queue
$$;
-- Time passes for all that a queue has.
CREATE FUNCTION grow_older(of_queue text, amount interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	parts bigint[] := ARRAY(SELECT partition_id FROM queen.log_partitions JOIN queen.queues q USING (log_id) WHERE q.name = of_queue);
BEGIN
	UPDATE queen.log_segments SET created_at = created_at - amount WHERE partition_id = ANY (parts);
	UPDATE queen.log_partitions SET created_at = created_at - amount WHERE partition_id = ANY (parts);
	UPDATE queen.log_starts SET last_created_at = last_created_at - amount WHERE partition_id = ANY (parts);
	UPDATE queen.log_txns SET pushed_at = pushed_at - amount WHERE partition_id = ANY (parts);
	UPDATE queen.log_groups g SET active_at = active_at - amount FROM queen.queues q WHERE q.queue_id = g.queue_id AND q.name = of_queue;
	UPDATE queen.dead_letters SET dead_at = dead_at - amount WHERE queue = of_queue;
END $$;
CREATE FUNCTION rows_of(of_queue text, OUT parts bigint, OUT segments bigint, OUT keys bigint, OUT cursors bigint, OUT consumers bigint, OUT starts bigint, OUT groups bigint, OUT dead bigint) LANGUAGE sql AS $$
	WITH p AS (SELECT partition_id FROM queen.log_partitions JOIN queen.queues q USING (log_id) WHERE q.name = of_queue)
	SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM queen.log_segments JOIN p USING (partition_id)), (SELECT count(*) FROM queen.log_txns JOIN p USING (partition_id)),
		(SELECT count(*) FROM queen.log_cursors JOIN p USING (partition_id)), (SELECT count(*) FROM queen.log_consumers JOIN p USING (partition_id)),
		(SELECT count(*) FROM queen.log_starts JOIN p USING (partition_id)), (SELECT count(*) FROM queen.log_groups g JOIN queen.queues q USING (queue_id) WHERE q.name = of_queue),
		(SELECT count(*) FROM queen.dead_letters WHERE queue = of_queue)
$$;

-- Until nobody else has a snapshot: an autovacuum worker, say.
CREATE FUNCTION wait_for_snapshots() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..6000 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid());
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;

-- completed_retention: a day by default, and only what every group has completed
SELECT push_it('m', to_jsonb(n), 'p' || n % 2) FROM generate_series(1, 4) n;
SELECT queen.subscribe('m', g) FROM unnest(ARRAY['a', 'b']) g;
SELECT count(*) FROM queen.pop('m', 'a', 10, max_partitions => 10, auto_ack => true);
SELECT grow_older('m', '23 h');
CALL queen.maintain();
SELECT log_of('m');
SELECT grow_older('m', '2 h');
CALL queen.maintain();
SELECT log_of('m');
SELECT count(*) FROM queen.pop('m', 'b', 10, partition => 'p0', auto_ack => true);
CALL queen.maintain();
SELECT log_of('m');
-- consumers that are behind go on, ahead of what was deleted they meet a gap
SELECT partition, msg_offset, message FROM queen.pop('m', 'b', 10, auto_ack => true);
CALL queen.maintain();
SELECT log_of('m');
SELECT push_it('m', '5', 'p0'), push_it('m', '6', 'p1');
SELECT partition, msg_offset, message FROM queen.pop('m', 'b', 10, max_partitions => 10, auto_ack => true);
SELECT lag, partition FROM queen.lag('m', 'a') ORDER BY partition;

-- off, and 0
SELECT queen.configure('m', '{"completed_retention": "off"}') ->> 'completed_retention' AS completed_retention;
SELECT count(*) FROM queen.pop('m', 'a', 10, max_partitions => 10, auto_ack => true);
SELECT grow_older('m', '100 days');
CALL queen.maintain();
SELECT log_of('m');
SELECT queen.configure('m', '{"completed_retention": 0}') ->> 'completed_retention' AS completed_retention;
CALL queen.maintain();
SELECT log_of('m');

-- a queue without a group has been read by nobody
SELECT push_it('unread', '1');
SELECT grow_older('unread', '10 days');
CALL queen.maintain();
SELECT log_of('unread');
-- retention: by age alone
SELECT queen.configure('unread', '{"retention": "11 days"}') ->> 'retention' AS retention;
SELECT push_it('unread', '2');
CALL queen.maintain();
SELECT log_of('unread');
SELECT grow_older('unread', '1 day');
SELECT push_it('unread', '3');
CALL queen.maintain();
SELECT log_of('unread');
-- the group that comes now begins where the log begins
SELECT msg_offset, message FROM queen.pop('unread', 'late', 10);

-- an idle group keeps nothing when group_expiry says so
SELECT queen.create_queue('idle', options => '{"completed_retention": 0, "group_expiry": "2 days"}');
SELECT push_it('idle', '1');
SELECT queen.subscribe('idle', g) FROM unnest(ARRAY['gone', 'busy']) g;
SELECT count(*) FROM queen.pop('idle', 'busy', auto_ack => true);
SELECT grow_older('idle', '1 day');
CALL queen.maintain();
SELECT log_of('idle');
SELECT grow_older('idle', '25 h');
SELECT count(*) FROM queen.pop('idle', 'busy', auto_ack => true);
CALL queen.maintain();
SELECT log_of('idle');
SELECT consumer_group FROM queen.list_groups('idle') ORDER BY 1;

-- whole segments only, and a damaged one goes as any other
SELECT count(queen.push('whole', to_jsonb(n))) FROM generate_series(1, 2500) n;
SELECT queen.configure('whole', '{"completed_retention": 0}') IS NULL AS failed;
SELECT count(*) FROM queen.pop('whole', 'g', 1500, auto_ack => true);
CALL queen.maintain();
SELECT min(msg_offset), max(msg_offset), count(*) FROM queen.peek('whole', max_messages => 10000);

-- dedup_keys beyond their window, and none within it
SELECT queen.create_queue('keys', options => '{"dedup_window": "1 h"}');
SELECT count(queen.push('keys', to_jsonb(n), dedup_key => 'k' || n)) FROM generate_series(1, 1000) n;
SELECT grow_older('keys', '50 min');
SELECT count(queen.push('keys', to_jsonb(n), dedup_key => 'k' || n)) FROM generate_series(901, 1100) n;
CALL queen.maintain();
SELECT keys FROM rows_of('keys');
SELECT grow_older('keys', '20 min');
CALL queen.maintain();
SELECT keys FROM rows_of('keys');
SELECT push_it('keys', '"again"', dedup_key => 'k1'), push_it('keys', '"dropped"', dedup_key => 'k1100');
SELECT count(*), (array_agg(message ORDER BY msg_offset DESC))[1] AS last FROM queen.peek('keys', max_messages => 10000);

-- dead letters
SELECT queen.create_queue('dead', options => '{"dead_retention": "10 days"}');
SELECT push_it('dead', to_jsonb(n)) FROM generate_series(1, 3) n;
SELECT queen.nack(lease, dead => true) FROM queen.pop('dead');
SELECT grow_older('dead', '6 days');
SELECT queen.nack(lease, dead => true) FROM queen.pop('dead');
SELECT grow_older('dead', '5 days');
CALL queen.maintain();
SELECT message, queue FROM queen.dead_letters WHERE queue = 'dead';
SELECT queen.configure('dead', '{"dead_retention": "off"}') ->> 'dead_retention' AS dead_retention;
SELECT grow_older('dead', '1000 days');
CALL queen.maintain();
SELECT dead FROM rows_of('dead');

-- empty partitions: not while they hold anything, nor before their time
SELECT queen.create_queue('empty', options => '{"retention": 0}');
SELECT push_it('empty', '1', 'used'), push_it('empty', '2', 'empty'), push_it('empty', '3', 'key', 'k');
SELECT count(*) FROM queen.pop('empty', 'g', 10, max_partitions => 10, auto_ack => true);
CALL queen.maintain();
SELECT grow_older('empty', '6 days');
SELECT queen.configure('empty', '{"dedup_window": "30 days"}') IS NULL AS failed;
CALL queen.maintain();
SELECT * FROM rows_of('empty');
SELECT grow_older('empty', '2 days');
SELECT queen.configure('empty', '{"retention": "1 day"}') IS NULL AS failed;
SELECT push_it('empty', '4', 'used');
CALL queen.maintain();
SELECT p.name FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = 'empty' ORDER BY 1;
SELECT push_it('empty', '5', 'empty');
SELECT partition, msg_offset, message FROM queen.pop('empty', 'g', 10, max_partitions => 10, auto_ack => true);
SET queen.partition_expiry = 0;
SELECT queen.configure('empty', '{"retention": 0, "dedup_window": 0}') IS NULL AS failed;
CALL queen.maintain();
SELECT grow_older('empty', '1000 days');
CALL queen.maintain();
SELECT * FROM rows_of('empty');
-- what is left of a deleted partition is cleaned up when nobody can know its id any more
UPDATE queen.log_dropped SET dropped_at = dropped_at - interval '2 h';
SELECT wait_for_snapshots();
CALL queen.maintain();
SELECT count(*) AS left_over FROM queen.log_dropped;
SELECT count(*) AS left_over FROM queen.log_cursors WHERE partition_id NOT IN (SELECT partition_id FROM queen.log_partitions);
SELECT count(*) AS left_over FROM queen.log_starts WHERE partition_id NOT IN (SELECT partition_id FROM queen.log_partitions);
RESET queen.partition_expiry;

-- messages under a lease that are deleted by their age: what is gone is completed, by whatever verb the lease ends
CREATE FUNCTION delete_to(of_queue text, up_to bigint) RETURNS void LANGUAGE sql AS $$
	UPDATE queen.log_segments s SET created_at = s.created_at - interval '3 h'
	FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = of_queue AND p.partition_id = s.partition_id AND base_offset <= up_to
$$;
CREATE FUNCTION cursor_of(of_queue text) RETURNS TABLE (committed bigint, leased bool, batch_count int, attempts int, delivered_to bigint, blocked bool) LANGUAGE sql AS $$
	SELECT committed, lease IS NOT NULL, batch_count, attempts, delivered_to, blocked_until IS NOT NULL FROM cursors WHERE queue = of_queue
$$;
CREATE TABLE held (queue text, lease uuid);
DO $$
BEGIN
	FOR n IN 0..5 LOOP
		PERFORM queen.push(q, to_jsonb(n)) FROM unnest(ARRAY['nack all', 'nack some', 'nack rest', 'nack part', 'ack part', 'ack none', 'release']) q;
		COMMIT;
	END LOOP;
	PERFORM queen.configure(queue, '{"retention": "2 h"}') FROM queen.list_queues() WHERE queue ~ '^(nack|ack|release)';
	INSERT INTO held SELECT DISTINCT queue, lease FROM unnest(ARRAY['nack all', 'nack some', 'nack rest', 'nack part', 'ack part', 'ack none', 'release']) q, queen.pop(q, max_messages => 5);
END $$;
SELECT queen.ack(lease, 0) FROM held WHERE queue = 'nack part';
SELECT delete_to('nack all', 4), delete_to('nack some', 1), delete_to('nack rest', 1), delete_to('nack part', 2), delete_to('ack part', 1), delete_to('ack none', 4), delete_to('release', 1);
CALL queen.maintain();
SELECT log_of('nack all') AS nack_all, log_of('nack some') AS nack_some, log_of('nack part') AS nack_part;
SELECT queen.nack(lease, 2, error => 'failed', dead => true) FROM held WHERE queue = 'nack all';
SELECT * FROM cursor_of('nack all');
SELECT dead FROM rows_of('nack all');
-- it is over
SELECT queen.ack(lease), queen.release(lease) FROM held WHERE queue = 'nack all';
SELECT attempt(format('SELECT queen.nack(%L)', lease)) FROM held WHERE queue = 'nack all';
SELECT msg_offset, attempt FROM take('nack all', max_messages => 10);
-- the first is gone and not the one behind it: nobody else is blamed, and the rest comes as if it had not been delivered
SELECT queen.nack(lease, dead => true) FROM held WHERE queue = 'nack some';
SELECT * FROM cursor_of('nack some');
SELECT msg_offset, attempt FROM take('nack some', max_messages => 10);
SELECT queen.nack(lease, 1, '1 h') FROM held WHERE queue = 'nack part';
SELECT msg_offset, attempt FROM take('nack part', max_messages => 10);
-- one that is there, behind what is gone
SELECT queen.nack(lease, 3, '0') FROM held WHERE queue = 'nack rest';
SELECT * FROM cursor_of('nack rest');
SELECT msg_offset, attempt FROM take('nack rest', max_messages => 10);
-- acknowledged in parts: each once, and what is left is what can be left
SELECT queen.ack(lease, 2) FROM held WHERE queue = 'ack part';
SELECT * FROM cursor_of('ack part');
SELECT queen.ack(lease, 3), queen.ack(lease) FROM held WHERE queue = 'ack part';
SELECT queen.extend(lease) > now() AS extended, queen.ack(lease, 1), queen.ack(lease) FROM held WHERE queue = 'ack none';
SELECT * FROM cursor_of('ack none');
-- given back, or its time is over
SELECT queen.release(lease) FROM held WHERE queue = 'release';
SELECT msg_offset, attempt FROM take('release', max_messages => 10);
SELECT delete_to('release', 3);
CALL queen.maintain();
SELECT time_passes('release');
SELECT msg_offset, attempt FROM take('release', max_messages => 10);
SELECT queen.nack(lease(), delay => '0');
SELECT msg_offset, attempt FROM take('release', max_messages => 10);
SELECT count(*) FROM queen.verify() WHERE object ~ ANY (SELECT format('partition %s( |,|$)', partition_id) FROM cursors WHERE queue IN (SELECT queue FROM held));

-- purge: messages, leases and keys go; options, groups and dead letters stay
SELECT queen.create_queue('p', options => '{"max_deliveries": 7}');
SELECT queen.subscribe('p', 'other');
SELECT push_it('p', to_jsonb(n), 'p' || n % 2, 'k' || n) FROM generate_series(1, 6) n;
SELECT queen.nack(lease, dead => true) FROM queen.pop('p', 'g', partition => 'p0');
SELECT lease FROM queen.pop('p', 'g', 1, partition => 'p1') \gset
SELECT queen.pause('p', 'other');
SELECT queen.purge_queue('p');
SELECT log_of('p');
\set VERBOSITY sqlstate
SELECT queen.ack(:'lease');
\set VERBOSITY default
SELECT * FROM queen.pop('p', 'g', 10, max_partitions => 10);
SELECT consumer_group, paused, lag FROM queen.list_groups('p') ORDER BY 1;
SELECT push_it('p', '"new"', 'p0', 'k1');
SELECT msg_offset, message FROM queen.pop('p', 'g', auto_ack => true);
SELECT wait_for_snapshots();
CALL queen.maintain();
SELECT * FROM rows_of('p');
SELECT count(*) FROM queen.log_dropped;
SELECT options ->> 'max_deliveries' AS max_deliveries FROM queen.list_queues() WHERE queue = 'p';

-- drop: everything goes
SELECT queen.drop_queue('p');
SELECT queen.drop_queue('p') AS again, queen.purge_queue('p') AS again;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'p';
SELECT * FROM queen.pop('p', 'g');
SELECT push_it('p', '"reborn"');
SELECT msg_offset, message FROM queen.pop('p', 'other', auto_ack => true);
SELECT dead FROM rows_of('p');
SELECT wait_for_snapshots();
CALL queen.maintain();
SELECT * FROM rows_of('p');
SELECT count(*) FROM queen.log_dropped;

-- what this transaction has pushed goes along, what it pushes afterwards does not, and savepoints are kept
BEGIN;
SELECT push_it('v', '1');
SELECT queen.drop_queue('v') AS not_there_yet;
SELECT push_it('v', '2');
COMMIT;
SELECT log_of('v');
BEGIN;
SELECT push_it('v', '3');
SAVEPOINT a;
SELECT push_it('v', '4');
SELECT queen.purge_queue('v');
SELECT push_it('v', '5');
ROLLBACK TO a;
SELECT push_it('v', '6');
COMMIT;
SELECT log_of('v');
BEGIN;
SELECT push_it('v', '7', dedup_key => 'k');
SAVEPOINT a;
SELECT queen.purge_queue('v');
RELEASE a;
SELECT push_it('v', '8', dedup_key => 'k');
SAVEPOINT b;
SELECT push_it('v', '9');
SELECT queen.purge_queue('v');
SAVEPOINT c;
SELECT push_it('v', '10');
SELECT queen.drop_queue('v');
ROLLBACK TO b;
COMMIT;
SELECT log_of('v');
SET queen.push_buffer_size = '64 kB';
BEGIN;
SELECT count(push_it('v', to_jsonb(n))) FROM generate_series(1, 3000) n;
SELECT queen.purge_queue('v');
SELECT count(push_it('v', to_jsonb(n))) FROM generate_series(3001, 6000) n;
COMMIT;
RESET queen.push_buffer_size;
SELECT count(*), min(message::int), max(message::int), max(msg_offset) FROM queen.peek('v', max_messages => 10000);
BEGIN;
SELECT queen.drop_queue('v');
PREPARE TRANSACTION 'drop';

-- another tenant's queues are not there
SET queen.tenant = '00000000-0000-0000-0000-000000000001';
SELECT queen.drop_queue('v'), queen.purge_queue('v');
RESET queen.tenant;

-- maintain commits, so it wants to be called on its own
BEGIN;
CALL queen.maintain();
ROLLBACK;
CREATE FUNCTION call_it() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL queen.maintain(); END $$;
SELECT call_it();
CREATE PROCEDURE call_it_too() LANGUAGE plpgsql AS $$ BEGIN CALL queen.maintain(); END $$;
CALL call_it_too();
DO $$ BEGIN CALL queen.maintain(); END $$;
BEGIN READ ONLY;
SELECT queen.drop_queue('v');
ROLLBACK;
SET default_transaction_read_only = on;
CALL queen.maintain();
RESET default_transaction_read_only;
SHOW synchronous_commit;

-- options
SELECT queen.configure('v', '{"retention": -1}');
SELECT queen.configure('v', '{"retention": "soon"}');
SELECT queen.configure('v', '{"completed_retention": true}');
SELECT queen.configure('v', '{"group_expiry": "11 years"}');
SELECT queen.configure('v', '{"dead_retention": "off", "retention": "off", "group_expiry": "1 h"}') - 'dedup' - 'compression' AS options;
SELECT queen.configure('v', '{"dead_retention": null, "group_expiry": null}') ->> 'dead_retention' AS dead_retention;
