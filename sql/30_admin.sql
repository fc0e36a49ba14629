-- Queues: create, configure, list; the state of the installation.

CREATE FUNCTION queen.create_queue(queue text, kind text DEFAULT 'log', options jsonb DEFAULT '{}')
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_create_queue';
COMMENT ON FUNCTION queen.create_queue(text, text, jsonb) IS
'Create a queue of the given kind, or merge the options into those of the one that is there (idempotent). kind: log (partitions, offsets, consumer groups, replay) or work (a row a message, priorities, time to live, receipts); another kind than that of the one that is there is an error (42809). Waits up to queen.flush_timeout for a transaction that creates the same queue (QN002).';

CREATE FUNCTION queen.configure(queue text, options jsonb)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_configure';
COMMENT ON FUNCTION queen.configure(text, jsonb) IS
'Merge options into a queue''s (a null value goes back to the default) and answer all options in force. A duration is an interval as a string, or a number of seconds. Waits for a transaction that changes the queue''s row. Unknown queue: 42704; a value that is out of range, or an option that is none: 22023. Options of a log queue:
- lease_time: lease of a pop that names none; 1 s to 12 h
- max_deliveries: of a message to a group, before it goes to the dead letters; 1 to 1000
- retry_delay: how long a partition is blocked after a nack that names no delay; "exponential" (1, 2, 4 … 60 s), or 0 to 12 h
- compression: of segments; "none", "zstd", or "zstd:1" to "zstd:19"
- delayed_processing: no message is delivered sooner after its push; 0 to 7 days
- window_buffer: a partition delivers nothing until it has been quiet that long; 0 to 7 days
- dedup_window: how long a dedup_key keeps others away; 0 (not at all) to 30 days
- dedup: what becomes of a duplicate; "drop" or "error"
- retention: queen.maintain() deletes messages older than that, consumed or not; "off", or 0 to 10 years
- completed_retention: the same for messages that every group has completed; "off", or 0 to 10 years
- group_expiry: a group that has not popped for that long keeps no message from being deleted; "off", or 0 to 10 years
- dead_retention: queen.maintain() deletes dead letters older than that; "off", or 0 to 10 years
- notify: NOTIFY on queen.notify_channel(queue) when there may be work, from a background process; true or false
Options of a work queue:
- visibility_timeout: how long a delivered message is hidden where the dequeue does not say; 1 s to 6 h
- max_delivery_attempts: of a message, before it goes to the dead letters; 1 to 100
- message_ttl: how long a message lives where the enqueue does not say; 1 s to 30 days
- retry_delay: when a rejected message comes again; "exponential" (1, 2, 4 … 60 s), or 0 to 12 h
- dead_retention: as for a log queue';

CREATE FUNCTION queen.list_queues(
	OUT queue text, OUT kind text, OUT partitions bigint, OUT options jsonb, OUT created_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_list_queues';
COMMENT ON FUNCTION queen.list_queues() IS
'The queues of the session''s tenant (setting queen.tenant), by name, with the options in force.';

CREATE FUNCTION queen.status(OUT item text, OUT state text, OUT detail text, OUT hint text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_status';
COMMENT ON FUNCTION queen.status() IS
'What is installed and how it runs, one row an item; hint says how to mend what is not well.';
