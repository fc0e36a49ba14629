-- Rules of recurring timers: schedule, replace, end, look, fire by hand, miss, fail. That the pulse fires them is 051's matter.
\getenv inputdir PG_ABS_SRCDIR
\set topic cron
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
-- This topic's timers are all there is: fire_timers() fires anybody's.
SET queen.tenant = 'cccccccc-cccc-cccc-cccc-cccccccccccc';
SET timezone = 'UTC';
SET datestyle = ISO;
SET statement_timeout = '60 s';

CREATE FUNCTION rule(queue text, key text, cron text, message jsonb DEFAULT '1', timezone text DEFAULT 'UTC', misfire text DEFAULT 'once', partition text DEFAULT 'Default', headers jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT s.verdict FROM queen.schedule_cron(rule.queue, key, rule.cron, rule.message, rule.timezone, rule.misfire, rule.partition, rule.headers) s
$$;
CREATE FUNCTION next_at(queue text, cron text, timezone text DEFAULT 'UTC') RETURNS timestamptz LANGUAGE sql AS $$
	SELECT s.next_at FROM queen.schedule_cron(next_at.queue, 'next_at', next_at.cron, '1', next_at.timezone) s
$$;
-- A rule without what differs from run to run.
CREATE FUNCTION rules(queue text) RETURNS TABLE (timer_key text, cron text, timezone text, misfire text, partition text, waits boolean, fired boolean, attempts int, last_error text, message jsonb, headers jsonb) LANGUAGE sql AS $$
	SELECT timer_key, cron, timezone, misfire, partition, next_at > clock_timestamp(), last_at IS NOT NULL, attempts, last_error, message, headers FROM queen.list_crons(rules.queue)
$$;
-- As if the rule had been made so much sooner that what waits of it has been due for that long (and less than a second). Its phase (@every) goes along.
CREATE FUNCTION late_by(of_queue text, key text, late interval) RETURNS void LANGUAGE sql AS $$
	WITH moved AS (
		UPDATE queen.log_timers SET deliver_at = date_trunc('second', now()) - late, retry_at = NULL WHERE queue = of_queue AND timer_key = E'\x01' || key
		RETURNING deliver_at)
	UPDATE queen.log_timer_rules SET next_at = m.deliver_at, anchor_at = anchor_at - (next_at - m.deliver_at) FROM moved m WHERE queue = of_queue AND timer_key = key
$$;
-- What a queue's rules have pushed: of what they say of when, whether it is what the tables said.
CREATE FUNCTION pushed(queue text, partition text DEFAULT 'Default') RETURNS TABLE (msg_offset bigint, message jsonb, headers jsonb, timer_key text, behind boolean, since interval) LANGUAGE sql AS $$
	SELECT m.msg_offset, m.message, m.headers - 'queen_cron', m.headers -> 'queen_cron' ->> 'timer_key', (m.headers -> 'queen_cron' ->> 'next')::timestamptz > (m.headers -> 'queen_cron' ->> 'at')::timestamptz,
		date_trunc('minute', m.enqueued_at - (m.headers -> 'queen_cron' ->> 'at')::timestamptz)
	FROM queen.peek(pushed.queue, pushed.partition, max_messages => 1000) m
$$;
-- verify's own rows of this test.
CREATE FUNCTION problems() RETURNS TABLE (item text, object text, problem text, repaired boolean) LANGUAGE sql AS $$
	SELECT item, masked(object), regexp_replace(problem, '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00', '<time>', 'g'), repaired FROM queen.verify() WHERE item IN ('timer', 'rule') ORDER BY 1, 2, 3
$$;

-- Schedule: neither the rule nor what waits of it needs the queue.
SELECT rule('cron', 'a', '30 2 * * *', '"first"', 'europe/berlin', headers => '{"h": 1}');
SELECT count(*) FROM queen.list_queues();
SELECT * FROM rules('cron');
SELECT s.verdict, s.next_at - date_trunc('hour', clock_timestamp()) AS after FROM queen.schedule_cron('cron', 'b', '@hourly', '"b"') s;
SELECT encode(convert_to(timer_key, 'UTF8'), 'escape') AS timer_key, message, payload, headers FROM queen.log_timers WHERE queue = 'cron' ORDER BY 1;
SELECT * FROM problems();
-- A rule's key and a timer's are apart: neither shows, moves or takes back the other.
SELECT s.verdict FROM queen.schedule('cron', 'a', '"timer"', delay => '100 years') s;
SELECT queen.count_timers('cron'), (SELECT string_agg(timer_key, ' ') FROM queen.list_timers('cron')), (SELECT count(*) FROM queen.peek_timer('cron', 'b'));
SELECT queen.cancel('cron', 'a'), queen.cancel('cron', 'b'), queen.cancel_prefix('cron', 'a'), (SELECT count(*) FROM queen.list_crons('cron'));
-- next_timer knows both, and find what a rule has promised.
SELECT queen.next_timer('cron') = (SELECT min(next_at) FROM queen.list_crons('cron')) AS next;
SELECT f.place, f.partition, f.msg_offset FROM queen.list_crons('cron') c, queen.find('cron', c.message_id) f WHERE c.timer_key = 'a';

-- The same rule again: what waits, waits; the rest of it is new. Said otherwise it is the same rule.
CREATE TABLE before AS SELECT * FROM queen.list_crons('cron');
UPDATE queen.log_timer_rules SET next_at = next_at - interval '1 year' WHERE queue = 'cron' AND timer_key = 'b';
UPDATE queen.log_timers SET deliver_at = deliver_at - interval '1 year' WHERE queue = 'cron' AND timer_key = E'\x01b';
SELECT rule('cron', 'a', '30 2 * * *', '"second"', 'Europe/Berlin', 'skip', 'p'), rule('cron', 'b', '0 */1 * * *', '"b"');
SELECT timer_key, n.next_at = b.next_at AS kept, b.next_at - n.next_at > interval '300 days' AS due_stays_due, n.created_at = b.created_at AS created_then, n.updated_at > b.updated_at AS updated, n.message_id <> b.message_id AS other_id
FROM before b JOIN queen.list_crons('cron') n USING (timer_key) ORDER BY 1;
SELECT timer_key, cron, timezone, misfire, partition, message, headers FROM rules('cron');
SELECT encode(convert_to(timer_key, 'UTF8'), 'escape') AS timer_key, partition FROM queen.log_timers WHERE queue = 'cron' ORDER BY 1;
SELECT * FROM problems();
-- … but no later than now says: the clock was ahead when that was told.
UPDATE queen.log_timer_rules SET next_at = next_at + interval '1 year' WHERE queue = 'cron' AND timer_key = 'a';
SELECT s.next_at = b.next_at AS as_before FROM before b, queen.schedule_cron('cron', 'a', '30 2 * * *', '"second"', 'Europe/Berlin') s WHERE b.timer_key = 'a';
-- Another time or zone is another rule.
SELECT s.next_at <> b.next_at AS other FROM before b, queen.schedule_cron('cron', 'a', '31 2 * * *', '"a"', 'Europe/Berlin') s WHERE b.timer_key = 'a';
SELECT s.verdict, (s.next_at AT TIME ZONE 'America/New_York')::time AS local FROM queen.schedule_cron('cron', 'a', '31 2 * * *', '"a"', 'America/New_York') s;
SELECT s.verdict, (s.next_at AT TIME ZONE 'Asia/Kathmandu')::time AS local, extract(minute FROM s.next_at) AS minute FROM queen.schedule_cron('cron', 'b', '31 2 * * *', '"a"', 'Asia/Kathmandu') s;

-- @every counts from the call, in whole seconds, and keeps its step.
SELECT rule('cron every', 'e', '@every 90s');
SELECT next_at - date_trunc('second', created_at) AS after FROM queen.list_crons('cron every');
SELECT late_by('cron every', 'e', '-40 s');
CREATE TABLE every AS SELECT * FROM queen.list_crons('cron every');
SELECT s.verdict, s.next_at = e.next_at AS kept FROM every e, queen.schedule_cron('cron every', 'e', '@every 1m30s', '1') s;
SELECT s.verdict, s.next_at BETWEEN clock_timestamp() + interval '98 s' AND clock_timestamp() + interval '100 s' AS anew FROM queen.schedule_cron('cron every', 'e', '@every 100s', '1') s;
SELECT s.next_at BETWEEN clock_timestamp() + interval '88 s' AND clock_timestamp() + interval '90 s' AS and_back_anew FROM queen.schedule_cron('cron every', 'e', '@every 90s', '1') s;

-- Look: by key in byte order, page by page.
SELECT count(rule('cron list', k, '@hourly')) FROM unnest('{b,a,B,aa,"a b",ä,z}'::text[]) k;
WITH RECURSIVE pages AS (
	SELECT array_agg(timer_key) AS page FROM queen.list_crons('cron list', max_rows => 2)
	UNION ALL
	SELECT (SELECT array_agg(timer_key) FROM queen.list_crons('cron list', p.page[cardinality(p.page)], 2)) FROM pages p WHERE p.page IS NOT NULL)
SELECT page FROM pages WHERE page IS NOT NULL;
SELECT (SELECT string_agg(timer_key, ' ') FROM queen.list_crons('cron list', 'aaa')) AS behind_none, (SELECT count(*) FROM queen.list_crons('cron list', 'zz')) AS behind_all, (SELECT count(*) FROM queen.list_crons('nowhere')) AS of_none;
BEGIN READ ONLY;
SELECT count(*) FROM queen.list_crons('cron list');
SELECT attempts('SELECT queen.schedule_cron(''cron list'', ''k'', ''@hourly'', ''1'')', 'SELECT queen.unschedule_cron(''cron list'', ''a'')');
COMMIT;

-- End.
SELECT queen.unschedule_cron('cron list', 'a'), queen.unschedule_cron('cron list', 'a'), queen.unschedule_cron('cron list', 'never'), queen.unschedule_cron('nowhere', 'b');
SELECT (SELECT string_agg(timer_key, ' ') FROM queen.list_crons('cron list')) AS rules, count(*) AS waiting FROM queen.log_timers WHERE queue = 'cron list';
BEGIN;
SELECT queen.unschedule_cron('cron list', 'b');
SELECT queen.unschedule_cron('cron list', 'b'), rule('cron list', 'b', '@daily');
SELECT rule('cron list', 'b', '@weekly');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT queen.unschedule_cron('cron list', 'b'), rule('cron list', 'new', '@daily'), rule('cron list', 'aa', '@daily');
ROLLBACK TO s;
SELECT queen.unschedule_cron('cron list', 'new'), queen.unschedule_cron('cron list', 'z');
COMMIT;
SELECT string_agg(timer_key || ' ' || cron, ', ') FROM queen.list_crons('cron list');
SELECT * FROM problems();
-- Another isolation level sees the latest all the same.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT rule('cron list', 'rr', '@hourly'), rule('cron list', 'rr', '@daily'), queen.unschedule_cron('cron list', 'rr'), rule('cron list', 'rr', '@hourly');
SELECT queen.unschedule_cron('cron list', 'rr');
COMMIT;

-- Fire: the message, under the promised id, with the header; the next one waits.
SELECT queen.drop_queue('cron'), queen.drop_queue('cron every'), queen.drop_queue('cron list');
SELECT rule('cron fire', 'k "1"\', '@every 90s', '{"n": 1}', partition => 'p', headers => '{"h": "x", "queen_cron": 0}');
SELECT late_by('cron fire', 'k "1"\', '10 s');
CREATE TABLE promised AS SELECT message_id, next_at FROM queen.list_crons('cron fire');
SELECT queen.fire_timers();
SELECT * FROM pushed('cron fire', 'p');
SELECT m.message_id = p.message_id AS promised, (m.headers -> 'queen_cron' ->> 'at')::timestamptz = p.next_at AS was_due_then, (m.headers -> 'queen_cron' ->> 'next')::timestamptz = c.next_at AS next_is_told,
	c.next_at - p.next_at AS later, c.last_at = p.next_at AS last_at, c.message_id <> p.message_id AS other_id, jsonb_object_keys(m.headers -> 'queen_cron') AS keys
FROM queen.peek('cron fire', 'p') m, promised p, queen.list_crons('cron fire') c;
SELECT m.headers -> 'queen_cron' ->> 'at' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$' AS in_utc FROM queen.peek('cron fire', 'p') m;
SELECT * FROM rules('cron fire');
SELECT queen.fire_timers();
SELECT * FROM problems();
-- What is pushed is the rule's, as it is by then.
SELECT rule('cron fire', 'k "1"\', '@every 90s', '{"n": 2}', partition => 'q');
SELECT late_by('cron fire', 'k "1"\', '10 s');
SELECT rule('cron fire', 'k "1"\', '@every 90s', '{"n": 3}', partition => 'q');
SELECT queen.fire_timers();
SELECT * FROM pushed('cron fire', 'q');
-- Rolled back: neither pushed nor moved on.
SELECT late_by('cron fire', 'k "1"\', '10 s');
BEGIN;
SELECT queen.fire_timers();
ROLLBACK;
SELECT waits FROM rules('cron fire');
SELECT queen.fire_timers(), queen.fire_timers();
SELECT count(*) FROM pushed('cron fire', 'q');
-- The transaction that fires may end the rule; the message stays.
SELECT late_by('cron fire', 'k "1"\', '10 s');
BEGIN;
SELECT queen.fire_timers();
SELECT queen.unschedule_cron('cron fire', 'k "1"\');
COMMIT;
SELECT count(*) AS messages, (SELECT count(*) FROM queen.list_crons('cron fire')) AS rules, (SELECT count(*) FROM queen.log_timers WHERE queue = 'cron fire') AS waiting FROM pushed('cron fire', 'q');

-- Missed: one message for all of it, and the next one in step; or none where more than a minute has passed.
SELECT rule('cron missed', 'once', '@every 10m', '"once"'), rule('cron missed', 'skip', '@every 10m', '"skip"', misfire => 'skip'), rule('cron missed', 'skip soon', '@every 10m', '"skip soon"', misfire => 'skip');
SELECT late_by('cron missed', 'once', '3 hours'), late_by('cron missed', 'skip', '61 s'), late_by('cron missed', 'skip soon', '50 s');
CREATE TABLE missed AS SELECT * FROM queen.list_crons('cron missed');
SELECT queen.fire_timers();
SELECT message, timer_key, since FROM pushed('cron missed') ORDER BY timer_key;
SELECT n.timer_key, n.waits, n.fired, c.next_at <= clock_timestamp() + interval '10 min' AS within, extract(epoch FROM c.next_at - m.next_at)::numeric % 600 AS out_of_step
FROM rules('cron missed') n JOIN queen.list_crons('cron missed') c USING (timer_key) JOIN missed m USING (timer_key) ORDER BY 1;
SELECT queen.fire_timers();
-- By the clock: what comes next is what would have come.
SELECT next_at('cron missed', '0 0 29 2 *') AS leap_day \gset
SELECT late_by('cron missed', 'next_at', '10 years');
SELECT queen.fire_timers();
SELECT next_at = :'leap_day' AS the_next_one FROM queen.list_crons('cron missed') WHERE timer_key = 'next_at';
SELECT late_by('cron missed', 'next_at', '10 years'), rule('cron missed', 'next_at', '0 0 29 2 *', misfire => 'skip');
SELECT queen.fire_timers();
SELECT next_at = :'leap_day' AS the_next_one FROM queen.list_crons('cron missed') WHERE timer_key = 'next_at';
SELECT * FROM problems();

-- Clocks that are put forward or back: when that will happen next, in spring and in fall, as the server's own data has it.
CREATE FUNCTION change_of(zone text, month int) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT min(h) FROM generate_series(date_trunc('hour', now()) + interval '1 hour', now() + interval '400 days', interval '1 hour') h
	WHERE (h AT TIME ZONE zone) - ((h - interval '1 hour') AT TIME ZONE zone) <> interval '1 hour' AND extract(month FROM h AT TIME ZONE zone) = month
$$;
-- An hour that is skipped, or repeated. What is due half an hour into it is due as soon as it is skipped, or the first time.
CREATE TABLE changes (zone text, month int, hour int, due interval, at timestamptz);
INSERT INTO changes VALUES ('Europe/Berlin', 3, 2, '0'), ('Europe/Berlin', 10, 2, '-30 min'), ('America/New_York', 3, 2, '0'), ('America/New_York', 11, 1, '-30 min');
UPDATE changes SET at = change_of(zone, month);
-- (If this year's change is over and the day of the month of next year's is not, the rule is due on that day first, when the clocks show it.)
CREATE FUNCTION due_next(c changes) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT min(d) FROM generate_series(extract(year FROM now())::int, extract(year FROM now())::int + 2) y, LATERAL (
		SELECT make_timestamp(y, c.month, extract(day FROM c.at AT TIME ZONE c.zone)::int, c.hour, 30, 0)) l (local), LATERAL (
		SELECT CASE WHEN l.local::date = (c.at AT TIME ZONE c.zone)::date THEN c.at + c.due ELSE l.local AT TIME ZONE c.zone END) s (d)
	WHERE d > now()
$$;
SELECT c.zone, c.month, s.next_at = due_next(c) AS as_is_said
FROM changes c, queen.schedule_cron('cron zones', c.zone || c.month, format('30 %s %s %s *', c.hour, extract(day FROM c.at AT TIME ZONE c.zone), c.month), '1', c.zone) s ORDER BY 1, 2;
SELECT queen.drop_queue('cron zones');

-- One that cannot be pushed: five attempts, then it is a dead letter, and the rule goes on.
SET queen.auto_create = off;
SET client_min_messages = error;
SELECT rule('cron none', 'k', '@every 10m', '{"n": 1}', partition => 'p', headers => '{"h": 1}');
SELECT late_by('cron none', 'k', '10 s');
CREATE TABLE failing AS SELECT * FROM queen.list_crons('cron none');
SELECT queen.fire_timers();
SELECT timer_key, waits, fired, attempts, last_error FROM rules('cron none');
SELECT retry_at - clock_timestamp() BETWEEN '-30 s' AND '1 s' AS in_a_second, next_at = (SELECT next_at FROM failing) AS as_before FROM queen.list_crons('cron none');
-- In back-off it is replaced as ever, with no attempt spent.
SELECT rule('cron none', 'k', '@every 10m', '{"n": 2}', partition => 'p', headers => '{"h": 1}');
SELECT timer_key, waits, attempts, last_error FROM rules('cron none');
DO $$
BEGIN
	FOR n IN 1..5 LOOP
		UPDATE queen.log_timers SET retry_at = now() - interval '1 s' WHERE queue = 'cron none';
		PERFORM queen.fire_timers();
	END LOOP;
END $$;
SELECT d.queue_id, d.partition, d.timer_key, d.message, d.headers - 'queen_cron' AS headers, d.headers -> 'queen_cron' ->> 'timer_key' AS rule, (d.headers -> 'queen_cron' ->> 'at')::timestamptz = f.next_at AS at, (d.headers -> 'queen_cron' ->> 'next')::timestamptz = c.next_at AS next, d.attempts, d.error
FROM queen.dead_letters d, failing f, queen.list_crons('cron none') c WHERE d.queue = 'cron none';
SELECT timer_key, waits, fired, attempts, last_error FROM rules('cron none');
SELECT extract(epoch FROM c.next_at - f.next_at)::numeric % 600 AS out_of_step FROM queen.list_crons('cron none') c, failing f;
SELECT * FROM problems();
SELECT queen.create_queue('cron none'), queen.redrive('cron none');
SELECT message, headers #- '{queen_redriven,message_id}' #- '{queen_cron,at}' #- '{queen_cron,next}' AS headers FROM queen.peek('cron none', 'p');
RESET queen.auto_create;
-- A rule that cannot be read, after a restore: tried each minute in the end, never buried; whoever schedules it anew mends it.
UPDATE queen.log_timer_rules SET timezone = 'Nowhere/Else' WHERE queue = 'cron none';
DO $$
BEGIN
	FOR n IN 1..8 LOOP
		UPDATE queen.log_timers SET deliver_at = now() - interval '10 s', retry_at = NULL WHERE queue = 'cron none';
		UPDATE queen.log_timer_rules SET next_at = now() - interval '10 s' WHERE queue = 'cron none';
		PERFORM queen.fire_timers();
	END LOOP;
END $$;
SELECT timer_key, timezone, attempts, last_error FROM rules('cron none');
SELECT retry_at - clock_timestamp() BETWEEN '30 s' AND '1 min' AS in_a_minute FROM queen.log_timers WHERE queue = 'cron none';
SELECT count(*) FROM queen.list_dead('cron none');
SELECT * FROM problems();
SELECT rule('cron none', 'k', '@every 10m', '{"n": 3}', partition => 'p');
SELECT timer_key, timezone, waits, attempts, last_error FROM rules('cron none');
SELECT queen.unschedule_cron('cron none', 'k'), queen.drop_queue('cron none');
RESET client_min_messages;

-- drop_queue takes rules along, also where there is no queue yet; purge_queue leaves them.
SELECT rule('cron drop', 'a', '@hourly'), rule('cron drop', 'b', '@hourly'), rule('cron drop 2', 'a', '@hourly');
SELECT queen.drop_queue('cron drop'), queen.drop_queue('cron drop'), (SELECT count(*) FROM queen.list_crons('cron drop')) AS rules;
SELECT count(*) AS waiting FROM queen.log_timers WHERE queue = 'cron drop';
SELECT queen.create_queue('cron drop 2'), queen.purge_queue('cron drop 2'), (SELECT count(*) FROM queen.list_crons('cron drop 2')) AS rules;
BEGIN;
SELECT queen.drop_queue('cron drop 2');
SELECT rule('cron drop 2', 'anew', '@hourly');
ROLLBACK;
SELECT (SELECT string_agg(timer_key, ' ') FROM queen.list_crons('cron drop 2')) AS rules, queen.drop_queue('cron drop 2'), (SELECT count(*) FROM queen.list_crons('cron drop 2')) AS rules;

-- Names are a tenant's.
SELECT rule('cron tenants', 'k', '@every 10m', '"c"');
SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb';
SELECT queen.unschedule_cron('cron tenants', 'k'), queen.next_timer('cron tenants'), (SELECT count(*) FROM queen.list_crons('cron tenants')) AS rules, queen.drop_queue('cron tenants');
SELECT rule('cron tenants', 'k', '@daily', '"b"');
SET queen.tenant = 'cccccccc-cccc-cccc-cccc-cccccccccccc';
SELECT late_by('cron tenants', 'k', '10 s');
UPDATE queen.log_timer_rules SET next_at = t.deliver_at FROM queen.log_timers t WHERE log_timer_rules.queue = 'cron tenants' AND t.queue = log_timer_rules.queue AND t.tenant = log_timer_rules.tenant;
SELECT queen.fire_timers();
SELECT stored('cron tenants'), (SELECT cron FROM queen.list_crons('cron tenants'));
SELECT queen.drop_queue('cron tenants');
SET queen.tenant = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb';
SELECT stored('cron tenants'), (SELECT cron FROM queen.list_crons('cron tenants'));
SELECT queen.drop_queue('cron tenants');
SET queen.tenant = 'cccccccc-cccc-cccc-cccc-cccccccccccc';

-- One of the two rows without the other, or saying something else. What can be right in one way only is mended.
SELECT rule('cron verify', 'k', '@every 10m', '1', partition => 'p'), rule('cron verify', 'other', '@hourly');
SELECT late_by('cron verify', 'k', '10 s');
DELETE FROM queen.log_timers WHERE queue = 'cron verify' AND timer_key = E'\x01k';
DELETE FROM queen.log_timer_rules WHERE queue = 'cron verify' AND timer_key = 'other';
SELECT * FROM problems();
SELECT queen.fire_timers();
SELECT count(*) AS waiting FROM queen.log_timers WHERE queue = 'cron verify';
SELECT item, masked(object) AS object, repaired FROM queen.verify(true) WHERE item IN ('timer', 'rule') ORDER BY 1;
SELECT * FROM problems();
SELECT queen.fire_timers();
SELECT timer_key, since FROM pushed('cron verify', 'p');
SELECT queen.verify_mend_rule(tenant, queue, timer_key) AS mended FROM queen.log_timer_rules WHERE queue = 'cron verify';
SELECT attempts('SELECT queen.verify_mend_rule(NULL, ''q'', ''k'')', 'SELECT queen.verify_mend_rule(current_setting(''queen.tenant'')::uuid, ''nowhere'', ''k'')');
UPDATE queen.log_timers SET partition = 'q' WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timers SET partition = 'p', message = '1' WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timers SET message = NULL, deliver_at = deliver_at + interval '1 s' WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timer_rules SET next_at = next_at + interval '1 s', misfire = 'both' WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timer_rules SET misfire = 'once', headers = '[]' WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timer_rules SET headers = NULL, next_at = NULL WHERE queue = 'cron verify';
SELECT * FROM problems();
UPDATE queen.log_timers SET deliver_at = now() WHERE queue = 'cron verify';
UPDATE queen.log_timer_rules SET next_at = t.deliver_at, anchor_at = 'infinity' FROM queen.log_timers t WHERE log_timer_rules.queue = 'cron verify' AND t.queue = 'cron verify';
SELECT * FROM problems();
-- A step whose beginning is no time has no next one: what waits is pushed, and the rule has ended, until it is scheduled anew.
SELECT queen.fire_timers();
SELECT (SELECT count(*) FROM queen.log_timers WHERE queue = 'cron verify') AS waiting, next_at FROM queen.list_crons('cron verify');
SELECT headers -> 'queen_cron' -> 'next' AS next FROM queen.peek('cron verify', 'p') ORDER BY msg_offset DESC LIMIT 1;
SELECT problem FROM problems();
SELECT rule('cron verify', 'k', '@every 10m');
SELECT waits FROM rules('cron verify');
SELECT queen.drop_queue('cron verify');

-- What cannot be: rules, zones, names, sizes.
SELECT attempts(
	$$SELECT queen.schedule_cron('bad', 'k', NULL, '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', NULL)$$,
	$$SELECT queen.schedule_cron(NULL, 'k', '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', NULL, '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => NULL)$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', misfire => NULL)$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', partition => NULL)$$,
	$$SELECT queen.schedule_cron('bad', 'k', '', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '* * * *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '* * * * * *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '60 * * * *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '* * * feb-jan *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '*/90 * * * *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '0 0 31 2 *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@fortnightly', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@every 0s', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@every 367d', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@every soon', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', E'* * *\n* *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', repeat('1,', 500) || '1 * * * *', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => 'Europe/Atlantis')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => '')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => '+02:00')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => 'ABC5')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', timezone => '../../../../etc/passwd')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', misfire => 'Skip')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', headers => '[]')$$,
	$$SELECT queen.schedule_cron('', 'k', '@hourly', '1')$$,
	$$SELECT queen.schedule_cron(repeat('q', 256), 'k', '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', '', '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', E'\x01k', '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', repeat('k', 256), '@hourly', '1')$$,
	$$SELECT queen.schedule_cron('bad', 'k', '@hourly', '1', partition => '')$$,
	$$SELECT queen.unschedule_cron('bad', NULL)$$,
	$$SELECT queen.unschedule_cron(NULL, 'k')$$,
	$$SELECT queen.unschedule_cron('', 'k')$$,
	$$SELECT queen.unschedule_cron('bad', E'\x01k')$$,
	$$SELECT queen.list_crons(NULL)$$,
	$$SELECT queen.list_crons('bad', '')$$,
	$$SELECT queen.list_crons('bad', max_rows => 0)$$,
	$$SELECT queen.list_crons('bad', max_rows => 100001)$$,
	$$SELECT queen.list_crons('bad', max_rows => NULL)$$);
-- Zones whose names have digits are zones where the server's data has them.
SELECT (s.next_at AT TIME ZONE 'UTC')::time AS next FROM queen.schedule_cron('bad', 'k', '0 0 * * *', '1', timezone => 'Etc/GMT+5') s;
-- Names and keys up to their ends, of any character.
SELECT rule(repeat('q', 255), repeat('k', 255), '@every 10m', partition => repeat('p', 255)), rule('q' || chr(8364), 'k''"\' || chr(128512), '@every 10m');
SELECT late_by(repeat('q', 255), repeat('k', 255), '1 s'), late_by('q' || chr(8364), 'k''"\' || chr(128512), '1 s');
SELECT queen.fire_timers();
SELECT timer_key = 'k''"\' || chr(128512) AS its_key FROM pushed('q' || chr(8364));
SELECT * FROM problems();
SELECT queen.drop_queue(repeat('q', 255)), queen.drop_queue('q' || chr(8364)), queen.drop_queue('bad');
-- A rule of many bytes of rule, and a message out of line.
SELECT rule('cron large', 'k', repeat('0,', 490) || '0 0 29 2 *', to_jsonb(repeat('x', 1000000)));
SELECT late_by('cron large', 'k', '1 s');
SELECT queen.fire_timers();
SELECT length(message #>> '{}') AS length FROM queen.peek('cron large');
SELECT queen.drop_queue('cron large'), queen.drop_queue('cron fire'), queen.drop_queue('cron missed');
-- Nothing is left.
SELECT (SELECT count(*) FROM queen.log_timer_rules) AS rules, (SELECT count(*) FROM queen.log_timers WHERE timer_key < E'\x02') AS waiting;
