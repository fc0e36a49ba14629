-- The state of queues: what is counted when messages of work queues change. src/state/README.md.

CREATE FUNCTION queen.rollup_rebuild(queue text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_rollup_rebuild';
COMMENT ON FUNCTION queen.rollup_rebuild(text) IS
'Mend the counts of a work queue, or with null those of all work queues of all tenants: count its messages, and when this transaction commits correct the counts by what they are off. Answers how many of them (each of one priority and shard) were. Stops nobody who uses the queue; waits for another one that mends the same, or all, up to queen.flush_timeout (QN002) or lock_timeout. Reads all messages of the queue. An unknown queue is an error (42704), so is a log queue (42809).';

CREATE FUNCTION queen.rollup_drift(OUT log_id bigint, OUT priority smallint, OUT shard smallint, OUT ready bigint, OUT in_flight bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_rollup_drift';
COMMENT ON FUNCTION queen.rollup_drift() IS
'Part of queen.verify(): by how much the counts of work queues are too low (above zero) or too high (below zero); none when they are right. Reads all messages, in a snapshot of its own: that of the moment, whatever the isolation level.';

CREATE FUNCTION queen.rollup_mend(log_id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_rollup_mend';
COMMENT ON FUNCTION queen.rollup_mend(bigint) IS 'Part of queen.verify(): one repair.';

CREATE FUNCTION queen.rollup_mend_row(log_id bigint, priority bigint, shard bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_rollup_mend_row';
COMMENT ON FUNCTION queen.rollup_mend_row(bigint, bigint, bigint) IS 'Part of queen.verify(): one repair.';

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

CREATE FUNCTION queen.collect()
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_collect';
COMMENT ON FUNCTION queen.collect() IS
'Collect the state of all queues of this database now, as the keeper does every queen.collect_interval, and answer when. Then the views pg_stat_queen_queues and pg_stat_queen_groups show it to everybody, or to this session alone where queen is not preloaded. Reads all partitions of logs. Works in a read-only transaction and on a standby. In a transaction that has written something it is an error (25001). QN004: counts of a work queue do not agree with its messages; the keeper mends them.';

CREATE FUNCTION queen.stat_queues(OUT tenant uuid, OUT queue text, OUT queue_id bigint, OUT kind text, OUT paused boolean, OUT priority text, OUT ready bigint,
	OUT in_flight bigint, OUT blocked bigint, OUT exhausted bigint, OUT expired bigint, OUT oldest_ready_age double precision,
	OUT oldest_in_flight_age double precision, OUT messages bigint, OUT dead bigint, OUT timers bigint, OUT bytes bigint, OUT collected_at timestamptz,
	OUT added bigint, OUT added_bytes bigint, OUT delivered bigint, OUT redelivered bigint, OUT completed bigint, OUT rejected bigint,
	OUT dead_lettered bigint, OUT expirations bigint, OUT stats_reset timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_stat_queues';
COMMENT ON FUNCTION queen.stat_queues() IS 'The rows of pg_stat_queen_queues, of all tenants, read from shared memory.';

CREATE FUNCTION queen.stat_groups(OUT tenant uuid, OUT queue text, OUT consumer_group text, OUT queue_id bigint, OUT group_id bigint, OUT paused boolean, OUT ready bigint,
	OUT in_flight bigint, OUT blocked bigint, OUT oldest_ready_age double precision, OUT oldest_in_flight_age double precision, OUT collected_at timestamptz,
	OUT delivered bigint, OUT redelivered bigint, OUT completed bigint, OUT rejected bigint, OUT dead_lettered bigint, OUT stats_reset timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_stat_groups';
COMMENT ON FUNCTION queen.stat_groups() IS 'The rows of pg_stat_queen_groups, of all tenants, read from shared memory.';

CREATE FUNCTION queen.stat_collector(OUT attempts bigint, OUT failures bigint, OUT last_attempt timestamptz, OUT collected_at timestamptz,
	OUT snapshot_age double precision, OUT last_time double precision, OUT longest_time double precision, OUT total_time double precision,
	OUT queues bigint, OUT left_out_queues bigint, OUT left_out_groups bigint, OUT last_failure timestamptz, OUT last_sqlstate text, OUT last_error text,
	OUT stats_reset timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_collector';
COMMENT ON FUNCTION queen.stat_collector() IS 'The row of pg_stat_queen_collector.';

CREATE FUNCTION queen.reset_collector_stats()
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reset_collector';
COMMENT ON FUNCTION queen.reset_collector_stats() IS
'What pg_stat_queen_collector counts of this database begins anew: attempts, failures, longest_time and total_time. The state that was collected stays.';

CREATE VIEW queen.pg_stat_queen_queues AS SELECT s.* FROM queen.stat_queues() s;
COMMENT ON VIEW queen.pg_stat_queen_queues IS
'The state of each queue when it was last collected (queen.collect_interval): a row for each priority of a work queue, also of one that is empty, and a row for a log. From shared memory: reading it costs nothing, whatever there is in the queues. What queen.state_queues has no room for is left out (pg_stat_queen_collector says how many). A queue that was created since has no row yet, and so no counts, though those are as of now. Where queen is not preloaded, what the session''s own queen.collect() has found.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.paused IS 'Nothing is delivered (queen.pause): what is ready waits.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.priority IS 'high, medium or low; null for a log, which has none.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.ready IS 'Messages that wait for nobody but a consumer; those of a paused queue, and of a log those whose delayed_processing or window_buffer is not over, count as well. Of a work queue exact: never delivered, or their visibility was over, and neither expired nor exhausted (but see in_flight where a held snapshot makes collections slow). Of a log an estimate, which counts what rolled back pushes left out: those of the consumer group that had most to do; without a group, all that are retained.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.in_flight IS 'Messages under a receipt, and rejected ones that wait for their retry. Exact; but when a collection was slow because a snapshot is held, as long as it is also those whose visibility was over while somebody was taking them. Of a log those under a lease, of all groups together; exact.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.blocked IS 'Of a log: messages in partitions whose head was nacked and waits for its retry, of all groups together; an estimate as ready is. 0 for a work queue, whose messages wait for nobody.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.exhausted IS 'Messages of a work queue that were delivered max_delivery_attempts times, whose visibility is over: the next dequeue that meets them moves them to the dead letters. Exact, as ready is. 0 for a log.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.expired IS 'Messages of a work queue whose time to live was over, in nobody''s hands, and that were not deleted yet. Exact, as oldest_in_flight_age is. 0 for a log.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.oldest_ready_age IS 'For how many seconds the oldest of the ready messages had been in the queue then; 0 when there was none. Of a work queue an estimate: calls that ran at the same time may have enqueued in another order, and one that somebody was taking may be passed by. Of a log exact, of the group that was behind most.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.oldest_in_flight_age IS 'For how many seconds the oldest of those in flight had been in the queue then, not for how long it was in somebody''s hands; 0 when there was none. Exact; but when a collection was slow because a snapshot is held, as long as it is without messages of transactions that stayed open from one collection to another.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.messages IS 'Messages that are stored. Of a work queue exact: ready, in flight, exhausted and expired. Of a log an estimate: offsets that are retained, consumed or not.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.dead IS 'Dead letters of the queue and priority. Exact up to some 20000 of all queues; beyond that by a count that is spread over several collections, and so as old as those.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.timers IS 'Messages that wait for their time (queen.schedule, delayed pushes, the next occurrence of each cron rule). Exact up to some 20000 of all queues, as dead is.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.bytes IS 'Of a log: what its retained messages take, compressed; an estimate, by those that came last. Null for a work queue: pg_total_relation_size says what all of them take together.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.collected_at IS 'When all this was so.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.added IS 'Messages that were pushed or enqueued since stats_reset, be it by timers or redrive. This and what follows are counted by the commit that did it, and not only when the rest is collected; exact, but for pushes of prepared transactions, which are not counted; null when queen is not preloaded.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.added_bytes IS 'What these messages took with their headers, not compressed.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.delivered IS 'Deliveries: messages that were popped, by whatever consumer group, or dequeued.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.redelivered IS 'Those of them that were not the message''s first.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.completed IS 'Messages that were acknowledged, auto_ack included: of a log once by each consumer group.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.rejected IS 'Deliveries that ended in queen.nack() or queen.reject().';
COMMENT ON COLUMN queen.pg_stat_queen_queues.dead_lettered IS 'Messages that went to the dead letters: of a log once for each consumer group that gave one up.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.expirations IS 'Messages of a work queue that were deleted because their time to live was over. 0 for a log.';
COMMENT ON COLUMN queen.pg_stat_queen_queues.stats_reset IS 'Since when that is counted: the first time that there was something to count, or queen.reset_state_stats(). Later than expected where the memory has too few places (pg_stat_queen_events).';

CREATE VIEW queen.pg_stat_queen_groups AS SELECT s.* FROM queen.stat_groups() s;
COMMENT ON VIEW queen.pg_stat_queen_groups IS
'The state of each consumer group of each log when it was last collected (queen.collect_interval). From shared memory, as pg_stat_queen_queues, and like there a new group has no row before that.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.paused IS 'Nothing is delivered to the group: it is paused itself, or its queue is (queen.pause).';
COMMENT ON COLUMN queen.pg_stat_queen_groups.ready IS 'Messages that the group has not completed, neither in_flight nor blocked: also those behind a lease in their partition, those of a paused group, and those whose delayed_processing or window_buffer is not over. An estimate, which counts what rolled back pushes left out.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.in_flight IS 'Messages under a lease of the group that was not over. Exact.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.blocked IS 'Messages in partitions whose head was nacked and waits for its retry. An estimate, as ready is.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.oldest_ready_age IS 'For how many seconds the oldest of the ready messages had been in the log then; 0 when there was none. Exact, but for messages behind a lease.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.oldest_in_flight_age IS 'For how many seconds the oldest of those in flight had been in the log then; 0 when there was none. Exact.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.collected_at IS 'When all this was so.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.delivered IS 'Messages that were popped since stats_reset. This and what follows as in pg_stat_queen_queues.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.redelivered IS 'Those of them that had been delivered before.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.completed IS 'Messages that the group has acknowledged, auto_ack included.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.rejected IS 'Messages that were nacked, as often as they were.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.dead_lettered IS 'Messages that the group has given up.';
COMMENT ON COLUMN queen.pg_stat_queen_groups.stats_reset IS 'Since when that is counted, as in pg_stat_queen_queues.';

CREATE VIEW queen.pg_stat_queen_collector AS SELECT s.* FROM queen.stat_collector() s;
COMMENT ON VIEW queen.pg_stat_queen_collector IS
'How the collection of queues'' state goes in this database, since the server started: one row. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.attempts IS 'Collections: the keeper''s, those that failed included, and those of queen.collect().';
COMMENT ON COLUMN queen.pg_stat_queen_collector.failures IS 'Collections of the keeper that failed; one of queen.collect() tells who called it. The last state stays in the views; the keeper that met the error ends, and a fresh one takes its place.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.collected_at IS 'Of when the state is that the views show; null when there is none.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.snapshot_age IS 'Seconds since then: alert on it. By a clock that nobody sets.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.last_time IS 'How long the last collection took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.longest_time IS 'How long the longest one took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.total_time IS 'How long all of them took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.queues IS 'Queues that the views show.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.left_out_queues IS 'Queues for which there was no room (queen.state_queues, for all databases together): the youngest.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.left_out_groups IS 'Consumer groups for which there was none (queen.state_groups), or whose queue was left out.';
COMMENT ON COLUMN queen.pg_stat_queen_collector.last_error IS 'The message of the last failure, cut at 158 bytes; the server''s log has the rest.';
