-- Rights: nothing is for PUBLIC; EXECUTE and USAGE on the schema are all that an application needs.
\getenv inputdir PG_ABS_SRCDIR
\set topic rights
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE ROLE regress_queen_nobody;
CREATE ROLE regress_queen_app;
CREATE ROLE regress_queen_watch IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA test_rights TO PUBLIC;
GRANT SELECT, INSERT, DELETE ON taken TO PUBLIC;

-- A role with no rights: of no function, table, view or sequence.
SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'queen'::regnamespace AND has_function_privilege('regress_queen_nobody', oid, 'EXECUTE');
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'v')
	AND has_any_column_privilege('regress_queen_nobody', oid, 'SELECT, INSERT, UPDATE, REFERENCES');
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'v')
	AND has_table_privilege('regress_queen_nobody', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'queen'::regnamespace AND
	CASE WHEN relkind = 'S' THEN has_sequence_privilege('regress_queen_nobody', oid, 'USAGE, SELECT, UPDATE') END;
SELECT has_schema_privilege('regress_queen_nobody', 'queen', 'USAGE, CREATE') AS schema;
SELECT p.oid::regprocedure, grantee::regrole FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner)))
WHERE pronamespace = 'queen'::regnamespace AND grantee <> proowner ORDER BY 1, 2;
SELECT c.oid::regclass, grantee::regrole, privilege_type FROM pg_class c, aclexplode(relacl)
WHERE relnamespace = 'queen'::regnamespace AND grantee <> relowner ORDER BY 1, 2;

SELECT queen.create_queue('rights');
SET ROLE regress_queen_nobody;
SELECT attempts(
	$$SELECT queen.push('rights', '1')$$,
	$$SELECT * FROM queen.list_queues()$$,
	$$SELECT * FROM queen.log_segments$$);
RESET ROLE;

-- The schema alone opens nothing.
GRANT USAGE ON SCHEMA queen TO regress_queen_nobody, regress_queen_app;
SET ROLE regress_queen_nobody;
SELECT attempts(
	$$SELECT queen.create_queue('rights')$$,
	$$SELECT queen.configure('rights', '{}')$$,
	$$SELECT * FROM queen.list_queues()$$,
	$$SELECT * FROM queen.status()$$,
	$$SELECT queen.push('rights', '1')$$,
	$$SELECT queen.push_batch('rights', '[1]')$$,
	$$SELECT queen.push_bytes('rights', 'x')$$,
	$$SELECT * FROM queen.pop('rights')$$,
	$$SELECT * FROM queen.peek('rights')$$,
	$$SELECT queen.ack(gen_random_uuid())$$,
	$$SELECT queen.ack_all('{}')$$,
	$$SELECT queen.nack(gen_random_uuid())$$,
	$$SELECT queen.extend(gen_random_uuid())$$,
	$$SELECT queen.release(gen_random_uuid())$$,
	$$SELECT queen.subscribe('rights', 'g')$$,
	$$SELECT queen.unsubscribe('rights', 'g')$$,
	$$SELECT queen.seek('rights', 'g', 0)$$,
	$$SELECT queen.seek_to_time('rights', 'g', 'now')$$,
	$$SELECT queen.seek_to_end('rights', 'g')$$,
	$$SELECT queen.pause('rights')$$,
	$$SELECT queen.resume('rights')$$,
	$$SELECT * FROM queen.list_groups('rights')$$,
	$$SELECT * FROM queen.lag('rights', 'g')$$,
	$$SELECT * FROM queen.stat_blocked()$$,
	$$SELECT * FROM queen.pg_stat_queen_blocked$$,
	$$SELECT * FROM queen.queues$$,
	$$SELECT * FROM queen.log_partitions$$,
	$$SELECT * FROM queen.log_starts$$,
	$$SELECT * FROM queen.log_segments$$,
	$$SELECT * FROM queen.log_groups$$,
	$$SELECT * FROM queen.log_retired_groups$$,
	$$SELECT * FROM queen.log_consumers$$,
	$$SELECT * FROM queen.log_cursors$$,
	$$SELECT * FROM queen.dead_letters$$,
	$$DELETE FROM queen.log_segments$$,
	$$SELECT nextval('queen.queue_ids')$$,
	$$SELECT last_value FROM queen.partition_ids$$,
	$$CREATE TABLE queen.mine ()$$,
	$$CREATE FUNCTION queen.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'$$);
RESET ROLE;

-- Push, pop, ack with EXECUTE on these three and no right on any table: also the first push to a new queue, the first pop
-- of a group and a commit that writes.
GRANT EXECUTE ON FUNCTION queen.push(text, jsonb, text, jsonb, text, interval, timestamptz),
	queen.pop(text, text, integer, text, integer, interval, boolean, interval), queen.ack(uuid, bigint) TO regress_queen_app;
SET ROLE regress_queen_app;
SELECT count(queen.push('rights new', '{"from": "app"}', 'p'));
SELECT partition, msg_offset, message, attempt FROM take('rights new');
SELECT queen.ack(lease());
SELECT count(*) FROM take('rights new');
SELECT attempts(
	$$SELECT queen.nack(lease())$$,
	$$SELECT * FROM queen.peek('rights new', 'p')$$,
	$$SELECT * FROM queen.dead_letters$$);
RESET ROLE;

-- The role that is current at the commit needs nothing: the push was allowed when it was called.
BEGIN;
SET LOCAL ROLE regress_queen_app;
SELECT count(queen.push('rights newer', '1'));
SET LOCAL ROLE regress_queen_nobody;
COMMIT;
SELECT stored('rights newer');

-- A SECURITY DEFINER function can hold the right.
CREATE FUNCTION outbox(message jsonb) RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$ SELECT queen.push('rights outbox', message) $$;
SET ROLE regress_queen_nobody;
SELECT count(outbox('"through the definer"'));
RESET ROLE;
SELECT stored('rights outbox');

-- pg_monitor watches, and reads no message.
SET ROLE regress_queen_watch;
SELECT count(*) >= 0 AS ok FROM queen.pg_stat_queen_blocked;
SELECT count(*) > 0 AS ok FROM queen.status();
SELECT attempts(
	$$SELECT * FROM queen.peek('rights new', 'p')$$,
	$$SELECT * FROM queen.pop('rights new')$$,
	$$SELECT * FROM queen.dead_letters$$,
	$$SELECT * FROM queen.log_segments$$);
RESET ROLE;

-- Any table of a user named like ours, in front of the search path, changes nothing.
CREATE TABLE queues (name text);
CREATE TABLE log_segments (blob bytea);
SET search_path = test_rights, queen;
SELECT count(push('rights', '1'));
SELECT message FROM pop('rights');
SELECT count(*) FROM queues;

DROP OWNED BY regress_queen_nobody, regress_queen_app, regress_queen_watch;
DROP ROLE regress_queen_nobody, regress_queen_app, regress_queen_watch;
