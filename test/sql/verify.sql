-- verify: each problem is found and named; what can be mended is mended, and what cannot stays. All of it is rolled back.
\getenv inputdir PG_ABS_SRCDIR
\set topic verify
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SET datestyle = ISO;
-- Other tests leave damage of their own behind.
CREATE TABLE before AS SELECT item, object FROM queen.verify();
SELECT count(queen.push('verify', to_jsonb(i), 'p')) FROM generate_series(0, 4) i;
SELECT count(queen.push('verify', to_jsonb(i), 'p')) FROM generate_series(5, 9) i;
SELECT count(*) FROM take('verify', max_messages => 3);
SELECT queen.ack(lease(), 0);
CREATE TABLE verified AS SELECT q.queue_id, q.log_id, p.partition_id, g.group_id FROM queen.queues q JOIN queen.log_partitions p USING (log_id) JOIN queen.log_groups g USING (queue_id) WHERE q.name = 'verify';
CREATE VIEW mine AS SELECT q.queue_id AS q, q.log_id AS l, q.partition_id AS p, q.group_id AS g FROM verified q;

-- Names instead of ids.
CREATE FUNCTION named(what text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(what,
		'\mgroup ' || g.group_id || '\M', 'group G'), '\mpartition ' || p.partition_id || '\M', 'partition P'), '\mqueue ' || q.queue_id || '\M', 'queue Q'), '\mids \d+, ', 'ids I, '),
		'\mlog ' || q.log_id || '\M', 'log L'), '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?[^,]*', '<time>', 'g')
	FROM verified v, queen.queues q, queen.log_partitions p, queen.log_groups g
	WHERE q.queue_id = v.queue_id AND p.partition_id = v.partition_id AND g.group_id = v.group_id
$$;
-- Do a damage, tell what verify says before and after the repair, take it back.
CREATE FUNCTION damaged(VARIADIC damages text[]) RETURNS TABLE (answer text) LANGUAGE plpgsql AS $$
DECLARE
	damage text;
	r record;
	answers text[] := '{}';
BEGIN
	BEGIN
		FOREACH damage IN ARRAY damages LOOP
			EXECUTE damage;
		END LOOP;
		FOR r IN SELECT * FROM (SELECT v.item || ': ' || v.object || ': ' || v.problem AS what, v.repaired FROM queen.verify() v WHERE (v.item, v.object) NOT IN (SELECT b.item, b.object FROM before b)) s ORDER BY what COLLATE "C" LOOP
			answers := answers || r.what || CASE WHEN r.repaired THEN ' REPAIRED UNASKED' ELSE '' END;
		END LOOP;
		FOR r IN SELECT * FROM (SELECT v.item || ': ' || v.object AS what FROM queen.verify(true) v WHERE (v.item, v.object) NOT IN (SELECT b.item, b.object FROM before b) AND v.repaired) s ORDER BY what COLLATE "C" LOOP
			answers := answers || ('  mended ' || r.what);
		END LOOP;
		FOR r IN SELECT * FROM (SELECT v.item || ': ' || v.object AS what FROM queen.verify() v WHERE (v.item, v.object) NOT IN (SELECT b.item, b.object FROM before b)) s ORDER BY what COLLATE "C" LOOP
			answers := answers || ('  left ' || r.what);
		END LOOP;
		RAISE EXCEPTION 'take back';
	EXCEPTION WHEN raise_exception THEN
		RETURN QUERY SELECT named(a) FROM unnest(answers) WITH ORDINALITY u(a, n) ORDER BY n;
	END;
END
$$;
SELECT * FROM damaged('SELECT 1');

-- Names and logs. Unique indexes keep these out; an index may be damaged.
SELECT * FROM damaged(
	'ALTER TABLE queen.log_partitions DROP CONSTRAINT log_partitions_log_id_name_key',
	'INSERT INTO queen.log_partitions SELECT 900000000001, l, ''p'', now() FROM mine');
