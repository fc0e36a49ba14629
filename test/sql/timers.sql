-- Timers: schedule, cancel, look, fire by hand, fail. That the pulse fires them is 050's matter.
\getenv inputdir PG_ABS_SRCDIR
\set topic timers
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
-- This topic's timers are all there is: fire_timers() fires anybody's. The pulse must not be faster than the test.
SET queen.tenant = 'eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee';

CREATE FUNCTION verdict(queue text, key text, message jsonb, at interval DEFAULT '1 hour', mode text DEFAULT 'replace', partition text DEFAULT 'Default') RETURNS text LANGUAGE sql AS $$
	SELECT s.verdict FROM queen.schedule(verdict.queue, key, message, delay => at, mode => verdict.mode, partition => verdict.partition) s
$$;
-- A timer without what differs from run to run.
CREATE FUNCTION timer(queue text, key text) RETURNS TABLE (timer_key text, partition text, waits boolean, failed boolean, attempts int, last_error text, message jsonb, payload bytea, headers jsonb) LANGUAGE sql AS $$
	SELECT timer_key, partition, deliver_at > clock_timestamp(), retry_at > clock_timestamp(), attempts, last_error, message, payload, headers FROM queen.peek_timer(timer.queue, timer.key)
$$;
-- As if what is due in that queue had become due one day ago, in the order in which it was.
CREATE FUNCTION day_passes(of_queue text) RETURNS void LANGUAGE sql AS $$
	UPDATE queen.log_timers SET deliver_at = deliver_at - interval '1 day', retry_at = retry_at - interval '1 day' WHERE queue = of_queue
$$;

-- Schedule: the queue need not be there, and is not made.
SELECT verdict('timers', 'a', '"first"');
SELECT count(*) FROM queen.list_queues();
SELECT * FROM timer('timers', 'a');
-- The same key again: all of it is new but created_at; keep leaves it.
CREATE TABLE before AS SELECT * FROM queen.peek_timer('timers', 'a');
SELECT s.verdict, s.message_id <> b.message_id AS new_id, s.message_id = p.message_id AS promised
FROM before b, queen.schedule('timers', 'a', '"second"', delay => '2 hours', partition => 'p', headers => '{"h": 1}') s, LATERAL (SELECT s.message_id) p;
SELECT * FROM timer('timers', 'a');
SELECT b.created_at = p.created_at AS created_then, b.updated_at < p.updated_at AS updated, b.message_id <> p.message_id AS other_id, p.deliver_at - b.deliver_at BETWEEN '59 min' AND '61 min' AS later FROM before b, queen.peek_timer('timers', 'a') p;
SELECT s.verdict, s.message_id = p.message_id AS its_id FROM queen.peek_timer('timers', 'a') p, queen.schedule('timers', 'a', '"third"', delay => '-1 s', mode => 'keep') s;
SELECT * FROM timer('timers', 'a');
SELECT verdict('timers', 'b', '"new"', mode => 'keep');
-- A time instead of a delay; one that has passed; a month is one of the calendar.
SELECT s.verdict FROM queen.schedule('timers', 'c', '1', deliver_at => '2200-01-01 00:00 UTC') s;
SELECT s.verdict FROM queen.schedule('timers', 'past', '1', deliver_at => '1999-01-01 00:00 UTC') s;
SELECT s.verdict FROM queen.schedule('timers', 'month', '1', delay => '1 month') s;
SELECT deliver_at AT TIME ZONE 'UTC' AS deliver_at FROM queen.list_timers('timers') WHERE timer_key IN ('c', 'past') ORDER BY timer_key;
SELECT (deliver_at - '1 month'::interval)::date = (now() AT TIME ZONE current_setting('TimeZone'))::date AS a_month FROM queen.peek_timer('timers', 'month');

