-- nack: retry with a delay that blocks the partition, in the middle of a batch, dead by request.
\getenv inputdir PG_ABS_SRCDIR
\set topic nack
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION blocked(of_queue text) RETURNS TABLE (partition text, consumer_group text, msg_offset bigint, reason text, attempts int, seconds numeric, error text)
LANGUAGE sql AS $$
	SELECT b.partition, b.consumer_group, b.msg_offset, b.reason, b.attempts, round(extract(epoch FROM b.blocked_until - clock_timestamp())), b.error
	FROM queen.pg_stat_queen_blocked b WHERE b.queue = of_queue ORDER BY 1, 2
$$;

-- With a delay: the partition delivers nothing to the group until it is over, and the view says so; others go on.
SELECT count(queen.push('nack', to_jsonb(i), p)) FROM generate_series(0, 3) i, unnest(ARRAY['a', 'b']) p;
SELECT msg_offset, attempt FROM take('nack', max_messages => 2, only_partition => 'a');
SELECT queen.nack(lease(), delay => '1 hour', error => 'not today');
SELECT * FROM blocked('nack');
SELECT count(*) FROM take('nack', only_partition => 'a');
SELECT partition, msg_offset, attempt FROM take('nack', max_messages => 100, max_partitions => 100);
SELECT msg_offset, attempt FROM take('nack', 'other', 1, 'a');
SELECT queen.nack(lease(), delay => '2 days');
SELECT * FROM blocked('nack');
SELECT tenant, queue FROM queen.pg_stat_queen_blocked WHERE queue = 'nack' AND consumer_group = 'default';
-- The lease is gone with the nack.
SELECT attempts('SELECT queen.ack(lease())', 'SELECT queen.nack(lease())', 'SELECT queen.release(lease())');
-- Over: the head comes alone, counted; the order is kept.
SELECT time_passes('nack');
SELECT * FROM blocked('nack');
SELECT msg_offset, attempt FROM take('nack', max_messages => 100, only_partition => 'a');
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('nack', max_messages => 100, only_partition => 'a');

-- By the clock.
SELECT count(queen.push('nack clock', '0'));
SELECT count(*) FROM take('nack clock');
SELECT queen.nack(lease(), delay => '300 ms');
SELECT count(*) FROM take('nack clock');
SELECT pg_sleep(0.35);
SELECT msg_offset, attempt FROM take('nack clock');
-- No delay, no block.
SELECT queen.nack(lease(), delay => '0');
SELECT * FROM blocked('nack clock');
SELECT msg_offset, attempt FROM take('nack clock');
-- The least and the greatest delay; a month counts as 30 days.
SELECT queen.nack(lease(), delay => '365 days');
SELECT (seconds / 86400)::int AS days FROM blocked('nack clock');
SELECT time_passes('nack clock');
SELECT msg_offset, attempt FROM take('nack clock');
SELECT queen.nack(lease(), delay => '1 mon');
SELECT (seconds / 86400)::int AS days FROM blocked('nack clock');
SELECT time_passes('nack clock');
SELECT msg_offset, attempt FROM take('nack clock');
SELECT attempts(
	$$SELECT queen.nack(lease(), delay => '365 days 1 microsecond')$$,
	$$SELECT queen.nack(lease(), delay => '-1 microsecond')$$,
	$$SELECT queen.nack(lease(), delay => '100000000 years')$$,
	$$SELECT queen.nack(lease(), dead => NULL)$$);
-- Refused arguments changed nothing.
SELECT queen.ack(lease());

-- The queue's retry_delay: exponential by default, 1 s doubled up to 60 s; the delay of the call before it.
CREATE FUNCTION delays(queue text) RETURNS TABLE (attempt int, seconds numeric) LANGUAGE plpgsql AS $$
DECLARE
	m record;
	begun timestamptz;
	until timestamptz;
BEGIN
	LOOP
		SELECT * INTO m FROM queen.pop(delays.queue);
		begun := clock_timestamp();
		EXIT WHEN queen.nack(m.lease) = 'dead';
		SELECT b.blocked_until INTO until FROM queen.pg_stat_queen_blocked b WHERE b.queue = delays.queue;
		attempt := m.attempt;
		seconds := trim_scale(floor(extract(epoch FROM until - begun) * 2) / 2);
		until := NULL;
		RETURN NEXT;
		PERFORM time_passes(delays.queue);
	END LOOP;
END
$$;
SELECT queen.create_queue('nack exponential', options => '{"max_deliveries": 10}'), queen.create_queue('nack fixed', options => '{"max_deliveries": 4, "retry_delay": 2.5}'),
	queen.create_queue('nack none', options => '{"max_deliveries": 4, "retry_delay": "0"}');
