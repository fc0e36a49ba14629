-- Names are 1 to 255 bytes without control characters, and nothing else is asked of them.
\getenv inputdir PG_ABS_SRCDIR
\set topic odd_names
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE TABLE names AS SELECT n, name FROM unnest(ARRAY[
	' ', '  ', '.', '/', '\', '''', '"', '''; DROP TABLE queen.queues; --', '$$', '$1', '%s%n', '%', '_', '*', '?', 'null', 'NULL', '0', '-1', '{}', '[]',
	'Default', 'default', 'DEFAULT', 'é', U&'e\0301', 'ä', 'Ä', 'ß', '日本語', '👑', U&'\200B', U&'\FEFF', U&'\00A0', U&'\202Etxet', 'a b', ' a', 'a ', 'a', 'A',
	'queen.queues', 'pg_catalog', E'back\\slash', '<script>', '&amp;', 'x=1;y=2', repeat('x', 254), repeat('x', 255), repeat('é', 127), repeat('👑', 63) || 'abc'
]) WITH ORDINALITY u(name, n);

-- As a queue's name, each is its own queue …
SELECT count(queen.push(name, to_jsonb(name))) FROM names;
SELECT n, name FROM names WHERE (SELECT array_agg(message) FROM queen.peek(name)) IS DISTINCT FROM ARRAY[to_jsonb(name)] ORDER BY n;
SELECT n, name FROM names LEFT JOIN queen.list_queues() q ON q.queue = name WHERE q.queue IS NULL OR q.partitions <> 1 ORDER BY n;
SELECT count(queen.configure(name, '{"lease_time": "1 minute"}')) FROM names;
SELECT n, name FROM names LEFT JOIN queen.list_queues() q ON q.queue = name WHERE q.options ->> 'lease_time' <> '00:01:00' ORDER BY n;
-- … as a partition's, its own partition, sorted by bytes …
SELECT count(queen.push('odd', to_jsonb(name), name)) FROM names;
SELECT count(*), bool_and(message = to_jsonb(partition)) AS right_ones, bool_and(msg_offset = 0) AS first FROM take('odd', max_messages => 1000, max_partitions => 1000);
SELECT bool_and(ordinality = rank) AS sorted FROM (SELECT ordinality, rank() OVER (ORDER BY partition COLLATE "C") FROM taken) t;
SELECT queen.ack_all(array_agg(lease)) FROM taken;
-- … as a group's, its own group; in the answers, the dead letters and the view they are as they were given.
SELECT count(m.*) FROM names, queen.pop('odd', name, 1, name) m WHERE m.message = to_jsonb(name) AND m.consumer_group = name AND m.partition = name;
SELECT count(*) FROM names, queen.pop('odd', name, 1, name) m WHERE name <> 'default';
SELECT count(queen.nack(m.lease, delay => '1 hour', error => name)) FROM names, queen.pop(name, name) m;
SELECT count(*) FROM names JOIN queen.pg_stat_queen_blocked b ON b.queue = name AND b.consumer_group = name AND b.partition = 'Default' AND b.error = name;
-- … and in what is asked of a group.
SELECT count(*) FROM names, queen.list_groups('odd') l WHERE l.consumer_group = name AND l.leased = 1;
SELECT count(*) FROM names, queen.lag('odd', name) l WHERE l.partition = name AND (l.state = 'leased' OR name = 'default');
SELECT count(queen.subscribe(name, 'new ' || left(name, 60), 'latest')), count(queen.subscribe('odd', 'new ' || left(name, 60))) FROM names;
SELECT sum(queen.seek('odd', name, 0, name)), count(*) FILTER (WHERE queen.pause('odd', name)) AS paused, count(*) FILTER (WHERE queen.pause(name)) AS queues FROM names;
SELECT count(*) FILTER (WHERE queen.resume(name)) AS resumed, count(*) FILTER (WHERE queen.unsubscribe('odd', name)) AS unsubscribed FROM names;
SELECT count(queen.push('odd dead', to_jsonb(name), name)) FROM names;
SELECT count(queen.nack(m.lease, error => m.partition, dead => true)) FROM queen.pop('odd dead', 'odd', 1000, max_partitions => 1000) m;
SELECT count(*) FROM names JOIN queen.dead_letters d ON d.queue = 'odd dead' AND d.partition = name AND d.error = name AND d.message = to_jsonb(name);

-- In messages of errors they are whole, or cut at a character.
SELECT attempts(
	$$SELECT queen.peek('no " queue')$$,
	$$SELECT queen.peek('no '' queue')$$,
	$$SELECT queen.peek('no %s queue')$$,
	$$SELECT queen.peek('日本語')$$,
	$$SELECT queen.seek('odd', 'no " group', 0)$$,
	$$SELECT queen.seek_to_end('odd', '日本語', 'no %s partition')$$,
	$$SELECT queen.configure('keine Schlange: ä', '{}')$$);

-- Control characters of two bytes in UTF-8, and how an error shows them.
SELECT attempts(VARIADIC array_agg(format('SELECT queen.push(%L, ''1'')', name))) FROM unnest(ARRAY[U&'a\0085z', U&'\009f', U&'a\0080']) name;
SELECT attempt(format('SELECT queen.push(%L, ''1'') IS NULL', U&'a\00a0z'));