-- Look: by key in byte order, page by page, one partition or another.
SELECT timer_key, partition, attempts, last_error FROM queen.list_timers('timers');
WITH RECURSIVE pages AS (
	SELECT array_agg(timer_key) AS page FROM queen.list_timers('timers', max_rows => 2)
	UNION ALL
	SELECT (SELECT array_agg(timer_key) FROM queen.list_timers('timers', p.page[cardinality(p.page)], 2)) FROM pages p WHERE p.page IS NOT NULL)
SELECT page FROM pages WHERE page IS NOT NULL;
SELECT count(*) FROM queen.list_timers('timers', after_key => 'past');
SELECT count(*) FROM queen.list_timers('nowhere');
SELECT count(*) FROM queen.peek_timer('timers', 'A');
SELECT count(*) FROM queen.peek_timer('timers', 'pas');
SELECT queen.count_timers('timers'), queen.count_timers('timers', 'p'), queen.count_timers('timers', 'pa'), queen.count_timers('timers', 'past'), queen.count_timers('timers', 'pasta'), queen.count_timers('nowhere');
SELECT queen.next_timer('timers') AT TIME ZONE 'UTC' AS next, queen.next_timer('nowhere') AS none;
BEGIN READ ONLY;
SELECT queen.count_timers('timers'), (SELECT count(*) FROM queen.list_timers('timers')), (SELECT count(*) FROM queen.peek_timer('timers', 'a')), queen.next_timer('timers') IS NOT NULL AS next;
COMMIT;

-- Cancel.
SELECT queen.cancel('timers', 'b'), queen.cancel('timers', 'b'), queen.cancel('timers', 'never'), queen.cancel('nowhere', 'a');
BEGIN;
SELECT queen.cancel('timers', 'a');
SELECT queen.cancel('timers', 'a'), queen.count_timers('timers');
SELECT verdict('timers', 'a', '"again"');
SELECT verdict('timers', 'a', '"and again"');
ROLLBACK;
SELECT message FROM timer('timers', 'a');
BEGIN;
SAVEPOINT s;
SELECT queen.cancel('timers', 'a'), verdict('timers', 'savepoint', '1');
ROLLBACK TO s;
SELECT queen.count_timers('timers', 'savepoint'), queen.cancel('timers', 'a');
COMMIT;
-- By prefix: bytes, no pattern; of that queue.
SELECT count(verdict('timers', k, '1')) FROM unnest(ARRAY['x', 'x%', 'x%1', 'x_', 'xy', 'X', 'x' || chr(252), 'x' || chr(253)]) k;
SELECT verdict('timers 2', 'x%', '1');
SELECT queen.cancel_prefix('timers', 'x%'), queen.cancel_prefix('timers', 'x%'), queen.cancel_prefix('timers', 'x' || chr(252)), queen.cancel_prefix('nowhere', 'x');
SELECT timer_key FROM queen.list_timers('timers', 'month');
SELECT queen.cancel_prefix('timers', 'x'), queen.cancel('timers', 'X'), queen.cancel('timers 2', 'x%');
-- Another isolation level sees the latest all the same.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT verdict('timers', 'rr', '1'), verdict('timers', 'rr', '2'), queen.cancel('timers', 'rr');
COMMIT;

