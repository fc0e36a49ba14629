-- Dead letters: list, purge, redrive.
\getenv inputdir PG_ABS_SRCDIR
\set topic dead
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- Give up everything that a group has, one by one.
CREATE FUNCTION give_up(queue text, consumer_group text DEFAULT 'default', error text DEFAULT 'bad') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint := 0;
BEGIN
	WHILE EXISTS (SELECT FROM take(give_up.queue, give_up.consumer_group)) LOOP
		PERFORM queen.nack(lease(), error => give_up.error, dead => true);
		n := n + 1;
	END LOOP;
	RETURN n;
END
$$;
-- Numbered by group and place: partitions are taken in any order.
CREATE FUNCTION letters(queue text, consumer_group text DEFAULT NULL) RETURNS TABLE (n bigint, partition text, consumer_group text, msg_offset bigint, content text, headers jsonb, attempts int, error text) LANGUAGE sql AS $$
	SELECT row_number() OVER (ORDER BY consumer_group, partition, msg_offset), partition, consumer_group, msg_offset, coalesce(message::text, payload::text), headers, attempts, error
	FROM queen.list_dead(letters.queue, letters.consumer_group)
$$;
-- dead_ids of the n-th letters.
CREATE FUNCTION ids(queue text, VARIADIC ns int[]) RETURNS bigint[] LANGUAGE sql AS $$
	SELECT array_agg(dead_id ORDER BY o) FROM unnest(ns) WITH ORDINALITY u(n, o)
	JOIN (SELECT dead_id, row_number() OVER (ORDER BY consumer_group, partition, msg_offset) AS n FROM queen.list_dead(ids.queue, max_rows => 100000)) l USING (n)
$$;
-- What is in the log behind an offset, without what differs from run to run.
CREATE FUNCTION since(queue text, partition text, from_offset bigint) RETURNS TABLE (msg_offset bigint, content text, headers text) LANGUAGE sql AS $$
	SELECT msg_offset, coalesce(message::text, payload::text), masked(headers::text) FROM queen.peek(since.queue, since.partition, from_offset, 100000)
$$;

SELECT count(queen.push('dead', to_jsonb(p || i), p, CASE i WHEN 1 THEN '{"h": 1, "queen_redriven": "mine"}'::jsonb END)) FROM generate_series(0, 2) i, unnest(ARRAY['b', 'a']) p;
SELECT count(queen.push_bytes('dead', '\x00ff', 'a'));
SELECT queen.push('dead', 'null', 'b') IS NOT NULL;
SELECT give_up('dead'), give_up('dead', 'other', NULL);
SELECT * FROM letters('dead');
SELECT * FROM letters('dead', 'other');
SELECT * FROM letters('dead', 'nobody');
-- Page by page, each once.
WITH RECURSIVE pages AS (
	SELECT array_agg(dead_id ORDER BY dead_id) AS page FROM queen.list_dead('dead', max_rows => 3)
	UNION ALL
	SELECT (SELECT array_agg(dead_id ORDER BY dead_id) FROM queen.list_dead('dead', after_id => p.page[cardinality(p.page)], max_rows => 3)) FROM pages p WHERE p.page IS NOT NULL)
SELECT count(*) AS pages, sum(cardinality(page)) AS letters, (SELECT count(DISTINCT i) FROM pages, unnest(page) i) AS distinct_letters FROM pages WHERE page IS NOT NULL;
SELECT count(*) FROM queen.list_dead('dead', after_id => 9223372036854775807);
SELECT count(*) FROM queen.list_dead('dead', after_id => -9223372036854775808);
-- The columns are those of the message that died.
SELECT count(*) FROM queen.list_dead('dead') d JOIN queen.peek('dead', 'a') m USING (message_id, msg_offset, enqueued_at)
WHERE d.partition = 'a' AND d.dead_at > d.enqueued_at AND m.message IS NOT DISTINCT FROM d.message AND m.payload IS NOT DISTINCT FROM d.payload;

