-- The state of queues: what a collection finds agrees with what counting finds, whichever way it goes; what it refuses. Workers: test/t/062_collector.pl.
\getenv inputdir PG_ABS_SRCDIR
\set topic state
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
SET statement_timeout = '60 s';
-- what other tests have left would decide by which way is gone
TRUNCATE queen.messages;

-- A collection, and what the views show of a queue. Ages to the half minute.
CREATE FUNCTION collected() RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN queen.collect() > now() - interval '1 min' THEN 'collected' END $$;
CREATE FUNCTION shown(of_queue text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s %s: %s ready, %s in flight, %s blocked, %s exhausted, %s expired; oldest %s, %s; %s messages, %s dead, %s timers',
		kind, coalesce(priority, '-'), ready, in_flight, blocked, exhausted, expired, floor(oldest_ready_age / 30) * 30, floor(oldest_in_flight_age / 30) * 30,
		messages, dead, timers) FROM queen.pg_stat_queen_queues WHERE queue = of_queue
$$;
CREATE FUNCTION shown_groups(of_queue text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s: %s ready, %s in flight, %s blocked; oldest %s, %s', consumer_group, ready, in_flight, blocked,
		floor(oldest_ready_age / 30) * 30, floor(oldest_in_flight_age / 30) * 30)
	FROM queen.pg_stat_queen_groups WHERE queue = of_queue ORDER BY consumer_group
$$;
-- Work queues that are shown otherwise than they are counted.
CREATE FUNCTION wrong() RETURNS TABLE (queue text, priority text, shown text, counted text) LANGUAGE sql AS $$
	SELECT v.queue, v.priority, format('%s/%s/%s/%s', v.ready, v.in_flight, v.exhausted, v.expired), format('%s/%s/%s/%s', c.ready, c.in_flight, c.exhausted, c.expired)
	FROM queen.pg_stat_queen_queues v, queen.count_messages(v.queue) c
	WHERE v.kind = 'work' AND c.priority = v.priority AND v.tenant = '00000000-0000-0000-0000-000000000000'
		AND ((v.ready, v.in_flight, v.exhausted, v.expired) <> (c.ready, c.in_flight, c.exhausted, c.expired)
			OR v.messages <> c.ready + c.in_flight + c.exhausted + c.expired
			OR abs(v.oldest_ready_age - coalesce(extract(epoch FROM v.collected_at - c.oldest_at), 0)) > 0.001)
$$;
-- As if it were that much later for a queue's messages.
CREATE FUNCTION later(of_queue text, by interval) RETURNS void LANGUAGE sql AS $$
	UPDATE queen.messages m SET enqueued_at = enqueued_at - by, expires_at = expires_at - by, visible_at = visible_at - by, delivered_at = delivered_at - by
	FROM queen.queues q WHERE q.log_id = m.log_id AND q.name = of_queue
$$;

-- Nothing: a row for each priority all the same.
SELECT queen.create_queue('state w', 'work', '{"max_delivery_attempts": 2, "retry_delay": 0, "visibility_timeout": 30}');
SELECT queen.create_queue('state l');
SELECT collected();
SELECT shown('state w');
SELECT shown('state l');
SELECT bytes IS NULL, bytes = 0, priority IS NULL FROM queen.pg_stat_queen_queues WHERE queue LIKE 'state %' ORDER BY kind, priority;

