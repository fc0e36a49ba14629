-- ack, ack_all, extend, release: ending a lease, keeping it, giving it back, losing it.
\getenv inputdir PG_ABS_SRCDIR
\set topic ack
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- All of it; again answers 0.
SELECT count(queen.push('ack', to_jsonb(i))) FROM generate_series(0, 19) i;
SELECT count(*) FROM take('ack', max_messages => 5);
SELECT queen.ack(lease());
SELECT queen.ack(lease());
SELECT queen.ack(lease(), 2);
SELECT queen.ack_all(ARRAY[lease(), lease()]);

-- Part of it: the lease stays for the rest.
SELECT msg_offset FROM take('ack', max_messages => 5);
SELECT queen.ack(lease(), 6);
SELECT count(*) FROM queen.pop('ack');
SELECT queen.ack(lease(), 6);
SELECT queen.ack(lease(), 5);
SELECT queen.ack(lease(), 0);
SELECT queen.ack(lease(), 7);
SELECT attempts('SELECT queen.ack(lease(), -1)', 'SELECT queen.ack(lease(), 10)', 'SELECT queen.ack(lease(), 9223372036854775807)');
SELECT queen.ack(lease(), NULL);
SELECT queen.ack(lease(), 8);
SELECT msg_offset, attempt FROM take('ack', max_messages => 3);
-- up_to the last message ends it as well.
SELECT queen.ack(lease(), 12);
SELECT queen.ack(lease(), 12);
SELECT msg_offset, attempt FROM take('ack', max_messages => 3);
-- The lease before that is no more known: only the last completed one is.
CREATE TABLE old AS SELECT lease() AS lease;
SELECT queen.ack(lease());
SELECT count(*) FROM take('ack');
SELECT queen.ack((SELECT lease FROM old));
SELECT queen.ack(lease());
SELECT attempt('SELECT queen.ack((SELECT lease FROM old))');
-- A partly acknowledged lease that is lost: the rest comes again, one at a time, as counted.
SELECT msg_offset FROM take('ack', max_messages => 3);
SELECT queen.ack(lease(), 17);
SELECT time_passes('ack');
SELECT msg_offset, attempt FROM take('ack', max_messages => 3);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('ack', max_messages => 3);
SELECT queen.ack(lease());
SELECT count(*) FROM take('ack');

