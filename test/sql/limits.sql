-- Very large messages: 100 MB works, what cannot be is refused with an error that says so.
\getenv inputdir PG_ABS_SRCDIR
\set topic limits
\set helpers :inputdir /sql/helpers.inc
\ir :helpers
-- mb megabytes of one character. (In a language that is not inlined: the planner would copy the constants around.)
CREATE FUNCTION big(c text, mb int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN repeat(repeat(c, 1024 * 1024), mb); END $$;
CREATE FUNCTION bytes(mb int) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RETURN convert_to(repeat(repeat('x', 1024 * 1024), mb), 'SQL_ASCII'); END $$;

-- 100 MB as jsonb and as bytes, taken, failed, taken again.
SELECT count(queen.push('limits', to_jsonb(big('x', 100))));
SELECT count(queen.push('limits', '"a small one behind it"'));
SELECT msg_offset, length(message #>> '{}') / 1048576 AS mb FROM take('limits', max_messages => 2);
SELECT queen.nack(lease(), delay => '0');
SELECT msg_offset, attempt, pg_column_size(message) > 0 AS is_there FROM take('limits', max_messages => 2);
SELECT queen.ack(lease());
SELECT count(queen.push_bytes('limits bytes', bytes(100)));
SELECT length(payload) / 1048576 AS mb FROM queen.pop('limits bytes', auto_ack => true);

-- 256 MB are the limit, headers included.
SELECT attempt($$SELECT queen.push_bytes('limits', bytes(300))$$);
SELECT attempt($$SELECT queen.push_bytes('limits', bytes(256) || 'x')$$);
SELECT attempt($$SELECT queen.push('limits', to_jsonb(big('x', 200)), headers => jsonb_build_object('h', big('x', 100)))$$);
SELECT attempt($$SELECT queen.schedule('limits', 'k', to_jsonb(big('x', 200)), delay => '1 day', headers => jsonb_build_object('h', big('x', 100)))$$);
SELECT attempt($$SELECT queen.push_bytes('limits', bytes(300), delay => '1 day')$$);
-- PostgreSQL itself makes no jsonb of that size.
SELECT attempt($$SELECT queen.push('limits', to_jsonb(big('x', 300)))$$);
SELECT attempt($$SELECT queen.push('limits', jsonb_build_array(big('x', 150), big('y', 150)))$$);
-- Nothing is left of these; the next goes in.
SELECT count(queen.push('limits', '"next"'));
SELECT array_agg(msg_offset) FROM queen.pop('limits', max_messages => 10);

-- What does not fit into a transaction's rows together goes as many segments: 40 messages of 3 MB.
SELECT count(queen.push('limits many', to_jsonb(big(chr(64 + i), 3)))) FROM generate_series(1, 40) i;
SELECT count(*), sum(length(message #>> '{}')) / 1048576 AS mb, bool_and(left(message #>> '{}', 1) = chr(65 + msg_offset::int)) AS in_order FROM queen.pop('limits many', max_messages => 100);
-- A batch that is one argument of 40 MB.
SELECT count(*) FROM queen.push_batch('limits batch', (SELECT jsonb_agg(repeat('z', 4000)) FROM generate_series(1, 10000)));
SELECT count(*), sum(length(message #>> '{}')) FROM queen.pop('limits batch', max_messages => 100000);