-- Fire: what is due, the rest stays; the queue comes to be; the id is the promised one.
CREATE TABLE promised AS SELECT s.* FROM queen.schedule('timers', 'now', '{"n": 1}', delay => '0', partition => 'p', headers => '{"h": "x"}') s;
SELECT place, partition, msg_offset FROM promised, queen.find('timers', message_id);
SELECT queen.fire_timers();
SELECT queue, partitions FROM queen.list_queues();
SELECT m.message, m.headers, m.message_id = p.message_id AS promised, m.enqueued_at > now() - interval '1 minute' AS fresh FROM queen.peek('timers', 'p') m, promised p;
SELECT place, partition, msg_offset FROM promised, queen.find('timers', message_id);
SELECT stored('timers');
SELECT queen.cancel('timers', 'now'), queen.cancel('timers', 'past'), queen.count_timers('timers'), queen.fire_timers();
-- In the order of their times in each partition, whatever the order in which they were scheduled.
SELECT count(verdict('timers order', 'k' || n, to_jsonb(n), make_interval(secs => - (n * 7919 % 100)), partition => 'p' || n % 3)) FROM generate_series(0, 99) n;
SELECT queen.fire_timers(10), queen.count_timers('timers order');
SELECT queen.fire_timers(), queen.count_timers('timers order');
SELECT bool_and(k > last) AS in_order, count(*) + 3 AS messages FROM (
	SELECT partition, - (message::int * 7919 % 100) AS k, lag(- (message::int * 7919 % 100)) OVER (PARTITION BY partition ORDER BY msg_offset) AS last
	FROM unnest('{p0,p1,p2}'::text[]) p, queen.peek('timers order', p, max_messages => 100)) m WHERE last IS NOT NULL;
-- So the ids of a segment do not ascend: each is found all the same, and the tables agree.
SELECT count(*), count(*) FILTER (WHERE (f.place, f.partition, f.msg_offset) = ('log', p, m.msg_offset)) AS found
FROM unnest('{p0,p1,p2}'::text[]) p, queen.peek('timers order', p, max_messages => 100) m, queen.find('timers order', m.message_id) f;
SELECT item, object, problem FROM queen.verify() WHERE item IN ('segment', 'timer', 'rule');
-- Rolled back: neither pushed nor gone.
SELECT verdict('timers', 'back', '"back"', '0');
BEGIN;
SELECT queen.fire_timers();
ROLLBACK;
SELECT queen.count_timers('timers', 'back'), queen.fire_timers();
SELECT queen.fire_timers();
-- What the transaction itself has scheduled is fired, too; not behind a push.
BEGIN;
SELECT verdict('timers', 'own', '"own"', '0');
SELECT queen.fire_timers();
COMMIT;
BEGIN;
SELECT count(queen.push('timers', '1'));
SELECT attempt('SELECT queen.fire_timers()');
ROLLBACK;
SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.peek('timers');
-- While a transaction fires, nobody takes a timer of it back; the transaction itself finds nothing.
BEGIN;
SELECT verdict('timers', 'own', '1', '0');
SELECT queen.fire_timers();
SELECT queen.cancel('timers', 'own');
SELECT verdict('timers', 'own', '2', '1 day');
COMMIT;
SELECT queen.cancel('timers', 'own');

-- push(delay), push(deliver_at): a timer whose key is the message's id.
SELECT queen.push('timers push', '"late"', delay => '1 hour') AS id, queen.push_bytes('timers push', '\x00ff', 'p', headers => '{"h": 1}', deliver_at => '1999-01-01') AS bytes_id \gset
SELECT timer_key = :'id' AS its_id, message FROM timer('timers push', :'id');
SELECT timer_key = :'bytes_id' AS its_id, partition, payload, headers FROM timer('timers push', :'bytes_id');
SELECT queen.fire_timers();
SELECT payload, headers, message_id = :'bytes_id' AS its_id FROM queen.peek('timers push', 'p');
SELECT place FROM queen.find('timers push', :'id');
SELECT count(*) FROM queen.find('timers push', :'id', 'p');
SELECT queen.cancel('timers push', :'id');
SELECT count(*) FROM queen.find('timers push', :'id');

-- Names are a tenant's.
SELECT verdict('timers', 'mine', '"e"');
SET queen.tenant = 'dddddddd-dddd-dddd-dddd-dddddddddddd';
SELECT queen.count_timers('timers'), queen.next_timer('timers'), queen.cancel('timers', 'mine'), queen.cancel_prefix('timers', 'm');
SELECT verdict('timers', 'mine', '"d"', '0'), queen.fire_timers();
SELECT stored('timers');
SELECT queen.drop_queue('timers');
SET queen.tenant = 'eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee';
SELECT message FROM timer('timers', 'mine');

