-- What a DBA watches. Never payloads.

CREATE FUNCTION queen.stat_blocked(OUT tenant uuid, OUT queue text, OUT partition text, OUT consumer_group text,
	OUT msg_offset bigint, OUT reason text, OUT attempts integer, OUT blocked_until timestamptz, OUT error text,
	OUT blocking_xid xid)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_stat_blocked';
COMMENT ON FUNCTION queen.stat_blocked() IS 'Rows of pg_stat_queen_blocked, of all tenants, read from the tables with the latest snapshot.';

CREATE FUNCTION queen.stat_aborted(OUT places bigint, OUT used bigint, OUT evicted bigint, OUT lost bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_aborted';
COMMENT ON FUNCTION queen.stat_aborted() IS 'The row of pg_stat_queen_aborted; null when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_aborted AS
	SELECT s.* FROM queen.stat_aborted() s WHERE s.places IS NOT NULL;
COMMENT ON VIEW queen.pg_stat_queen_aborted IS
'The memory of deliveries whose transaction rolled back, shared by all databases; no row when queen is not preloaded. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.places IS 'Partitions of groups, and messages of work queues, for which there is room.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.used IS 'Those that have a count.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.evicted IS 'Counts that were given up for others which are as high at least: their messages are delivered more often than max_deliveries.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.lost IS 'Deliveries that rolled back and were not counted: places were in use by higher counts, or a transaction had delivered more than 1,000 messages of work queues.';

CREATE VIEW queen.pg_stat_queen_blocked AS
	SELECT b.*, l.pid AS blocking_pid, p.gid AS blocking_gid
	FROM queen.stat_blocked() b
	LEFT JOIN pg_catalog.pg_locks l ON l.locktype OPERATOR(pg_catalog.=) 'transactionid'
		AND l.transactionid OPERATOR(pg_catalog.=) b.blocking_xid AND l.granted AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
	LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) b.blocking_xid;
COMMENT ON VIEW queen.pg_stat_queen_blocked IS
'Partitions that deliver nothing to a group now although they have a message: the head was nacked and waits (reason retry delay), or the next message is in a transaction that has not ended (behind a push: blocking_pid is its backend, blocking_gid its name if it is prepared). Exact: read from the tables when asked.';