SELECT q, count(queen.push(q, '1')) FROM unnest(ARRAY['nack exponential', 'nack fixed', 'nack none']) q GROUP BY q ORDER BY q;
SELECT * FROM delays('nack exponential');
SELECT * FROM delays('nack fixed');
SELECT * FROM delays('nack none');

-- In the middle: completes what lies below, releases and uncounts what lies behind.
SELECT count(queen.push('nack middle', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT count(*) FROM take('nack middle', max_messages => 5);
SELECT attempts(
	'SELECT queen.nack(lease(), 5)',
	'SELECT queen.nack(lease(), -1)',
	'SELECT queen.nack(lease(), 9223372036854775807)',
	'SELECT queen.nack(lease(), -9223372036854775808)');
SELECT queen.nack(lease(), 2, '1 hour', 'the third');
SELECT * FROM blocked('nack middle');
SELECT time_passes('nack middle');
SELECT msg_offset, attempt FROM take('nack middle', max_messages => 5);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('nack middle', max_messages => 4);
-- After a partial ack: the completed ones are out of reach.
SELECT queen.ack(lease(), 4);
SELECT attempt('SELECT queen.nack(lease(), 4)');
SELECT queen.nack(lease(), 6, delay => '0');
SELECT msg_offset, attempt FROM take('nack middle', max_messages => 5);
-- The last one of a batch; then a batch is lost in whose middle nobody was.
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('nack middle', max_messages => 5);
SELECT queen.nack(lease(), 9, delay => '0');
SELECT msg_offset, attempt FROM take('nack middle', max_messages => 5);
SELECT queen.ack(lease());
SELECT count(*) FROM take('nack middle');

-- Without an offset it is the first under the lease.
SELECT count(queen.push('nack first', to_jsonb(i))) FROM generate_series(0, 3) i;
SELECT count(*) FROM take('nack first', max_messages => 4);
SELECT queen.ack(lease(), 0);
SELECT queen.nack(lease(), delay => '0');
SELECT msg_offset, attempt FROM take('nack first', max_messages => 4);
SELECT queen.ack(lease());

-- dead => true: to the dead letters at once; what lies below is completed, what lies behind comes as if not delivered.
SELECT count(queen.push('nack dead', to_jsonb(i), 'p', jsonb_build_object('h', i))) FROM generate_series(0, 5) i;
SELECT count(*) FROM take('nack dead', max_messages => 4);
SELECT queen.nack(lease(), 1, error => 'cannot be', dead => true);
SELECT queue, kind, partition, consumer_group, msg_offset, message, payload, headers, attempts, error FROM queen.dead_letters WHERE queue = 'nack dead';
-- A delay has no meaning then: the partition goes on.
SELECT * FROM blocked('nack dead');
SELECT msg_offset, attempt FROM take('nack dead', max_messages => 4);
SELECT queen.nack(lease(), dead => true, delay => '1 hour');
SELECT * FROM blocked('nack dead');
-- The lease did its work.
SELECT attempts('SELECT queen.nack(lease())', 'SELECT queen.extend(lease())');
SELECT queen.ack(lease()), queen.release(lease());
SELECT msg_offset, attempt FROM take('nack dead', max_messages => 4);
SELECT msg_offset, message, attempts, error FROM queen.dead_letters WHERE queue = 'nack dead' ORDER BY dead_id;

-- Rolled back: the lease is as before, nothing is dead or blocked.
BEGIN;
SELECT queen.nack(lease(), dead => true);
ROLLBACK;
BEGIN;
SELECT queen.nack(lease(), delay => '1 hour');
SELECT count(*) FROM blocked('nack dead');
ROLLBACK;
SELECT count(*) FROM blocked('nack dead');
SELECT count(*) FROM queen.dead_letters WHERE queue = 'nack dead';
BEGIN;
SAVEPOINT s;
SELECT queen.nack(lease(), delay => '1 hour');
ROLLBACK TO s;
SELECT queen.ack(lease());
COMMIT;

-- The view tells each partition once, also in the transaction that changed it often.
SELECT count(queen.push('nack view', '1'));
BEGIN;
DO $$
BEGIN
	FOR i IN 1..40 LOOP
		PERFORM queen.release(lease) FROM queen.pop('nack view');
	END LOOP;
	PERFORM queen.nack(lease, delay => '1 hour') FROM queen.pop('nack view');
END
$$;
SELECT * FROM blocked('nack view');
COMMIT;
SELECT * FROM blocked('nack view');