-- drop_queue takes a queue's timers along, also where there is no queue yet; purge_queue leaves them.
SELECT verdict('timers drop', 'a', '1'), verdict('timers drop 2', 'a', '1');
SELECT queen.drop_queue('timers drop'), queen.drop_queue('timers drop'), queen.count_timers('timers drop'), queen.count_timers('timers drop 2');
SELECT queen.create_queue('timers drop 2'), queen.purge_queue('timers drop 2'), queen.count_timers('timers drop 2');
BEGIN;
SELECT queen.drop_queue('timers drop 2');
ROLLBACK;
SELECT queen.count_timers('timers drop 2'), queen.drop_queue('timers drop 2'), queen.count_timers('timers drop 2');

-- A queue that cannot be made: each of its timers fails, five times, one second and twice that and so on; then it is a dead letter.
SET queen.auto_create = off;
SELECT verdict('timers none', 'a', '"a"', '-1 s'), verdict('timers none', 'b', '"b"', '-2 s', partition => 'p'), verdict('timers', 'well', '"well"', '0');
SELECT queen.fire_timers();
SELECT * FROM timer('timers none', 'a');
SELECT round(extract(epoch FROM retry_at - updated_at)) AS after FROM queen.peek_timer('timers none', 'a');
SELECT queen.fire_timers();
-- In back-off it can be cancelled, and scheduled anew with no attempt spent.
SELECT queen.cancel('timers none', 'b'), verdict('timers none', 'b', '"b"', '-1 day', partition => 'p');
SELECT queen.fire_timers(), attempts FROM queen.peek_timer('timers none', 'b');
SELECT verdict('timers none', 'b', '"b 2"', '-1 day', partition => 'p');
SELECT * FROM timer('timers none', 'b');
CREATE FUNCTION fail_once_more(queue text, key text) RETURNS TABLE (attempts int, after numeric) LANGUAGE sql AS $$
	SELECT day_passes(fail_once_more.queue);
	SELECT queen.fire_timers();
	SELECT p.attempts, round(extract(epoch FROM p.retry_at - p.updated_at)) FROM queen.peek_timer(fail_once_more.queue, key) p
$$;
SELECT * FROM fail_once_more('timers none', 'a');
SELECT * FROM fail_once_more('timers none', 'a');
SELECT * FROM fail_once_more('timers none', 'a');
SELECT * FROM fail_once_more('timers none', 'a');
SELECT timer_key, attempts FROM queen.list_timers('timers none');
SELECT tenant = current_setting('queen.tenant')::uuid AS its_tenant, queue_id, queue, partition, timer_key, consumer_group, msg_offset, message, attempts, error FROM queen.dead_letters WHERE queue LIKE 'timers%' ORDER BY timer_key;
SELECT * FROM fail_once_more('timers none', 'b');
-- The dead are found; redrive makes messages of them, once there is a queue.
SELECT attempts('SELECT * FROM queen.list_dead(''timers none'')', 'SELECT queen.redrive(''timers none'')');
SELECT item, problem FROM queen.verify() WHERE item IN ('timer', 'dead letters');
SELECT d.message, f.place, f.partition, f.consumer_group, f.dead_id = d.dead_id AS it FROM queen.dead_letters d, LATERAL (SELECT * FROM queen.find('timers none', d.message_id)) f WHERE d.queue = 'timers none' ORDER BY 1;
SELECT message_id AS dead_message FROM queen.dead_letters WHERE queue = 'timers none' AND timer_key = 'b' \gset
SELECT count(*) FROM queen.find('timers none', :'dead_message', 'p');
SELECT count(*) FROM queen.find('timers none', :'dead_message', 'q');
SELECT attempt(format('SELECT queen.find(''timers none 2'', %L)', :'dead_message'));
SET queen.tenant = 'dddddddd-dddd-dddd-dddd-dddddddddddd';
SELECT attempt(format('SELECT queen.find(''timers none'', %L)', :'dead_message'));
SELECT attempts('SELECT * FROM queen.list_dead(''timers none'')', 'SELECT queen.purge_dead(''timers none'')');
SELECT queen.create_queue('timers none');
SELECT count(*) FROM queen.list_dead('timers none');
SELECT count(*) FROM queen.find('timers none', :'dead_message');
SELECT queen.purge_dead('timers none'), queen.redrive('timers none'), queen.drop_queue('timers none');
SET queen.tenant = 'eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee';
SELECT queen.create_queue('timers none');
SELECT d.message, f.place, f.partition, f.consumer_group FROM queen.dead_letters d, LATERAL (SELECT * FROM queen.find('timers none', d.message_id)) f WHERE d.queue = 'timers none' ORDER BY 1;
SELECT partition, timer_key, consumer_group, msg_offset, message, attempts, enqueued_at < dead_at AS scheduled_before FROM queen.list_dead('timers none') ORDER BY timer_key;
-- Between letters of its own, page by page, by ids, by group.
SELECT count(queen.push('timers none', '"own"'));
SELECT queen.nack(lease, dead => true) FROM queen.pop('timers none', 'g');
UPDATE queen.dead_letters SET dead_id = dead_id + 1000000 WHERE queue = 'timers none' AND timer_key = 'b';
WITH RECURSIVE pages AS (
	SELECT * FROM (SELECT dead_id, message FROM queen.list_dead('timers none', max_rows => 1)) first
	UNION ALL
	SELECT l.dead_id, l.message FROM pages p, LATERAL (SELECT * FROM queen.list_dead('timers none', after_id => p.dead_id, max_rows => 1)) l)
