-- What has happened to queues and groups, counted when it was committed. src/state/README.md.

CREATE FUNCTION queen.stat_events(OUT queue_id bigint, OUT group_id bigint, OUT priority text, OUT added bigint, OUT added_bytes bigint,
	OUT delivered bigint, OUT redelivered bigint, OUT completed bigint, OUT rejected bigint, OUT dead bigint, OUT expired bigint,
	OUT stats_reset timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'queen_stat_events';
COMMENT ON FUNCTION queen.stat_events() IS
'What pg_stat_queen_queues and pg_stat_queen_groups show of what has happened, of all tenants: of log queues, of their consumer groups (group_id), of messages of work queues (priority). What nothing was counted of has no row; no row when queen is not preloaded. Exact, from shared memory.';

CREATE FUNCTION queen.stat_events_memory(OUT places bigint, OUT used bigint, OUT evicted bigint, OUT last_evicted timestamptz,
	OUT lost bigint, OUT since timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_events_memory';
COMMENT ON FUNCTION queen.stat_events_memory() IS 'The row of pg_stat_queen_events; null when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_events AS
	SELECT s.* FROM queen.stat_events_memory() s WHERE s.places IS NOT NULL;
COMMENT ON VIEW queen.pg_stat_queen_events IS
'The memory of event counts, shared by all databases, empty when the server starts; no row when queen is not preloaded. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_events.places IS 'Objects for which there is room (queen.state_queues, queen.state_groups): a log queue, a consumer group, and a priority of a work queue are one each.';
COMMENT ON COLUMN queen.pg_stat_queen_events.used IS 'Those that are counted.';
COMMENT ON COLUMN queen.pg_stat_queen_events.evicted IS 'Objects whose counts were given up for others, those that had not changed for longest first: they begin again at 0.';
COMMENT ON COLUMN queen.pg_stat_queen_events.last_evicted IS 'When the last one was; null: never.';
COMMENT ON COLUMN queen.pg_stat_queen_events.lost IS 'Changes that were not counted, at most: of transactions that changed more than some 12,000 objects.';
COMMENT ON COLUMN queen.pg_stat_queen_events.since IS 'When the server started.';

CREATE FUNCTION queen.reset_state_stats(queue text DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reset_state_stats';
COMMENT ON FUNCTION queen.reset_state_stats(text) IS
'Set the event counts of a queue and its groups to 0, or with null those of all queues of all tenants of this database, at once and not only at the commit. Answers the time, which stats_reset shows; null when queen is not preloaded. An unknown queue is an error (42704).';