SELECT * FROM damaged(
	'ALTER TABLE queen.log_groups DROP CONSTRAINT log_groups_queue_id_name_key',
	'INSERT INTO queen.log_groups SELECT 900000000001, tenant, queue_id, name, now(), NULL, false, now() FROM queen.log_groups JOIN mine ON group_id = g');
SELECT * FROM damaged('UPDATE queen.log_groups SET tenant = ''aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'' FROM mine WHERE group_id = g');
SELECT * FROM damaged('ALTER TABLE queen.queues DROP CONSTRAINT queues_log_id_key', 'INSERT INTO queen.queues (queue_id, log_id, tenant, name, kind, created_at, paused) SELECT 900000000001, l, tenant, name || '' two'', kind, now(), false FROM queen.queues JOIN mine ON queue_id = q');
SELECT * FROM damaged('ALTER TABLE queen.queues DROP CONSTRAINT queues_tenant_name_key', 'INSERT INTO queen.queues (queue_id, log_id, tenant, name, kind, created_at, paused) SELECT 900000000001, 900000000001, tenant, name, kind, now(), false FROM queen.queues JOIN mine ON queue_id = q');

-- What is going to be deleted though it is there.
SELECT * FROM damaged('INSERT INTO queen.log_dropped SELECT 900000000001, l, NULL, NULL, now() FROM mine');
SELECT * FROM damaged('INSERT INTO queen.log_dropped SELECT 900000000001, NULL, p, NULL, now() FROM mine');
SELECT * FROM damaged('INSERT INTO queen.log_retired_groups SELECT g, l, now(), NULL FROM mine');

