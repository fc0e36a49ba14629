-- The state of queues: what is counted when messages of work queues change. src/state/README.md.

CREATE FUNCTION queen.rollup_rebuild(queue text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_rollup_rebuild';
COMMENT ON FUNCTION queen.rollup_rebuild(text) IS
'Mend the counts of a work queue, or with null those of all work queues of all tenants: count its messages, and when this transaction commits correct the counts by what they are off. Answers how many of them (each of one priority and shard) were. Stops nobody who uses the queue; waits for another one that mends, up to queen.flush_timeout (QN002) or lock_timeout. Reads all messages of the queue. An unknown queue is an error (42704), so is a log queue (42809).';

CREATE FUNCTION queen.rollup_drift(OUT log_id bigint, OUT priority smallint, OUT shard smallint, OUT ready bigint, OUT in_flight bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_rollup_drift';
COMMENT ON FUNCTION queen.rollup_drift() IS
'Part of queen.verify(): by how much the counts of work queues are too low (above zero) or too high (below zero); none when they are right. Reads all messages, under the statement''s snapshot.';

CREATE FUNCTION queen.rollup_mend(log_id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_rollup_mend';
COMMENT ON FUNCTION queen.rollup_mend(bigint) IS 'Part of queen.verify(): one repair.';

CREATE FUNCTION queen.stat_rollup(OUT failures bigint, OUT rebuilds bigint, OUT mended bigint, OUT last_failure timestamptz, OUT last_rebuild timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_rollup';
COMMENT ON FUNCTION queen.stat_rollup() IS 'The row of pg_stat_queen_rollup; null when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_rollup AS
	SELECT s.* FROM queen.stat_rollup() s WHERE s.failures IS NOT NULL;
COMMENT ON VIEW queen.pg_stat_queen_rollup IS
'Counts of work queues that did not agree with the messages, of all databases, since the server started; no row when queen is not preloaded. All zero unless somebody writes queen''s tables or turns their triggers off. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_rollup.failures IS 'Transactions that failed because a count would have fallen below zero (QN003).';
COMMENT ON COLUMN queen.pg_stat_queen_rollup.rebuilds IS 'Queues that keepers have counted anew because of that.';
COMMENT ON COLUMN queen.pg_stat_queen_rollup.mended IS 'Counts, each of a queue, priority and shard, that were wrong then and are right since.';
