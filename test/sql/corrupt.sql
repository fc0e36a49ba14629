-- Damaged segments: an error that names queue, partition and offset, never a crash; nothing is skipped, other partitions
-- can still be read.
\getenv inputdir PG_ABS_SRCDIR
\set topic corrupt
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- Replace a segment's blob or end offset.
CREATE FUNCTION damage(of_partition text, at_base bigint, new_blob text, end_by int DEFAULT 0) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	EXECUTE format('UPDATE queen.log_segments s SET blob = %s, end_offset = end_offset + %s
		FROM queen.log_partitions p JOIN queen.queues q USING (log_id)
		WHERE q.name = ''corrupt'' AND p.name = %L AND s.partition_id = p.partition_id AND s.base_offset = %s', new_blob, end_by, of_partition, at_base);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN of_partition || ': ' || n;
END
$$;
CREATE FUNCTION flip(blob bytea, at int) RETURNS bytea LANGUAGE sql AS $$ SELECT set_byte(blob, at, get_byte(blob, at) # 85) $$;

-- Partitions of three segments: offsets 0-9, 10-19, 20-29; the middle one of each is damaged.
CREATE TABLE kinds AS SELECT * FROM (VALUES
	(1, 'empty', '''''::bytea', 0),
	(2, 'one byte', '''\x51''::bytea', 0),
	(3, 'zeros', 'decode(repeat(''00'', length(blob)), ''hex'')', 0),
	(4, 'text', '''no segment at all, but long enough for a header''::bytea', 0),
	(5, 'magic', 'test_corrupt.flip(blob, 0)', 0),
	(6, 'version', 'test_corrupt.flip(blob, 4)', 0),
	(7, 'flags', 'test_corrupt.flip(blob, 5)', 0),
	(8, 'frames', 'test_corrupt.flip(blob, 6)', 0),
	(9, 'blocks', 'test_corrupt.flip(blob, 8)', 0),
	(10, 'directory', 'test_corrupt.flip(blob, 12)', 0),
	(11, 'sum', 'test_corrupt.flip(blob, 30)', 0),
	(12, 'data', 'test_corrupt.flip(blob, length(blob) - 5)', 0),
	(13, 'last byte', 'test_corrupt.flip(blob, length(blob) - 1)', 0),
	(14, 'cut header', 'substring(blob FOR 9)', 0),
	(15, 'cut directory', 'substring(blob FOR 20)', 0),
	(16, 'cut data', 'substring(blob FOR length(blob) - 1)', 0),
	(17, 'longer', 'blob || ''\x00''', 0),
	(18, 'more in the row', 'blob', 1),
	(19, 'fewer in the row', 'blob', -1),
	(20, 'fine', 'blob', 0)) k(n, name, blob, end_by);
SELECT count(queen.push('corrupt', jsonb_build_object('n', i), name)) FROM kinds, generate_series(0, 9) i;
SELECT count(queen.push('corrupt', jsonb_build_object('n', i), name)) FROM kinds, generate_series(10, 19) i;
SELECT count(queen.push('corrupt', jsonb_build_object('n', i), name)) FROM kinds, generate_series(20, 29) i;
SELECT count(damage(name, 10, blob, end_by)) FROM kinds;

-- What lies before it comes; from there on it is an error, whether one looks or takes; nothing was taken by the failed pop.
SELECT name, count(m.msg_offset), max(m.msg_offset) FROM kinds, queen.peek('corrupt', name, 0, 10) m GROUP BY n, name ORDER BY n;
SELECT name, attempt(format('SELECT queen.peek(''corrupt'', %L, max_messages => 100)', name)) AS peek FROM kinds ORDER BY n;
SELECT count(m.*), count(DISTINCT m.partition) AS partitions, max(m.msg_offset) FROM kinds, queen.pop('corrupt', 'default', 10, name, auto_ack => true) m;
SELECT name, attempt(format('SELECT queen.pop(''corrupt'', ''default'', 100, %L)', name)) AS pop FROM kinds ORDER BY n;
SELECT count(*) FROM cursors WHERE queue = 'corrupt' AND (committed <> 9 OR lease IS NOT NULL) AND partition <> 'fine';
-- From the middle of a damaged segment, and behind it.
SELECT name, attempt(format('SELECT queen.peek(''corrupt'', %L, 15, 1)', name)) AS peek FROM kinds WHERE name IN ('empty', 'data', 'cut data', 'more in the row') ORDER BY n;
SELECT name, array_agg(m.msg_offset) FROM kinds, queen.peek('corrupt', name, 20, 2) m WHERE name NOT LIKE 'more%' GROUP BY n, name ORDER BY n;

-- Damaged in the last of many blocks: what lies before is delivered, the error names the message.
CREATE FUNCTION noise(seed int) RETURNS bytea LANGUAGE sql AS $$ SELECT string_agg(sha512(convert_to(seed || ' ' || i, 'UTF8')), '' ORDER BY i) FROM generate_series(1, 400) i $$;
SELECT count(queen.push_bytes('corrupt', noise(i), 'blocks of it')) FROM generate_series(0, 19) i;
SELECT damage('blocks of it', 0, 'test_corrupt.flip(blob, length(blob) - 5)');
SELECT count(*) FROM queen.pop('corrupt', 'blocks', 3, 'blocks of it');
SELECT attempt($$SELECT queen.peek('corrupt', 'blocks of it', max_messages => 100)$$);
SELECT attempt($$SELECT queen.peek('corrupt', 'blocks of it', 19, 1)$$);

-- A pop over all partitions tells of the damage; the consumer of another partition or queue is not concerned.
SELECT DISTINCT left(a, 6) AS sqlstate FROM attempt($$SELECT queen.pop('corrupt', 'default', 100000, max_partitions => 1000)$$) a WHERE a NOT LIKE ' %';
SELECT count(*) FROM queen.pop('corrupt', 'another', 100, 'fine');
SELECT count(queen.push('corrupt other', '1'));
SELECT count(*) FROM queen.pop('corrupt other');
-- A push behind damage goes in.
SELECT count(queen.push('corrupt', '"behind"', name)) FROM kinds WHERE name IN ('empty', 'data');
SELECT name, array_agg(m.message) FROM kinds, queen.peek('corrupt', name, 30) m GROUP BY name ORDER BY name;

-- A nack or a burial that needs the message says so, and takes nothing.
SELECT count(queen.push('corrupt', jsonb_build_object('n', i), 'nack')) FROM generate_series(0, 2) i;
SELECT count(*) FROM take('corrupt', 'nack', 3, 'nack');
SELECT damage('nack', 0, 'test_corrupt.flip(blob, length(blob) - 5)');
SELECT attempt('SELECT queen.nack(lease(), dead => true)');
SELECT queen.nack(lease(), 1, delay => '0');
SELECT attempt($$SELECT queen.pop('corrupt', 'nack', 3, 'nack')$$);
SELECT committed, lease IS NOT NULL AS leased FROM cursors WHERE queue = 'corrupt' AND consumer_group = 'nack';

-- The rest is as it was, also through a rebuilt index.
REINDEX INDEX queen.log_segments_pkey;
SELECT count(*) FROM queen.peek('corrupt', 'fine', max_messages => 100);

-- A pop that has found work elsewhere leaves the damage to the call that begins at it: it is not lost over it, and passes
-- nothing.
SELECT count(queen.push('corrupt wide', to_jsonb(n), 'p' || n)) FROM generate_series(1, 5) n;
UPDATE queen.log_segments s SET blob = substr(blob, 1, 20)
FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE p.partition_id = s.partition_id AND q.name = 'corrupt wide' AND p.name = 'p3';
CREATE FUNCTION pop_wide() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN count(*) FROM queen.pop('corrupt wide', max_messages => 100, max_partitions => 100, auto_ack => true);
EXCEPTION WHEN data_corrupted THEN
	RETURN 0;
END
$$;
-- a walk that begins at the damage fails, any other gives the rest: all has come before long
SELECT sum(pop_wide()) FROM generate_series(1, 200);
SELECT left(attempt, 100) FROM attempt($$ SELECT * FROM queen.pop('corrupt wide') $$) WITH ORDINALITY LIMIT 1;
