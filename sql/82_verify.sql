-- Do the tables agree? One statement, so that all of it is seen by one snapshot: whatever runs beside it, what the
-- extension commits together is seen together. It knows nothing of the C++ code's way to the rows: tables, not indexes.
-- (jit: off, since compiling the statement takes longer than a hundred thousand partitions do.)

CREATE FUNCTION queen.verify_segments(repair boolean, OUT partition_id bigint, OUT base_offset bigint, OUT problem text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_verify_segments';
COMMENT ON FUNCTION queen.verify_segments(boolean) IS 'Part of queen.verify(): segments that do not decode.';

CREATE FUNCTION queen.verify_mend(text, bigint, bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_verify_mend';
COMMENT ON FUNCTION queen.verify_mend(text, bigint, bigint) IS 'Part of queen.verify(): one repair.';

CREATE FUNCTION queen.verify_mend_rule(tenant uuid, queue text, timer_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_verify_mend_rule';
COMMENT ON FUNCTION queen.verify_mend_rule(uuid, text, text) IS 'Part of queen.verify(): one repair of a rule of a recurring timer.';

CREATE FUNCTION queen.verify(repair boolean DEFAULT false, OUT item text, OUT object text, OUT problem text, OUT repaired boolean)
RETURNS SETOF record LANGUAGE SQL VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
WITH
-- logs and partitions that are in use; what a filing in log_dropped names is being deleted in pieces, and may be half there
live_logs AS (
	SELECT log_id, queue_id FROM queen.queues),
live AS (
	SELECT p.partition_id, p.log_id, l.queue_id FROM queen.log_partitions p JOIN live_logs l USING (log_id)),
explained AS (
	SELECT partition_id FROM live
	UNION
	SELECT p.partition_id FROM queen.log_partitions p JOIN queen.log_dropped d USING (log_id)
	UNION
	SELECT partition_id FROM queen.log_dropped WHERE partition_id IS NOT NULL),
spans AS (
	SELECT partition_id, base_offset, end_offset, created_at,
		lag(end_offset) OVER w AS end_before, lag(created_at) OVER w AS created_before
	FROM queen.log_segments WINDOW w AS (PARTITION BY partition_id ORDER BY base_offset, end_offset)),
ends AS (
	SELECT l.partition_id, s.first_offset, s.first_at, t.log_start, t.last_created_at,
		greatest(s.last_offset, t.log_start - 1, -1) AS last_offset
	FROM live l
	LEFT JOIN (
		SELECT partition_id, min(base_offset) AS first_offset, max(end_offset) AS last_offset, min(created_at) AS first_at
		FROM queen.log_segments GROUP BY partition_id) s USING (partition_id)
	LEFT JOIN queen.log_starts t USING (partition_id)),
used AS (
	SELECT partition_id, 'log_segments' AS in_table, count(*) AS n FROM queen.log_segments GROUP BY partition_id
	UNION ALL
	SELECT partition_id, 'log_txns', count(*) FROM queen.log_txns GROUP BY partition_id
	UNION ALL
	SELECT partition_id, 'log_starts', count(*) FROM queen.log_starts GROUP BY partition_id
	UNION ALL
	SELECT partition_id, 'log_consumers', count(*) FROM queen.log_consumers GROUP BY partition_id
	UNION ALL
	SELECT partition_id, 'log_cursors', count(*) FROM queen.log_cursors GROUP BY partition_id
	UNION ALL
	SELECT partition_id, 'log_partitions', count(*) FROM queen.log_partitions GROUP BY partition_id),
states AS (
	SELECT partition_id, group_id, count(*) AS n FROM queen.log_cursors GROUP BY partition_id, group_id),
-- an occurrence has its rule's key behind one more byte, and the rule's message; it is tried for as long as somebody has the rule, or it cannot be read
pending AS NOT MATERIALIZED (
	SELECT k.*, 1 - r.is_occurrence::int AS messages, CASE WHEN r.is_occurrence THEN 2147483647 ELSE 4 END AS most_attempts, r.is_occurrence, r.shown_key,
		format('%s "%s" of queue "%s" of tenant %s', CASE WHEN r.is_occurrence THEN 'occurrence of rule' ELSE 'timer' END, left(r.shown_key, 100), left(k.queue, 100), k.tenant) AS what
	FROM queen.log_timers k, LATERAL (
		SELECT starts_with(k.timer_key, E'\x01') AS is_occurrence, CASE WHEN starts_with(k.timer_key, E'\x01') THEN substr(k.timer_key, 2) ELSE k.timer_key END AS shown_key) r),
problems (item, object, problem, mend, first_id, second_id) AS (
	-- queues
	SELECT 'queue', format('queue "%s" of tenant %s', name, tenant),
		format('is there %s times: ids %s', count(*), string_agg(queue_id::text, ', ' ORDER BY queue_id)), NULL, NULL::bigint, NULL::bigint
	FROM queen.queues GROUP BY tenant, name HAVING count(*) > 1
	UNION ALL
	SELECT 'queue', format('log %s', log_id),
		format('belongs to %s queues: ids %s', count(*), string_agg(queue_id::text, ', ' ORDER BY queue_id)), NULL, NULL, NULL
	FROM queen.queues GROUP BY log_id HAVING count(*) > 1
	UNION ALL
	SELECT 'queue', format('queue %s', l.queue_id), 'its log is filed in log_dropped, and queen.maintain() deletes it', NULL, NULL, NULL
	FROM live_logs l WHERE l.log_id IN (SELECT d.log_id FROM queen.log_dropped d)
	UNION ALL
	-- partitions
	SELECT 'partition', format('partition "%s" of log %s', name, log_id),
		format('is there %s times: ids %s', count(*), string_agg(partition_id::text, ', ' ORDER BY partition_id)), NULL, NULL, NULL
	FROM queen.log_partitions GROUP BY log_id, name HAVING count(*) > 1
	UNION ALL
	SELECT 'partition', format('partition %s', l.partition_id), 'is filed in log_dropped, and queen.maintain() deletes it', NULL, NULL, NULL
	FROM live l WHERE l.partition_id IN (SELECT d.partition_id FROM queen.log_dropped d)
	UNION ALL
	SELECT 'partition', format('partition %s', u.partition_id),
		format('no queue has it, and it has rows in %s', string_agg(format('%s (%s)', u.in_table, u.n), ', ' ORDER BY u.in_table COLLATE "C")),
		CASE WHEN bool_and(u.in_table <> 'log_segments') THEN 'partition' END, u.partition_id, 0
	FROM used u WHERE NOT EXISTS (SELECT FROM explained e WHERE e.partition_id = u.partition_id) GROUP BY u.partition_id
	UNION ALL
	-- segments
	SELECT 'segment', format('partition %s, offset %s', partition_id, base_offset),
		CASE
			WHEN base_offset < 0 OR end_offset < base_offset THEN format('ends at %s', end_offset)
			WHEN base_offset <= end_before THEN format('overlaps the one before, which ends at %s', end_before)
			ELSE format('is of %s, the one before of %s', created_at, created_before)
		END, NULL, NULL, NULL
	FROM spans WHERE base_offset < 0 OR end_offset < base_offset OR base_offset <= end_before OR created_at < created_before
	UNION ALL
	SELECT 'segment', format('partition %s, offset %s', s.partition_id, s.base_offset), s.problem, NULL, NULL, NULL
	FROM queen.verify_segments(verify.repair) s
	UNION ALL
	-- beginnings
	SELECT 'start', format('partition %s', partition_id),
		CASE
			WHEN log_start = 9223372036854775807 THEN 'is marked as deleted in log_starts'
			WHEN first_offset < log_start THEN format('has a segment at offset %s, and begins at %s', first_offset, log_start)
			WHEN first_at < last_created_at THEN format('has a segment of %s, and deleted ones of %s', first_at, last_created_at)
			ELSE format('begins at %s', log_start)
		END, NULL, NULL, NULL
	FROM ends WHERE log_start = 9223372036854775807 OR first_offset < log_start OR first_at < last_created_at OR log_start < 0
	UNION ALL
	-- groups
	SELECT 'group', format('consumer group "%s" of queue %s', name, queue_id),
		format('is there %s times: ids %s', count(*), string_agg(group_id::text, ', ' ORDER BY group_id)), NULL, NULL, NULL
	FROM queen.log_groups GROUP BY queue_id, name HAVING count(*) > 1
	UNION ALL
	SELECT 'group', format('queue %s', g.queue_id), format('is not there, and has %s consumer groups', count(*)), 'groups', g.queue_id, 0
	FROM queen.log_groups g
	WHERE NOT EXISTS (SELECT FROM live_logs l WHERE l.queue_id = g.queue_id)
		AND NOT EXISTS (SELECT FROM queen.log_dropped d WHERE d.queue_id = g.queue_id)
	GROUP BY g.queue_id
	UNION ALL
	SELECT 'group', format('consumer group %s', g.group_id), 'has another tenant than its queue', NULL, NULL, NULL
	FROM queen.log_groups g JOIN queen.queues q USING (queue_id) WHERE g.tenant <> q.tenant
	UNION ALL
	SELECT 'group', format('consumer group %s', g.group_id), 'is filed in log_retired_groups, and queen.maintain() deletes its positions', NULL, NULL, NULL
	FROM queen.log_groups g JOIN queen.log_retired_groups r USING (group_id)
	UNION ALL
	SELECT 'group', format('consumer group %s', s.group_id), format('is not there, and has positions in %s partitions', count(*)),
		'cursors', s.group_id, l.log_id
	FROM states s JOIN live l USING (partition_id)
	WHERE NOT EXISTS (SELECT FROM queen.log_groups g WHERE g.group_id = s.group_id)
		AND NOT EXISTS (SELECT FROM queen.log_retired_groups r WHERE r.group_id = s.group_id)
	GROUP BY s.group_id, l.log_id
	UNION ALL
	-- positions
	SELECT 'cursor', format('consumer group %s in partition %s', group_id, l.partition_id),
		CASE
			WHEN s.n IS NULL THEN 'has no state: it gets nothing; repaired, it begins where the group does'
			WHEN i.created_at IS NULL THEN 'has no identity'
			ELSE format('has %s states', s.n)
		END, CASE WHEN s.n IS NULL OR i.created_at IS NULL THEN 'cursor' END, l.partition_id, group_id
	FROM queen.log_consumers i FULL JOIN states s USING (partition_id, group_id) JOIN live l USING (partition_id)
	WHERE s.n IS NULL OR i.created_at IS NULL OR s.n > 1
	UNION ALL
	SELECT 'cursor', format('consumer group %s in partition %s', c.group_id, c.partition_id),
		CASE
			WHEN c.era <> c.changes / 16 THEN format('is in era %s after %s changes', c.era, c.changes)
			WHEN c.committed NOT BETWEEN -1 AND e.last_offset THEN format('stands at %s, and the log ends at %s', c.committed, e.last_offset)
			WHEN num_nulls(c.batch_end, c.batch_count, c.lease, c.lease_until) NOT IN (0, 4) THEN 'has half a lease'
			WHEN c.batch_end NOT BETWEEN c.committed + 1 AND e.last_offset OR c.batch_count NOT BETWEEN 1 AND c.batch_end - c.committed
				THEN format('has a lease of %s messages up to %s, stands at %s, and the log ends at %s', c.batch_count, c.batch_end, c.committed, e.last_offset)
			ELSE format('has counted %s deliveries', c.attempts)
		END, NULL, NULL, NULL
	FROM queen.log_cursors c JOIN ends e USING (partition_id)
	WHERE c.era <> c.changes / 16 OR c.committed NOT BETWEEN -1 AND e.last_offset
		OR num_nulls(c.batch_end, c.batch_count, c.lease, c.lease_until) NOT IN (0, 4)
		OR c.batch_end NOT BETWEEN c.committed + 1 AND e.last_offset OR c.batch_count NOT BETWEEN 1 AND c.batch_end - c.committed
		OR c.attempts < 0
	UNION ALL
	-- dead letters
	SELECT 'dead letters', format('queue %s ("%s" of tenant %s)', d.queue_id, d.queue, d.tenant),
		format('is not there, and has %s dead letters', count(*)), NULL, NULL, NULL
	FROM queen.dead_letters d
	WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.queue_id = d.queue_id AND q.tenant = d.tenant)
		AND NOT EXISTS (SELECT FROM queen.log_dropped f WHERE f.queue_id = d.queue_id)
		-- of a timer whose queue could not be made
		AND NOT (d.queue_id = 0 AND d.timer_key IS NOT NULL)
	GROUP BY d.queue_id, d.queue, d.tenant
	UNION ALL
	-- messages of work queues
	SELECT 'messages', format('log %s', m.log_id), format('is no work queue''s, and has %s messages', count(*)), NULL, NULL, NULL
	FROM queen.messages m
	WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = m.log_id AND q.kind = 'work')
		AND NOT EXISTS (SELECT FROM queen.log_dropped f WHERE f.log_id = m.log_id)
	GROUP BY m.log_id
	UNION ALL
	SELECT 'message', format('message %s', m.message_id),
		CASE
			WHEN num_nonnulls(m.message, m.payload) <> 1 OR jsonb_typeof(m.headers) <> 'object' THEN 'has not one message, or headers that are no object'
			WHEN m.priority NOT BETWEEN 1 AND 3 OR m.shard NOT BETWEEN 0 AND 31 THEN format('has priority %s and shard %s', m.priority, m.shard)
			WHEN m.expires_at <= m.enqueued_at THEN format('is of %s and expires at %s', m.enqueued_at, m.expires_at)
			ELSE format('is %s after %s deliveries, the last at %s, and seen at %s', m.state, m.delivery_attempts, m.delivered_at, m.visible_at)
		END, NULL, NULL, NULL
	FROM queen.messages m
	WHERE num_nonnulls(m.message, m.payload) <> 1 OR jsonb_typeof(m.headers) <> 'object'
		OR m.priority NOT BETWEEN 1 AND 3 OR m.shard NOT BETWEEN 0 AND 31 OR m.expires_at <= m.enqueued_at
		OR CASE m.state
			WHEN 'READY' THEN m.delivery_attempts <> 0 OR num_nonnulls(m.visible_at, m.delivered_at, m.receipt, m.last_error) > 0
			WHEN 'IN_FLIGHT' THEN m.delivery_attempts <= 0 OR num_nulls(m.visible_at, m.delivered_at) > 0 OR m.visible_at < m.delivered_at
			ELSE true
		END
	UNION ALL
	SELECT 'message', format('message %s', m.message_id), 'is promised by a timer, too', NULL, NULL, NULL
	FROM queen.messages m JOIN queen.log_timers t USING (message_id)
	UNION ALL
	-- timers
	SELECT 'timer', t.what,
		CASE
			WHEN num_nonnulls(t.message, t.payload) <> t.messages THEN CASE t.messages WHEN 1 THEN 'has not one message' ELSE 'has a message that is not the rule''s' END
			WHEN t.visible_at <> greatest(t.deliver_at, t.retry_at) OR NOT isfinite(t.visible_at)
				THEN format('is seen at %s, due at %s, and tried again at %s', t.visible_at, t.deliver_at, t.retry_at)
			WHEN t.attempts NOT BETWEEN 0 AND t.most_attempts THEN format('has failed %s times', t.attempts)
			WHEN t.attempts > 0 AND num_nulls(t.retry_at, t.last_error) > 0 THEN 'has failed, and not for a reason or until a time'
			WHEN jsonb_typeof(t.headers) <> 'object' THEN 'has headers that are no object'
			WHEN t.priority NOT BETWEEN 1 AND 3 OR t.ttl <= 0 THEN format('has priority %s and lives for %s µs', t.priority, t.ttl)
			ELSE 'has a name that no call lets in'
		END, NULL, NULL, NULL
	FROM pending t
	WHERE num_nonnulls(t.message, t.payload) <> t.messages
		OR t.visible_at <> greatest(t.deliver_at, t.retry_at) OR NOT isfinite(t.visible_at)
		OR t.attempts NOT BETWEEN 0 AND t.most_attempts OR t.attempts > 0 AND num_nulls(t.retry_at, t.last_error) > 0
		OR jsonb_typeof(t.headers) <> 'object' OR t.priority NOT BETWEEN 1 AND 3 OR t.ttl <= 0
		OR octet_length(t.queue) NOT BETWEEN 1 AND 255 OR octet_length(t.partition) NOT BETWEEN 1 AND 255
		OR octet_length(t.shown_key) NOT BETWEEN 1 AND 255
	UNION ALL
	SELECT 'timer', format('message %s', t.message_id), format('is promised by %s timers', count(*)), NULL, NULL, NULL
	FROM queen.log_timers t GROUP BY t.message_id HAVING count(*) > 1
	UNION ALL
	-- rules of recurring timers
	SELECT 'rule', format('rule "%s" of queue "%s" of tenant %s', left(r.timer_key, 100), left(r.queue, 100), r.tenant),
		CASE
			WHEN o.deliver_at <> r.next_at OR o.partition <> r.partition OR r.next_at IS NULL AND o.deliver_at IS NOT NULL
				THEN format('is due next at %s in partition "%s", and what waits at %s in "%s"', r.next_at, left(r.partition, 100), o.deliver_at, left(o.partition, 100))
			WHEN r.misfire NOT IN ('once', 'skip') THEN format('has misfire "%s"', r.misfire)
			WHEN NOT (isfinite(r.anchor_at) AND isfinite(r.next_at)) THEN format('counts from %s and is due next at %s', r.anchor_at, r.next_at)
			WHEN jsonb_typeof(r.headers) <> 'object' THEN 'has headers that are no object'
			ELSE 'has a name that no call lets in'
		END, NULL, NULL, NULL
	FROM queen.log_timer_rules r LEFT JOIN pending o ON o.is_occurrence AND o.tenant = r.tenant AND o.queue = r.queue AND o.shown_key = r.timer_key
	WHERE o.deliver_at <> r.next_at OR o.partition <> r.partition OR r.next_at IS NULL AND o.deliver_at IS NOT NULL
		OR r.misfire NOT IN ('once', 'skip') OR NOT (isfinite(r.anchor_at) AND isfinite(r.next_at)) OR jsonb_typeof(r.headers) <> 'object'
		OR octet_length(r.queue) NOT BETWEEN 1 AND 255 OR octet_length(r.partition) NOT BETWEEN 1 AND 255 OR octet_length(r.timer_key) NOT BETWEEN 1 AND 255),
-- one of the two is missing
halves (item, object, problem, tenant, queue, timer_key) AS (
	SELECT 'rule', format('rule "%s" of queue "%s" of tenant %s', left(r.timer_key, 100), left(r.queue, 100), r.tenant),
		'has no occurrence that waits: it is never due; repaired, it goes on where it stopped', r.tenant, r.queue, r.timer_key
	FROM queen.log_timer_rules r
	WHERE r.next_at IS NOT NULL AND NOT EXISTS (SELECT FROM queen.log_timers t WHERE t.tenant = r.tenant AND t.queue = r.queue AND t.timer_key = E'\x01' || r.timer_key)
	UNION ALL
	SELECT 'timer', t.what, 'has no rule', t.tenant, t.queue, t.shown_key
	FROM pending t
	WHERE t.is_occurrence AND NOT EXISTS (SELECT FROM queen.log_timer_rules r WHERE r.tenant = t.tenant AND r.queue = t.queue AND r.timer_key = t.shown_key))
SELECT p.item, p.object, p.problem,
	CASE WHEN verify.repair AND p.mend IS NOT NULL THEN queen.verify_mend(p.mend, p.first_id, p.second_id) ELSE false END
FROM problems p
UNION ALL
SELECT h.item, h.object, h.problem,
	CASE WHEN verify.repair THEN queen.verify_mend_rule(h.tenant, h.queue, h.timer_key) ELSE false END
FROM halves h
UNION ALL
-- rows of counts, whole before they are compared with messages
SELECT 'counts', format('log %s, priority %s, shard %s', log_id, priority, shard),
	CASE
		WHEN s.era IS NULL THEN 'have no state'
		WHEN i.created_at IS NULL THEN 'have no identity'
		WHEN s.era <> s.changes / 16 THEN format('are in era %s after %s changes', s.era, s.changes)
		WHEN s.in_flight_count < 0 THEN format('are %s in flight', s.in_flight_count)
		ELSE 'are of no shard, or there twice'
	END,
	CASE WHEN verify.repair AND (s.era IS NULL OR i.created_at IS NULL) THEN queen.rollup_mend_row(log_id, priority, shard) ELSE false END
FROM queen.queue_priority_shards i
	FULL JOIN (SELECT *, count(*) OVER (PARTITION BY log_id, priority, shard) AS n FROM queen.queue_priority_state_shard) s USING (log_id, priority, shard)
WHERE s.era IS NULL OR i.created_at IS NULL OR s.era <> s.changes / 16 OR s.in_flight_count < 0 OR s.n > 1
	OR priority NOT BETWEEN 1 AND 3 OR shard NOT BETWEEN 0 AND 31
UNION ALL
SELECT 'counts', format('log %s, priority %s, shard %s', d.log_id, d.priority, d.shard),
	format('are off by %s ready and %s in flight', -d.ready, -d.in_flight),
	CASE WHEN verify.repair THEN queen.rollup_mend(d.log_id) ELSE false END
FROM queen.rollup_drift() d
WHERE NOT EXISTS (SELECT FROM queen.log_dropped f WHERE f.log_id = d.log_id)
$$;
COMMENT ON FUNCTION queen.verify(boolean) IS
'Do the tables of all tenants agree with each other? A row for each problem; none when all is well, whatever runs beside it. Checked: names and logs that are there twice; what belongs to no queue and is not waiting for queen.maintain(); segments that overlap, step back in time, or do not decode (every message is read); where partitions begin; positions of groups, their leases and states; dead letters of no queue; messages of work queues, their states, whose they are, and how they are counted; timers that cannot be pushed; rules of recurring timers and what is due of them next. With repair, mends in this transaction what costs no message (repaired says so): left-over rows are deleted, or filed for queen.maintain() to delete, counts are corrected (queen.rollup_rebuild), and a position, a count or a rule that has lost half of its rows gets or gives up the other half. What holds messages, or may be right in two ways, is left to you. Reads everything there is, under one snapshot; without repair also in a read-only transaction and on a standby. Objects are named by the ids in the tables.';
