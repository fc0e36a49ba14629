-- What a superuser does to the tables under us: dropped and made again in a transaction that has pushed, columns and indexes
-- added, a schema that is somebody else's. In a database of its own, because the extension is dropped here.
CREATE DATABASE regress_queen_altered;
\c regress_queen_altered
CREATE EXTENSION queen;

-- A push before DROP and CREATE EXTENSION in one transaction went with the old one; a rolled-back DROP takes nothing along.
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT count(queen.push('void', '1'));
DROP EXTENSION queen CASCADE;
CREATE EXTENSION queen;
SELECT count(queen.push('new', '2'));
COMMIT;
SELECT queue, partitions FROM queen.list_queues();
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT count(queen.push('new', '3'));
SAVEPOINT a;
DROP EXTENSION queen CASCADE;
CREATE EXTENSION queen;
SELECT count(queen.push('void', '4'));
ROLLBACK TO a;
SELECT count(queen.push('new', '5'));
COMMIT;
SELECT queue, partitions FROM queen.list_queues();
SELECT message FROM queen.peek('new');

-- What a DBA adds to the tables: columns stay null, indexes are kept up and not used.
ALTER TABLE queen.queues ADD COLUMN a text, ADD COLUMN b int;
ALTER TABLE queen.queues DROP COLUMN a;
ALTER TABLE queen.log_partitions ADD COLUMN a text;
ALTER TABLE queen.log_segments ADD COLUMN a text;
ALTER TABLE queen.log_groups ADD COLUMN a text;
ALTER TABLE queen.log_retired_groups ADD COLUMN a text;
ALTER TABLE queen.log_consumers ADD COLUMN a text;
ALTER TABLE queen.log_cursors ADD COLUMN a text;
ALTER TABLE queen.dead_letters ADD COLUMN a text;
ALTER TABLE queen.log_timers ADD COLUMN a text;
ALTER TABLE queen.log_timer_rules ADD COLUMN a text;
CREATE INDEX dba_1 ON queen.log_segments (partition_id, base_offset DESC);
CREATE INDEX dba_2 ON queen.log_segments (partition_id, base_offset) WHERE length(blob) > 1000000;
CREATE INDEX dba_3 ON queen.log_segments USING brin (partition_id, base_offset);
CREATE UNIQUE INDEX dba_4 ON queen.log_segments (partition_id, base_offset) WHERE base_offset < 0;
CREATE INDEX dba_5 ON queen.log_cursors (partition_id, group_id, era) WHERE era < 0;
CREATE INDEX dba_7 ON queen.log_timers (visible_at, message_id) WHERE attempts > 0;
CREATE INDEX dba_8 ON queen.log_timers (tenant, queue, visible_at, message_id DESC);
CREATE UNIQUE INDEX dba_9 ON queen.log_timer_rules (tenant, queue, timer_key) WHERE misfire = 'skip';
CREATE INDEX dba_10 ON queen.log_timer_rules (tenant, queue, timer_key DESC);
CREATE INDEX dba_6 ON queen.queues (tenant, name COLLATE "POSIX");
REINDEX INDEX CONCURRENTLY queen.log_segments_pkey;
REINDEX INDEX CONCURRENTLY queen.log_cursors_pkey;
REINDEX INDEX CONCURRENTLY queen.queues_tenant_name_key;
REINDEX INDEX CONCURRENTLY queen.log_timers_visible_at_idx;
SELECT s.verdict, queen.cancel('added', 'k') FROM queen.schedule('added', 'k', '1', delay => '1 hour') s;
SELECT s.verdict, queen.fire_timers() FROM queen.schedule('timer', 'k', '0', delay => '0') s;
-- An index that is gone is named.
BEGIN;
DROP INDEX queen.log_timers_visible_at_idx;
SELECT queen.cancel('timer', 'k');
ROLLBACK;
BEGIN;
ALTER TABLE queen.log_timer_rules DROP CONSTRAINT log_timer_rules_pkey;
SELECT queen.unschedule_cron('timer', 'k');
ROLLBACK;
SELECT s.verdict, queen.unschedule_cron('timer', 'k') FROM queen.schedule_cron('timer', 'k', '@hourly', '1') s;
SELECT queen.drop_queue('timer');
SELECT count(queen.push('new', to_jsonb(n))) FROM generate_series(6, 7) n;
SELECT count(queen.push('added', '1', 'p'));
SELECT message, queen.nack(lease, dead => true) FROM queen.pop('added');
SELECT count(*) FROM queen.pop('new', max_messages => 10, auto_ack => true);
SELECT queen.configure('added', '{"max_deliveries": 3}') IS NOT NULL AS configured;
SELECT queen.pause('added'), queen.pause('added', 'default'), queen.seek('added', 'default', 0), queen.unsubscribe('added', 'default');
SELECT (SELECT count(*) FROM queen.queues WHERE b IS NOT NULL) AS queues, (SELECT count(*) FROM queen.log_cursors WHERE a IS NOT NULL) AS cursors,
	(SELECT count(*) FROM queen.dead_letters WHERE a IS NULL) AS dead_letters;
