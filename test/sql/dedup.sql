-- dedup_key: a message that was pushed with the same key within the window is dropped, or an error.
\getenv inputdir PG_ABS_SRCDIR
\set topic dedup
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- what was pushed, in order, and how many keys are known
CREATE FUNCTION log_of(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(p.name || '/' || m.msg_offset || '=' || m.message, ' ' ORDER BY p.name COLLATE "C", m.msg_offset)
	FROM queen.queues q JOIN queen.log_partitions p USING (log_id), queen.peek(q.name, p.name, max_messages => 1000) m WHERE q.name = log_of.queue
$$;
CREATE FUNCTION keys_of(queue text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM queen.queues q JOIN queen.log_partitions p USING (log_id) JOIN queen.log_txns USING (partition_id) WHERE q.name = keys_of.queue
$$;
-- time passes for the keys of a queue
CREATE FUNCTION grow_older(of_queue text, amount interval) RETURNS void LANGUAGE sql AS $$
	UPDATE queen.log_txns t SET pushed_at = t.pushed_at - amount
	FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE p.partition_id = t.partition_id AND q.name = of_queue
$$;

-- drop, the default: silently, and the answer is the original's id
SELECT queen.push('d', '1', dedup_key => 'a') AS first \gset
SELECT queen.push('d', '2', dedup_key => 'a') = :'first' AS same_id;
SELECT queen.push('d', '3', dedup_key => 'b') <> :'first' AS another_key;
SELECT queen.push('d', '4', partition => 'p', dedup_key => 'a') <> :'first' AS another_partition;
SELECT queen.push('d', '5') <> :'first' AS without_a_key;
SELECT queen.push_bytes('d', '\x06', dedup_key => 'a') = :'first' AS of_bytes;
SELECT log_of('d'), keys_of('d');
SELECT message_id = :'first' AS it_is_there FROM queen.peek('d', max_messages => 1);
-- keys are bytes: case and normal forms count
SELECT count(DISTINCT queen.push('d', '7', partition => 'bytes', dedup_key => k)) FROM unnest(ARRAY['k', 'K', 'k ', U&'\00e9', U&'e\0301', 'x' || repeat('y', 254)]) k;

-- inside one transaction the first one counts, whatever comes between
BEGIN;
SELECT queen.push('d', '10', partition => 'xact', dedup_key => 'x') AS first \gset
SELECT queen.push('d', '11', partition => 'xact', dedup_key => 'y') AS second \gset
SELECT queen.push('d', '12', partition => 'xact', dedup_key => 'x') = :'first' AS same_id, queen.push('d', '13', partition => 'other', dedup_key => 'x') <> :'first' AS another_partition;
SAVEPOINT s;
SELECT queen.push('d', '14', partition => 'xact', dedup_key => 'z') AS third \gset
SELECT queen.push('d', '15', partition => 'xact', dedup_key => 'z') = :'third' AS same_id;
ROLLBACK TO s;
-- what was rolled back was never pushed
SELECT queen.push('d', '16', partition => 'xact', dedup_key => 'z') <> :'third' AS anew;
SAVEPOINT s;
SELECT queen.push('d', '17', partition => 'xact', dedup_key => 'w') AS fourth \gset
RELEASE s;
SELECT queen.push('d', '18', partition => 'xact', dedup_key => 'w') = :'fourth' AS same_id;
COMMIT;
SELECT string_agg(message::text, ' ') FROM queen.peek('d', 'xact');
BEGIN;
SELECT count(queen.push('d', '19', partition => 'undone', dedup_key => 'u'));
ROLLBACK;
SELECT count(queen.push('d', '20', partition => 'undone', dedup_key => 'u'));
SELECT string_agg(message::text, ' ') FROM queen.peek('d', 'undone');

-- batches: a key or null for each
SELECT count(*), count(DISTINCT id) FROM queen.push_batch('b', '[1, 2, 3, 4, 5]', dedup_keys => '["a", null, "a", "b", null]') id;
SELECT log_of('b'), keys_of('b');
SELECT array_agg(id) AS again FROM queen.push_batch('b', '[6, 7, 8]', dedup_keys => '["b", "c", "a"]') id \gset
SELECT n, (:'again'::uuid[])[n] = message_id AS is_its_id, message FROM unnest(ARRAY[1, 2, 3], ARRAY[2, 4, 0]) u(n, o) JOIN queen.peek('b', max_messages => 100) ON msg_offset = o ORDER BY n;

-- error: at the call where it can be known, at the commit otherwise
SELECT queen.create_queue('e', options => '{"dedup": "error"}');
SELECT count(queen.push('e', '1', dedup_key => 'a'));
\set VERBOSITY sqlstate
SELECT queen.push('e', '2', dedup_key => 'a');
SELECT queen.push_batch('e', '[3, 4]', dedup_keys => '["b", "a"]');
BEGIN;
SELECT count(queen.push('e', '5', dedup_key => 'c'));
SELECT queen.push('e', '6', dedup_key => 'c');
ROLLBACK;
\set VERBOSITY terse
SELECT queen.push('e', '7', dedup_key => 'a');
SELECT log_of('e'), keys_of('e');

-- the window
SELECT queen.configure('d', '{"dedup_window": "1 hour"}')->>'dedup_window' AS dedup_window;
SELECT grow_older('d', '59 min');
SELECT queen.push('d', '"too soon"', dedup_key => 'a') IS NOT NULL AS pushed;
SELECT grow_older('d', '2 min');
SELECT queen.push('d', '"late enough"', dedup_key => 'a') AS again \gset
SELECT queen.push('d', '"dropped"', dedup_key => 'a') = :'again' AS taken_over;
SELECT queen.push_batch('d', '["both", "dropped"]', dedup_keys => '["b", "b"]') IS NOT NULL AS pushed;
SELECT string_agg(message::text, ' ') FROM queen.peek('d');
SELECT count(*) AS keys_with_one_row FROM (SELECT 1 FROM queen.log_txns GROUP BY partition_id, key_hash HAVING count(*) = 1) k WHERE (SELECT count(*) FROM (SELECT 1 FROM queen.log_txns GROUP BY partition_id, key_hash HAVING count(*) > 1) d) = 0;
-- 0: keys count for nothing
SELECT queen.configure('d', '{"dedup_window": 0}')->>'dedup_window' AS dedup_window;
SELECT queen.push('d', '"twice"', partition => 'off', dedup_key => 'a') <> queen.push('d', '"twice"', partition => 'off', dedup_key => 'a') AS both_are_pushed;
SELECT string_agg(message::text, ' ') FROM queen.peek('d', 'off');
SELECT queen.configure('d', '{"dedup_window": null, "dedup": null}')->>'dedup_window' AS dedup_window;
SELECT queen.configure('d', '{"dedup": "error"}')->>'dedup' AS dedup, queen.configure('d', '{"dedup": "drop"}')->>'dedup' AS dedup;

-- every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(queen.push('d', '1', partition => 'rr', dedup_key => 'k'));
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(queen.push('d', '2', partition => 'rr', dedup_key => 'k')), count(queen.push('d', '3', partition => 'rr', dedup_key => 'l'));
COMMIT;
SELECT string_agg(message::text, ' ') FROM queen.peek('d', 'rr');

-- beyond memory: keys go with the frames to the file, and the aid at the call forgets some
SET queen.push_buffer_size = '64 kB';
BEGIN;
SELECT count(DISTINCT queen.push('d', to_jsonb(n), partition => 'many' || n % 3, dedup_key => 'k' || n % 15000)) > 15000 AS not_all_known FROM generate_series(1, 30000) n;
COMMIT;
RESET queen.push_buffer_size;
SELECT count(*), min(message::int), max(message::int), count(DISTINCT message) FROM generate_series(0, 2) p, queen.peek('d', 'many' || p, max_messages => 100000);
-- the first of each key
SELECT bool_and(message::int <= 15000) FROM generate_series(0, 2) p, queen.peek('d', 'many' || p, max_messages => 100000);
SELECT bool_and(ascending) FROM (SELECT message::int > lag(message::int, 1, 0) OVER (ORDER BY msg_offset) AS ascending FROM queen.peek('d', 'many1', max_messages => 100000)) a;

-- nobody creates a queue by looking for a key
BEGIN;
SET LOCAL queen.auto_create = off;
SELECT queen.push('unborn', '1', dedup_key => 'a');
ROLLBACK;
SELECT count(*) FROM queen.queues WHERE name = 'unborn';

-- bad input
\set VERBOSITY default
SELECT queen.push('d', '1', dedup_key => '');
SELECT queen.push('d', '1', dedup_key => E'a\nb');
SELECT queen.push('d', '1', dedup_key => repeat('x', 256));
SELECT queen.push_batch('d', '[1, 2]', dedup_keys => '["a"]');
SELECT queen.push_batch('d', '[1, 2]', dedup_keys => '{"a": 1}');
SELECT queen.push_batch('d', '[1, 2]', dedup_keys => '"a"');
SELECT queen.push_batch('d', '[1, 2]', dedup_keys => '["a", 1]');
SELECT queen.push_batch('d', '[1, 2]', dedup_keys => '["a", ""]');
SELECT queen.push('d', '1', dedup_key => 'a', delay => '1 s');
SELECT queen.configure('d', '{"dedup": "perhaps"}');
SELECT queen.configure('d', '{"dedup": 1}');
SELECT queen.configure('d', '{"dedup_window": -1}');
SELECT queen.configure('d', '{"dedup_window": "31 days"}');
