
-- sql/00_header.sql
-- queen: the install script is assembled from sql/NN_topic.sql in the order that the Makefile lists.

-- complain if the script is sourced in psql rather than run by CREATE EXTENSION
\echo Use "CREATE EXTENSION queen" to load this file. \quit

-- Whoever owns the schema may drop or rename what is in it; whoever may create in it, or has created, can lay functions and
-- operators beside ours that a call takes for them. Superusers can do anything anyway, and pg_restore gives the schema back to
-- its owner before it comes to the extension.
DO $$
DECLARE
	stranger pg_catalog.text;
BEGIN
	IF EXISTS (
		SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
		WHERE n.nspname OPERATOR(pg_catalog.=) 'queen' AND r.rolname OPERATOR(pg_catalog.<>) CURRENT_USER AND NOT r.rolsuper)
	THEN
		RAISE EXCEPTION 'schema "queen" belongs to another role' USING ERRCODE = 'insufficient_privilege',
			HINT = 'Drop it, or give it to the role that creates the extension.';
	END IF;
	SELECT CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END INTO stranger
	FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
	WHERE n.nspname OPERATOR(pg_catalog.=) 'queen' AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid OPERATOR(pg_catalog.=) a.grantee
			AND (r.rolsuper OR r.oid OPERATOR(pg_catalog.=) n.nspowner))
	ORDER BY a.grantee LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'another role may create objects in schema "queen"' USING ERRCODE = 'insufficient_privilege',
			DETAIL = pg_catalog.format('CREATE was granted to %s.', stranger),
			HINT = 'Revoke it, also from default privileges on schemas, and look what is in the schema.';
	END IF;
	SELECT pg_catalog.pg_describe_object(d.classid, d.objid, 0) INTO stranger
	FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) d.refobjid
		JOIN pg_catalog.pg_shdepend s ON s.classid OPERATOR(pg_catalog.=) d.classid AND s.objid OPERATOR(pg_catalog.=) d.objid
			AND s.dbid OPERATOR(pg_catalog.=) (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
			AND s.deptype OPERATOR(pg_catalog.=) 'o' AND s.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_authid'::pg_catalog.regclass
		JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) s.refobjid
	WHERE n.nspname OPERATOR(pg_catalog.=) 'queen' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
		AND r.rolname OPERATOR(pg_catalog.<>) CURRENT_USER AND NOT r.rolsuper
	ORDER BY d.classid, d.objid LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'schema "queen" holds objects of another role' USING ERRCODE = 'insufficient_privilege',
			DETAIL = pg_catalog.format('There is %s.', stranger),
			HINT = 'Drop them, or the schema.';
	END IF;
END
$$;

-- Nothing in this extension is for PUBLIC: rights are given by role, see 85_rights.sql and 90_grants.sql.

