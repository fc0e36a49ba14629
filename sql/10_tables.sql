-- Tables. They are written and read by the C++ code alone, by direct index access; nobody is granted anything on them.
-- The tenant is part of every name's key; what is keyed by the id of a queue, partition or group belongs to its tenant.
--
-- Column numbers and types are mirrored in src/log/*.cpp (enums beside each reader): change both.

-- Ids fit the bits that a lease token gives them (src/core/lease_token.h): exhaustion is nextval's error, not a wrong token.
CREATE SEQUENCE queen.queue_ids AS bigint;
CREATE SEQUENCE queen.partition_ids AS bigint MAXVALUE 68719476735;
CREATE SEQUENCE queen.group_ids AS bigint MAXVALUE 67108863;
CREATE SEQUENCE queen.dead_ids AS bigint;
CREATE SEQUENCE queen.dropped_ids AS bigint;
-- a value is the first of 65536 orders, which a call gives to its messages
CREATE SEQUENCE queen.message_orders AS bigint INCREMENT BY 65536;

-- One row a queue. Its partitions, or messages, belong to log_id, which a purge replaces. Options that are null have their default
-- (src/log/queues.h), -1 is off; durations are microseconds.
CREATE TABLE queen.queues (
	queue_id        bigint      NOT NULL PRIMARY KEY,
	log_id          bigint      NOT NULL,
	tenant          uuid        NOT NULL,
	name            text        NOT NULL COLLATE "C",
	kind            text        NOT NULL COLLATE "C",
	created_at      timestamptz NOT NULL,
	lease_time      bigint,
	max_deliveries  integer,
	retry_delay     bigint,
	compression     integer,
	delayed_processing bigint,
	window_buffer   bigint,
	dedup_window    bigint,
	dedup           text        COLLATE "C",
	retention       bigint,
	completed_retention bigint,
	group_expiry    bigint,
	dead_retention  bigint,
	notify          boolean,
	visibility_timeout bigint,
	max_delivery_attempts integer,
	message_ttl     bigint,
	paused          boolean     NOT NULL,
	CONSTRAINT queues_tenant_name_key UNIQUE (tenant, name),
	CONSTRAINT queues_log_id_key UNIQUE (log_id)
);

-- A partition's static part: never updated after its birth.
CREATE TABLE queen.log_partitions (
	partition_id    bigint      NOT NULL PRIMARY KEY,
	log_id          bigint      NOT NULL,
	name            text        NOT NULL COLLATE "C",
	created_at      timestamptz NOT NULL,
	CONSTRAINT log_partitions_log_id_name_key UNIQUE (log_id, name)
);
-- a queue's partitions in keyset order, for walks that start anywhere
CREATE INDEX log_partitions_log_id_partition_id_idx ON queen.log_partitions (log_id, partition_id);

-- The first offset that is retained and the newest created_at that was deleted: absent while nothing ever was.
-- Written under the partition's lock only; the allocator's floor. The greatest bigint: the partition was deleted, and
-- whoever still knows its id must not push to it.
CREATE TABLE queen.log_starts (
	partition_id    bigint      NOT NULL PRIMARY KEY,
	log_start       bigint      NOT NULL,
	last_created_at timestamptz NOT NULL
);

-- What is gone for everybody and waits to be cleaned up: logs of dropped and purged queues, deleted partitions.
CREATE TABLE queen.log_dropped (
	dropped_id      bigint      NOT NULL PRIMARY KEY,
	log_id          bigint,                 -- all partitions of this log …
	partition_id    bigint,                 -- … or this one
	queue_id        bigint,                 -- of a dropped queue: its dead letters and groups too
	dropped_at      timestamptz NOT NULL
);

-- The log itself: insert-only, never updated; no index but the key. The blob is compressed and checksummed by the writer.
CREATE TABLE queen.log_segments (
	partition_id    bigint      NOT NULL,
	base_offset     bigint      NOT NULL,
	end_offset      bigint      NOT NULL,
	created_at      timestamptz NOT NULL,
	blob            bytea       NOT NULL,
	PRIMARY KEY (partition_id, base_offset)
);
ALTER TABLE queen.log_segments ALTER COLUMN blob SET STORAGE EXTERNAL;
-- Truncating the heap takes ACCESS EXCLUSIVE and stalls every push; a log fills the space again anyway.
ALTER TABLE queen.log_segments SET (
	vacuum_truncate = off, toast.vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0.1, toast.autovacuum_vacuum_insert_scale_factor = 0.3, toast.autovacuum_vacuum_cost_delay = 0
);

-- Who pushed last with a dedup_key: one row a key. The unique key is what two pushers meet at. Rows older than the queue's
-- dedup_window count for nothing and are taken over.
CREATE TABLE queen.log_txns (
	partition_id    bigint      NOT NULL,
	key_hash        uuid        NOT NULL,   -- XXH3, 128 bits, of the key
	message_id      uuid        NOT NULL,
	pushed_at       timestamptz NOT NULL,
	PRIMARY KEY (partition_id, key_hash)
);
ALTER TABLE queen.log_txns SET (
	fillfactor = 90, vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3, autovacuum_vacuum_cost_delay = 0
);

-- Consumer groups of a queue.
CREATE TABLE queen.log_groups (
	group_id        bigint      NOT NULL PRIMARY KEY,
	tenant          uuid        NOT NULL,
	queue_id        bigint      NOT NULL,
	name            text        NOT NULL COLLATE "C",
	created_at      timestamptz NOT NULL,
	start_at        timestamptz,            -- where it starts in a partition without a cursor; null: at the beginning
	paused          boolean     NOT NULL,
	active_at       timestamptz NOT NULL,   -- its last pop, to the minute
	CONSTRAINT log_groups_queue_id_name_key UNIQUE (queue_id, name)
);
ALTER TABLE queen.log_groups SET (fillfactor = 50);

-- Groups that were unsubscribed: their cursors are deleted in bounded pieces, partition by partition, then this row.
CREATE TABLE queen.log_retired_groups (
	group_id        bigint      NOT NULL PRIMARY KEY,
	log_id          bigint      NOT NULL,
	retired_at      timestamptz NOT NULL,
	next_partition  bigint                  -- null: not begun
);

-- A group's cursor in a partition is an era table (src/server/era_table.README.md): this insert-only row says that the
-- cursor exists …
CREATE TABLE queen.log_consumers (
	partition_id    bigint      NOT NULL,
	group_id        bigint      NOT NULL,
	created_at      timestamptz NOT NULL,
	PRIMARY KEY (partition_id, group_id)
);

-- … and this one holds its state. era moves at every 16th change, so that no version chain grows under a held snapshot.
CREATE TABLE queen.log_cursors (
	partition_id    bigint      NOT NULL,
	group_id        bigint      NOT NULL,
	era             bigint      NOT NULL,
	changes         bigint      NOT NULL,
	committed       bigint      NOT NULL,   -- last offset that is completed, -1 before the first
	batch_end       bigint,                 -- last offset under lease, null without one
	batch_count     integer,                -- messages under lease that are not completed yet
	lease           uuid,
	lease_until     timestamptz,
	last_lease      uuid,                   -- the lease that was completed last
	attempt_offset  bigint      NOT NULL,   -- the head that attempts counts
	attempts        integer     NOT NULL,   -- its deliveries
	delivered_to    bigint      NOT NULL,   -- offsets up to here were delivered once in a batch that was not completed
	blocked_until   timestamptz,            -- a nacked head waits until then
	last_error      text        COLLATE "C",
	PRIMARY KEY (partition_id, group_id, era)
);
ALTER TABLE queen.log_cursors SET (
	fillfactor = 50, vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- Messages that were given up, with all that is needed to look at one or to push it again: they outlive their segment.
CREATE TABLE queen.dead_letters (
	dead_id         bigint      NOT NULL PRIMARY KEY,
	tenant          uuid        NOT NULL,
	queue_id        bigint      NOT NULL,
	queue           text        NOT NULL COLLATE "C",
	kind            text        NOT NULL COLLATE "C",
	partition_id    bigint,
	partition       text        COLLATE "C",
	consumer_group  text        COLLATE "C",
	msg_offset      bigint,
	message_id      uuid        NOT NULL,
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	attempts        integer     NOT NULL,
	error           text        COLLATE "C",
	enqueued_at     timestamptz NOT NULL,
	dead_at         timestamptz NOT NULL,
	timer_key       text        COLLATE "C", -- of a timer that could not be pushed: queue_id is 0 where there was no queue
	priority        smallint                -- of a work queue, or of a timer that goes to one; see messages
);
COMMENT ON TABLE queen.dead_letters IS 'Messages that were given up, of all tenants: after max_deliveries or max_delivery_attempts deliveries, or by nack with dead. attempts counts their deliveries (to the group), error is what the last nack or reject said, enqueued_at is when they were pushed; message is null for one that was pushed as bytes (payload); priority is 3 (high), 2 or 1 (low) for those of work queues. A row may be deleted when it is done with.';
CREATE INDEX dead_letters_queue_id_dead_id_idx ON queen.dead_letters (queue_id, dead_id);
CREATE INDEX dead_letters_message_id_idx ON queen.dead_letters (message_id);

-- Messages that are not in the log yet. Keyed by names: the queue need not exist before the fire, and no row names a partition's id, so
-- that no work on partitions grows with timers. The row goes with the commit that pushes its message: no state, no tombstone.
CREATE TABLE queen.log_timers (
	tenant          uuid        NOT NULL,
	queue           text        NOT NULL COLLATE "C",
	timer_key       text        NOT NULL COLLATE "C",   -- one that begins with \x01 is a rule's next occurrence
	partition       text        NOT NULL COLLATE "C",
	deliver_at      timestamptz NOT NULL,
	retry_at        timestamptz,            -- it could not be pushed: not before then
	visible_at      timestamptz NOT NULL GENERATED ALWAYS AS (GREATEST(deliver_at, retry_at)) STORED,
	message_id      uuid        NOT NULL,   -- promised when it was scheduled
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	attempts        integer     NOT NULL,   -- that failed for good reasons
	last_error      text        COLLATE "C",
	created_at      timestamptz NOT NULL,
	updated_at      timestamptz NOT NULL,
	priority        smallint,               -- it goes to a work queue …
	ttl             bigint,                 -- … and lives that long there, microseconds; null: as the queue says
	PRIMARY KEY (tenant, queue, timer_key)
);
-- what is due, oldest first; and each queue's, so that one that has many does not keep the others. The id makes each entry a place to go on
-- from: behind a million timers of one instant, too
CREATE INDEX log_timers_visible_at_idx ON queen.log_timers (visible_at, message_id);
CREATE INDEX log_timers_queue_visible_at_idx ON queen.log_timers (tenant, queue, visible_at, message_id);
-- Each setting with its figure (bench/timer_storage.sh, 2026-11-30, 2 cores, other work beside it; docs/benchmarks.md):
--   fillfactor stays 100: a timer that is moved or put off changes an indexed column, so none of it is ever HOT, and room on the page buys
--     nothing; at 70 timers were scheduled at 0.87, moved at 0.84, fired at 0.68 of the rate, in 1.08 of the space;
--   no cost delay: at 5,000 timers/s autovacuum was at the table 0.4 % of the time, with the server's 2 ms 2.5 %, for the same 0.3 % of the
--     processor: what it does is the same, and of three workers this table never holds one for long;
--   scale and threshold: what is due soon is few rows, dead ones are many: at 1,000/s each look of autovacuum finds more than these;
--   no truncation: it takes ACCESS EXCLUSIVE, and the table's end is where the next timers go.
ALTER TABLE queen.log_timers SET (
	vacuum_truncate = off, toast.vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_cost_delay = 0
);

-- Rules of recurring timers. A rule's next occurrence waits in log_timers, under the rule's key behind \x01 and without a message; what changes
-- one of the two rows changes the other in the same transaction, and locks the rule's first.
CREATE TABLE queen.log_timer_rules (
	tenant          uuid        NOT NULL,
	queue           text        NOT NULL COLLATE "C",
	timer_key       text        NOT NULL COLLATE "C",
	cron            text        NOT NULL COLLATE "C",
	timezone        text        NOT NULL COLLATE "C",
	misfire         text        NOT NULL COLLATE "C",
	partition       text        NOT NULL COLLATE "C",
	message         jsonb       NOT NULL,
	headers         jsonb,
	anchor_at       timestamptz NOT NULL,   -- @every counts from there
	next_at         timestamptz,            -- the occurrence that waits; null when no other will come
	last_at         timestamptz,            -- the one that was pushed last
	created_at      timestamptz NOT NULL,
	updated_at      timestamptz NOT NULL,   -- by a user
	PRIMARY KEY (tenant, queue, timer_key)
);
-- half of each page is for the versions that each occurrence makes: no index but the key's, so all of them are HOT
ALTER TABLE queen.log_timer_rules SET (
	fillfactor = 50, vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- Messages of work queues. Written by src/workqueue/message_rows.cpp alone; what a row's state means is in src/workqueue/README.md. The checks
-- are for what SQL writes: direct table access is not checked by the server, queen.verify() looks.
CREATE TABLE queen.messages (
	message_id      uuid        NOT NULL PRIMARY KEY,
	log_id          bigint      NOT NULL,   -- the queue's
	enqueue_order   bigint      NOT NULL,   -- first in, first out
	enqueued_at     timestamptz NOT NULL,
	expires_at      timestamptz NOT NULL,
	visible_at      timestamptz,            -- an in-flight one can be taken again from then on
	delivered_at    timestamptz,            -- last
	receipt         uuid,                   -- of the last delivery, null when that was rejected
	priority        smallint    NOT NULL,
	shard           smallint    NOT NULL,   -- drawn once a transaction and queue
	delivery_attempts smallint  NOT NULL,
	state           text        NOT NULL COLLATE "C",
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	last_error      text        COLLATE "C",
	CONSTRAINT messages_priority_check CHECK (priority BETWEEN 1 AND 3),
	CONSTRAINT messages_shard_check CHECK (shard BETWEEN 0 AND 31),
	CONSTRAINT messages_content_check CHECK (num_nonnulls(message, payload) = 1 AND jsonb_typeof(headers) = 'object'),
	CONSTRAINT messages_expires_at_check CHECK (expires_at > enqueued_at),
	CONSTRAINT messages_state_check CHECK (
		CASE state
			WHEN 'READY' THEN delivery_attempts = 0 AND num_nonnulls(visible_at, delivered_at, receipt, last_error) = 0
			WHEN 'IN_FLIGHT' THEN delivery_attempts > 0 AND num_nulls(visible_at, delivered_at) = 0 AND visible_at >= delivered_at
			ELSE false
		END)
);
-- what can be taken, each state in its own order: a lease touches no entry of what was never delivered, and the reverse
CREATE INDEX messages_ready_idx ON queen.messages (log_id, priority, enqueue_order) WHERE state = 'READY';
CREATE INDEX messages_in_flight_idx ON queen.messages (log_id, priority, visible_at) WHERE state = 'IN_FLIGHT';
-- the oldest in flight, for the collector of queues' state
CREATE INDEX messages_in_flight_age_idx ON queen.messages (log_id, priority, enqueued_at) WHERE state = 'IN_FLIGHT';
CREATE INDEX messages_expires_at_idx ON queen.messages (expires_at);
ALTER TABLE queen.messages SET (
	vacuum_truncate = off, toast.vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_cost_delay = 0
);

-- How many messages of a work queue are ready and in flight, by priority and shard: src/state/README.md. An era table (src/server/era_table.README.md):
-- this row says that the counts of a shard exist …
CREATE TABLE queen.queue_priority_shards (
	log_id          bigint      NOT NULL,
	priority        bigint      NOT NULL,
	shard           bigint      NOT NULL,
	created_at      timestamptz NOT NULL,
	PRIMARY KEY (log_id, priority, shard)
);

-- … and this one holds them. Columns that are updated are in no index but era.
CREATE TABLE queen.queue_priority_state_shard (
	log_id          bigint      NOT NULL,   -- the queue's
	priority        bigint      NOT NULL,
	shard           bigint      NOT NULL,   -- the messages'
	era             bigint      NOT NULL,
	changes         bigint      NOT NULL,
	ready_count     bigint      NOT NULL,
	in_flight_count bigint      NOT NULL,
	PRIMARY KEY (log_id, priority, shard, era),
	-- for what SQL writes; the code looks before it writes
	CONSTRAINT queue_priority_state_shard_count_check CHECK (ready_count >= 0 AND in_flight_count >= 0)
);
ALTER TABLE queen.queue_priority_state_shard SET (
	fillfactor = 50, vacuum_truncate = off,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- A dump carries all of it but the counts, which the restore of the messages makes anew: a restored queue goes on where it stood.
SELECT pg_catalog.pg_extension_config_dump('queen.queues', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_partitions', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_starts', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_dropped', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_segments', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_txns', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_groups', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_retired_groups', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_consumers', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_cursors', '');
SELECT pg_catalog.pg_extension_config_dump('queen.dead_letters', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_timers', '');
SELECT pg_catalog.pg_extension_config_dump('queen.log_timer_rules', '');
SELECT pg_catalog.pg_extension_config_dump('queen.messages', '');
SELECT pg_catalog.pg_extension_config_dump('queen.queue_ids', '');
SELECT pg_catalog.pg_extension_config_dump('queen.partition_ids', '');
SELECT pg_catalog.pg_extension_config_dump('queen.group_ids', '');
SELECT pg_catalog.pg_extension_config_dump('queen.dead_ids', '');
SELECT pg_catalog.pg_extension_config_dump('queen.dropped_ids', '');
SELECT pg_catalog.pg_extension_config_dump('queen.message_orders', '');
