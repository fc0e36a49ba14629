-- The background workers: which there are, and what they have done.

CREATE FUNCTION queen.stat_workers(OUT database oid, OUT worker text, OUT pid integer, OUT state text, OUT state_since timestamptz,
	OUT failures bigint, OUT next_start timestamptz, OUT task text, OUT runs bigint, OUT errors bigint, OUT last_run timestamptz,
	OUT last_time double precision, OUT longest_time double precision, OUT total_time double precision, OUT next_run timestamptz,
	OUT last_error_at timestamptz, OUT last_sqlstate text, OUT last_error text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_stat_workers';
COMMENT ON FUNCTION queen.stat_workers() IS
'Rows of pg_stat_queen_workers without names of databases, read from shared memory; none when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_workers AS
	SELECT d.datname AS database, s.database AS database_id, s.worker, s.pid, s.state, s.state_since, s.failures, s.next_start,
		s.task, s.runs, s.errors, s.last_run, s.last_time, s.longest_time, s.total_time, s.next_run, s.last_error_at,
		s.last_sqlstate, s.last_error
	FROM queen.stat_workers() s LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.database;
COMMENT ON VIEW queen.pg_stat_queen_workers IS
'One row for each task of each background worker, of all databases; one without a task for a worker that has none, or is not running. No row when queen is not preloaded. Counts begin with the process. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.database IS 'Null for the launcher, which serves all of them.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.worker IS 'launcher (starts the others), keeper (slow work on tables), pulse (wakes and timers).';
COMMENT ON COLUMN queen.pg_stat_queen_workers.state IS 'running; starting; leaving; absent; resting (it has failed, next_start says when it is tried again); no slot (max_worker_processes is too small); evicted (somebody drops, copies, renames or moves the database).';
COMMENT ON COLUMN queen.pg_stat_queen_workers.failures IS 'Ends in a row that were not meant, launches that came to nothing included; forgotten when a worker has run for a minute.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.runs IS 'Steps of the task, those that failed included.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.errors IS 'Steps that failed.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.last_time IS 'How long the last step took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.longest_time IS 'How long the longest step took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.total_time IS 'How long all steps took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.next_run IS 'When the task runs again by itself; infinity: when something happens.';
COMMENT ON COLUMN queen.pg_stat_queen_workers.last_error IS 'The last error''s message, cut at 158 bytes; the server''s log has the rest.';
