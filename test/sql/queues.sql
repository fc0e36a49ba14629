-- Queues: create_queue, configure, list_queues, status.
\getenv inputdir PG_ABS_SRCDIR
\set topic queues
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION listed(pattern text) RETURNS TABLE (queue text, kind text, partitions bigint, options jsonb)
LANGUAGE sql AS $$ SELECT l.queue, l.kind, l.partitions, l.options FROM queen.list_queues() l WHERE l.queue LIKE pattern $$;

-- A queue without options has the defaults; making it again changes nothing.
SELECT queen.create_queue('queues a');
SELECT queen.create_queue('queues a', 'log');
SELECT queen.create_queue('queues a', options => '{}');
SELECT * FROM listed('queues a');

-- With options; again with others merges them; null goes back to the default.
SELECT queen.create_queue('queues b', 'log', '{"lease_time": "1 minute", "max_deliveries": 3}');
SELECT queen.create_queue('queues b', options => '{"retry_delay": 2.5, "compression": "none"}');
SELECT * FROM listed('queues b');
SELECT queen.create_queue('queues b', options => '{"max_deliveries": null}');
SELECT * FROM listed('queues b');

-- configure answers all that is in force, also when it changes nothing.
SELECT queen.configure('queues a', '{}');
SELECT queen.configure('queues a', '{"lease_time": 90}');
SELECT queen.configure('queues a', '{"max_deliveries": 1, "compression": "zstd:19"}');
SELECT queen.configure('queues a', '{"lease_time": null, "compression": "zstd"}');
SELECT queen.configure('queues a', '{"max_deliveries": null, "retry_delay": "0"}');
SELECT queen.configure('queues a', '{"retry_delay": "exponential"}');
SELECT queen.configure('queues a', '{"retry_delay": "3 s"}');
SELECT queen.configure('queues a', '{"retry_delay": null}');
-- What it answers can be given back to it.
SELECT queen.configure('queues a', queen.configure('queues a', '{"lease_time": "90 s", "retry_delay": "1.5 s", "compression": "none"}'));

-- Several times in one statement and in one transaction; what is rolled back is not in force.
SELECT queen.configure('queues a', jsonb_build_object('max_deliveries', i)) -> 'max_deliveries' AS max_deliveries FROM generate_series(1, 3) i;
BEGIN;
SELECT queen.configure('queues a', '{"max_deliveries": 7}') -> 'max_deliveries' AS max_deliveries;
SAVEPOINT s;
SELECT queen.configure('queues a', '{"max_deliveries": 8}') -> 'max_deliveries' AS max_deliveries;
ROLLBACK TO s;
SELECT queen.configure('queues a', '{}') -> 'max_deliveries' AS max_deliveries;
ROLLBACK;
SELECT queen.configure('queues a', '{}') -> 'max_deliveries' AS max_deliveries;
BEGIN;
SELECT queen.create_queue('queues gone');
SELECT queue FROM listed('queues gone');
ROLLBACK;
SELECT queue FROM listed('queues gone');

-- Both ends of each range.
SELECT queen.configure('queues a', '{"lease_time": 1, "max_deliveries": 1, "retry_delay": 0, "compression": "zstd:1"}');
SELECT queen.configure('queues a', '{"lease_time": "12 hours", "max_deliveries": 1000, "retry_delay": "12 hours", "compression": "zstd:19"}');
-- And beyond.
SELECT attempts(VARIADIC array_agg(format('SELECT queen.configure(''queues a'', %L)', o) ORDER BY n)) FROM unnest(ARRAY[
	'{"lease_time": 0.999999}',
	'{"lease_time": "999 ms"}',
	'{"lease_time": 0}',
	'{"lease_time": -1}',
	'{"lease_time": "-1 second"}',
	'{"lease_time": 43200.000001}',
	'{"lease_time": "12:00:00.000001"}',
	'{"lease_time": "1 month"}',
	'{"lease_time": "178000000 years"}',
	'{"lease_time": 1e300}',
	'{"lease_time": 1e400}',
	'{"max_deliveries": 0}',
	'{"max_deliveries": -1}',
	'{"max_deliveries": 1001}',
	'{"max_deliveries": 2.5}',
	'{"max_deliveries": 1e20}',
	'{"retry_delay": -0.000001}',
	'{"retry_delay": "-1 s"}',
	'{"retry_delay": 43201}',
	'{"compression": "zstd:0"}',
	'{"compression": "zstd:20"}',
	'{"compression": "zstd:-1"}',
	'{"compression": "zstd:4294967299"}',
	'{"compression": "zstd: 3"}',
	'{"compression": "zstd:3x"}',
	'{"compression": "zstd:"}',
	'{"compression": "lz4"}',
	'{"compression": ""}',
	'{"compression": "None"}'
]) WITH ORDINALITY u(o, n);
-- Wrong types, and what is no interval.
SELECT attempts(VARIADIC array_agg(format('SELECT queen.configure(''queues a'', %L)', o) ORDER BY n)) FROM unnest(ARRAY[
	'{"lease_time": true}',
	'{"lease_time": [30]}',
	'{"lease_time": {"s": 30}}',
	'{"lease_time": "soon"}',
	'{"lease_time": ""}',
	'{"max_deliveries": "5"}',
	'{"max_deliveries": true}',
	'{"max_deliveries": [5]}',
	'{"retry_delay": false}',
	'{"retry_delay": "linear"}',
	'{"compression": 3}',
	'{"compression": {}}',
	'{"compression": false}'
]) WITH ORDINALITY u(o, n);
-- Unknown options, and what is no object.
SELECT attempts(VARIADIC array_agg(format('SELECT queen.configure(''queues a'', %L)', o) ORDER BY n)) FROM unnest(ARRAY[
	'{"lease": 30}',
	'{"Lease_time": 30}',
	'{"": 30}',
	'{"unknown": null}',
	'{"lease_time": 30, "no such \"option\"": 1}',
	'[]',
	'[{"lease_time": 30}]',
	'"lease_time"',
	'30',
	'null',
	'true'
]) WITH ORDINALITY u(o, n);
-- Nothing of all these was kept.
SELECT queen.configure('queues a', '{}');