-- All that a message can be: ready, ready again, in flight, rejected, exhausted, expired, expired in flight, expired under a receipt.
SELECT count(queen.enqueue('state w', '1')) FROM generate_series(1, 20);
SELECT count(*) FROM queen.dequeue('state w', 12);
SELECT later('state w', '1 min');
-- their last delivery, so each comes alone
SELECT sum(n) FROM generate_series(1, 5), LATERAL (SELECT count(*) AS n FROM queen.dequeue('state w', 1) WHERE generate_series > 0) d;
SELECT later('state w', '1 min');
SELECT count(*) FROM queen.dequeue('state w', 1, '1 h');
SELECT count(queen.enqueue('state w', '1', 'high', '10 s')) FROM generate_series(1, 7);
SELECT count(*) FROM queen.dequeue('state w', 2, '5 s');
SELECT count(*) FROM queen.dequeue('state w', 1, '1 h');
SELECT later('state w', '1 min');
SELECT count(queen.enqueue('state w', '1', 'low')) FROM generate_series(1, 3);
SELECT bool_and(queen.reject(message_id, receipt)) FROM queen.dequeue('state w', 1);
SELECT collected();
SELECT shown('state w');
SELECT * FROM wrong();
-- the same by the other way: there are more queues than pages
SELECT count(queen.enqueue('state many ' || i, '1', p)) FROM generate_series(1, 20) i, unnest(ARRAY['high', 'medium', 'low']) p;
SELECT collected();
SELECT shown('state w');
SELECT * FROM wrong();
-- a count that is too high is seen there, too
UPDATE queen.queue_priority_state_shard s SET in_flight_count = 3 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'state many 7' AND priority = 3;
SELECT attempt('SELECT queen.collect()');
SELECT queen.rollup_rebuild('state many 7');
SELECT count(queen.drop_queue('state many ' || i)) FROM generate_series(1, 20) i;
-- queues that are deep, and take many pages
CREATE FUNCTION fill() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, 30) i, LATERAL queen.enqueue_batch('state deep', (SELECT jsonb_agg((SELECT string_agg(md5(i::text || j || k), '') FROM generate_series(1, 50) k)) FROM generate_series(1, 40) j))
$$;
SELECT queen.create_queue('state deep', 'work');
SELECT fill();
SELECT collected();
SELECT shown('state w');
SELECT shown('state deep');
SELECT * FROM wrong();
-- what is dead at the beginning of the indexes is no message
SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('state deep', 700);
SELECT count(*) FROM queen.dequeue('state deep', 100);
SELECT later('state deep', '40 s');
SELECT collected();
SELECT shown('state deep');
SELECT later('state deep', '40 s');
SELECT collected();
SELECT shown('state deep');
SELECT * FROM wrong();
DELETE FROM queen.messages m USING queen.queues q WHERE q.log_id = m.log_id AND q.name = 'state deep';
SELECT queen.drop_queue('state deep');

-- Dead letters and timers, of either kind and of each priority.
SELECT count(*) FROM queen.dequeue('state w', 50);
SELECT queen.schedule('state w', 'a', '1', delay => '1 h', priority => 'low') IS NULL, queen.schedule('state w', 'b', '1', delay => '1 h') IS NULL,
	queen.push('state l', '1', delay => '1 h') IS NULL, queen.schedule_cron('state l', 'c', '0 0 1 1 *', '1') IS NULL;
-- of a timer that found no queue, and so had none when it died: it is of the one that has its name
INSERT INTO queen.dead_letters (dead_id, tenant, queue_id, queue, kind, message_id, message, attempts, enqueued_at, dead_at, priority)
SELECT -i, '00000000-0000-0000-0000-000000000000', 0, 'state w', 'work', gen_random_uuid(), '1', 1, now(), now(), 3 FROM generate_series(1, 2) i;
SELECT collected();
SELECT shown('state w');
SELECT shown('state l');
SELECT queen.purge_dead('state w');