-- sql/10_tables.sql
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
	CONSTRAINT messages_expires_at_check CHECK (expires_at > enqueued_at AND isfinite(expires_at)),
	CONSTRAINT messages_state_check CHECK (
		CASE state
			WHEN 'READY' THEN delivery_attempts = 0 AND num_nonnulls(visible_at, delivered_at, receipt, last_error) = 0
			WHEN 'IN_FLIGHT' THEN delivery_attempts > 0 AND num_nulls(visible_at, delivered_at) = 0 AND visible_at >= delivered_at AND isfinite(visible_at)
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
	shard           bigint      NOT NULL,   -- of who changes them
	era             bigint      NOT NULL,
	changes         bigint      NOT NULL,
	ready_count     bigint      NOT NULL,
	in_flight_count bigint      NOT NULL,
	PRIMARY KEY (log_id, priority, shard, era),
	-- for what SQL writes; the code looks before it writes. What is ready is taken in another shard than it came in: of ready_count the sum is not below zero
	CONSTRAINT queue_priority_state_shard_count_check CHECK (in_flight_count >= 0)
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

-- sql/15_triggers.sql
-- What a restore, or a superuser, writes into the tables: a server that has used them remembers of them what may no longer
-- hold. The code itself writes without SQL and fires no trigger.

CREATE FUNCTION queen.loaded()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_loaded';
COMMENT ON FUNCTION queen.loaded() IS
'Trigger of the extension''s tables: makes the server forget what it remembers of them when SQL writes them, as pg_restore does.';

-- Not for DELETE and TRUNCATE of segments: offsets go on behind what was there, and so behind all cursors.
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.log_segments FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.log_starts FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.queues FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_partitions FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_groups FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_cursors FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.messages FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();

CREATE FUNCTION queen.counted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_counted';
COMMENT ON FUNCTION queen.counted() IS
'Trigger of queen.messages: counts what SQL does to messages of work queues, when the transaction commits. Changes that a replica applies are counted row by row.';

CREATE TRIGGER counted_insert AFTER INSERT ON queen.messages REFERENCING NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_update AFTER UPDATE ON queen.messages REFERENCING OLD TABLE AS was NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_delete AFTER DELETE ON queen.messages REFERENCING OLD TABLE AS was
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_truncate AFTER TRUNCATE ON queen.messages FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
ALTER TABLE queen.messages ENABLE ALWAYS TRIGGER counted_truncate;
-- where session_replication_role is replica, this one in the place of the three: an apply worker fires none for statements
CREATE TRIGGER counted_row AFTER INSERT OR UPDATE OR DELETE ON queen.messages FOR EACH ROW EXECUTE FUNCTION queen.counted();
ALTER TABLE queen.messages ENABLE REPLICA TRIGGER counted_row;

-- also where session_replication_role keeps other triggers from running
ALTER TABLE queen.log_segments ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_starts ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.queues ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_partitions ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_groups ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_cursors ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.messages ENABLE ALWAYS TRIGGER loaded;

-- sql/20_types.sql
-- Composite types that functions return. Their column order is part of the interface.

CREATE TYPE queen.message AS (
	queue           text,
	partition       text,
	msg_offset      bigint,
	message_id      uuid,
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	enqueued_at     timestamptz,
	attempt         integer,
	consumer_group  text,
	lease           uuid,
	lease_until     timestamptz
);
COMMENT ON TYPE queen.message IS
'A message of a log queue. message is null when it was pushed as bytes, payload is null when it was pushed as jsonb; msg_offset orders the messages of a partition; attempt counts its deliveries to the group, this one included; lease is what queen.ack, queen.nack, queen.extend and queen.release take, and is null with auto_ack and in queen.peek.';

CREATE TYPE queen.delivery AS (
	queue           text,
	message_id      uuid,
	receipt         uuid,
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	priority        text,
	attempt         integer,
	enqueued_at     timestamptz,
	expires_at      timestamptz,
	visible_until   timestamptz
);
COMMENT ON TYPE queen.delivery IS
'A message of a work queue. receipt, with message_id, is what queen.acknowledge, queen.change_visibility and queen.reject take, until visible_until; message is null and payload is not when it was given as bytes (queen.push_bytes, before it became a dead letter); attempt counts its deliveries, this one included.';

-- sql/30_admin.sql
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

-- sql/35_groups.sql
-- Consumer groups: where they start, where they stand, whether they get anything.

CREATE FUNCTION queen.subscribe(queue text, consumer_group text, start text DEFAULT 'earliest')
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_subscribe';
COMMENT ON FUNCTION queen.subscribe(text, text, text) IS
'Make a consumer group of a log queue that starts at the earliest message that is retained, at the latest (it gets what this call cannot see yet: also pushes that run or are prepared, and those of this transaction), or at a timestamp (the first segment of each partition that was pushed then or since; 22023 when it lies in the future). A group that is there stays as it is and where it is, whatever start says: queen.seek moves it. Creates the queue as a first push does (42704 with queen.auto_create off). Waits for a running subscription of the same name up to queen.flush_timeout (QN002).';

CREATE FUNCTION queen.unsubscribe(queue text, consumer_group text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_unsubscribe';
COMMENT ON FUNCTION queen.unsubscribe(text, text) IS
'Forget a consumer group with its position in all partitions; false when there is none. Its leases are lost (QN001). The next queen.subscribe or queen.pop under that name makes a new group. Waits for a transaction that changes the group''s row. An unknown queue is an error (42704).';

CREATE FUNCTION queen.seek(queue text, consumer_group text, msg_offset bigint, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek';
COMMENT ON FUNCTION queen.seek(text, text, bigint, text) IS
'Make msg_offset the next message that the group gets from a partition (default: from each), forwards or backwards, and answer how many partitions it was set in. An offset that is not retained any more means the first that is; one behind the end, or behind a push that has not ended, means there. Deliveries are counted anew, a retry delay is over, leases are lost (QN001). Waits for transactions that are at the position; works in every isolation level. Unknown queue, group or partition: 42704; msg_offset below 0: 22023.';

CREATE FUNCTION queen.seek_to_time(queue text, consumer_group text, at timestamptz, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek_to_time';
COMMENT ON FUNCTION queen.seek_to_time(text, text, timestamptz, text) IS
'As queen.seek, to the first message of the first segment that was pushed at a time or since (a segment holds messages of one commit and has one time); to the end when there is none.';

CREATE FUNCTION queen.seek_to_end(queue text, consumer_group text, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek_to_end';
COMMENT ON FUNCTION queen.seek_to_end(text, text, text) IS
'As queen.seek, behind the last message: the group gets what this call cannot see yet, also pushes that run or are prepared.';

CREATE FUNCTION queen.pause(queue text, consumer_group text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_pause';
COMMENT ON FUNCTION queen.pause(text, text) IS
'From its commit on queen.pop gives the group (default: any group of the queue) nothing; pushes, acks, extends and running leases go on. False when it was paused before. Queue and group are paused each for itself. Waits for a transaction that changes the same row. Unknown queue or group: 42704.';

CREATE FUNCTION queen.resume(queue text, consumer_group text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_resume';
COMMENT ON FUNCTION queen.resume(text, text) IS
'End what queen.pause of the same arguments began; false when it was not paused. Waits and fails as that does.';

CREATE FUNCTION queen.list_groups(queue text,
	OUT consumer_group text, OUT start_at timestamptz, OUT paused boolean, OUT created_at timestamptz,
	OUT active_at timestamptz, OUT partitions bigint, OUT lag bigint, OUT leased bigint, OUT blocked bigint,
	OUT oldest_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_list_groups';
COMMENT ON FUNCTION queen.list_groups(text) IS
'The consumer groups of a queue, by name. start_at: where it starts in a partition in which it has no position (null: at the beginning); active_at: its last pop, to the minute; partitions: in how many it has a position; lag: offsets behind its positions, of all partitions, leased ones included (an offset that a rolled-back push left empty counts until it is passed); leased, blocked: partitions under a lease, or waiting for a retry delay; oldest_at: when the oldest message that it has not completed was pushed. Read from the tables with one snapshot; an unknown queue is an error (42704).';

CREATE FUNCTION queen.lag(queue text, consumer_group text,
	OUT partition text, OUT committed bigint, OUT end_offset bigint, OUT lag bigint, OUT oldest_at timestamptz,
	OUT state text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_lag';
COMMENT ON FUNCTION queen.lag(text, text) IS
'How a group stands in each partition of a queue, in the order of their births. committed: the last offset that it has completed (-1: none; where it will start when it has no position yet); end_offset: the last one that is committed; lag: the offsets between them (one that a rolled-back push left empty counts until it is passed); oldest_at: when the first message behind committed was pushed; state: idle (nothing there), ready, leased, or blocked (waits for a retry delay). A ready partition may still be deferred, paused, or behind a push that has not ended: see pg_stat_queen_blocked. Read from the tables with one snapshot; unknown queue or group: 42704.';

-- sql/40_push.sql
-- Producing into log queues. A push belongs to the caller's transaction: rolled back, it never was.

CREATE FUNCTION queen.push(queue text, message jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push';
COMMENT ON FUNCTION queen.push(text, jsonb, text, jsonb, text, interval, timestamptz) IS
'Append a message to a partition of a log queue when the transaction commits, and answer its id (UUIDv7). Queue and partition are born with the first push. Messages of a partition are delivered in the order of their commits, those of one transaction in the order of the calls. headers is a JSON object. A message has at most 256 MB with its headers; names have 1 to 255 bytes and no control character. With a dedup_key (1 to 255 bytes) a message is dropped when another with the same key was pushed to the same partition within the queue''s dedup_window, and the answer is that one''s id where it is committed or in the same transaction; when another transaction commits the key between this call and the commit, the message is dropped then and its id names nothing. The queue''s option dedup makes a duplicate an error (23505) at the call or at the commit. With a delay or a deliver_at it is a timer that is named by its id until then (see queen.schedule), and takes no dedup_key (22023). Refused: a read-only transaction or a standby (25006). The commit raises QN002 when it waits longer than queen.flush_timeout for a lock or for a transaction that brings the same key, 42704 when the queue is not there and queen.auto_create is off.';

CREATE FUNCTION queen.push_batch(queue text, messages jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_keys jsonb DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_batch';
COMMENT ON FUNCTION queen.push_batch(text, jsonb, text, jsonb, jsonb) IS
'Push each element of a JSON array as a message, in order, and answer their ids in that order. headers is an object for all of them, or an array with an object or null for each. dedup_keys is an array with a string or null for each message: see queen.push; a duplicate is answered with the original''s id in its place.';

CREATE FUNCTION queen.push_bytes(queue text, payload bytea, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_bytes';
COMMENT ON FUNCTION queen.push_bytes(text, bytea, text, jsonb, text, interval, timestamptz) IS
'As queen.push, for a message of any bytes, up to 256 MB with its headers.';

-- sql/45_timers.sql
-- Timers: messages that are not in the log yet.

CREATE FUNCTION queen.schedule(queue text, timer_key text, message jsonb, deliver_at timestamptz DEFAULT NULL,
	delay interval DEFAULT NULL, partition text DEFAULT 'Default', priority text DEFAULT NULL, ttl interval DEFAULT NULL,
	headers jsonb DEFAULT NULL, mode text DEFAULT 'replace', OUT verdict text, OUT message_id uuid)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_schedule';
COMMENT ON FUNCTION queen.schedule(text, text, jsonb, timestamptz, interval, text, text, interval, jsonb, text) IS
'Push a message later: at deliver_at, or when delay has passed; exactly one of them, and a time that has passed is as good as now. Until then it is a timer of the queue under timer_key. verdict: scheduled; rescheduled, when there was a timer with that key and mode is replace, and everything of it is new, its message_id too; kept, when there was one and mode is keep (message_id is that one''s); too_late, when the message of that one is just being pushed, and nothing was changed. The queue need not exist: it is born as by a push when the timer fires. message_id is what the message will have in the queue: queen.find looks for it. The schedule belongs to the transaction. Waits for another user''s transaction that has the same timer. priority (high, medium or low) and ttl (1 s to 30 days, from the fire on) say that the message goes to a work queue, which is born as one; into one that is there already it goes with priority medium where none is given. A queue of the other kind is an error (42809). 22023: a partition beside priority or ttl, both or neither of deliver_at and delay, a time that is not finite, an unknown mode.';

CREATE FUNCTION queen.cancel(queue text, timer_key text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_cancel';
COMMENT ON FUNCTION queen.cancel(text, text) IS
'Take a timer back. cancelled: its message will never be pushed, once this transaction commits. absent: no timer has that key, because none ever had, it was cancelled, or its message was pushed: absent never means that it was not delivered. too_late: its message is just being pushed. Waits for another user''s transaction that has the same timer.';

CREATE FUNCTION queen.cancel_prefix(queue text, prefix text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_cancel_prefix';
COMMENT ON FUNCTION queen.cancel_prefix(text, text) IS
'Take all timers of the queue back whose keys begin like that, byte by byte (no character is special), and answer how many. Those whose messages are just being pushed are left out.';

CREATE FUNCTION queen.peek_timer(queue text, timer_key text,
	OUT timer_key text, OUT partition text, OUT deliver_at timestamptz, OUT retry_at timestamptz, OUT message_id uuid,
	OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz,
	OUT message jsonb, OUT payload bytea, OUT headers jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'queen_peek_timer';
COMMENT ON FUNCTION queen.peek_timer(text, text) IS
'A timer that is pending, with its message; no row when there is none. retry_at: it could not be pushed (last_error), and is tried again then; attempts: how often that was the message''s own fault, the fifth time makes it a dead letter. Works in a read-only transaction and on a standby.';

CREATE FUNCTION queen.list_timers(queue text, after_key text DEFAULT NULL, max_rows integer DEFAULT 100,
	OUT timer_key text, OUT partition text, OUT deliver_at timestamptz, OUT retry_at timestamptz, OUT message_id uuid,
	OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_timers';
COMMENT ON FUNCTION queen.list_timers(text, text, integer) IS
'The timers of a queue in the order of their keys (by bytes), up to max_rows behind after_key: to page, give the last key seen. Works in a read-only transaction and on a standby. max_rows: 1 to 100000.';

CREATE FUNCTION queen.count_timers(queue text, prefix text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_count_timers';
COMMENT ON FUNCTION queen.count_timers(text, text) IS
'How many timers of the queue are pending (with keys that begin like that): exact, by a scan of an index.';

CREATE FUNCTION queen.next_timer(queue text)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_next_timer';
COMMENT ON FUNCTION queen.next_timer(text) IS
'When the next timer of the queue is due, or the next message of a rule: null when none is pending, a time that has passed when one is overdue.';

CREATE FUNCTION queen.schedule_cron(queue text, timer_key text, cron text, message jsonb, timezone text DEFAULT 'UTC',
	misfire text DEFAULT 'once', partition text DEFAULT 'Default', headers jsonb DEFAULT NULL, OUT verdict text, OUT next_at timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_schedule_cron';
COMMENT ON FUNCTION queen.schedule_cron(text, text, text, jsonb, text, text, text, jsonb) IS
'Push a message again and again, by a rule: five fields (minute, hour, day of month, month, day of week: *, values, ranges, steps, lists, jan to dec, sun to sat), @hourly, @daily, @weekly, @monthly, @yearly, or @every with an interval such as 90s or 1h30m. next_at is when it is due next. Fields are what the clocks of timezone show: what falls into an hour that they skip is due once, right behind it; in an hour that they repeat, it is due the first time; rules of every hour follow elapsed time. @every counts from this call. Each message is pushed once, with a header queen_cron: timer_key, at (when it was due) and next (when the next one is). verdict: scheduled; rescheduled, when the queue had a rule with that key, which this one replaces: if cron and timezone are the same, what is due stays due, and @every keeps its step; too_late, when a message of that one is just being pushed, and nothing was changed: try again. misfire: when the server was down or the fire was off, one message is pushed for all that was missed (once), or none where more than a minute has passed (skip); either way the next one lies in the future. A message that cannot be pushed becomes a dead letter as any timer''s, and the rule goes on. Keys of rules and of timers are apart. The rule belongs to the transaction, and goes with the queue. Waits for another user''s transaction that has the same rule. 22023: a rule that cannot be read or never matches, an unknown time zone or misfire.';

CREATE FUNCTION queen.unschedule_cron(queue text, timer_key text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_unschedule_cron';
COMMENT ON FUNCTION queen.unschedule_cron(text, text) IS
'End a rule of queen.schedule_cron. cancelled: nothing more will be pushed by it, once this transaction commits. absent: the queue has no rule with that key. too_late: a message of it is just being pushed, and nothing was changed: the rule goes on, try again. Waits for another user''s transaction that has the same rule.';

CREATE FUNCTION queen.list_crons(queue text, after_key text DEFAULT NULL, max_rows integer DEFAULT 100,
	OUT timer_key text, OUT cron text, OUT timezone text, OUT misfire text, OUT partition text, OUT next_at timestamptz, OUT last_at timestamptz,
	OUT message_id uuid, OUT retry_at timestamptz, OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz,
	OUT message jsonb, OUT headers jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_crons';
COMMENT ON FUNCTION queen.list_crons(text, text, integer) IS
'The rules of a queue in the order of their keys (by bytes), up to max_rows behind after_key. next_at: when it is due next; message_id, retry_at, attempts and last_error are of that message, as queen.peek_timer has them of a timer. last_at: when the one that was pushed last was due. Works in a read-only transaction and on a standby. max_rows: 1 to 100000.';

CREATE FUNCTION queen.fire_timers(max_rows integer DEFAULT 1000)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_fire_timers';
COMMENT ON FUNCTION queen.fire_timers(integer) IS
'Push the messages of timers that are due, of all tenants, up to max_rows, and answer how many: by hand, for servers whose workers do not run (queen.status() tells). May run beside them, and beside itself. What fails is put off as they put it off. From the call to the end of its transaction it holds the timers that it has pushed, and whoever wants one of them is told too_late: let it be a transaction of its own. 25000: behind a push of the same transaction.';

CREATE FUNCTION queen.stat_timers(OUT tenant uuid, OUT queue text, OUT fired bigint, OUT failed bigint, OUT dead bigint, OUT dropped bigint,
	OUT late_p50 double precision, OUT late_p99 double precision, OUT late_max double precision, OUT since timestamptz, OUT evicted bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_stat_timers';
COMMENT ON FUNCTION queen.stat_timers() IS
'What pg_stat_queen_timers shows of shared memory, of all tenants of this database: no row when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_timers AS
	SELECT coalesce(t.tenant, s.tenant) AS tenant, coalesce(t.queue, s.queue) AS queue, coalesce(t.pending, 0) AS pending,
		coalesce(t.due, 0) AS due, coalesce(t.backing_off, 0) AS backing_off, t.next_due, t.oldest_due,
		s.fired, s.failed, s.dead, s.dropped, s.late_p50, s.late_p99, s.late_max, s.since, s.evicted
	FROM (
		SELECT l.tenant, l.queue, pg_catalog.count(*) AS pending,
			pg_catalog.count(*) FILTER (WHERE l.visible_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()) AS due,
			pg_catalog.count(*) FILTER (WHERE l.retry_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()) AS backing_off,
			pg_catalog.min(l.visible_at) AS next_due,
			pg_catalog.min(l.deliver_at) FILTER (WHERE l.visible_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()) AS oldest_due
		FROM queen.log_timers l GROUP BY l.tenant, l.queue) t
	FULL JOIN queen.stat_timers() s ON s.tenant OPERATOR(pg_catalog.=) t.tenant AND s.queue OPERATOR(pg_catalog.=) t.queue;
COMMENT ON VIEW queen.pg_stat_queen_timers IS
'One row for each queue of any tenant that has timers, or had some that ended since the server started. What is pending is exact: the table is read for it when asked. What became of timers is counted in shared memory, for the 500 queues or so that fired last, and null when queen is not preloaded or a queue has no place.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.pending IS 'Timers that have not been fired or cancelled, those that are due included.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.due IS 'Of these, those whose time has come.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.backing_off IS 'Of these, those that could not be pushed and are tried again later (queen.list_timers: last_error).';
COMMENT ON COLUMN queen.pg_stat_queen_timers.next_due IS 'When the next one is fired; a time that has passed when it is overdue.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.oldest_due IS 'When the oldest was due of those that wait for nothing but the fire; null when none does.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.fired IS 'Timers whose messages were pushed, and committed.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.failed IS 'Attempts that came to nothing: the timer was put off, or became a dead letter.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.dead IS 'Timers that became dead letters.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.dropped IS 'Timers and messages of rules that were overdue by more than queen.overdue_limit, and messages that a rule with misfire skip missed.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_p50 IS 'How long after deliver_at half of those fired were committed at most, in milliseconds; too large by a quarter at most.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_p99 IS 'The same of 99 in 100.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_max IS 'The same of all: exact.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.since IS 'When counting began for this queue: with its first timer that ended since the server started, pg_stat_queen_timers was reset, or the queue had given up its place.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.evicted IS 'How many times a queue, of any database, had to give up its place for another.';

CREATE FUNCTION queen.reset_timer_stats()
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reset_timer_stats';
COMMENT ON FUNCTION queen.reset_timer_stats() IS 'Begin to count anew what pg_stat_queen_timers shows of this database from shared memory.';

-- sql/47_workqueue.sql
-- Work queues: a row a message, priorities, time to live, receipts.

CREATE FUNCTION queen.enqueue(queue text, message jsonb, priority text DEFAULT 'medium', ttl interval DEFAULT NULL,
	headers jsonb DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_enqueue';
COMMENT ON FUNCTION queen.enqueue(text, jsonb, text, interval, jsonb, interval, timestamptz) IS
'Put a message into a work queue when the transaction commits, and answer its id (UUIDv7). The queue is born with the first one (42704 with queen.auto_create off). priority: high, medium or low; the first of the highest priority is delivered first. ttl (default: the queue''s message_ttl): 1 s to 30 days, then it is not delivered any more, and deleted. headers is a JSON object. A message has at most 256 MB with its headers. With delay, or deliver_at (one of them), it is a timer until then, under its id as timer_key, and needs no queue before; ttl counts from then on. Waits for who drops or purges the queue, or brings it to life, up to queen.flush_timeout (QN002). A log queue is an error (42809).';

CREATE FUNCTION queen.enqueue_batch(queue text, messages jsonb, priority text DEFAULT 'medium', ttl interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_enqueue_batch';
COMMENT ON FUNCTION queen.enqueue_batch(text, jsonb, text, interval) IS
'queen.enqueue each element of a JSON array, in order, and answer their ids in that order.';

CREATE FUNCTION queen.dequeue(queue text, max_messages integer DEFAULT 1, visibility interval DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF queen.delivery LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_dequeue';
COMMENT ON FUNCTION queen.dequeue(text, integer, interval, interval) IS
'Take up to max_messages messages from a work queue: the highest priority first; within one those whose visibility is over first, then those that were never delivered, first in, first out. Each is hidden from others for visibility (default: the queue''s visibility_timeout), and comes again afterwards unless it was acknowledged. Never waits for a lock, and passes by what other transactions are at. Never delivers an expired message. What has been delivered max_delivery_attempts times goes to the dead letters, up to 100 messages a call, or max_messages if that is more. A message whose deliveries have rolled back, and one in its last delivery, is the only one of its call: one that has others already passes it by, ten calls at most; a call that buries a message because its deliveries have rolled back gives nothing. An unknown queue gives nothing. max_messages: 1 to 10000. visibility: 1 s to 6 h. With wait (up to 1 day) a call that finds nothing sleeps until something may be there or the time is over, inside of the caller''s statement: its snapshot is held meanwhile. READ COMMITTED only (25000). A log queue is an error (42809).';

CREATE FUNCTION queen.acknowledge(message_id uuid, receipt uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_acknowledge';
COMMENT ON FUNCTION queen.acknowledge(uuid, uuid) IS
'Delete a message that was delivered under a receipt: true. False, and nothing happens, when it was acknowledged before, or its visibility is over, whoever has it now, or there is no such message or receipt. Waits for a transaction that is at the message (a heartbeat''s queen.change_visibility, say). Works in every isolation level: acknowledging in the transaction that did the work is exactly-once in effect.';

CREATE FUNCTION queen.acknowledge_batch(message_ids uuid[], receipts uuid[])
RETURNS SETOF boolean LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_acknowledge_batch';
COMMENT ON FUNCTION queen.acknowledge_batch(uuid[], uuid[]) IS
'queen.acknowledge for several messages, each with the receipt in the same place; answers in that order. Takes them in one order, so that two calls cannot wait for each other. 22023: the arrays have different lengths.';

CREATE FUNCTION queen.change_visibility(message_id uuid, receipt uuid, visibility interval)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_change_visibility';
COMMENT ON FUNCTION queen.change_visibility(uuid, uuid, interval) IS
'Hide a message that was delivered under a receipt until visibility from now, longer or shorter than it was, and answer when that is; with 0 it can be taken again at once. Null, and nothing happens, where queen.acknowledge would answer false. visibility: 0 to 6 h. Waits as that does.';

CREATE FUNCTION queen.reject(message_id uuid, receipt uuid, error text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reject';
COMMENT ON FUNCTION queen.reject(uuid, uuid, text) IS
'Say that a message that was delivered under a receipt failed: it comes again after the queue''s retry_delay, or goes to the dead letters when that was its last delivery (max_delivery_attempts). error is kept for those. True; false, and nothing happens, where queen.acknowledge would answer that. Waits as that does.';

CREATE FUNCTION queen.count_messages(queue text, OUT priority text, OUT ready bigint, OUT in_flight bigint, OUT exhausted bigint,
	OUT expired bigint, OUT oldest_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'queen_count_messages';
COMMENT ON FUNCTION queen.count_messages(text) IS
'How many messages of a work queue can be taken (ready), are under a receipt or wait for a retry (in_flight), wait to be moved to the dead letters (exhausted) or to be deleted (expired), and when the oldest of the ready ones was enqueued: a row for each priority. Exact, by a scan of all of them. Works in a read-only transaction and on a standby. An unknown queue is an error (42704).';

-- sql/50_pop.sql
-- Consuming from log queues.

CREATE FUNCTION queen.pop(queue text, consumer_group text DEFAULT 'default', max_messages integer DEFAULT 1,
	partition text DEFAULT NULL, max_partitions integer DEFAULT 1, lease_time interval DEFAULT NULL,
	auto_ack boolean DEFAULT false, wait interval DEFAULT '0')
RETURNS SETOF queen.message LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_pop';
COMMENT ON FUNCTION queen.pop(text, text, integer, text, integer, interval, boolean, interval) IS
'Take up to max_messages messages for a consumer group, from one partition (any with work, or the one named) or up to max_partitions, in (partition, msg_offset) order. Each partition taken is leased for lease_time (default: the queue''s) and delivers nothing else to the group until its lease is acknowledged, given back or over; with auto_ack the messages are completed by this transaction''s commit instead. Never waits for a lock. A message that was delivered before and not completed comes alone. An unknown group of a known queue is subscribed at the earliest message; an unknown queue or partition gives nothing. max_messages: 1 to 100000. max_partitions: 1 to 1000. lease_time: 1 s to 12 h, not with auto_ack (22023). With wait (up to 1 day) a pop that finds nothing sleeps until something may be there or the time is over, inside of the caller''s statement: its snapshot, and all that its transaction holds, is held meanwhile, which keeps vacuum from cleaning up and is why queen.wait() is there. READ COMMITTED only (25000). A corrupt segment raises XX001 in the call that begins at it.';

CREATE FUNCTION queen.peek(queue text, partition text DEFAULT 'Default', from_offset bigint DEFAULT NULL,
	max_messages integer DEFAULT 10)
RETURNS SETOF queen.message LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_peek';
COMMENT ON FUNCTION queen.peek(text, text, bigint, integer) IS
'Look at the messages of one partition (''Default'' unless named) from an offset (default: the first) without taking them; works in a read-only transaction and on a standby. Stops where a push that has not ended may still add a message. max_messages: 1 to 100000. An unknown queue is an error (42704), an unknown partition is empty.';

-- sql/55_wait.sql
-- Waiting for messages.

CREATE PROCEDURE queen.wait(queue text, consumer_group text DEFAULT 'default', timeout interval DEFAULT '30s',
	partition text DEFAULT NULL, INOUT ready boolean DEFAULT NULL)
LANGUAGE C AS 'MODULE_PATHNAME', 'queen_wait';
COMMENT ON PROCEDURE queen.wait(text, text, interval, text, boolean) IS
'Sleep until a pop of the group may find something, in any partition or in the one named, and answer ready: true, or false when timeout is over (0 to 1 day; 0 looks once). Others may be quicker: pop, and wait again when that gives nothing. Commits before it sleeps, so that it holds no snapshot, no transaction id and no lock meanwhile, and holds up no vacuum; the session is taken, so poolers need one connection for each that waits. Refused in a transaction block, a function, or a pipeline behind other statements (2D000), in a read-only transaction or on a standby (25006), outside READ COMMITTED (25000). An unknown group of a known queue is subscribed as by queen.pop(); an unknown queue or partition is waited for. Pushes, leases that end, nacks, delays, seeks and resumes wake it, as many waiters as there are partitions with work. Without the library in shared_preload_libraries nobody is woken: it looks every 100 ms, and ever more rarely up to queen.wait_poll_interval.';

CREATE FUNCTION queen.notify_channel(queue text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_notify_channel';
COMMENT ON FUNCTION queen.notify_channel(text) IS
'The channel on which a queue with the option notify tells those who LISTEN that there may be work: queen_ and 16 hexadecimal digits, so it needs no quotes. The same for the tenant and name in all databases and servers of one version of PostgreSQL, whether or not the queue is there. A background process notifies, soon after the commits and once for many of them; never the push itself, which would make commits wait for each other. Needs the library in shared_preload_libraries. For who waits through a pooler: one connection listens for many consumers.';

-- sql/60_ack.sql
-- Ending a lease. All of them act in the caller's transaction and work in every isolation level: acknowledging in the
-- transaction that did the work is exactly-once in effect.

CREATE FUNCTION queen.ack(lease uuid, up_to bigint DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_ack';
COMMENT ON FUNCTION queen.ack(uuid, bigint) IS
'Complete the messages under a lease, all of them or those up to an offset (the lease then stays for the rest), and answer how many that were; what retention has deleted of them counts as completed. Accepted after the lease''s end as long as nobody else has taken the messages. 0 when this lease was completed before. Error QN001 when the lease is lost: another consumer has, or had, the messages; 22023 for what never was a lease, or an up_to behind its messages. While the lease runs, waits for a transaction that is at it (a heartbeat''s queen.extend, say).';

CREATE FUNCTION queen.ack_all(leases uuid[])
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_ack_all';
COMMENT ON FUNCTION queen.ack_all(uuid[]) IS
'queen.ack for several leases, all or none; answers the number of messages completed. Takes them in one order, so that two calls cannot wait for each other.';

CREATE FUNCTION queen.nack(lease uuid, msg_offset bigint DEFAULT NULL, delay interval DEFAULT NULL, error text DEFAULT NULL,
	dead boolean DEFAULT false)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_nack';
COMMENT ON FUNCTION queen.nack(uuid, bigint, interval, text, boolean) IS
'Say that a message failed (default: the first under the lease): completes what lies below it (so call it in the transaction that did that work), releases what lies behind it, and ends the lease. Answers retry: the partition is blocked for the group until the delay (default: the queue''s retry_delay) is over and the message comes again; or dead: it went to queen.dead_letters, because max_deliveries is reached or dead was asked for, and the partition goes on; or gone: retention has deleted it, so what is gone is completed and the partition goes on. delay: 0 to 365 days. Error QN001 when the lease is lost or completed; 22023 when no message at msg_offset is under it. Waits as queen.ack does.';

CREATE FUNCTION queen.extend(lease uuid, lease_time interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_extend';
COMMENT ON FUNCTION queen.extend(uuid, interval) IS
'Make a lease end lease_time (default: the queue''s) from now, never sooner than it did, and answer when that is. lease_time: 1 s to 12 h. Error QN001 when it is lost or completed. Waits as queen.ack does.';

CREATE FUNCTION queen.release(lease uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_release';
COMMENT ON FUNCTION queen.release(uuid) IS
'Give a lease back: its messages can be taken again at once and this delivery does not count. False when the lease was completed before. Error QN001 when it is lost. Waits as queen.ack does.';

-- sql/65_dead.sql
-- Messages that were given up, and where a message is.

CREATE FUNCTION queen.list_dead(queue text, consumer_group text DEFAULT NULL, after_id bigint DEFAULT NULL,
	max_rows integer DEFAULT 100,
	OUT dead_id bigint, OUT partition text, OUT consumer_group text, OUT msg_offset bigint, OUT message_id uuid,
	OUT message jsonb, OUT payload bytea, OUT headers jsonb, OUT attempts integer, OUT error text,
	OUT enqueued_at timestamptz, OUT dead_at timestamptz, OUT timer_key text, OUT priority text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_dead';
COMMENT ON FUNCTION queen.list_dead(text, text, bigint, integer) IS
'The dead letters of a queue (of a group), in the order of dead_id, up to max_rows behind after_id: to page, give the last dead_id seen. Ids are drawn as messages die and seen when their transactions commit, so one may still appear below the last. attempts: deliveries to the group; error: what the last nack said; enqueued_at: when it was pushed. A timer that could not be pushed has a timer_key, no group and no offset; enqueued_at is when it was scheduled, and its queue need not exist: the letter is there for whatever queue has the name. One of a work queue has a priority, and no partition, group and offset. Works in a read-only transaction and on a standby. max_rows: 1 to 100000. An unknown queue is an error (42704) unless timers have left letters to it.';

CREATE FUNCTION queen.purge_dead(queue text, consumer_group text DEFAULT NULL, dead_ids bigint[] DEFAULT NULL,
	before timestamptz DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_purge_dead';
COMMENT ON FUNCTION queen.purge_dead(text, text, bigint[], timestamptz) IS
'Delete dead letters of a queue: those of the group, with these ids, that died before a time; what is null does not matter, so purge_dead(queue) deletes all. Answers how many that were. All of it is one transaction, however much it is: the option dead_retention deletes in steps. Waits for a transaction that redrives or purges the same letters; what that one took does not count. An unknown queue is an error (42704) unless timers have left letters to it.';

CREATE FUNCTION queen.redrive(queue text, consumer_group text DEFAULT NULL, dead_ids bigint[] DEFAULT NULL,
	max_rows integer DEFAULT 1000)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_redrive';
COMMENT ON FUNCTION queen.redrive(text, text, bigint[], integer) IS
'Push dead letters of a queue (of the group, with these ids) to their partitions, or into the work queue, again and delete them, in one transaction: each goes back once or not at all. Takes up to max_rows, the lowest dead_id first, and answers how many; 0 when none is left. The messages become new ones behind what is there, in the order in which they were pushed first: new message_id, offset, enqueued_at and deliveries, no dedup_key. Every group of the queue gets them, not only the one that gave them up: the header queen_redriven says what each was ({"message_id", "msg_offset", "consumer_groups"}, of a timer {"message_id", "timer_key"}), beside the headers that it had. Those of a work queue keep their priority, and live for its message_ttl. Letters of one message that several groups gave up become one message when the same call takes them. Waits for a transaction that redrives or purges the same letters, and holds off who drops, purges or configures the queue until this one ends. max_rows: 1 to 100000. A queue that does not exist is made as by a push, or an enqueue when one of the timers has a priority, when timers have left letters to it and queen.auto_create is on; otherwise it is an error (42704).';

CREATE FUNCTION queen.find(queue text, message_id uuid, partition text DEFAULT NULL,
	OUT place text, OUT partition text, OUT msg_offset bigint, OUT consumer_group text, OUT dead_id bigint,
	OUT enqueued_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'queen_find';
COMMENT ON FUNCTION queen.find(text, uuid, text) IS
'Where a message of a queue (in a partition) is: place log, with its partition and msg_offset, consumed or not; place dead, once for each group that gave it up, whether the log still has it or not, or without a group for a timer that could not be pushed; place work, in a work queue, delivered or not; place timer, until its message is pushed (a look at all timers of the queue, but for what was pushed with a delay); no row: nowhere, because it is not committed, its push was rolled back or dropped as a duplicate, or retention deleted it. Ids bear the time of their push: each partition is read from 10 minutes before that on (a clock that was set back by more hides a message), and as nothing tells when a push was committed, up to its end. So a recent message is found at once, an old id that is nowhere costs as much as reading all that was pushed since: name the partition where it is known. Works in a read-only transaction and on a standby. An unknown queue is an error (42704) unless timers have left dead letters to it, what is no message id too (22023); an unknown partition holds nothing. A corrupt segment on the way raises XX001.';

-- sql/70_views.sql
-- What a DBA watches. Never payloads.

CREATE FUNCTION queen.stat_blocked(OUT tenant uuid, OUT queue text, OUT partition text, OUT consumer_group text,
	OUT msg_offset bigint, OUT reason text, OUT attempts integer, OUT blocked_until timestamptz, OUT error text,
	OUT blocking_xid xid)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_stat_blocked';
COMMENT ON FUNCTION queen.stat_blocked() IS 'Rows of pg_stat_queen_blocked, of all tenants, read from the tables with the latest snapshot.';

CREATE FUNCTION queen.stat_aborted(OUT places bigint, OUT used bigint, OUT evicted bigint, OUT lost bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_aborted';
COMMENT ON FUNCTION queen.stat_aborted() IS 'The row of pg_stat_queen_aborted; null when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_aborted AS
	SELECT s.* FROM queen.stat_aborted() s WHERE s.places IS NOT NULL;
COMMENT ON VIEW queen.pg_stat_queen_aborted IS
'The memory of deliveries whose transaction rolled back, shared by all databases; no row when queen is not preloaded. Exact, from shared memory.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.places IS 'Partitions of groups, and messages of work queues, for which there is room.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.used IS 'Those that have a count.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.evicted IS 'Counts that were given up for others which are as high at least: their messages are delivered more often than max_deliveries.';
COMMENT ON COLUMN queen.pg_stat_queen_aborted.lost IS 'Deliveries that rolled back and were not counted: places were in use by higher counts, or a transaction had delivered more than 1,000 messages of work queues.';

CREATE VIEW queen.pg_stat_queen_blocked AS
	SELECT b.*, l.pid AS blocking_pid, p.gid AS blocking_gid
	FROM queen.stat_blocked() b
	LEFT JOIN pg_catalog.pg_locks l ON l.locktype OPERATOR(pg_catalog.=) 'transactionid'
		AND l.transactionid OPERATOR(pg_catalog.=) b.blocking_xid AND l.granted AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
	LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) b.blocking_xid;
COMMENT ON VIEW queen.pg_stat_queen_blocked IS
'Partitions that deliver nothing to a group now although they have a message: the head was nacked and waits (reason retry delay), or the next message is in a transaction that has not ended (behind a push: blocking_pid is its backend, blocking_gid its name if it is prepared). Exact: read from the tables when asked.';

-- sql/71_events.sql
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

-- sql/72_state.sql
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

-- sql/73_storage.sql
-- What the tables take up, and who keeps dead rows from being removed.

CREATE FUNCTION queen.stat_storage(relation oid, OUT heap_bytes bigint, OUT toast_bytes bigint, OUT index_bytes bigint, OUT row_bytes bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_stat_storage';
COMMENT ON FUNCTION queen.stat_storage(oid) IS
'Sizes of a table of queen, for pg_stat_queen_storage, and what a row takes in its page by the statistics of ANALYZE. Never waits for a lock: null is what somebody has locked in ACCESS EXCLUSIVE mode, or waits to.';

CREATE VIEW queen.pg_stat_queen_storage AS
	WITH member AS (
		SELECT c.oid, c.relname, pg_catalog.pg_stat_get_live_tuples(c.oid) AS live_rows, pg_catalog.pg_stat_get_dead_tuples(c.oid) AS dead_rows
		FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
			JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.objid
		WHERE e.extname OPERATOR(pg_catalog.=) 'queen' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
			AND c.relkind OPERATOR(pg_catalog.=) 'r'),
	horizon AS (
		SELECT h.* FROM (
			-- VACUUM itself holds nobody up
			SELECT CASE WHEN a.backend_type OPERATOR(pg_catalog.=) 'walsender' THEN 'standby' ELSE 'backend' END AS kind, a.pid,
				a.application_name AS name, a.xact_start AS since,
				greatest(pg_catalog.age(a.backend_xmin), pg_catalog.age(a.backend_xid)) AS age
			FROM pg_catalog.pg_stat_activity a
			WHERE a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
				AND (a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() OR a.backend_type OPERATOR(pg_catalog.=) 'walsender')
				AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum v WHERE v.pid OPERATOR(pg_catalog.=) a.pid)
			UNION ALL
			SELECT 'prepared transaction', NULL, p.gid, p.prepared, pg_catalog.age(p.transaction)
			FROM pg_catalog.pg_prepared_xacts p WHERE p.database OPERATOR(pg_catalog.=) pg_catalog.current_database()
			UNION ALL
			SELECT 'replication slot', s.active_pid, s.slot_name, NULL, pg_catalog.age(s.xmin) FROM pg_catalog.pg_replication_slots s) h
		WHERE h.age IS NOT NULL ORDER BY h.age DESC LIMIT 1)
	SELECT m.relname AS table_name, m.live_rows, m.dead_rows, s.heap_bytes,
		CASE WHEN s.heap_bytes IS NULL THEN NULL WHEN m.dead_rows OPERATOR(pg_catalog.>) 0
			THEN least(m.dead_rows OPERATOR(pg_catalog.*) s.row_bytes, (s.heap_bytes OPERATOR(pg_catalog.*) (m.dead_rows::pg_catalog.float8
				OPERATOR(pg_catalog./) (m.live_rows OPERATOR(pg_catalog.+) m.dead_rows)::pg_catalog.float8))::pg_catalog.int8) ELSE 0 END AS dead_bytes,
		s.toast_bytes, s.index_bytes, s.heap_bytes OPERATOR(pg_catalog.+) s.toast_bytes OPERATOR(pg_catalog.+) s.index_bytes AS total_bytes,
		greatest(pg_catalog.pg_stat_get_last_vacuum_time(m.oid), pg_catalog.pg_stat_get_last_autovacuum_time(m.oid)) AS last_vacuum,
		h.kind AS horizon_kind, h.pid AS horizon_pid, h.name AS horizon_name, h.since AS horizon_since, h.age::pg_catalog.int8 AS horizon_age
	FROM member m CROSS JOIN LATERAL queen.stat_storage(m.oid) s LEFT JOIN horizon h ON true;
COMMENT ON VIEW queen.pg_stat_queen_storage IS
'One row for each table of queen in this database: what it takes up, and in horizon_… who of all holds back the most that dead rows are removed, the same in each row. Looks when it is asked, at the sizes of files and at PostgreSQL''s statistics; reads no table, and waits for none: sizes are null of what somebody has locked in ACCESS EXCLUSIVE mode, or waits to (VACUUM FULL, LOCK TABLE, of an index REINDEX).';
COMMENT ON COLUMN queen.pg_stat_queen_storage.live_rows IS 'Estimate, of PostgreSQL''s statistics.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.dead_rows IS 'Estimate, of PostgreSQL''s statistics: rows that were deleted or changed, and not removed yet. 0 when the server has lost its statistics in a crash.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.heap_bytes IS 'Exact: the rows themselves, without what is stored out of line. Null while the table is locked, as is all that follows of bytes.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.dead_bytes IS 'Estimate: dead_rows times what a row takes on average when the table was last analyzed (before that: what the planner expects of its columns), and no larger a part of heap_bytes than dead rows are of all. Of heap_bytes only, not of what is stored out of line. Later rows fill that space; files do not shrink, and what they hold beside rows is free space.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.toast_bytes IS 'Exact: what is stored out of line (large messages, segments), and the maps of free space. Null while a part of it is locked.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.index_bytes IS 'Exact: all indexes of the table. Null while one of them is locked.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.total_bytes IS 'Exact: all of it. Null while a part of it is locked.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.last_vacuum IS 'By autovacuum or by hand; null: never, as far as the statistics know.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.horizon_kind IS 'Who holds the oldest snapshot that this database has to respect: backend, prepared transaction, replication slot, standby (its feedback); null when nobody but this query has one.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.horizon_pid IS 'Of a backend, or of who serves a standby or a slot.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.horizon_name IS 'The backend''s or standby''s application_name, the prepared transaction''s name, the slot''s name.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.horizon_since IS 'When its transaction began, or was prepared; null of a slot.';
COMMENT ON COLUMN queen.pg_stat_queen_storage.horizon_age IS 'How many transactions have begun since: what any of them has deleted is kept. Exact.';

-- sql/75_hotlist.sql
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

-- sql/77_workers.sql
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

-- sql/80_maintain.sql
-- Dropping, purging, and cleaning up.

CREATE FUNCTION queen.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_drop_queue';
COMMENT ON FUNCTION queen.drop_queue(text) IS
'Drop a queue with its messages, consumer groups, leases, timers, rules of recurring ones and dead letters, and with what this transaction has pushed to it; whether any of that was there: timers may be without a queue. Gone with the commit; queen.maintain() frees the space in steps. Waits for transactions that have begun to commit pushes to it, a prepared one included, and up to queen.flush_timeout (QN002) for those that have enqueued into it; pushes that commit afterwards make a new queue (or fail, with queen.auto_create off). Until the commit such pushes wait, at most their queen.flush_timeout.';

CREATE FUNCTION queen.purge_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_purge_queue';
COMMENT ON FUNCTION queen.purge_queue(text) IS
'Empty a queue: all its messages go, and what this transaction has pushed to it; leases are lost (QN001), so are receipts, and offsets begin at 0 again. Options, consumer groups, timers and dead letters stay. Whether the queue was there. Waits and makes others wait as queen.drop_queue does.';

CREATE PROCEDURE queen.maintain()
LANGUAGE C AS 'MODULE_PATHNAME', 'queen_maintain';
COMMENT ON PROCEDURE queen.maintain() IS
'Clean up in all queues of all tenants, in bounded steps with a commit after each: messages that the options retention and completed_retention give up (whole segments of up to 1,000 messages), dedup_keys beyond their window, dead letters beyond dead_retention, expired messages of work queues, partitions that have been empty for queen.partition_expiry, and what is left of dropped and purged queues and of groups that were unsubscribed. Nothing that a group has not completed is deleted unless retention or group_expiry says so. Cannot run in a transaction block (2D000). May run beside anything, itself included.';

-- sql/82_verify.sql
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

-- sql/85_rights.sql
-- Who may call what: one table of all routines, and what grants by it. Run with the caller's rights; search_path is pinned,
-- and a role's name is quoted wherever it gets into a statement.

CREATE FUNCTION queen.list_rights(OUT routine text, OUT right_of text)
RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 50 SET search_path = pg_catalog, pg_temp AS $$
	VALUES
		('push', 'producer'),
		('push_batch', 'producer'),
		('push_bytes', 'producer'),
		('enqueue', 'producer'),
		('enqueue_batch', 'producer'),
		('schedule', 'producer'),
		('cancel', 'producer'),
		('cancel_prefix', 'producer'),
		('schedule_cron', 'producer'),
		('unschedule_cron', 'producer'),
		('pop', 'consumer'),
		('wait', 'consumer'),
		('notify_channel', 'consumer'),
		('peek', 'consumer'),
		('ack', 'consumer'),
		('ack_all', 'consumer'),
		('nack', 'consumer'),
		('extend', 'consumer'),
		('release', 'consumer'),
		('dequeue', 'consumer'),
		('acknowledge', 'consumer'),
		('acknowledge_batch', 'consumer'),
		('change_visibility', 'consumer'),
		('reject', 'consumer'),
		('count_messages', 'consumer'),
		('subscribe', 'consumer'),
		('lag', 'consumer'),
		('list_dead', 'admin'),
		('purge_dead', 'admin'),
		('redrive', 'admin'),
		('find', 'admin'),
		('create_queue', 'admin'),
		('configure', 'admin'),
		('drop_queue', 'admin'),
		('purge_queue', 'admin'),
		('pause', 'admin'),
		('resume', 'admin'),
		('unsubscribe', 'admin'),
		('seek', 'admin'),
		('seek_to_time', 'admin'),
		('seek_to_end', 'admin'),
		('list_queues', 'admin'),
		('list_groups', 'admin'),
		('list_rights', 'admin'),
		('status', 'admin'),
		('maintain', 'admin'),
		('peek_timer', 'admin'),
		('list_timers', 'admin'),
		('count_timers', 'admin'),
		('next_timer', 'admin'),
		('list_crons', 'admin'),
		('hotlist_candidates', 'admin'),
		('hotlist_reseed', 'admin'),
		('stat_blocked', 'owner'),
		('stat_aborted', 'owner'),
		('stat_hotlist', 'owner'),
		('stat_hotlist_pool', 'owner'),
		('reset_hotlist_stats', 'owner'),
		('fire_timers', 'owner'),
		('stat_timers', 'owner'),
		('reset_timer_stats', 'owner'),
		('stat_workers', 'owner'),
		('verify', 'owner'),
		('verify_segments', 'owner'),
		('verify_mend', 'owner'),
		('verify_mend_rule', 'owner'),
		('loaded', 'owner'),
		('counted', 'owner'),
		('rollup_rebuild', 'owner'),
		('rollup_drift', 'owner'),
		('rollup_mend', 'owner'),
		('rollup_mend_row', 'owner'),
		('stat_rollup', 'owner'),
		('stat_storage', 'owner'),
		('stat_events', 'owner'),
		('stat_events_memory', 'owner'),
		('reset_state_stats', 'owner'),
		('collect', 'owner'),
		('stat_queues', 'owner'),
		('stat_groups', 'owner'),
		('stat_collector', 'owner'),
		('reset_collector_stats', 'owner'),
		('change_rights', 'owner'),
		('grant_producer', 'owner'),
		('grant_consumer', 'owner'),
		('grant_admin', 'owner'),
		('revoke_producer', 'owner'),
		('revoke_consumer', 'owner'),
		('revoke_admin', 'owner')
$$;
COMMENT ON FUNCTION queen.list_rights() IS
'Every routine of the extension and whom it is for: producer and consumer (queen.grant_producer, queen.grant_consumer), admin (queen.grant_admin, which gives the other two as well), or owner: it sees all tenants, or gives rights, and is granted by hand if at all.';

CREATE FUNCTION queen.change_rights(role text, right_of text, give boolean)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	members regprocedure[];
	changed text;
	mine boolean;
BEGIN
	IF role IS NULL OR right_of IS NULL OR give IS NULL THEN
		RAISE EXCEPTION '% must not be null', CASE WHEN role IS NULL THEN 'role' WHEN right_of IS NULL THEN 'right_of' ELSE 'give' END
			USING ERRCODE = 'null_value_not_allowed';
	ELSIF right_of NOT IN ('producer', 'consumer', 'admin') THEN
		RAISE EXCEPTION 'there is no right of "%"', right_of USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Rights are those of producer, consumer, and admin.';
	END IF;
	-- GRANT by anybody else would do nothing, with a warning
	SELECT pg_has_role(e.extowner, 'USAGE') INTO mine FROM pg_extension e WHERE e.extname = 'queen';
	IF NOT mine THEN
		RAISE EXCEPTION 'permission denied to change rights on extension queen' USING ERRCODE = 'insufficient_privilege',
			HINT = 'Only the owner of the extension, or a superuser, gives and takes them.';
	END IF;
	-- "public" in quotes is PUBLIC to GRANT all the same; no role can bear that name, so the look refuses it
	IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role) THEN
		RAISE EXCEPTION 'role "%" does not exist', role USING ERRCODE = 'undefined_object',
			HINT = CASE WHEN role = 'public' THEN 'Nothing of queen is for PUBLIC: name roles.'
				ELSE 'The name is taken as it is: no quotes, upper and lower case differ.' END;
	END IF;

	SELECT array_agg(d.objid::regprocedure) INTO members
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE e.extname = 'queen' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass;
	SELECT string_agg(p.oid::regprocedure::text, ', ') INTO changed
	FROM pg_proc p JOIN queen.list_rights() l ON l.routine = p.proname
	WHERE p.oid = ANY (members) AND (l.right_of = change_rights.right_of OR change_rights.right_of = 'admin' AND l.right_of <> 'owner');

	IF give THEN
		EXECUTE format('GRANT USAGE ON SCHEMA queen TO %I', role);
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', changed, role);
		IF right_of <> 'producer' THEN
			EXECUTE format('GRANT USAGE ON TYPE queen.message, queen.delivery TO %I', role);
		END IF;
		RETURN;
	END IF;
	EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM %I', changed, role);
	IF right_of <> 'producer' THEN
		EXECUTE format('REVOKE USAGE ON TYPE queen.message, queen.delivery FROM %I', role);
	END IF;
	IF NOT EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) a
		WHERE p.oid = ANY (members) AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role))
	THEN
		EXECUTE format('REVOKE USAGE ON SCHEMA queen FROM %I', role);
	END IF;
END
$$;
COMMENT ON FUNCTION queen.change_rights(text, text, boolean) IS
'What queen.grant_producer() and its like do: give a role the right of producer, consumer or admin, or take it.';

CREATE FUNCTION queen.grant_producer(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'producer', true) $$;
COMMENT ON FUNCTION queen.grant_producer(text) IS
'Let a role push and enqueue: USAGE on the schema and EXECUTE on what queen.list_rights() names for producers, no right on any table. The name is taken as it is, unquoted. Only for the extension''s owner or a superuser (42501); an unknown role is an error (42704).';

CREATE FUNCTION queen.grant_consumer(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'consumer', true) $$;
COMMENT ON FUNCTION queen.grant_consumer(text) IS
'Let a role take messages, in any consumer group of its tenant, as queen.grant_producer lets it push; and make functions that return queen.message or queen.delivery.';

CREATE FUNCTION queen.grant_admin(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'admin', true) $$;
COMMENT ON FUNCTION queen.grant_admin(text) IS
'Let a role do all that a tenant can do, producing and consuming included, and call queen.maintain(). Nothing that shows other tenants. To be said again after an update of the extension that brings functions.';

CREATE FUNCTION queen.revoke_producer(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'producer', false) $$;
COMMENT ON FUNCTION queen.revoke_producer(text) IS
'Take from a role what queen.grant_producer gives, also when queen.grant_admin gave it; USAGE on the schema too, when no routine is left to it. Not what it has as a member of other roles.';

CREATE FUNCTION queen.revoke_consumer(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'consumer', false) $$;
COMMENT ON FUNCTION queen.revoke_consumer(text) IS
'Take from a role what queen.grant_consumer gives, as queen.revoke_producer does.';

CREATE FUNCTION queen.revoke_admin(role text) RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp AS $$ SELECT queen.change_rights(role, 'admin', false) $$;
COMMENT ON FUNCTION queen.revoke_admin(text) IS
'Take from a role what queen.grant_admin gives: also what makes it a producer and a consumer.';

-- sql/90_grants.sql
-- Rights. Beside what PUBLIC has by PostgreSQL's own defaults, ALTER DEFAULT PRIVILEGES of the role that creates the extension
-- may have given a new object to anybody: all of it is taken away here, for all members at once.
-- Not of the row types of tables: pg_dump knows of no rights on them, and warns.
DO $$
DECLARE
	given record;
BEGIN
	FOR given IN
		WITH member AS (
			SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
			WHERE e.extname OPERATOR(pg_catalog.=) 'queen' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
				AND d.deptype OPERATOR(pg_catalog.=) 'e'),
		object AS (
			SELECT 'SCHEMA' AS kind, n.oid::pg_catalog.regnamespace::pg_catalog.text AS name, n.nspowner AS owner, n.nspacl AS acl
			FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'queen'
			UNION ALL
			SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::pg_catalog.text, p.proowner, coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
			FROM pg_catalog.pg_proc p JOIN member m ON m.objid OPERATOR(pg_catalog.=) p.oid AND m.classid OPERATOR(pg_catalog.=) p.tableoid
			UNION ALL
			SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
				c.oid::pg_catalog.regclass::pg_catalog.text, c.relowner, c.relacl
			FROM pg_catalog.pg_class c JOIN member m ON m.objid OPERATOR(pg_catalog.=) c.oid AND m.classid OPERATOR(pg_catalog.=) c.tableoid
			UNION ALL
			SELECT 'TYPE', t.oid::pg_catalog.regtype::pg_catalog.text, t.typowner, coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))
			FROM pg_catalog.pg_type t JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.typrelid AND c.relkind OPERATOR(pg_catalog.=) 'c'
				JOIN member m ON m.objid OPERATOR(pg_catalog.=) t.oid AND m.classid OPERATOR(pg_catalog.=) t.tableoid)
		SELECT DISTINCT o.kind, o.name, a.grantee FROM object o, pg_catalog.aclexplode(o.acl) a
		WHERE a.grantee OPERATOR(pg_catalog.<>) o.owner
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s CASCADE', given.kind, given.name,
			CASE WHEN given.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE given.grantee::pg_catalog.regrole::pg_catalog.text END);
	END LOOP;
END
$$;

GRANT USAGE ON SCHEMA queen TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_blocked() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_collector() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_groups() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_hotlist() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_hotlist_pool() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_aborted() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_queues() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_rollup() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_storage(oid) TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_events() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_events_memory() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_timers() TO pg_monitor;
GRANT EXECUTE ON FUNCTION queen.stat_workers() TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_aborted TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_blocked TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_events TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_collector TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_groups TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_hotlist TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_hotlist_pool TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_queues TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_rollup TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_storage TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_timers TO pg_monitor;
GRANT SELECT ON queen.pg_stat_queen_workers TO pg_monitor;
