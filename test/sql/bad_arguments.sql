-- Arguments that are no good: each is refused by the call that brings it, with its SQLSTATE, the value, and a hint.
\getenv inputdir PG_ABS_SRCDIR
\set topic bad_arguments
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SELECT count(queen.push('bad', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT count(*) FROM take('bad');
SELECT queen.create_queue('bad work', 'work');

-- NULL for every argument of every function that has a value for each: 22004, or the argument's default.
CREATE TABLE calls (n int, function text, arguments text[], names text[]);
INSERT INTO calls VALUES
	(1, 'create_queue', ARRAY['''bad''', '''log''', '''{}'''], '{queue,kind,options}'),
	(2, 'configure', ARRAY['''bad''', '''{}'''], '{queue,options}'),
	(3, 'push', ARRAY['''bad''', '''1''', '''p''', '''{}'''], '{queue,message,partition,headers}'),
	(4, 'push_batch', ARRAY['''bad''', '''[1]''', '''p''', '''{}'''], '{queue,messages,partition,headers}'),
	(5, 'push_bytes', ARRAY['''bad''', '''x''', '''p''', '''{}'''], '{queue,payload,partition,headers}'),
	(6, 'pop', ARRAY['''bad''', '''g''', '1', '''p''', '1', '''1 s''', 'false', '''0'''], '{queue,consumer_group,max_messages,partition,max_partitions,lease_time,auto_ack,wait}'),
	(7, 'peek', ARRAY['''bad''', '''p''', '0', '1'], '{queue,partition,from_offset,max_messages}'),
	(8, 'ack', ARRAY['lease()', '0'], '{lease,up_to}'),
	(9, 'ack_all', ARRAY['ARRAY[lease()]'], '{leases}'),
	(10, 'nack', ARRAY['lease()', '0', '''0''', '''e''', 'false'], '{lease,msg_offset,delay,error,dead}'),
	(11, 'extend', ARRAY['lease()', '''1 s'''], '{lease,lease_time}'),
	(12, 'release', ARRAY['lease()'], '{lease}'),
	(13, 'subscribe', ARRAY['''bad''', '''g''', '''latest'''], '{queue,consumer_group,start}'),
	(14, 'unsubscribe', ARRAY['''bad''', '''default'''], '{queue,consumer_group}'),
	(15, 'seek', ARRAY['''bad''', '''default''', '0', '''Default'''], '{queue,consumer_group,msg_offset,partition}'),
	(16, 'seek_to_time', ARRAY['''bad''', '''default''', 'now()', '''Default'''], '{queue,consumer_group,at,partition}'),
	(17, 'seek_to_end', ARRAY['''bad''', '''default''', '''Default'''], '{queue,consumer_group,partition}'),
	(18, 'pause', ARRAY['''bad''', '''default'''], '{queue,consumer_group}'),
	(19, 'resume', ARRAY['''bad''', '''default'''], '{queue,consumer_group}'),
	(20, 'list_groups', ARRAY['''bad'''], '{queue}'),
	(21, 'lag', ARRAY['''bad''', '''default'''], '{queue,consumer_group}'),
	(22, 'drop_queue', ARRAY['''bad'''], '{queue}'),
	(23, 'purge_queue', ARRAY['''bad'''], '{queue}'),
	(24, 'change_rights', ARRAY['''pg_monitor''', '''producer''', 'true'], '{role,right_of,give}'),
	(25, 'grant_producer', ARRAY['''pg_monitor'''], '{role}'),
	(26, 'grant_consumer', ARRAY['''pg_monitor'''], '{role}'),
	(27, 'grant_admin', ARRAY['''pg_monitor'''], '{role}'),
	(28, 'revoke_producer', ARRAY['''pg_monitor'''], '{role}'),
	(29, 'revoke_consumer', ARRAY['''pg_monitor'''], '{role}'),
	(30, 'revoke_admin', ARRAY['''pg_monitor'''], '{role}'),
	(31, 'list_dead', ARRAY['''bad''', '''default''', '0', '1'], '{queue,consumer_group,after_id,max_rows}'),
	(32, 'purge_dead', ARRAY['''bad''', '''default''', '''{1}''', 'now()'], '{queue,consumer_group,dead_ids,before}'),
	(33, 'redrive', ARRAY['''bad''', '''default''', '''{1}''', '1'], '{queue,consumer_group,dead_ids,max_rows}'),
	(34, 'find', ARRAY['''bad''', '''01a22a47-f93b-72a8-9510-e48d22f938ee''', '''p'''], '{queue,message_id,partition}'),
	(35, 'verify', ARRAY['false'], '{repair}'),
	(36, 'verify_segments', ARRAY['false'], '{repair}'),
	(37, 'hotlist_candidates', ARRAY['''bad''', '''default''', '1'], '{queue,consumer_group,k}'),
	(38, 'hotlist_reseed', ARRAY['''bad''', '''default'''], '{queue,consumer_group}'),
	(39, 'schedule', ARRAY['''bad''', '''k''', '''1''', '''2200-01-01''', 'NULL', '''p''', 'NULL', 'NULL', '''{}''', '''keep'''],
		'{queue,timer_key,message,deliver_at,delay,partition,priority,ttl,headers,mode}'),
	(40, 'cancel', ARRAY['''bad''', '''k'''], '{queue,timer_key}'),
	(41, 'cancel_prefix', ARRAY['''bad''', '''k'''], '{queue,prefix}'),
	(42, 'peek_timer', ARRAY['''bad''', '''k'''], '{queue,timer_key}'),
	(43, 'list_timers', ARRAY['''bad''', '''a''', '1'], '{queue,after_key,max_rows}'),
	(44, 'count_timers', ARRAY['''bad''', '''k'''], '{queue,prefix}'),
	(45, 'next_timer', ARRAY['''bad'''], '{queue}'),
	(46, 'fire_timers', ARRAY['1'], '{max_rows}'),
	(47, 'notify_channel', ARRAY['''bad'''], '{queue}'),
	(48, 'schedule_cron', ARRAY['''bad''', '''k''', '''@hourly''', '''1''', '''UTC''', '''skip''', '''p''', '''{}'''],
		'{queue,timer_key,cron,message,timezone,misfire,partition,headers}'),
	(49, 'unschedule_cron', ARRAY['''bad''', '''k'''], '{queue,timer_key}'),
	(50, 'list_crons', ARRAY['''bad''', '''a''', '1'], '{queue,after_key,max_rows}'),
	(51, 'verify_mend_rule', ARRAY['''00000000-0000-0000-0000-000000000000''', '''bad''', '''k'''], '{tenant,queue,timer_key}'),
	(52, 'enqueue', ARRAY['''bad work''', '''1''', '''high''', '''1 s''', '''{}'''], '{queue,message,priority,ttl,headers}'),
	(53, 'enqueue_batch', ARRAY['''bad work''', '''[1]''', '''low''', '''1 s'''], '{queue,messages,priority,ttl}'),
	(54, 'dequeue', ARRAY['''bad work''', '1', '''1 s''', '''0'''], '{queue,max_messages,visibility,wait}'),
	(55, 'acknowledge', ARRAY['''01a22a47-f93b-72a8-9510-e48d22f938ee''', '''01a22a47-f93b-42a8-9510-e48d22f938ee'''], '{message_id,receipt}'),
	(56, 'acknowledge_batch', ARRAY['''{01a22a47-f93b-72a8-9510-e48d22f938ee}''', '''{01a22a47-f93b-42a8-9510-e48d22f938ee}'''], '{message_ids,receipts}'),
	(57, 'change_visibility', ARRAY['''01a22a47-f93b-72a8-9510-e48d22f938ee''', '''01a22a47-f93b-42a8-9510-e48d22f938ee''', '''1 s'''],
		'{message_id,receipt,visibility}'),
	(58, 'reject', ARRAY['''01a22a47-f93b-72a8-9510-e48d22f938ee''', '''01a22a47-f93b-42a8-9510-e48d22f938ee''', '''e'''], '{message_id,receipt,error}'),
	(59, 'count_messages', ARRAY['''bad work'''], '{queue}'),
	(60, 'rollup_rebuild', ARRAY['''bad work'''], '{queue}'),
	(61, 'rollup_mend', ARRAY['0'], '{log_id}'),
	(62, 'rollup_mend_row', ARRAY['0', '1', '0'], '{log_id,priority,shard}'),
	(63, 'reset_state_stats', ARRAY['''bad work'''], '{queue}'),
	(64, 'stat_storage', ARRAY['''queen.messages''::regclass'], '{relation}');
-- No function is forgotten here.
SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'queen'::regnamespace AND proargnames IS NOT NULL AND pronargs > 0 AND prokind = 'f'
	AND proname NOT IN (SELECT function FROM calls);
CREATE FUNCTION with_null(call calls, at int) RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT queen.%s(%s)', (call).function, string_agg(CASE WHEN i = at THEN 'NULL' ELSE a END, ', ' ORDER BY i))
	FROM unnest((call).arguments) WITH ORDINALITY u(a, i)
$$;
CREATE FUNCTION rolled_back(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	-- an answer "ok" is taken back, so that each call meets the same state
	BEGIN
		SELECT string_agg(a, '') INTO answer FROM attempt(statement) a;
		RAISE EXCEPTION 'take back';
	EXCEPTION WHEN raise_exception THEN
		RETURN NEXT answer;
	END;
END
$$;
SELECT function, names[i] AS is_null, rolled_back(with_null(c, i)) AS answer FROM calls c, generate_subscripts(arguments, 1) i ORDER BY n, i;
SELECT function, rolled_back(format('SELECT queen.%s(%s)', function, array_to_string(array_fill('NULL'::text, ARRAY[cardinality(arguments)]), ', '))) AS all_null FROM calls ORDER BY n;
SELECT attempts(
	'SELECT queen.ack_all(ARRAY[NULL]::uuid[])',
	'SELECT queen.ack_all(ARRAY[lease(), NULL])',
	$$SELECT queen.purge_dead('bad', dead_ids => '{1,NULL}')$$,
	$$SELECT queen.redrive('bad', dead_ids => '{NULL}')$$,
	$$SELECT queen.redrive('bad', dead_ids => '{{1,2},{3,NULL}}')$$);

-- Roles: the name as it is, of a role that is there.
SELECT attempts(
	$$SELECT queen.grant_producer('')$$,
	$$SELECT queen.grant_producer('public')$$,
	$$SELECT queen.grant_admin('PUBLIC')$$,
	$$SELECT queen.grant_consumer('none')$$,
	$$SELECT queen.grant_admin('current_user')$$,
	$$SELECT queen.grant_producer('"pg_monitor"')$$,
	$$SELECT queen.grant_producer('pg_monitor, PUBLIC')$$,
	$$SELECT queen.grant_producer('pg_monitor WITH GRANT OPTION')$$,
	$$SELECT queen.revoke_producer(repeat('x', 100))$$,
	$$SELECT queen.change_rights('pg_monitor', 'owner', true)$$);

-- Names: empty, too long, with control characters, for each kind of name.
CREATE FUNCTION named(what text, name text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE what
		WHEN 'queue' THEN format('SELECT queen.push(%L, ''1'')', name)
		WHEN 'partition' THEN format('SELECT queen.push(''bad'', ''1'', %L)', name)
		WHEN 'consumer_group' THEN format('SELECT queen.pop(''bad'', %L)', name)
		WHEN 'partition of pop' THEN format('SELECT queen.pop(''bad'', partition => %L)', name)
		WHEN 'partition of peek' THEN format('SELECT queen.peek(''bad'', %L)', name)
		WHEN 'queue of create_queue' THEN format('SELECT queen.create_queue(%L)', name)
		WHEN 'queue of configure' THEN format('SELECT queen.configure(%L, ''{}'')', name)
		WHEN 'queue of pop' THEN format('SELECT queen.pop(%L)', name)
		WHEN 'queue of peek' THEN format('SELECT queen.peek(%L)', name)
		WHEN 'queue of push_batch' THEN format('SELECT queen.push_batch(%L, ''[]'')', name)
		WHEN 'queue of push_bytes' THEN format('SELECT queen.push_bytes(%L, '''')', name)
		WHEN 'queue of subscribe' THEN format('SELECT queen.subscribe(%L, ''g'')', name)
		WHEN 'group of subscribe' THEN format('SELECT queen.subscribe(''bad'', %L)', name)
		WHEN 'queue of unsubscribe' THEN format('SELECT queen.unsubscribe(%L, ''g'')', name)
		WHEN 'group of unsubscribe' THEN format('SELECT queen.unsubscribe(''bad'', %L)', name)
		WHEN 'queue of seek' THEN format('SELECT queen.seek(%L, ''default'', 0)', name)
		WHEN 'group of seek' THEN format('SELECT queen.seek(''bad'', %L, 0)', name)
		WHEN 'partition of seek' THEN format('SELECT queen.seek(''bad'', ''default'', 0, %L)', name)
		WHEN 'partition of seek_to_time' THEN format('SELECT queen.seek_to_time(''bad'', ''default'', ''now'', %L)', name)
		WHEN 'partition of seek_to_end' THEN format('SELECT queen.seek_to_end(''bad'', ''default'', %L)', name)
		WHEN 'queue of pause' THEN format('SELECT queen.pause(%L)', name)
		WHEN 'group of pause' THEN format('SELECT queen.pause(''bad'', %L)', name)
		WHEN 'group of resume' THEN format('SELECT queen.resume(''bad'', %L)', name)
		WHEN 'queue of list_groups' THEN format('SELECT queen.list_groups(%L)', name)
		WHEN 'queue of lag' THEN format('SELECT queen.lag(%L, ''default'')', name)
		WHEN 'group of lag' THEN format('SELECT queen.lag(''bad'', %L)', name)
		WHEN 'queue of list_dead' THEN format('SELECT queen.list_dead(%L)', name)
		WHEN 'group of list_dead' THEN format('SELECT queen.list_dead(''bad'', %L)', name)
		WHEN 'queue of purge_dead' THEN format('SELECT queen.purge_dead(%L)', name)
		WHEN 'group of purge_dead' THEN format('SELECT queen.purge_dead(''bad'', %L)', name)
		WHEN 'queue of redrive' THEN format('SELECT queen.redrive(%L)', name)
		WHEN 'group of redrive' THEN format('SELECT queen.redrive(''bad'', %L)', name)
		WHEN 'queue of find' THEN format('SELECT queen.find(%L, ''01a22a47-f93b-72a8-9510-e48d22f938ee'')', name)
		WHEN 'partition of find' THEN format('SELECT queen.find(''bad'', ''01a22a47-f93b-72a8-9510-e48d22f938ee'', %L)', name)
	END
$$;
CREATE TABLE whats AS SELECT * FROM unnest(ARRAY['queue', 'partition', 'consumer_group', 'partition of pop', 'partition of peek', 'queue of create_queue', 'queue of configure',
	'queue of pop', 'queue of peek', 'queue of push_batch', 'queue of push_bytes', 'queue of subscribe', 'group of subscribe', 'queue of unsubscribe',
	'group of unsubscribe', 'queue of seek', 'group of seek', 'partition of seek', 'partition of seek_to_time', 'partition of seek_to_end', 'queue of pause',
	'group of pause', 'group of resume', 'queue of list_groups', 'queue of lag', 'group of lag', 'queue of list_dead', 'group of list_dead',
	'queue of purge_dead', 'group of purge_dead', 'queue of redrive', 'group of redrive', 'queue of find', 'partition of find']) WITH ORDINALITY u(what, n);
SELECT what, attempt(named(what, '')) AS answer FROM whats ORDER BY n;
SELECT what, attempt(named(what, repeat('x', 256))) AS answer FROM whats ORDER BY n;
SELECT what, attempt(named(what, E'tab\there')) AS answer FROM whats ORDER BY n;
-- Each control character; the limit is one of bytes; what is shown of a long name is cut at a character.
SELECT attempts(
	$$SELECT queen.push(E'\x01', '1')$$,
	$$SELECT queen.push(E'a\nb', '1')$$,
	$$SELECT queen.push(E'a\r', '1')$$,
	$$SELECT queen.push(E'\x1f', '1')$$,
	$$SELECT queen.push(E'a\x7f', '1')$$,
	$$SELECT queen.push(repeat('é', 128), '1')$$,
	$$SELECT queen.push('x' || repeat('é', 200), '1')$$,
	$$SELECT queen.push(repeat('x', 1000000), '1')$$,
	$$SELECT queen.push(repeat('x', 100) || E'\n', '1')$$);
SELECT count(*) FILTER (WHERE answer LIKE '22023: queue "%\\x__" contains a control character%') AS refused, count(*)
FROM generate_series(1, 31) i, LATERAL (SELECT string_agg(a, ' ') AS answer FROM attempt(format('SELECT queen.push(%L, ''1'')', chr(i))) a) s;

-- Counts.
SELECT attempts(
	$$SELECT queen.pop('bad', max_messages => 0)$$,
	$$SELECT queen.pop('bad', max_messages => -1)$$,
	$$SELECT queen.pop('bad', max_messages => -2147483648)$$,
	$$SELECT queen.pop('bad', max_messages => 100001)$$,
	$$SELECT queen.pop('bad', max_messages => 2147483647)$$,
	$$SELECT queen.pop('bad', max_partitions => 0)$$,
	$$SELECT queen.pop('bad', max_partitions => -1)$$,
	$$SELECT queen.pop('bad', max_partitions => 1001)$$,
	$$SELECT queen.peek('bad', max_messages => 0)$$,
	$$SELECT queen.peek('bad', max_messages => 100001)$$,
	$$SELECT queen.peek('bad', from_offset => -1)$$,
	$$SELECT queen.peek('bad', from_offset => -9223372036854775808)$$,
	$$SELECT queen.list_dead('bad', max_rows => 0)$$,
	$$SELECT queen.list_dead('bad', max_rows => 100001)$$,
	$$SELECT queen.redrive('bad', max_rows => 0)$$,
	$$SELECT queen.redrive('bad', max_rows => -1)$$,
	$$SELECT queen.redrive('bad', max_rows => 100001)$$,
	$$SELECT queen.seek('bad', 'default', -1)$$,
	$$SELECT queen.seek('bad', 'default', -9223372036854775808)$$);

-- Where a subscription starts.
SELECT attempts(
	$$SELECT queen.subscribe('bad', 'start', '')$$,
	$$SELECT queen.subscribe('bad', 'start', 'Latest')$$,
	$$SELECT queen.subscribe('bad', 'start', ' earliest')$$,
	$$SELECT queen.subscribe('bad', 'start', 'soon')$$,
	$$SELECT queen.subscribe('bad', 'start', '2020-01-01; SELECT 1')$$,
	$$SELECT queen.subscribe('bad', 'start', '2020-13-01 UTC')$$,
	$$SELECT queen.subscribe('bad', 'start', '294275-01-01 UTC')$$,
	$$SELECT queen.subscribe('bad', 'start', 'tomorrow')$$,
	$$SELECT queen.subscribe('bad', 'start', 'infinity')$$);
SELECT consumer_group FROM queen.list_groups('bad');

-- What is not there.
SELECT attempts(
	$$SELECT queen.unsubscribe('bad unknown', 'default')$$,
	$$SELECT queen.seek('bad unknown', 'default', 0)$$,
	$$SELECT queen.seek('bad', 'unknown', 0)$$,
	$$SELECT queen.seek('bad', 'default', 0, 'unknown')$$,
	$$SELECT queen.seek_to_time('bad', 'unknown', 'now')$$,
	$$SELECT queen.seek_to_time('bad', 'default', 'now', 'unknown')$$,
	$$SELECT queen.seek_to_end('bad unknown', 'default')$$,
	$$SELECT queen.seek_to_end('bad', 'default', 'unknown')$$,
	$$SELECT queen.pause('bad unknown')$$,
	$$SELECT queen.pause('bad unknown', 'default')$$,
	$$SELECT queen.pause('bad', 'unknown')$$,
	$$SELECT queen.resume('bad unknown')$$,
	$$SELECT queen.resume('bad', 'unknown')$$,
	$$SELECT queen.list_groups('bad unknown')$$,
	$$SELECT queen.lag('bad unknown', 'default')$$,
	$$SELECT queen.lag('bad', 'unknown')$$,
	$$SELECT queen.list_dead('bad unknown')$$,
	$$SELECT queen.purge_dead('bad unknown')$$,
	$$SELECT queen.redrive('bad unknown')$$,
	$$SELECT queen.find('bad unknown', '01a22a47-f93b-72a8-9510-e48d22f938ee')$$);
SELECT queen.unsubscribe('bad', 'unknown');

-- Intervals.
SELECT attempts(
	$$SELECT queen.pop('bad', lease_time => '0')$$,
	$$SELECT queen.pop('bad', lease_time => '-1 s')$$,
	$$SELECT queen.pop('bad', lease_time => '999999 microseconds')$$,
	$$SELECT queen.pop('bad', lease_time => '12 hours 1 microsecond')$$,
	$$SELECT queen.pop('bad', lease_time => '1 month -30 days')$$,
	$$SELECT queen.pop('bad', lease_time => '178000000 years')$$,
	$$SELECT queen.pop('bad', lease_time => '-178000000 years')$$,
	$$SELECT queen.pop('bad', lease_time => '2147483647 days')$$,
	$$SELECT queen.pop('bad', lease_time => '1 s', auto_ack => true)$$,
	$$SELECT queen.pop('bad', wait => '-1 s')$$,
	$$SELECT queen.pop('bad', wait => '1 day 1 us')$$,
	$$SELECT queen.pop('bad', wait => '1 month')$$,
	$$SELECT queen.extend(lease(), '0')$$,
	$$SELECT queen.extend(lease(), '-1 hour')$$,
	$$SELECT queen.extend(lease(), '13 hours')$$,
	$$SELECT queen.extend(lease(), '178000000 years')$$,
	$$SELECT queen.nack(lease(), delay => '-1 s')$$,
	$$SELECT queen.nack(lease(), delay => '366 days')$$,
	$$SELECT queen.nack(lease(), delay => '-178000000 years')$$);
-- Infinite ones are refused too, by PostgreSQL where it does not have them.
SELECT bool_and(a ~ '^(22007|22023): ') AS refused FROM unnest(ARRAY['infinity', '-infinity']) i,
	unnest(ARRAY['SELECT queen.pop(''bad'', lease_time => %L)', 'SELECT queen.pop(''bad'', wait => %L)', 'SELECT queen.extend(lease(), %L)', 'SELECT queen.nack(lease(), delay => %L)',
		'SELECT queen.configure(''bad'', jsonb_build_object(''lease_time'', %L))']) call,
	LATERAL (SELECT a FROM attempt(format(call, i)) a LIMIT 1) s;
-- An interval of months and days that add up is as good as one of hours.
SELECT count(*) FROM queen.pop('bad', 'lease time', lease_time => '1 month -30 days 1 hour');

-- Headers and batches of the wrong shape.
SELECT attempts(
	$$SELECT queen.push('bad', '1', headers => '"text"')$$,
	$$SELECT queen.push('bad', '1', headers => '1')$$,
	$$SELECT queen.push('bad', '1', headers => 'null')$$,
	$$SELECT queen.push('bad', '1', headers => '[]')$$,
	$$SELECT queen.push('bad', '1', headers => '[{"h": 1}]')$$,
	$$SELECT queen.push_bytes('bad', '1', headers => '[]')$$,
	$$SELECT queen.push('bad', 'no json')$$,
	$$SELECT queen.push_batch('bad', '{}')$$,
	$$SELECT queen.push_batch('bad', '{"0": 1}')$$,
	$$SELECT queen.push_batch('bad', '1')$$,
	$$SELECT queen.push_batch('bad', '"[]"')$$,
	$$SELECT queen.push_batch('bad', 'null')$$,
	$$SELECT queen.push_batch('bad', '[1]', headers => 'null')$$,
	$$SELECT queen.push_batch('bad', '[1]', headers => '"h"')$$,
	$$SELECT queen.push_batch('bad', '[1]', headers => '[]')$$,
	$$SELECT queen.push_batch('bad', '[1]', headers => '[null, null]')$$,
	$$SELECT queen.push_batch('bad', '[1, 2, 3]', headers => '[{}, [], {}]')$$,
	$$SELECT queen.push_batch('bad', '[1, 2, 3]', headers => '[{}, null, "h"]')$$,
	$$SELECT queen.push_batch('bad', '[]', headers => '[{}]')$$);

-- Times of a message that comes later; test timers has the rest.
SELECT attempts(
	$$SELECT queen.push('bad', '1', delay => '1 s', deliver_at => now())$$,
	$$SELECT queen.push('bad', '1', delay => '1 s', dedup_key => 'k')$$,
	$$SELECT queen.push('bad', '1', deliver_at => 'infinity')$$,
	$$SELECT queen.push('bad', '1', deliver_at => '-infinity')$$,
	$$SELECT queen.push_bytes('bad', '1', deliver_at => 'infinity')$$);

-- What this version does not have.
SELECT attempts(
	$$SELECT queen.create_queue('bad', 'work')$$);

-- Nothing of all that left anything, and the lease still holds.
SELECT stored('bad');
SELECT queue, partitions FROM queen.list_queues() WHERE queue LIKE 'bad%';
SELECT queen.ack(lease());
