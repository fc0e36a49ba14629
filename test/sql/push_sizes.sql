-- Many messages and large ones: segments are cut, offsets stay contiguous, ids increase.
\getenv inputdir PG_ABS_SRCDIR
\set topic push_sizes
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- The segments of a partition: how many messages each holds.
CREATE FUNCTION segments(of_queue text, of_partition text DEFAULT 'Default') RETURNS TABLE (base_offset bigint, messages bigint, stored_size int)
LANGUAGE sql AS $$
	SELECT s.base_offset, s.end_offset - s.base_offset + 1, length(s.blob)
	FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)
	WHERE q.name = of_queue AND p.name = of_partition ORDER BY 1
$$;
-- Bytes that do not compress, always the same.
CREATE FUNCTION noise(size int, seed int) RETURNS bytea LANGUAGE sql AS $$
	SELECT substring(string_agg(sha512(convert_to(seed || ' ' || i, 'UTF8')), '' ORDER BY i) FOR size) FROM generate_series(0, size / 64) i
$$;

-- 2,500 messages of one transaction to one partition, among those to another: segments of 1,000.
CREATE TABLE pushed AS SELECT i, queen.push('sizes many', to_jsonb(i), CASE WHEN i % 10 = 0 THEN 'tenth' ELSE 'rest' END) AS id FROM generate_series(0, 2777) i;
SELECT base_offset, messages FROM segments('sizes many', 'rest');
SELECT base_offset, messages FROM segments('sizes many', 'tenth');
SELECT count(*), bool_and(m.message = to_jsonb(m.msg_offset / 9 * 10 + m.msg_offset % 9 + 1)) AS in_order, bool_and(m.msg_offset + 1 = m.ordinality) AS contiguous,
	bool_and(p.id = m.message_id) AS same_ids
FROM queen.peek('sizes many', 'rest', max_messages => 10000) WITH ORDINALITY m LEFT JOIN pushed p ON to_jsonb(p.i) = m.message;
-- All taken in one call, in order, over the borders.
SELECT count(*), min(msg_offset), max(msg_offset), bool_and(msg_offset + 1 = ordinality) AS in_order, count(DISTINCT lease) AS leases
FROM queen.pop('sizes many', max_messages => 10000, partition => 'rest') WITH ORDINALITY m;
-- 1,000 fit, one more does not.
SELECT count(*) FROM queen.push_batch('sizes border', (SELECT jsonb_agg(i) FROM generate_series(1, 1000) i));
SELECT count(*) FROM queen.push_batch('sizes border', (SELECT jsonb_agg(i) FROM generate_series(1, 1001) i));
SELECT base_offset, messages FROM segments('sizes border');
-- From a middle that is not the first segment's.
SELECT msg_offset, message FROM queen.peek('sizes border', from_offset => 1998, max_messages => 4);

-- Ids: version 7, strictly increasing in a session, in the time of the push.
SELECT count(*), count(DISTINCT id) AS distinct_ids, bool_and(id > previous) AS increasing, bool_and(substr(id::text, 15, 1) = '7') AS version_7,
	bool_and(substr(id::text, 20, 1) IN ('8', '9', 'a', 'b')) AS variant,
	bool_and(abs(extract(epoch FROM now()) * 1000 - ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint) < 600000) AS recent
FROM (SELECT id, coalesce(lag(id) OVER (ORDER BY i), '00000000-0000-0000-0000-000000000000') AS previous FROM pushed) p;

-- Large messages: one of 3 MB is a segment of its own, between small ones.
SELECT count(queen.push('sizes large', to_jsonb(repeat(c, size)))) FROM (VALUES ('a', 10), ('b', 3000000), ('c', 10), ('d', 600000), ('e', 600000), ('f', 10)) v(c, size);
SELECT base_offset, messages FROM segments('sizes large');
SELECT msg_offset, length(message #>> '{}'), message = to_jsonb(repeat(left(message #>> '{}', 1), length(message #>> '{}'))) AS same
FROM queen.pop('sizes large', max_messages => 10);
-- A batch of more than 1 MB.
SELECT count(*) FROM queen.push_batch('sizes large batch', (SELECT jsonb_agg(repeat(chr(65 + i % 26), 30000)) FROM generate_series(0, 99) i));
SELECT count(*) > 1 AS several, sum(messages), max(messages) < 40 AS cut_at_1_mb FROM segments('sizes large batch');
SELECT count(*), bool_and(message = to_jsonb(repeat(chr(65 + (msg_offset % 26)::int), 30000))) AS same FROM queen.peek('sizes large batch', max_messages => 1000);

-- Compression, none against the strongest; both come back the same, also in one partition.
SELECT queen.create_queue('sizes none', options => '{"compression": "none"}'), queen.create_queue('sizes 19', options => '{"compression": "zstd:19"}'),
	queen.create_queue('sizes default');
CREATE TABLE messages AS SELECT i, jsonb_build_object('sensor', i % 7, 'state', 'running', 'value', i * 31 % 1000, 'text', repeat('lorem ipsum ', 5)) AS message FROM generate_series(1, 800) i;
SELECT q, count(queen.push(q, message)) FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, messages GROUP BY q ORDER BY q;
SELECT q, sum(stored_size) < 40000 AS small, sum(stored_size) > 80000 AS as_it_was FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, segments(q) GROUP BY q ORDER BY q;
SELECT q, count(*), bool_and(p.message = m.message) AS same FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, queen.peek(q, max_messages => 1000) p JOIN messages m ON m.i = p.msg_offset + 1
GROUP BY q ORDER BY q;
SELECT queen.configure('sizes none', '{"compression": "zstd:19"}') ->> 'compression' AS compression;
SELECT count(queen.push('sizes none', message)) FROM messages;
SELECT queen.configure('sizes none', '{"compression": "none"}') ->> 'compression' AS compression;
SELECT count(queen.push('sizes none', message)) FROM messages;
SELECT base_offset, messages, stored_size < 40000 AS small FROM segments('sizes none');
SELECT count(*), count(DISTINCT message) FROM queen.pop('sizes none', max_messages => 2400);
-- The option is read at the commit.
BEGIN;
SELECT count(queen.push('sizes default', message, 'late')) FROM messages;
SELECT queen.configure('sizes default', '{"compression": "none"}') ->> 'compression' AS compression;
COMMIT;
SELECT stored_size > 80000 AS as_it_was FROM segments('sizes default', 'late');

-- What does not compress is stored as it is, whatever the option says, and hardly larger.
SELECT q, count(queen.push_bytes(q, noise(size, size), 'noise')) FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, unnest(ARRAY[0, 1, 100, 64 * 1024, 1500000]) size GROUP BY q ORDER BY q;
SELECT q, sum(stored_size) BETWEEN 1565637 AND 1566500 AS as_it_was FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, segments(q, 'noise') GROUP BY q ORDER BY q;
SELECT q, array_agg(length(payload)), bool_and(payload = noise(length(payload), length(payload))) AS same FROM unnest(ARRAY['sizes none', 'sizes 19', 'sizes default']) q, queen.peek(q, 'noise') m GROUP BY q ORDER BY q;

-- Many partitions in one transaction.
SELECT count(queen.push('sizes partitions', to_jsonb(i), 'p' || i % 500)) FROM generate_series(0, 1499) i;
SELECT partitions FROM queen.list_queues() WHERE queue = 'sizes partitions';
SELECT count(*), count(DISTINCT partition), bool_and(message = to_jsonb(msg_offset * 500 + substr(partition, 2)::int)) AS right_ones
FROM queen.pop('sizes partitions', max_messages => 100000, max_partitions => 1000);