ALTER TABLE queen.log_segments ADD COLUMN c int NOT NULL DEFAULT 7;
SELECT count(queen.push('new', '8'));
ALTER TABLE queen.log_segments DROP COLUMN c;
SELECT count(queen.push('new', '9'));
ALTER TABLE queen.log_segments RENAME COLUMN blob TO payload;
SELECT message FROM queen.pop('new', auto_ack => true);
ALTER TABLE queen.log_segments DROP COLUMN payload;
SELECT count(queen.push('new', '10'));

-- A schema that is somebody else's, that somebody else may create in, or has created in: what is there could be taken for
-- ours, or be called instead of it. A superuser's schema and own leftovers are no danger.
SET client_min_messages = warning;
DROP EXTENSION queen CASCADE;
DROP SCHEMA queen CASCADE;
CREATE ROLE regress_schema_owner;
CREATE ROLE regress_schema_super SUPERUSER;
CREATE SCHEMA queen AUTHORIZATION regress_schema_owner;
\set SHOW_CONTEXT never
CREATE EXTENSION queen;
ALTER SCHEMA queen OWNER TO regress_schema_super;
GRANT CREATE ON SCHEMA queen TO regress_schema_owner;
CREATE EXTENSION queen;
SET ROLE regress_schema_owner;
CREATE FUNCTION queen.push(queue text, message text) RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()';
RESET ROLE;
REVOKE CREATE ON SCHEMA queen FROM regress_schema_owner;
CREATE EXTENSION queen;
DROP FUNCTION queen.push;
GRANT CREATE ON SCHEMA queen TO regress_schema_owner;
SET ROLE regress_schema_owner;
CREATE TYPE queen.text AS (t pg_catalog.text);
RESET ROLE;
GRANT CREATE ON SCHEMA queen TO PUBLIC;
CREATE EXTENSION queen;
REVOKE CREATE ON SCHEMA queen FROM PUBLIC, regress_schema_owner;
CREATE EXTENSION queen;
DROP TYPE queen.text;
-- What is there under a name of ours is not adopted, whoever made it.
CREATE SEQUENCE queen.queue_ids;
CREATE EXTENSION queen;
DROP SEQUENCE queen.queue_ids;
CREATE VIEW queen.pg_stat_queen_blocked AS SELECT 1 AS one;
CREATE EXTENSION queen;
DROP VIEW queen.pg_stat_queen_blocked;
CREATE FUNCTION queen.grant_admin(role text) RETURNS void LANGUAGE sql AS '';
CREATE EXTENSION queen;
DROP FUNCTION queen.grant_admin;
CREATE TABLE queen.other ();
GRANT USAGE ON SCHEMA queen TO regress_schema_owner;
CREATE EXTENSION queen;
\set SHOW_CONTEXT errors
SELECT has_schema_privilege('regress_schema_owner', 'queen', 'USAGE');
DROP EXTENSION queen;
DROP SCHEMA queen CASCADE;

-- Default privileges of whoever creates the extension are not for its tables.
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO regress_schema_owner;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO regress_schema_owner WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES GRANT ALL ON ROUTINES TO regress_schema_owner;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO regress_schema_owner;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO regress_schema_owner;
CREATE EXTENSION queen;
SELECT nspname, a FROM pg_namespace, aclexplode(nspacl) a WHERE nspname = 'queen' AND a.grantee NOT IN (nspowner, 'pg_monitor'::regrole);
SELECT c.oid::regclass, a FROM pg_class c, aclexplode(relacl) a WHERE relnamespace = 'queen'::regnamespace AND a.grantee NOT IN (relowner, 'pg_monitor'::regrole);
SELECT p.oid::regprocedure, a FROM pg_proc p, aclexplode(proacl) a WHERE pronamespace = 'queen'::regnamespace AND a.grantee NOT IN (proowner, 'pg_monitor'::regrole);
SELECT t.oid::regtype, a FROM pg_type t, aclexplode(typacl) a WHERE t.oid = 'queen.message'::regtype AND a.grantee <> typowner;
-- Even so a dump is made without a warning of rights that it cannot carry: none is recorded on a table's row type.
SELECT t.oid::regtype FROM pg_init_privs i JOIN pg_type t ON t.oid = objoid AND classoid = 'pg_type'::regclass WHERE i.objoid NOT IN ('queen.message'::regtype, 'queen.delivery'::regtype);
DROP OWNED BY regress_schema_owner;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM PUBLIC;
DROP ROLE regress_schema_owner, regress_schema_super;

\c postgres
DROP DATABASE regress_queen_altered;
