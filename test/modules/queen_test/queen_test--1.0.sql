\echo Use "CREATE EXTENSION queen_test" to load this file. \quit

CREATE FUNCTION queen_test_close_gate() RETURNS void LANGUAGE C VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION queen_test_close_gate() IS
'Until this transaction ends, a commit that has notified (NOTIFY) waits behind all PRE_COMMIT callbacks: with its pushes written and itself still running. It can be cancelled, terminated or killed there.';

CREATE FUNCTION queen_test_run_at_commit(query text) RETURNS void LANGUAGE C VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION queen_test_run_at_commit(text) IS
'Run a query in this library''s PRE_COMMIT callback. It runs before that of queen when queen was loaded first, else after it.';

CREATE FUNCTION queen_test_fail_at_commit() RETURNS void LANGUAGE C VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION queen_test_fail_at_commit() IS
'Raise an error from this library''s PRE_COMMIT callback, after what it runs there.';

CREATE FUNCTION queen_test_lock_partition(partition_id bigint) RETURNS void LANGUAGE C VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION queen_test_lock_partition(bigint) IS
'Hold the lock under which queen appends to a partition until this transaction ends.';

CREATE FUNCTION queen_test_lock_seeks(partition_id bigint) RETURNS void LANGUAGE C VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION queen_test_lock_seeks(bigint) IS
'Hold the lock under which queen moves cursors of a partition back until this transaction ends.';

CREATE FUNCTION queen_test_dropped_step(INOUT dropped_id bigint, INOUT next_partition bigint) LANGUAGE C VOLATILE STRICT AS '$libdir/queen', 'queen_dropped_step';
COMMENT ON FUNCTION queen_test_dropped_step(bigint, bigint) IS
'A piece of cleaning up what was dropped, from where a pass stands; answers where it stands then, nulls when there is nothing to do now.';

CREATE FUNCTION queen_test_changes(INOUT "position" bigint, OUT overrun boolean, OUT queue_id bigint, OUT partition_id bigint) RETURNS SETOF record LANGUAGE C VOLATILE AS '$libdir/queen', 'queen_changes';
COMMENT ON FUNCTION queen_test_changes(bigint) IS
'A step of reading the change feed from a position: each row has the position behind the step; one without ids when there is nothing. A null position answers where a reader begins.';

CREATE FUNCTION queen_test_attend(milliseconds integer) RETURNS integer LANGUAGE C VOLATILE STRICT AS '$libdir/queen', 'queen_attend';
COMMENT ON FUNCTION queen_test_attend(integer) IS
'Be the pulse of this database for a time, in place of the worker: wake who is due, meet deadlines. Answers how many ticks that took.';

CREATE FUNCTION queen_test_retired_groups_step() RETURNS boolean LANGUAGE C VOLATILE AS '$libdir/queen', 'queen_retired_groups_step';
COMMENT ON FUNCTION queen_test_retired_groups_step() IS
'Delete cursors of a group that was unsubscribed, in up to 1,000 partitions; false when there is nothing to do now.';

CREATE FUNCTION queen_test_retention_watch_step(OUT next bigint, OUT partitions bigint, OUT queued bigint, OUT walks bigint, OUT walking boolean) LANGUAGE C VOLATILE AS '$libdir/queen', 'queen_retention_watch_step';
COMMENT ON FUNCTION queen_test_retention_watch_step() IS
'A step of the retention watch, in this session''s memory: in how many microseconds the next one is due, partitions known, those that are due some time, walks begun, and whether one is under way.';

CREATE FUNCTION queen_test_ring_floor_step() RETURNS bigint LANGUAGE C VOLATILE AS '$libdir/queen', 'queen_ring_floor_step';
COMMENT ON FUNCTION queen_test_ring_floor_step() IS
'A walk for the ring of the hot-list whose floor is due for longest; in how many microseconds to come again.';

CREATE FUNCTION queen_test_false_clear(queue_id bigint, group_id bigint, partition_id bigint) RETURNS boolean LANGUAGE C VOLATILE STRICT AS '$libdir/queen', 'queen_false_clear';
COMMENT ON FUNCTION queen_test_false_clear(bigint, bigint, bigint) IS
'Make the hot-list forget a ready partition that has work; false when it is not ready.';