-- Logs: without a group all that is retained; with groups each of them, and of the queue the one that has most to do.
SELECT count(queen.push('state l', to_jsonb(i), partition => 'p' || i % 4)) FROM generate_series(1, 40) i;
SELECT collected();
SELECT shown('state l');
SELECT bytes BETWEEN 40 AND 40 * 1000 FROM queen.pg_stat_queen_queues WHERE queue = 'state l';
SELECT queen.subscribe('state l', 'late', 'latest');
SELECT count(*) FROM take('state l', 'one', 4, 'p0');
SELECT count(*) FROM take('state l', 'one', 4, 'p1', auto_ack => true);
SELECT count(*) FROM take('state l', 'one', 4, 'p2');
SELECT queen.nack(lease(), delay => '1 h');
SELECT collected();
SELECT shown_groups('state l');
SELECT shown('state l');
-- a lease, or a wait, that is over
SELECT time_passes('state l');
SELECT collected();
SELECT shown_groups('state l');
SELECT (SELECT sum(ready + in_flight + blocked) FROM queen.pg_stat_queen_groups WHERE queue = 'state l' AND consumer_group = g.consumer_group) = g.lag AS lag FROM queen.list_groups('state l') g;
SELECT clock_timestamp() AS at \gset
-- the late one begins behind what was there; what is pushed since is there for it
SELECT count(queen.push('state l', '1', partition => 'p' || i)) FROM generate_series(3, 5) i;
SELECT collected();
SELECT shown_groups('state l');
-- one that begins at a time, and has no cursor yet: behind what was there then, in the middle of p3, before all of p4 and p5
SELECT queen.subscribe('state l', 'timed', :'at');
SELECT count(*) FROM cursors WHERE queue = 'state l' AND consumer_group = 'timed';
SELECT collected();
SELECT shown_groups('state l');
SELECT queen.unsubscribe('state l', 'timed');
-- in a partition of several segments a cursor may stand anywhere
SELECT count(queen.push('state l', to_jsonb(i), partition => 'long')) FROM generate_series(1, 6) i;
SELECT queen.push('state l', '7', partition => 'long') IS NULL;
SELECT queen.push('state l', '8', partition => 'long') IS NULL;
SELECT count(*) FROM take('state l', 'one', 6, 'long', auto_ack => true);
SELECT collected();
SELECT shown_groups('state l');
SELECT round(v.oldest_ready_age::numeric, 4) = round(extract(epoch FROM v.collected_at - g.oldest_at), 4) AS oldest FROM queen.pg_stat_queen_groups v JOIN queen.list_groups('state l') g USING (consumer_group) WHERE queue = 'state l';
-- all of it is consumed; and purged
SELECT queen.seek_to_end('state l', 'one'), queen.seek_to_end('state l', 'late');
SELECT collected();
SELECT shown_groups('state l');
SELECT queen.purge_queue('state l');
SELECT collected();
SELECT shown('state l');
SELECT shown_groups('state l');

-- What a transaction has not committed is nothing to show; reading transactions may ask.
BEGIN;
SELECT queen.enqueue('state w', '1') IS NULL;
SELECT attempt('SELECT queen.collect()');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT collected();
ROLLBACK;

