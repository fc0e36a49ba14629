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

CREATE FUNCTION queen_test_retired_groups_step() RETURNS boolean LANGUAGE C VOLATILE AS '$libdir/queen', 'queen_retired_groups_step';
COMMENT ON FUNCTION queen_test_retired_groups_step() IS
'Delete cursors of a group that was unsubscribed, in up to 1,000 partitions; false when there is nothing to do now.';