SELECT message FROM pages;
SELECT message FROM queen.list_dead('timers none');
SELECT message FROM queen.list_dead('timers none', 'g');
BEGIN;
SELECT queen.purge_dead('timers none', 'g'), queen.purge_dead('timers none', dead_ids => (SELECT array_agg(dead_id) FROM queen.list_dead('timers none') WHERE timer_key = 'b')), queen.purge_dead('timers none', dead_ids => '{0}'), queen.purge_dead('timers none', before => '1999-01-01');
SELECT message FROM queen.list_dead('timers none');
ROLLBACK;
SELECT queen.redrive('timers none', 'g'), queen.redrive('timers none', max_rows => 1), queen.redrive('timers none', dead_ids => ARRAY[0, dead_id]) FROM queen.list_dead('timers none') WHERE timer_key = 'b';
SELECT queen.redrive('timers none');
SELECT message, (headers -> 'queen_redriven') - 'message_id' AS redriven FROM unnest('{Default,p}'::text[]) p, queen.peek('timers none', p);
RESET queen.auto_create;
SELECT queen.drop_queue('timers none');

-- A queue that never came to be is dropped with what its timers have left.
SET queen.auto_create = off;
SELECT verdict('timers none', 'dead', '1', '-1 s'), verdict('timers none 2', 'dead', '1', '-1 s');
SET client_min_messages = error;
DO $$
BEGIN
	FOR n IN 1..5 LOOP
		PERFORM fail_once_more(q, 'dead') FROM unnest('{timers none,timers none 2}'::text[]) q;
	END LOOP;