-- Redrive: to the same partition, in the order of the log however the ids come, each once, with the headers that it had.
CREATE TABLE chosen AS SELECT ids('dead', 3, 1, 6, 5, 1) AS ids;
SELECT queen.redrive('dead', dead_ids => ids) FROM chosen;
SELECT * FROM since('dead', 'a', 4);
SELECT * FROM since('dead', 'b', 4);
SELECT count(*) FROM queen.list_dead('dead');
-- The ids are gone: nothing goes back twice.
SELECT queen.redrive('dead', dead_ids => ids) FROM chosen;
-- A group's; a message is new: its own id and time, delivered to every group, counted anew.
SELECT queen.redrive('dead', 'default');
SELECT count(*) FROM queen.list_dead('dead', 'default');
SELECT partition, count(*), count(DISTINCT message_id) FROM unnest(ARRAY['a', 'b']) p, queen.peek('dead', p, max_messages => 1000) m GROUP BY partition ORDER BY 1;
SELECT partition, msg_offset, message, attempt FROM take('dead', max_messages => 100, max_partitions => 10);
SELECT queen.ack_all(array_agg(DISTINCT lease)) FROM taken;
SELECT partition, msg_offset, message, attempt FROM take('dead', 'other', 100, max_partitions => 10);
SELECT queen.ack_all(array_agg(DISTINCT lease)) FROM taken;
SELECT queen.redrive('dead', 'nobody');
-- Letters of one message that several groups gave up go back as one.
SELECT queen.purge_dead('dead') > 0;
SELECT count(queen.push('dead two', to_jsonb(i))) FROM generate_series(0, 1) i;
SELECT give_up('dead two'), give_up('dead two', 'other');
SELECT queen.seek('dead two', 'other', 0), give_up('dead two', 'other');
SELECT queen.redrive('dead two');
SELECT * FROM since('dead two', 'Default', 2);
-- Not more than asked for, the oldest deaths first; again, until none is left.
SELECT give_up('dead two');
SELECT queen.redrive('dead two', max_rows => 1), queen.redrive('dead two', max_rows => 1), queen.redrive('dead two', max_rows => 100000);
SELECT * FROM since('dead two', 'Default', 4);

-- With the transaction, and with the savepoint.
SELECT give_up('dead two');
BEGIN;
SELECT queen.redrive('dead two', max_rows => 1);
SAVEPOINT s;
SELECT queen.redrive('dead two');
SELECT count(*) FROM queen.list_dead('dead two');
ROLLBACK TO s;
SELECT count(*) FROM queen.list_dead('dead two');
COMMIT;
SELECT count(*) FROM queen.list_dead('dead two');
SELECT msg_offset, content FROM since('dead two', 'Default', 6);
BEGIN;
SELECT queen.redrive('dead two'), queen.purge_dead('dead two');
ROLLBACK;
SELECT count(*) FROM queen.list_dead('dead two');
SELECT msg_offset, content FROM since('dead two', 'Default', 7);
-- With other pushes of the transaction, in the order of the calls.
BEGIN;
SELECT queen.push('dead two', '"before"') IS NOT NULL;
SELECT queen.redrive('dead two');
SELECT queen.push('dead two', '"after"') IS NOT NULL;
COMMIT;
SELECT msg_offset, content FROM since('dead two', 'Default', 7);
-- What is purged or dropped behind it goes along.
SELECT give_up('dead two');
BEGIN;
SELECT queen.redrive('dead two', max_rows => 1), queen.purge_queue('dead two');
COMMIT;
SELECT stored('dead two');
-- Dead letters outlive the purge, and go back to partitions that are born again; from every isolation level.
SET queen.auto_create = off;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) > 0 AS some FROM queen.list_dead('dead two');
SELECT queen.redrive('dead two') > 0 AS some;
COMMIT;
RESET queen.auto_create;
SELECT count(*) FROM queen.list_dead('dead two');
SELECT count(*) FROM since('dead two', 'Default', 0);
-- A prepared transaction cannot hold letters.
BEGIN;
SELECT queen.redrive('dead two');
PREPARE TRANSACTION 'dead';

