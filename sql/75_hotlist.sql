-- The hot-list: what it holds, and what it has done.

CREATE FUNCTION queen.stat_hotlist(OUT database oid, OUT queue_id bigint, OUT group_id bigint, OUT is_ours boolean,
	OUT ready bigint, OUT parked bigint, OUT checked_out bigint, OUT oldest_ready_age double precision, OUT owes text,
	OUT marks bigint, OUT takes bigint, OUT took bigint, OUT empty bigint, OUT leased bigint, OUT deferred bigint,
	OUT locked bigint, OUT behind_push bigint, OUT unreached bigint, OUT clears bigint, OUT requeues bigint,
	OUT epoch_conflicts bigint, OUT dropped bigint, OUT reseeds bigint, OUT reseed_rows bigint, OUT reseed_repairs bigint,
	OUT last_reseed timestamptz, OUT last_reseed_time double precision, OUT last_served timestamptz,
	OUT waiting integer, OUT wakes bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_stat_hotlist';
COMMENT ON FUNCTION queen.stat_hotlist() IS 'Rows of pg_stat_queen_hotlist without names, of all databases, read from shared memory.';

CREATE FUNCTION queen.stat_hotlist_pool(OUT bytes bigint, OUT candidates bigint, OUT candidates_used bigint, OUT rings bigint,
	OUT rings_used bigint, OUT evicted_rings bigint, OUT refused_rings bigint, OUT refused_candidates bigint,
	OUT by_tables_off bigint, OUT by_tables_uncommitted bigint, OUT by_tables_full bigint, OUT by_tables_cold bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_hotlist_pool';
COMMENT ON FUNCTION queen.stat_hotlist_pool() IS 'The row of pg_stat_queen_hotlist_pool; null when there is no hot-list.';

CREATE FUNCTION queen.reset_hotlist_stats()
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reset_hotlist';
COMMENT ON FUNCTION queen.reset_hotlist_stats() IS
'Counters of pg_stat_queen_hotlist for this database, and those of pg_stat_queen_hotlist_pool, begin anew. What the hot-list holds stays.';

CREATE FUNCTION queen.hotlist_candidates(queue text, consumer_group text, k integer DEFAULT 100,
	OUT partition_id bigint, OUT partition text, OUT ready_age double precision)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_hotlist_candidates';
COMMENT ON FUNCTION queen.hotlist_candidates(text, text, integer) IS
'Partitions that the hot-list would name to a pop of the group now, k at most (1 to 10000), without taking them; ready_age is for how long it has, in seconds. Nothing when no pop of the group has asked for any partition yet. 42704: unknown queue or group. 55000: there is no hot-list.';

CREATE FUNCTION queen.hotlist_reseed(queue text, consumer_group text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_hotlist_reseed';
COMMENT ON FUNCTION queen.hotlist_reseed(text, text) IS
'Walk all partitions of the queue and tell the hot-list which ones are pending for the group, as it does itself every queen.hotlist_reseed_interval. False: another session walks just now, or there is no place for the group. 42704: unknown queue or group. 55000: there is no hot-list.';

CREATE VIEW queen.pg_stat_queen_hotlist AS
	SELECT d.datname AS database, s.database AS database_id, q.tenant, q.name AS queue, g.name AS consumer_group,
		s.queue_id, s.group_id, s.ready, s.parked, s.checked_out, s.oldest_ready_age, s.owes, s.marks, s.takes, s.took,
		s.empty, s.leased, s.deferred, s.locked, s.behind_push, s.unreached, s.clears, s.requeues, s.epoch_conflicts,
		s.dropped, s.reseeds, s.reseed_rows, s.reseed_repairs, s.last_reseed, s.last_reseed_time, s.last_served,
		s.waiting, s.wakes
	FROM queen.stat_hotlist() s
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.database
	LEFT JOIN queen.queues q ON s.is_ours AND q.queue_id OPERATOR(pg_catalog.=) s.queue_id
	LEFT JOIN queen.log_groups g ON s.is_ours AND g.group_id OPERATOR(pg_catalog.=) s.group_id;
COMMENT ON VIEW queen.pg_stat_queen_hotlist IS
'One row for each ring of the hot-list: a consumer group whose pops have asked for any partition. Of all databases; queue and consumer_group are known for this one. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.ready IS 'Partitions that the next pops will be told.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.parked IS 'Partitions that are looked at again at a time: under a lease, deferred, locked, or behind a push.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.checked_out IS 'Partitions that a pop is at, or a transaction that has popped them and not ended.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.oldest_ready_age IS 'Seconds for which the longest waiting ready partition is; null when none is ready.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.owes IS 'What a walk over the tables is owed for: nothing, floor (the last one is older than the interval), walk (the ring is new, or something happened that only a walk finds), incomplete (candidates did not fit), full (a walk, but there is no room: pops ask the tables).';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.marks IS 'Partitions that commits have reported, each as often as it was.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.takes IS 'Partitions that pops were told.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.took IS 'Of these: they had messages.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.empty IS 'Of these: they had none.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.leased IS 'Of these: they were under a lease.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.deferred IS 'Of these: their head waits, after a nack or by the queue''s options.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.locked IS 'Of these: another transaction was at the cursor.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.behind_push IS 'Of these: the next message was in a transaction that had not ended.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.unreached IS 'Of these: the pop did not come to them, or was rolled back.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.clears IS 'Partitions that were found to be idle and forgotten.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.requeues IS 'Partitions that became ready again when a pop gave them back.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.epoch_conflicts IS 'Partitions that were not forgotten because something was pushed while a pop found them empty.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.dropped IS 'Partitions for which the pool had no place; walks find them.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.reseeds IS 'Walks over the tables.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.reseed_rows IS 'Pending partitions that they found.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.reseed_repairs IS 'Pending partitions that the ring had lost. Must stay 0.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.last_reseed_time IS 'How long the last walk took, in milliseconds.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.last_served IS 'When a pop last asked.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.waiting IS 'Consumers that wait for any partition (queen.wait, queen.pop with wait) and have not been woken.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist.wakes IS 'How often one of them was, since the server started; of whatever ring was at this one''s place.';

CREATE VIEW queen.pg_stat_queen_hotlist_pool AS
	SELECT s.* FROM queen.stat_hotlist_pool() s WHERE s.bytes IS NOT NULL;
COMMENT ON VIEW queen.pg_stat_queen_hotlist_pool IS
'The memory of the hot-list, shared by all databases; no row when there is none. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.candidates IS 'Places for pending partitions, each counted once for a group.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.candidates_used IS 'Places that are taken, those of rings that are gone included until they are needed.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.evicted_rings IS 'Rings that were given up for others.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.refused_rings IS 'Pops that found no place for a ring.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.refused_candidates IS 'Pending partitions for which there was no place.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.by_tables_off IS 'Pops that asked the tables because queen.hotlist is off.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.by_tables_uncommitted IS 'Pops that asked the tables because their transaction made the group.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.by_tables_full IS 'Pops that asked the tables because candidates, or the ring, did not fit.';
COMMENT ON COLUMN queen.pg_stat_queen_hotlist_pool.by_tables_cold IS 'Pops that asked the tables because another session walked for the ring.';
