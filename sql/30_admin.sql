-- Queues: create, configure, list; the state of the installation.

CREATE FUNCTION queen.create_queue(queue text, kind text DEFAULT 'log', options jsonb DEFAULT '{}')
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_create_queue';
COMMENT ON FUNCTION queen.create_queue(text, text, jsonb) IS
'Create a queue of the given kind, or merge the options into those of the one that is there (idempotent). Another kind under that name is an error.';

CREATE FUNCTION queen.configure(queue text, options jsonb)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_configure';
COMMENT ON FUNCTION queen.configure(text, jsonb) IS
'Merge options into a queue''s (a null value goes back to the default) and answer all options in force. For log queues: lease_time (interval or seconds, 1 s to 12 h), max_deliveries (1 to 1000), retry_delay ("exponential", or an interval or seconds, 0 to 12 h), compression ("none", "zstd" or "zstd:1" to "zstd:19"), delayed_processing (interval or seconds, 0 to 7 days: no message is delivered sooner after its push), window_buffer (the same: a partition delivers nothing until it has been quiet that long), dedup_window (0 to 30 days; how long a dedup_key keeps others away, 0: not at all), dedup ("drop" or "error": what becomes of a duplicate). What queen.maintain() deletes ("off", or an interval or seconds, 0 to 10 years): retention (messages older than that, consumed or not; off), completed_retention (messages older than that which every group has completed; 1 day), group_expiry (a group that has not popped for that long keeps no message from being deleted; off), dead_retention (dead letters; 14 days).';

CREATE FUNCTION queen.list_queues(
	OUT queue text, OUT kind text, OUT partitions bigint, OUT options jsonb, OUT created_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_list_queues';
COMMENT ON FUNCTION queen.list_queues() IS
'The queues of the session''s tenant (setting queen.tenant), by name, with the options in force.';

CREATE FUNCTION queen.status(OUT item text, OUT state text, OUT detail text, OUT hint text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_status';
COMMENT ON FUNCTION queen.status() IS
'What is installed and how it runs, one row an item; hint says how to mend what is not well.';