-- Large ones, and many: compressed or not, what comes back is what went.
CREATE TABLE large AS SELECT i, string_agg(md5((i * 1000 + j)::text), '') AS s FROM generate_series(1, 3) i, generate_series(1, 20000) j GROUP BY i;
SELECT count(queen.push('dead large', to_jsonb(s))) FROM (SELECT s FROM large ORDER BY i) l;
SELECT count(queen.push_bytes('dead large', s::bytea)) FROM (SELECT s FROM large ORDER BY i) l;
SELECT give_up('dead large');
SET queen.push_buffer_size = '1MB';
SELECT queen.redrive('dead large');
RESET queen.push_buffer_size;
SELECT m.msg_offset, l.i FROM queen.peek('dead large', from_offset => 6) m JOIN large l ON l.s = coalesce(m.message #>> '{}', convert_from(m.payload, 'UTF8')) ORDER BY 1;
SELECT count(queen.push('dead many', to_jsonb(i))) FROM generate_series(1, 2500) i;
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM take('dead many', max_messages => 1)) LOOP
		EXIT WHEN (SELECT min(msg_offset) FROM taken) >= 1200;
		PERFORM queen.nack(lease(), dead => true);
	END LOOP;
END $$;
SELECT queen.redrive('dead many'), queen.redrive('dead many'), queen.redrive('dead many');
SELECT count(*), bool_and(message = to_jsonb(msg_offset - 2499)) AS in_order FROM queen.peek('dead many', from_offset => 2500, max_messages => 10000);

-- Purge: by group, id, time, all of these.
SELECT count(queen.push('dead purge', to_jsonb(i))) FROM generate_series(0, 3) i;
SELECT give_up('dead purge'), give_up('dead purge', 'other');
SELECT queen.purge_dead('dead purge', dead_ids => ids('dead purge', 1, 8, 8));
SELECT consumer_group, msg_offset FROM letters('dead purge');
SELECT queen.purge_dead('dead purge', 'default', ids('dead purge', 1, 6));
SELECT queen.purge_dead('dead purge', dead_ids => '{}');
SELECT queen.purge_dead('dead purge', before => '-infinity'), queen.purge_dead('dead purge', before => min(dead_at)) FROM queen.list_dead('dead purge');
SELECT queen.purge_dead('dead purge', 'other', before => max(dead_at)) FROM queen.list_dead('dead purge');
SELECT consumer_group, msg_offset FROM letters('dead purge');
SELECT queen.purge_dead('dead purge', before => 'infinity'), queen.purge_dead('dead purge');

-- Only the queue's own: neither another queue's nor another tenant's of the same name.
SELECT count(queen.push('dead own', '0'));
SELECT give_up('dead own');
SELECT queen.create_queue('dead none');
SET queen.tenant = 'dddddddd-dddd-dddd-dddd-dddddddddddd';
SELECT queen.create_queue('dead own');
CREATE TABLE foreign_ids AS SELECT array_agg(dead_id) AS ids FROM queen.dead_letters;
SELECT count(*) FROM queen.list_dead('dead own');
SELECT queen.redrive('dead own', dead_ids => ids), queen.purge_dead('dead own', dead_ids => ids), queen.redrive('dead own'), queen.purge_dead('dead own') FROM foreign_ids;
SELECT stored('dead own');
SELECT attempts(
	$$SELECT * FROM queen.list_dead('dead none')$$,
	$$SELECT queen.redrive('dead none')$$,
	$$SELECT queen.purge_dead('dead none')$$);
RESET queen.tenant;
SELECT queen.redrive('dead none', dead_ids => ids), queen.purge_dead('dead none', dead_ids => ids) FROM foreign_ids;
SELECT count(*) FROM queen.list_dead('dead own');

-- Odd names, and a row that somebody else has written.
SELECT count(queen.push('dead ''"\ é', '"odd"', 'p ''"\ é'));
SELECT give_up('dead ''"\ é', 'g ''"\ é');
SELECT queen.redrive('dead ''"\ é', 'g ''"\ é');
SELECT * FROM since('dead ''"\ é', 'p ''"\ é', 1);
INSERT INTO queen.dead_letters (dead_id, tenant, queue_id, queue, kind, message_id, message, attempts, enqueued_at, dead_at)
SELECT 9000000000000, tenant, queue_id, name, kind, gen_random_uuid(), '1', 1, now(), now() FROM queen.queues WHERE name = 'dead none';
SELECT attempts($$SELECT queen.redrive('dead none')$$);
SELECT queen.redrive('dead none', 'default');
SELECT count(*) FROM queen.list_dead('dead none');
SELECT queen.purge_dead('dead none');