-- Time over, nobody came: the lease still holds. Somebody came: it is lost, for every verb.
SELECT count(queen.push('ack late', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT msg_offset FROM take('ack late', max_messages => 2);
SELECT time_passes('ack late');
SELECT queen.ack(lease());
SELECT msg_offset FROM take('ack late', max_messages => 2);
CREATE TABLE lost AS SELECT lease() AS lease;
SELECT time_passes('ack late');
SELECT msg_offset, attempt FROM take('ack late', max_messages => 2);
SELECT attempts(
	'SELECT queen.ack((SELECT lease FROM lost))',
	'SELECT queen.ack((SELECT lease FROM lost), 2)',
	'SELECT queen.ack_all(ARRAY[(SELECT lease FROM lost)])',
	'SELECT queen.ack_all(ARRAY[lease(), (SELECT lease FROM lost)])',
	'SELECT queen.nack((SELECT lease FROM lost))',
	'SELECT queen.extend((SELECT lease FROM lost))',
	'SELECT queen.release((SELECT lease FROM lost))');
-- The holder is not disturbed by these.
SELECT queen.ack(lease());
-- A completed lease: ack and ack_all answer 0, release false; nack and extend have nothing to act on.
SELECT attempts(
	'SELECT queen.nack(lease())',
	'SELECT queen.extend(lease())');
SELECT queen.ack(lease()), queen.ack_all(ARRAY[lease()]), queen.release(lease());

-- Really over, by the clock.
SELECT count(queen.push('ack clock', '1'));
SELECT count(*) AS taken FROM (SELECT queen.pop('ack clock', lease_time => '1 s')) m;
SELECT count(*) FROM queen.pop('ack clock');
SELECT pg_sleep(1.05);
SELECT msg_offset, attempt FROM queen.pop('ack clock');

-- extend: from now, by the argument or the queue's, never sooner than it was.
SELECT queen.create_queue('ack extend', options => '{"lease_time": "1 minute"}');
SELECT count(queen.push('ack extend', '1'));
SELECT count(*) FROM take('ack extend');
SELECT round(extract(epoch FROM queen.extend(lease(), '2 minutes') - clock_timestamp())) AS lease_seconds;
SELECT round(extract(epoch FROM queen.extend(lease()) - clock_timestamp())) AS lease_seconds;
SELECT round(extract(epoch FROM queen.extend(lease(), '1 s') - clock_timestamp())) AS lease_seconds;
SELECT round(extract(epoch FROM queen.extend(lease(), '12 hours') - clock_timestamp())) AS lease_seconds;
SELECT round(extract(epoch FROM lease_until - clock_timestamp())) AS lease_seconds FROM cursors WHERE queue = 'ack extend';
-- One whose time is over but that nobody took is extended too.
SELECT time_passes('ack extend');
SELECT round(extract(epoch FROM queen.extend(lease()) - clock_timestamp())) AS lease_seconds;
SELECT count(*) FROM queen.pop('ack extend');
SELECT queen.ack(lease());

-- release: available at once, the delivery does not count, alone or in a batch.
SELECT count(queen.push('ack release', to_jsonb(i))) FROM generate_series(0, 4) i;
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.release(lease());
SELECT attempts(
	'SELECT queen.ack(lease())',
	'SELECT queen.release(lease())');
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.ack(lease(), 0);
SELECT queen.release(lease());
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT time_passes('ack release');
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.release(lease());
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.release(lease());
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);
SELECT queen.release(lease());
SELECT msg_offset, attempt FROM take('ack release', max_messages => 3);

-- ack_all: several partitions and queues, in any order, all or none.
SELECT count(queen.push('ack all', to_jsonb(i), p)) FROM generate_series(0, 2) i, unnest(ARRAY['a', 'b', 'c']) p;
SELECT count(*) FROM take('ack all', max_messages => 9, max_partitions => 3);
SELECT attempts(
	$$SELECT queen.ack_all((SELECT array_agg(DISTINCT lease) FROM taken) || 'ffffffff-ffff-8fff-bfff-ffffffffffff'::uuid)$$,
	$$SELECT queen.ack_all((SELECT array_agg(DISTINCT lease) FROM taken) || gen_random_uuid())$$);
SELECT count(*) FROM queen.pop('ack all', max_partitions => 3);
SELECT queen.ack_all(ARRAY[lease('c'), lease('a')]);
SELECT queen.ack_all(ARRAY[lease('c'), lease('b'), lease('a'), lease('b')]);
SELECT queen.ack_all('{}');

-- In REPEATABLE READ and SERIALIZABLE transactions, whose snapshot may be older than the lease.
SELECT count(queen.push('ack levels', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT msg_offset FROM take('ack levels', max_messages => 2);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM taken;
SELECT queen.ack(lease(), 0);
SELECT queen.extend(lease()) > clock_timestamp() AS extended;
SELECT queen.ack(lease());
SELECT queen.ack(lease());
COMMIT;
SELECT msg_offset FROM take('ack levels', max_messages => 2);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queen.ack(lease(), 2);
SELECT queen.nack(lease(), delay => '0');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queen.ack_all(ARRAY[lease()]);
COMMIT;
SELECT msg_offset FROM take('ack levels', max_messages => 2);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT queen.nack(lease(), 5, delay => '0', error => 'in repeatable read');
COMMIT;
SELECT msg_offset, attempt FROM take('ack levels', max_messages => 2);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queen.release(lease());
COMMIT;
SELECT msg_offset, attempt FROM take('ack levels', max_messages => 2);

-- What is not, or is no more, a lease.
SELECT attempts(
	$$SELECT queen.ack('00000000-0000-0000-0000-000000000000')$$,
	$$SELECT queen.ack('ffffffff-ffff-ffff-ffff-ffffffffffff')$$,
	$$SELECT queen.ack(gen_random_uuid())$$,
	$$SELECT queen.ack((SELECT message_id FROM taken))$$,
	$$SELECT queen.nack(gen_random_uuid())$$,
	$$SELECT queen.extend(gen_random_uuid())$$,
	$$SELECT queen.release(gen_random_uuid())$$,
	$$SELECT queen.ack_all(ARRAY[gen_random_uuid()])$$,
	$$SELECT queen.ack_all(ARRAY[gen_random_uuid(), gen_random_uuid()])$$,
	-- a group that does not exist; a partition that does not; a nonce that is not the row's
	$$SELECT queen.ack('00000000-0000-8000-8000-000000000000')$$,
	$$SELECT queen.ack('ffffffff-ffff-8fff-bfff-ffffffffffff')$$,
	$$SELECT queen.ack(overlay(lease()::text placing 'ffffffff' from 1)::uuid)$$,
	$$SELECT queen.ack(overlay(lease()::text placing CASE right(lease()::text, 1) WHEN '0' THEN '1' ELSE '0' END from 36)::uuid)$$,
	$$SELECT queen.ack('not a uuid')$$);
SELECT queen.ack(lease());

-- A consumer that acknowledges and commits message by message while its loop over the batch is open.
SELECT count(queen.push('ack loop', to_jsonb(i))) FROM generate_series(0, 5) i;
CREATE TABLE seen (message jsonb, answer bigint);
DO $$
DECLARE
	m record;
BEGIN
	FOR m IN SELECT * FROM queen.pop('ack loop', max_messages => 4) LOOP
		INSERT INTO seen VALUES (m.message, queen.ack(m.lease, m.msg_offset));
		COMMIT;
	END LOOP;
END
$$;
SELECT * FROM seen;
SELECT msg_offset, attempt FROM take('ack loop', max_messages => 4);