-- What belongs to nothing: rows without messages are filed for the clean-up, messages stay.
SELECT * FROM damaged('INSERT INTO queen.log_starts VALUES (60000000001, 7, now())', 'INSERT INTO queen.log_consumers VALUES (60000000002, 1, now())', 'INSERT INTO queen.log_txns VALUES (60000000002, gen_random_uuid(), gen_random_uuid(), now())');
SELECT * FROM damaged('INSERT INTO queen.log_partitions VALUES (60000000001, 900000000001, ''p'', now())');
SELECT * FROM damaged('UPDATE queen.log_segments SET partition_id = 60000000001 FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('INSERT INTO queen.log_groups SELECT 60000001, tenant, 900000000001, name, now(), NULL, false, now() FROM queen.log_groups JOIN mine ON group_id = g');
SELECT * FROM damaged('INSERT INTO queen.log_groups SELECT 60000001, tenant, queue_id, ''other'', now(), NULL, false, now() FROM queen.log_groups JOIN mine ON group_id = g',
	'UPDATE queen.log_cursors SET group_id = 60000002 FROM mine WHERE group_id = g', 'UPDATE queen.log_consumers SET group_id = 60000002 FROM mine WHERE group_id = g');
SELECT * FROM damaged('INSERT INTO queen.dead_letters (dead_id, tenant, queue_id, queue, kind, message_id, message, attempts, enqueued_at, dead_at) SELECT 900000000001, tenant, 900000000001, ''gone'', kind, gen_random_uuid(), ''1'', 1, now(), now() FROM queen.queues JOIN mine ON queue_id = q');
SELECT * FROM damaged('INSERT INTO queen.dead_letters (dead_id, tenant, queue_id, queue, kind, message_id, message, attempts, enqueued_at, dead_at) SELECT 900000000001, ''aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'', 8000000, ''gone'', kind, gen_random_uuid(), ''1'', 1, now(), now() FROM queen.queues JOIN mine ON queue_id = q');

-- Segments.
SELECT * FROM damaged('UPDATE queen.log_segments SET base_offset = 4, end_offset = 8 FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('UPDATE queen.log_segments SET end_offset = 8 FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('UPDATE queen.log_segments SET end_offset = 4 FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('UPDATE queen.log_segments SET created_at = created_at - interval ''1 day'' FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('UPDATE queen.log_segments SET blob = set_byte(blob, octet_length(blob) - 1, 255 - get_byte(blob, octet_length(blob) - 1)) FROM mine WHERE partition_id = p AND base_offset = 5');
SELECT * FROM damaged('UPDATE queen.log_segments SET blob = '''' FROM mine WHERE partition_id = p AND base_offset = 5');

-- Beginnings.
SELECT * FROM damaged('INSERT INTO queen.log_starts SELECT p, 3, ''-infinity'' FROM mine');
SELECT * FROM damaged('INSERT INTO queen.log_starts SELECT p, 0, ''infinity'' FROM mine');
SELECT * FROM damaged('INSERT INTO queen.log_starts SELECT p, -1, ''-infinity'' FROM mine');
SELECT * FROM damaged('INSERT INTO queen.log_starts SELECT p, 9223372036854775807, ''-infinity'' FROM mine');

-- Positions.
SELECT * FROM damaged('DELETE FROM queen.log_consumers USING mine WHERE group_id = g');
SELECT * FROM damaged('DELETE FROM queen.log_cursors USING mine WHERE group_id = g');
SELECT * FROM damaged('INSERT INTO queen.log_cursors SELECT partition_id, group_id, 1, 16, committed, NULL, NULL, NULL, NULL, NULL, -1, 0, -1 FROM queen.log_cursors JOIN mine ON group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET changes = 16 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET committed = 10 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET committed = -2 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET lease = NULL FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET batch_end = 0 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET batch_end = 10 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET batch_count = 3 FROM mine WHERE group_id = g');
SELECT * FROM damaged('UPDATE queen.log_cursors SET attempts = -1 FROM mine WHERE group_id = g');

-- A group that lost its state gets nothing; repaired, it begins anew. One that lost its identity goes on.
BEGIN;
DELETE FROM queen.log_cursors USING mine WHERE group_id = g;
SELECT problem, repaired FROM queen.verify(true) v WHERE (item, object) NOT IN (SELECT * FROM before);
SELECT msg_offset FROM take('verify', max_messages => 3);
ROLLBACK;
BEGIN;
DELETE FROM queen.log_consumers USING mine WHERE group_id = g;
SELECT problem, repaired FROM queen.verify(true) v WHERE (item, object) NOT IN (SELECT * FROM before);
SELECT queen.ack(lease());
SELECT msg_offset FROM take('verify', max_messages => 3);
ROLLBACK;
-- What is filed is cleaned up like what the extension files itself: what names the id meanwhile is told that it is gone.
BEGIN;
DELETE FROM queen.log_segments USING mine WHERE partition_id = p;
DELETE FROM queen.log_partitions USING mine WHERE partition_id = p;
SELECT problem, repaired FROM queen.verify(true) v WHERE (item, object) NOT IN (SELECT * FROM before);
SELECT log_start = 9223372036854775807 AS marked FROM queen.log_starts JOIN mine ON partition_id = p;
ROLLBACK;
-- A repair looks again: what is there by now is left alone.
SELECT queen.verify_mend('partition', p, 0) AS partition_with_messages, queen.verify_mend('groups', q, 0) AS groups_of_a_queue,
	(SELECT count(*) FROM queen.log_dropped d WHERE d.partition_id = p) AS filed, (SELECT count(*) FROM queen.log_groups WHERE queue_id = q) AS groups FROM mine;
SELECT attempts('SELECT queen.verify_mend(NULL, 1, 1)', 'SELECT queen.verify_mend(''cursors'', NULL, 1)');
-- Everything else in order: what queues that are dropped, purged and cleaned up leave is explained.
SELECT queen.unsubscribe('verify', 'default'), queen.purge_queue('verify');
SELECT count(queen.push('verify', to_jsonb(i), 'p')) FROM generate_series(0, 4) i;
SELECT * FROM queen.verify() v WHERE (item, object) NOT IN (SELECT * FROM before);
SELECT queen.drop_queue('verify');
SELECT * FROM queen.verify() v WHERE (item, object) NOT IN (SELECT * FROM before);
