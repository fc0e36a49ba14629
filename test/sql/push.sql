-- push, push_batch, push_bytes and peek: what goes in comes out, in order.
\getenv inputdir PG_ABS_SRCDIR
\set topic push
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- In the order of the calls, into the partitions named; each partition has offsets of its own.
SELECT count(queen.push('push', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT count(queen.push('push', to_jsonb(i), CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END)) FROM generate_series(1, 10) i;
SELECT stored('push'), stored('push', 'even'), stored('push', 'odd');
SELECT count(queen.push('push', to_jsonb(i), partition => 'even')) FROM generate_series(12, 14, 2) i;
SELECT stored('push', 'even');

-- All columns of a message that was not taken; ids are those that push answered, enqueued_at is the commit's.
BEGIN;
CREATE TABLE pushed AS SELECT i, queen.push('push all', to_jsonb(i), headers => jsonb_build_object('h', i)) AS id, clock_timestamp() AS at
	FROM generate_series(0, 2) i;
COMMIT;
SELECT m.queue, m.partition, m.msg_offset, m.message_id = p.id AS same_id, m.message, m.payload, m.headers,
	m.enqueued_at BETWEEN p.at AND clock_timestamp() AS at_commit, m.attempt, m.consumer_group, m.lease, m.lease_until
FROM queen.peek('push all') m JOIN pushed p ON p.i = m.msg_offset;

-- Any JSON value is a message and comes back as it was; JSON null is one, SQL NULL is none.
CREATE TABLE samples AS SELECT * FROM (VALUES
	(1, 'null'::jsonb), (2, 'true'), (3, 'false'), (4, '0'), (5, '-1.50'), (6, '12345678901234567890123456789.000000001'), (7, '1e30'),
	(8, '""'), (9, '"text"'), (10, '"\u00e4 \ud83d\udc51 \" \\ \n \t"'), (11, '[]'), (12, '{}'), (13, '[null]'), (14, '[[[]], {}]'),
	(15, '{"a": {"b": [1, {"c": null}]}, "": "", "k y": [true, "x"]}')) s(n, message);
SELECT count(queen.push('push samples', message)) FROM (SELECT * FROM samples ORDER BY n) s;
SELECT n, s.message, s.message = m.message AS same, s.message::text = m.message::text AS same_text FROM samples s LEFT JOIN queen.peek('push samples', max_messages => 100) m ON m.msg_offset = n - 1
ORDER BY n;
SELECT attempt('SELECT queen.push(''push samples'', NULL)');

-- Headers: an object or none; an empty one is not none.
SELECT count(queen.push('push headers', to_jsonb(n), headers => h)) FROM (VALUES
	(1, NULL::jsonb), (2, '{}'), (3, '{"a": 1, "b": {"c": [null]}}')) v(n, h);
SELECT message, headers FROM queen.peek('push headers');

-- A batch: an element is a message, with one object of headers for all, one each, or none.
SELECT count(*) FROM queen.push_batch('push batch', '[1, "two", null, [3], {"four": 4}, []]');
SELECT stored('push batch');
SELECT count(*) FROM queen.push_batch('push batch', '[1, 2]', 'for all', '{"h": true}');
SELECT count(*) FROM queen.push_batch('push batch', '[1, 2, 3, 4]', 'one each', '[{"h": 1}, null, {}, {"h": 4}]');
SELECT partition, msg_offset, message, headers FROM (SELECT * FROM queen.peek('push batch', 'for all') UNION ALL SELECT * FROM queen.peek('push batch', 'one each')) m;
CREATE TABLE batch AS SELECT * FROM queen.push_batch('push batch', '["a", "b", "c"]', 'ids 2') WITH ORDINALITY b(id, n);
SELECT n, m.message FROM batch JOIN queen.peek('push batch', 'ids 2') m ON m.message_id = id ORDER BY n;
SELECT count(*) FROM queen.push_batch('push batch', (SELECT jsonb_agg(i) FROM generate_series(1, 5) i), 'in a select list');
SELECT count(id) FROM (SELECT queen.push_batch('push batch', '[6, 7]', 'in a select list') AS id) s;
SELECT stored('push batch', 'in a select list');

-- An empty batch is no message, and no reason for a queue.
SELECT count(*) FROM queen.push_batch('push empty', '[]');
SELECT count(*) FROM queen.push_batch('push empty', '[]', headers => '[]');
SELECT count(*) FROM queen.push_batch('push empty', '[]', headers => '{"h": 1}');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'push empty';

-- Bytes, among JSON messages of the same partition.
SELECT count(queen.push_bytes('push bytes', b)) FROM (VALUES ('\x00'::bytea), (''), ('\xdeadbeef'), ('{"not": "json"}')) v(b);
SELECT count(queen.push('push bytes', '"json"', headers => '{"h": 1}'));
SELECT count(queen.push_bytes('push bytes', '\xff', 'Default', '{"h": 2}'));
SELECT msg_offset, message, payload, headers FROM queen.peek('push bytes');
SELECT message, payload, headers FROM queen.pop('push bytes', max_messages => 10);

-- Values out of a table: short, compressed, out of line.
CREATE TABLE stored_values (n int, message jsonb, payload bytea, headers jsonb);
ALTER TABLE stored_values ALTER payload SET STORAGE EXTERNAL;
INSERT INTO stored_values
SELECT n, jsonb_build_object('n', n, 'text', repeat('a', n)), convert_to(repeat('b', n), 'UTF8'), jsonb_build_object('h', repeat('c', n))
FROM unnest(ARRAY[0, 1, 50, 126, 127, 3000, 100000]) n;
SELECT count(queen.push('push stored', message, headers => headers)) FROM (SELECT * FROM stored_values ORDER BY n) s;
SELECT count(queen.push_bytes('push stored', payload, 'bytes', headers)) FROM (SELECT * FROM stored_values ORDER BY n) s;
SELECT n, s.message = m.message AS message, s.headers = m.headers AS headers, s.payload = b.payload AS payload
FROM (SELECT *, row_number() OVER (ORDER BY n) - 1 AS msg_offset FROM stored_values) s
LEFT JOIN queen.peek('push stored') m USING (msg_offset) LEFT JOIN queen.peek('push stored', 'bytes') b USING (msg_offset) ORDER BY n;

-- peek: from an offset, a number of messages, across segments; past the end and in an unknown partition nothing.
SELECT count(queen.push('push peek', to_jsonb(i))) FROM generate_series(0, 4) i;
SELECT count(queen.push('push peek', to_jsonb(i))) FROM generate_series(5, 9) i;
SELECT array_agg(message) FROM queen.peek('push peek', from_offset => 3, max_messages => 4);
SELECT array_agg(message) FROM queen.peek('push peek', from_offset => 5, max_messages => 1);
SELECT array_agg(message) FROM queen.peek('push peek', from_offset => 9);
SELECT array_agg(message) FROM queen.peek('push peek', from_offset => NULL, max_messages => 2);
SELECT count(*) FROM queen.peek('push peek', from_offset => 10);
SELECT count(*) FROM queen.peek('push peek', from_offset => 9223372036854775807);
SELECT count(*) FROM queen.peek('push peek', 'no such partition');
-- It takes nothing, also in a read-only transaction.
BEGIN READ ONLY;
SELECT count(*) FROM queen.peek('push peek');
COMMIT;
SELECT array_agg(message) FROM queen.pop('push peek', max_messages => 3);

-- A hole in the log, as a transaction that fails at its commit leaves it: readers step over it.
SELECT count(queen.push('push hole', to_jsonb(i))) FROM generate_series(0, 1) i;
SELECT count(queen.push('push hole', to_jsonb(i))) FROM generate_series(2, 3) i;
SELECT count(queen.push('push hole', to_jsonb(i))) FROM generate_series(4, 5) i;
DELETE FROM queen.log_segments s USING queen.log_partitions p JOIN queen.queues q USING (log_id)
WHERE q.name = 'push hole' AND s.partition_id = p.partition_id AND s.base_offset = 2;
SELECT stored('push hole');
SELECT array_agg(msg_offset) FROM queen.peek('push hole', from_offset => 2, max_messages => 1);
SELECT array_agg(msg_offset) FROM queen.peek('push hole', from_offset => 3, max_messages => 1);
SELECT count(queen.push('push hole', '6'));
SELECT stored('push hole');

-- Positional arguments, plain literals and names all resolve.
SELECT count(queen.push('push call', '{"a": 1}', 'p', '{"h": 1}'));
SELECT count(queen.push(queue => 'push call', message => '2', partition => 'p'));
SELECT count(queen.push_bytes('push call', '\x03', 'p'));
SELECT count(*) FROM queen.push_batch('push call', '[4]', 'p');
SELECT stored('push call', 'p');
PREPARE pushing(text, jsonb) AS SELECT count(queen.push($1, $2, 'p'));
EXECUTE pushing('push call', '5');
EXECUTE pushing('push call', '6');
SELECT stored('push call', 'p');