END $$;
RESET client_min_messages;
SELECT queue, queue_id, timer_key FROM queen.dead_letters WHERE queue LIKE 'timers none%' ORDER BY queue;
SELECT verdict('timers none', 'waits', '1');
SET queen.tenant = 'dddddddd-dddd-dddd-dddd-dddddddddddd';
SELECT queen.drop_queue('timers none');
SET queen.tenant = 'eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee';
SELECT queen.drop_queue('timers none'), queen.drop_queue('timers none'), queen.count_timers('timers none');
SELECT queue FROM queen.dead_letters WHERE queue LIKE 'timers none%';
SELECT attempt('SELECT * FROM queen.list_dead(''timers none'')');
RESET queen.auto_create;
-- Redrive makes the queue as a push would, if anything is to go there.
SELECT queen.redrive('timers none 2', 'g'), queen.redrive('timers none 2', dead_ids => '{0}');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'timers none 2';
BEGIN;
SELECT queen.redrive('timers none 2', max_rows => 1), queen.redrive('timers none 2');
ROLLBACK;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'timers none 2';
SELECT queen.redrive('timers none 2'), queen.redrive('timers none 2');
SELECT stored('timers none 2');
SELECT attempt('SELECT queen.redrive(''timers none 3'')');
-- A queue that was born behind the death takes such letters along, too, and its option says how long they are kept.
CREATE FUNCTION letters() RETURNS TABLE (queue text, message jsonb) LANGUAGE sql AS $$ SELECT queue, message FROM queen.dead_letters WHERE queue LIKE 'timers none%' ORDER BY dead_id $$;
INSERT INTO queen.dead_letters (dead_id, tenant, queue_id, queue, kind, partition, message_id, message, attempts, enqueued_at, dead_at, timer_key)
SELECT nextval('queen.dead_ids'), current_setting('queen.tenant')::uuid, 0, q, 'log', 'p', gen_random_uuid(), to_jsonb(days), 5, now(), now() - days * interval '1 day', 'k' FROM unnest('{timers none 2,timers none 3,timers none 4}'::text[]) q, unnest('{1,10,100}'::int[]) days;
SELECT queen.create_queue('timers none 3', options => '{"dead_retention": "5 days"}'), queen.create_queue('timers none 4', options => '{"dead_retention": "off"}');
CALL queen.maintain();
SELECT * FROM letters();
SELECT queen.drop_queue('timers none 2'), queen.drop_queue('timers none 3'), queen.purge_dead('timers none 4');
SELECT * FROM letters();
SELECT queen.drop_queue('timers none 4');

-- One that is poisoned among many: the others fire. (Rows that no call lets in.)
SELECT count(verdict('timers poison', 'k' || lpad(n::text, 3, '0'), to_jsonb(n), '0', partition => 'p' || n % 7)) FROM generate_series(1, 200) n;
SELECT item, problem FROM queen.verify() WHERE item = 'timer';
UPDATE queen.log_timers SET message = NULL WHERE queue = 'timers poison' AND timer_key = 'k117';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
SELECT queen.fire_timers();
SELECT timer_key, partition, attempts, last_error FROM queen.list_timers('timers poison');
SELECT sum(m.n) AS messages FROM generate_series(0, 6) p, LATERAL (SELECT count(*) AS n FROM queen.peek('timers poison', 'p' || p, max_messages => 1000)) m;
UPDATE queen.log_timers SET headers = '[]', message = '1' WHERE queue = 'timers poison';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
UPDATE queen.log_timers SET headers = NULL, attempts = 5 WHERE queue = 'timers poison';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
UPDATE queen.log_timers SET attempts = 1, last_error = NULL WHERE queue = 'timers poison';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
UPDATE queen.log_timers SET attempts = 0, retry_at = NULL, deliver_at = 'infinity' WHERE queue = 'timers poison';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
UPDATE queen.log_timers SET deliver_at = now(), timer_key = '' WHERE queue = 'timers poison';
SELECT item, masked(object) AS object, problem FROM queen.verify() WHERE item = 'timer';
INSERT INTO queen.log_timers (tenant, queue, timer_key, partition, deliver_at, message_id, message, attempts, created_at, updated_at)
SELECT tenant, repeat('q', 300), 'k', partition, deliver_at, message_id, message, attempts, created_at, updated_at FROM queen.log_timers WHERE queue = 'timers poison';
SELECT item, left(masked(object), 100) AS object, problem FROM queen.verify() WHERE item = 'timer' ORDER BY object COLLATE "C";
DELETE FROM queen.log_timers WHERE queue = 'timers poison';
UPDATE queen.log_timers SET deliver_at = now() + interval '1 day' WHERE length(queue) = 300;
SELECT queen.drop_queue('timers poison');