-- Counts that are wrong: a collection fails, is counted, and leaves what was there.
SELECT queen.reset_collector_stats();
SELECT attempts, failures, stats_reset IS NULL, snapshot_age < 60, last_error FROM queen.pg_stat_queen_collector;
SELECT sum(ready) AS ready, min(collected_at) AS collected_at FROM queen.pg_stat_queen_queues WHERE queue = 'state w' \gset was_
SELECT queen.create_queue('state d', 'work');
SELECT count(queen.enqueue('state d', '1', ttl => '1 s')) FROM generate_series(1, 3);
SELECT later('state d', '10 s');
UPDATE queen.queue_priority_state_shard s SET ready_count = 2 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'state d';
SELECT attempt('SELECT queen.collect()');
SELECT attempts, failures, last_sqlstate, last_error, last_failure = last_attempt, left_out_queues, left_out_groups FROM queen.pg_stat_queen_collector;
SELECT sum(ready) = :was_ready, min(collected_at) = :'was_collected_at' FROM queen.pg_stat_queen_queues WHERE queue = 'state w';
SELECT queen.rollup_rebuild('state d');
SELECT collected();
SELECT shown('state d');
SELECT attempts, failures, last_sqlstate, collected_at = last_attempt OR collected_at < last_attempt FROM queen.pg_stat_queen_collector;
-- What is counted where there is nothing is found wrong, and the reverse; by the indexes.
SELECT fill();
SELECT queen.create_queue('state e', 'work');
CREATE FUNCTION pg_temp.uncounted(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE queen.messages DISABLE TRIGGER USER;
	EXECUTE format(what, (SELECT log_id FROM queen.queues WHERE name = 'state e'));
	ALTER TABLE queen.messages ENABLE TRIGGER USER;
END
$$;
SELECT count(queen.enqueue('state e', '1')) FROM generate_series(1, 3);
SELECT collected();
SELECT pg_temp.uncounted('DELETE FROM queen.messages WHERE log_id = %s');
SELECT attempt('SELECT queen.collect()');
SELECT queen.rollup_rebuild('state e');
SELECT collected();
SELECT count(queen.enqueue('state e', '1')) FROM generate_series(1, 3);
SELECT count(*) FROM queen.dequeue('state e', 2);
SELECT pg_temp.uncounted($$DELETE FROM queen.messages WHERE log_id = %s AND state = 'IN_FLIGHT'$$);
SELECT attempt('SELECT queen.collect()');
SELECT queen.rollup_rebuild('state e');
SELECT collected();
SELECT pg_temp.uncounted('UPDATE queen.queue_priority_state_shard SET ready_count = 0, in_flight_count = 0 WHERE log_id = %s');
SELECT attempt('SELECT queen.collect()');
SELECT queen.rollup_rebuild('state e');
SELECT queen.drop_queue('state e');
SELECT collected();
-- of what was delivered; and by the indexes
SELECT fill();
SELECT count(*) FROM queen.dequeue('state deep', 5);
SELECT later('state deep', '1 min');
UPDATE queen.queue_priority_state_shard s SET in_flight_count = 4 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'state deep' AND in_flight_count = 5;
SELECT attempt('SELECT queen.collect()');
UPDATE queen.queue_priority_state_shard s SET in_flight_count = 5 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'state deep' AND in_flight_count = 4;
SELECT collected();

-- Paused: said of queues and of groups, of a group also when its queue is; what waits is counted all the same.
SELECT queen.create_queue('state pw', 'work'), queen.create_queue('state pl');
SELECT queen.enqueue('state pw', '1') IS NOT NULL, queen.push('state pl', '1') IS NOT NULL, queen.subscribe('state pl', 'a'), queen.subscribe('state pl', 'b');
SELECT queen.seek('state pl', g, 0) FROM unnest(ARRAY['a', 'b']) g;
CREATE FUNCTION shown_paused() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s %s: %s, %s ready', queue, priority, paused, ready) FROM queen.pg_stat_queen_queues WHERE queue LIKE 'state p_' AND (kind = 'log' OR ready > 0)
	UNION ALL SELECT format('%s of %s: %s, %s ready', consumer_group, queue, paused, ready) FROM queen.pg_stat_queen_groups WHERE queue LIKE 'state p_'
$$;
SELECT collected();
SELECT shown_paused();
SELECT queen.pause('state pw'), queen.pause('state pl', 'a');
SELECT shown_paused() LIMIT 1;
SELECT collected();
SELECT shown_paused();
SELECT queen.pause('state pl'), queen.resume('state pl', 'a');
SELECT collected();
SELECT shown_paused();
SELECT count(queen.drop_queue(q)) FROM unnest(ARRAY['state pw', 'state pl']) q;

-- Tenants: each queue is shown with its own; names need not differ.
SET queen.tenant = 'aaaaaaaa-0000-0000-0000-000000000001';
SELECT queen.enqueue('state w', '1', 'high') IS NULL;
RESET queen.tenant;
SELECT collected();
SELECT tenant, ready FROM queen.pg_stat_queen_queues WHERE queue = 'state w' AND priority = 'high' ORDER BY tenant;

-- Rights: who watches sees it, and collects nothing.
CREATE ROLE regress_queen_state_watcher;
CREATE ROLE regress_queen_state_nobody;
GRANT pg_monitor TO regress_queen_state_watcher;
SET ROLE regress_queen_state_watcher;
SELECT count(*) > 0 FROM queen.pg_stat_queen_queues;
SELECT count(*) FROM queen.pg_stat_queen_collector;
SELECT count(*) >= 0 FROM queen.pg_stat_queen_groups;
RESET ROLE;
GRANT USAGE ON SCHEMA test_state TO regress_queen_state_watcher, regress_queen_state_nobody;
SET ROLE regress_queen_state_watcher;
SELECT attempts('SELECT queen.collect()', 'SELECT queen.reset_collector_stats()');
SET ROLE regress_queen_state_nobody;
SELECT attempts('SELECT * FROM queen.pg_stat_queen_queues');
RESET ROLE;
REVOKE USAGE ON SCHEMA test_state FROM regress_queen_state_watcher, regress_queen_state_nobody;
DROP ROLE regress_queen_state_watcher, regress_queen_state_nobody;

-- What is dropped is not shown any more; nor is what a transaction that rolls back has made.
SELECT count(queen.drop_queue(q)) FROM unnest(ARRAY['state w', 'state d', 'state deep', 'state l']) q;
SET queen.tenant = 'aaaaaaaa-0000-0000-0000-000000000001';
SELECT queen.drop_queue('state w');
RESET queen.tenant;
SELECT collected();
SELECT count(*) FROM queen.pg_stat_queen_queues WHERE queue LIKE 'state %';
SET client_min_messages = error;
CALL queen.maintain();
