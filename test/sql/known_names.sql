-- A session remembers which partition a name stands for: for more names than it has room for, and for each tenant its own.
\getenv inputdir PG_ABS_SRCDIR
\set topic known_names
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- Half as many again as it has room for, three times each.
SELECT count(queen.push('known', to_jsonb(n), 'p' || n)) FROM generate_series(1, 12000) n;
SELECT count(queen.push('known', to_jsonb(n), 'p' || n)) FROM generate_series(12000, 1, -1) n;
SELECT count(queen.push('known', to_jsonb(n), 'p' || n)) FROM generate_series(1, 12000) n;
SELECT count(*) AS segments, count(DISTINCT partition_id) AS partitions, min(base_offset) AS least, max(end_offset) AS greatest, sum(base_offset)
FROM queen.log_segments JOIN queen.log_partitions USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'known';
SELECT count(*) FROM generate_series(1, 12000, 97) n, LATERAL stored('known', 'p' || n) s WHERE s = format('0=%s 1=%s 2=%s', n, n, n);

-- Names whose bytes are the same where the queue's ends elsewhere.
SELECT queen.push(q, to_jsonb(q || '|' || p), p) IS NOT NULL AS pushed FROM (VALUES ('known a', 'b/c'), ('known a/b', 'c'), ('known ', 'a/b/c')) v(q, p), generate_series(1, 3);
SELECT q, p, stored(q, p) FROM (VALUES ('known a', 'b/c'), ('known a/b', 'c'), ('known ', 'a/b/c')) v(q, p);

-- Two tenants with the same names in turn.
CREATE PROCEDURE push_as(tenant text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('queen.tenant', tenant, false);
	PERFORM queen.push('known by tenants', to_jsonb(tenant));
	COMMIT;
END
$$;
CALL push_as('00000000-0000-0000-0000-00000000000a');
CALL push_as('00000000-0000-0000-0000-00000000000b');
CALL push_as('00000000-0000-0000-0000-00000000000a');
CALL push_as('00000000-0000-0000-0000-00000000000b');
CALL push_as('00000000-0000-0000-0000-00000000000a');
CALL push_as('00000000-0000-0000-0000-00000000000b');
SELECT stored('known by tenants');
SET queen.tenant = '00000000-0000-0000-0000-00000000000a';
SELECT stored('known by tenants');
RESET queen.tenant;
SELECT stored('known by tenants');

-- Without auto_create: what is known is not asked for again, what is not known is refused.
SET queen.auto_create = off;
SELECT queen.push('known', '0', 'p1') IS NOT NULL AS pushed;
SELECT attempt($$SELECT queen.push('known not', '0')$$);
RESET queen.auto_create;

-- A partition that is marked as deleted and is still there: nothing is written behind the mark.
SELECT queen.push('known marked', '1') IS NOT NULL AS pushed;
INSERT INTO queen.log_starts SELECT partition_id, 9223372036854775807, now() FROM queen.log_partitions JOIN queen.queues q USING (log_id) WHERE q.name = 'known marked';
SELECT queen.push('known marked', '2') IS NOT NULL AS pushed;
SELECT stored('known marked');