-- By turns: one that fell due last is not behind thousands of another queue.
SET client_min_messages = warning;
SELECT count(verdict('timers many', 'k' || n, '1', '-1 hour')) FROM generate_series(1, 3000) n;
SELECT verdict('timers one', 'late', '"late"', '-1 s');
SELECT queen.fire_timers(1000), queen.count_timers('timers one') AS late, queen.count_timers('timers many') AS others;
SELECT queen.fire_timers(100000), queen.count_timers('timers many');
-- What was put off, or came in, with a time that others of its queue have passed is not forgotten while these take turns.
SELECT count(verdict('timers many', 'k' || n, '2', '-1 hour')) FROM generate_series(1, 2500) n;
SELECT queen.fire_timers(1000), verdict('timers many', 'old', '"old"', '-1 day');
SELECT queen.fire_timers(1);
SELECT stored('timers many') LIKE '%="old"' AS old_is_next;
SELECT queen.fire_timers(100000), queen.count_timers('timers many');
DELETE FROM queen.log_timers WHERE length(queue) = 300;
SELECT count(*) AS messages, count(DISTINCT message_id) AS distinct_messages FROM queen.peek('timers many', max_messages => 10000);

-- Turns come to an end where more queues have timers than a batch has rows, though few of them are due.
SELECT count(verdict('timers far ' || n, 'k', '1', '30 days')) FROM generate_series(1, 1200) n;
SELECT count(verdict('timers burst', 'k' || n, '1', '0')) FROM generate_series(1, 1100) n;
SET statement_timeout = '60 s';
SELECT queen.fire_timers(100000), queen.fire_timers(100000);
RESET statement_timeout;
SELECT count(*) FROM queen.peek('timers burst', max_messages => 10000);
SELECT sum(queen.cancel_prefix('timers far ' || n, 'k')) FROM generate_series(1, 1200) n;

-- What cannot be: times that are not one, modes, names, sizes, what is for work queues.
SELECT attempts(
	$$SELECT queen.schedule('timers', 'bad', '1')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', deliver_at => now(), delay => '1 s')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', deliver_at => 'infinity')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', deliver_at => '-infinity')$$,
	$$SELECT queen.schedule('timers', 'bad', NULL, delay => '1 s')$$,
	$$SELECT queen.schedule(NULL, 'bad', '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', NULL, '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', partition => NULL)$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', mode => NULL)$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', mode => 'Replace')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', priority => 'high')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', ttl => '1 day')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', headers => '[]')$$,
	$$SELECT queen.schedule('', 'bad', '1', delay => '1 s')$$,
	$$SELECT queen.schedule(repeat('q', 256), 'bad', '1', delay => '1 s')$$,
	$$SELECT queen.schedule(E'q\n', 'bad', '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', '', '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', repeat('k', 256), '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', E'\x01k', '1', delay => '1 s')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', partition => '')$$,
	$$SELECT queen.schedule('timers', 'bad', '1', delay => '1 s', partition => repeat('p', 256))$$,
	$$SELECT queen.cancel('timers', NULL)$$,
	$$SELECT queen.cancel('', 'k')$$,
	$$SELECT queen.cancel('timers', E'\x01k')$$,
	$$SELECT queen.cancel_prefix('timers', '')$$,
	$$SELECT queen.cancel_prefix('timers', NULL)$$,
	$$SELECT queen.cancel_prefix('timers', repeat('k', 256))$$,
	$$SELECT queen.peek_timer('timers', NULL)$$,
	$$SELECT queen.peek_timer(NULL, 'k')$$,
	$$SELECT queen.list_timers('timers', max_rows => 0)$$,
	$$SELECT queen.list_timers('timers', max_rows => 100001)$$,
	$$SELECT queen.list_timers('timers', max_rows => NULL)$$,
	$$SELECT queen.list_timers('timers', after_key => '')$$,
	$$SELECT queen.count_timers('timers', '')$$,
	$$SELECT queen.count_timers(NULL)$$,
	$$SELECT queen.next_timer(NULL)$$,
	$$SELECT queen.fire_timers(0)$$,
	$$SELECT queen.fire_timers(-1)$$,
	$$SELECT queen.fire_timers(NULL)$$,
	$$SELECT queen.push('timers', '1', delay => '1 s', deliver_at => now())$$,
	$$SELECT queen.push('timers', '1', delay => '1 s', dedup_key => 'k')$$,
	$$SELECT queen.push('timers', '1', deliver_at => 'infinity')$$,
	$$SELECT queen.push_bytes('timers', '1', delay => '1 s', dedup_key => 'k')$$);
