-- What a DBA watches. Never payloads.

CREATE FUNCTION queen.stat_blocked(OUT tenant uuid, OUT queue text, OUT partition text, OUT consumer_group text,
	OUT msg_offset bigint, OUT reason text, OUT attempts integer, OUT blocked_until timestamptz, OUT error text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_stat_blocked';
COMMENT ON FUNCTION queen.stat_blocked() IS 'Rows of pg_stat_queen_blocked, of all tenants, read from the tables with the latest snapshot.';

CREATE VIEW queen.pg_stat_queen_blocked AS SELECT * FROM queen.stat_blocked();
COMMENT ON VIEW queen.pg_stat_queen_blocked IS
'Partitions that deliver nothing to a group now although they have a message: the head was nacked and waits (reason retry delay). Exact: read from the tables when asked.';