-- A refused option refuses the queue too.
SELECT attempts(
	$$SELECT queen.create_queue('queues refused', 'log', '{"lease_time": 0}')$$,
	$$SELECT queen.create_queue('queues refused', 'log', '{"unknown": 1}')$$,
	$$SELECT queen.create_queue('queues refused', 'log', '[]')$$,
	$$SELECT queen.create_queue('queues refused', 'works')$$,
	$$SELECT queen.create_queue('queues refused', 'Log')$$,
	$$SELECT queen.create_queue('queues refused', '')$$,
	$$SELECT queen.create_queue('queues refused', 'priority "high"')$$);
SELECT queue FROM listed('queues refused');

-- An unknown queue is created by neither configure, nor pop, nor peek.
SELECT attempts(
	$$SELECT queen.configure('queues unknown', '{}')$$,
	$$SELECT * FROM queen.peek('queues unknown')$$,
	$$SELECT * FROM queen.pop('queues unknown')$$);
SELECT count(*) FROM queen.pop('queues unknown');
SELECT queue FROM listed('queues unknown');

-- A first push makes the queue and the partition, as of the commit. The list is sorted by bytes.
SELECT count(queen.push('queues Z', '1', p)) FROM unnest(ARRAY['x', 'y', 'z']) p;
SELECT count(queen.push('queues é', '1'));
SELECT queue, partitions FROM listed('queues %');

-- auto_create off: the push is refused when it is called, the queue that is there takes it.
SET queen.auto_create = off;
SELECT attempts(
	$$SELECT queen.push('queues manual', '1')$$,
	$$SELECT queen.push_batch('queues manual', '[1, 2]')$$,
	$$SELECT queen.push_bytes('queues manual', 'x')$$);
BEGIN;
SELECT queen.create_queue('queues manual');
SELECT count(queen.push('queues manual', '1', 'a new partition'));
COMMIT;
SELECT queue, partitions FROM listed('queues manual');
SELECT item, state, detail FROM queen.status() WHERE item = 'auto_create';
RESET queen.auto_create;
-- Switched off between the push and the commit: what counts is what was set at the push.
BEGIN;
SELECT count(queen.push('queues manual 2', '1'));
SELECT count(queen.push('queues manual', '2'));
SET LOCAL queen.auto_create = off;
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT queue FROM listed('queues manual%');
SELECT stored('queues manual', 'a new partition'), stored('queues manual');

-- The state of the installation. (Whether the library is preloaded, and how many queues there are, differs; 040_workers looks at workers.)
SELECT item, CASE WHEN item <> 'queues' THEN state END AS state, CASE WHEN item <> 'version' THEN detail END AS detail, hint
FROM queen.status() WHERE item NOT IN ('preload', 'workers', 'launcher', 'keeper', 'pulse', 'worker_slots', 'state');
SET queen.flush_timeout = 0;
SELECT item, state, hint FROM queen.status() WHERE item = 'flush_timeout';
RESET queen.flush_timeout;

-- Settings.
SELECT name, boot_val, unit, context, vartype, min_val, max_val FROM pg_settings
WHERE name LIKE 'queen.%' AND name NOT IN ('queen.hotlist_size', 'queen.hotlist_window_batch', 'queen.state_groups', 'queen.state_queues') -- 030_hotlist and 062_collector look at these, which are set at the start
ORDER BY name COLLATE "C";
-- The server's own words differ from version to version.
SELECT left(attempt, 6) AS sqlstate FROM attempt('SET queen.flush_timeout = -1');
SELECT attempts(
	'SET queen.flush_timeout = ''a while''',
	'SET queen.auto_create = ''perhaps''',
	'SET queen.unknown = 1');