-- Infinite, or beyond the calendar's end: PostgreSQL's own error where it is the first to see it.
SELECT bool_and(left(a, 5) IN ('22008', '22007', '22023')) AS refused FROM unnest(ARRAY['infinity', '-infinity', '300000 years', '-300000 years']) i, LATERAL (SELECT a FROM attempt(format('SELECT queen.schedule(''timers'', ''bad'', ''1'', delay => %L)', i)) a LIMIT 1) s;
SELECT queen.count_timers('timers', 'bad');
-- Names and keys up to their ends, of any character.
SELECT verdict(repeat('q', 255), repeat('k', 255), '1', '0', partition => repeat('p', 255)), verdict('q' || chr(8364), 'k''"\' || chr(128512), '1', '0');
SELECT queen.fire_timers(), queen.drop_queue(repeat('q', 255)), queen.drop_queue('q' || chr(8364));
-- A large one, out of line.
SELECT verdict('timers large', 'large', to_jsonb(repeat('x', 9 * 1024 * 1024)), '0'), verdict('timers large', 'small', '1', '0');
SELECT queen.fire_timers();
SELECT length(message #>> '{}') AS length FROM queen.peek('timers large');

-- No row names a partition, and no work on partitions reads timers.
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'queen.log_timers'::regclass AND attnum > 0 AND (attname LIKE '%id' OR atttypid IN ('int8'::regtype, 'oid'::regtype));
SELECT count(*) FROM pg_constraint WHERE 'queen.log_timers'::regclass IN (conrelid, confrelid) AND contype = 'f';
CREATE FUNCTION looks() RETURNS bigint LANGUAGE sql AS $$
	SELECT pg_stat_get_numscans('queen.log_timers'::regclass) + (SELECT sum(pg_stat_get_numscans(indexrelid)) FROM pg_index WHERE indrelid = 'queen.log_timers'::regclass)
$$;
SELECT verdict('timers work', 'k', '1');
SELECT pg_stat_force_next_flush();
SELECT looks() AS looks_before \gset
SELECT count(queen.push('timers work', '1', 'p' || n)) FROM generate_series(1, 20) n;
SELECT count(*) FROM take('timers work', max_messages => 10, max_partitions => 5);
SELECT queen.ack_all(array_agg(DISTINCT lease)) FROM taken;
SELECT count(*) FROM take('timers work', 'other', max_messages => 3);
SELECT queen.nack(lease(), dead => true);
SELECT queen.seek_to_end('timers work', 'default'), queen.seek('timers work', 'other', 0);
SELECT count(*) FROM queen.lag('timers work', 'default');
SELECT count(*) FROM queen.list_groups('timers work');
SELECT queen.configure('timers work', '{"completed_retention": "1 s"}') IS NOT NULL;
CALL queen.maintain();
SELECT queen.redrive('timers work');
SELECT queen.purge_queue('timers work');
CALL queen.maintain();
SELECT pg_stat_force_next_flush();
SELECT looks() - :looks_before AS looks;
-- (The count counts.)
SELECT queen.count_timers('timers work'), queen.drop_queue('timers work');
SELECT pg_stat_force_next_flush();
SELECT looks() > :looks_before AS seen;
CALL queen.maintain();
