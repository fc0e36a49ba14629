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
-- Whatever anybody but the owner has on anything of the schema; 0 is PUBLIC. Row types of tables have no rights of their own.
CREATE VIEW rights AS
WITH object AS (
	SELECT 'schema' AS kind, nspname::text AS name, nspowner AS owner, coalesce(nspacl, acldefault('n', nspowner)) AS acl
	FROM pg_namespace WHERE nspname = 'queen'
	UNION ALL
	SELECT 'routine', oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace
	UNION ALL
	SELECT CASE relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, oid::regclass::text, relowner,
		coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)) FROM pg_class WHERE relnamespace = 'queen'::regnamespace
	UNION ALL
	SELECT 'column', format('%s.%I', attrelid::regclass, attname), relowner, attacl FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
	WHERE relnamespace = 'queen'::regnamespace AND attacl IS NOT NULL
	UNION ALL
	SELECT 'type', t.oid::regtype::text, typowner, coalesce(typacl, acldefault('T', typowner)) FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid
	WHERE typnamespace = 'queen'::regnamespace AND typelem = 0 AND coalesce(c.relkind, 'c') = 'c')
SELECT kind, name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee, privilege_type
FROM object, aclexplode(acl) WHERE grantee <> owner;
SELECT * FROM rights ORDER BY kind, name, grantee;

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
	$$SELECT * FROM queen.list_dead('rights')$$,
	$$SELECT queen.purge_dead('rights')$$,
	$$SELECT queen.redrive('rights')$$,
	$$SELECT * FROM queen.find('rights', gen_random_uuid())$$,
	$$SELECT queen.schedule('rights', 'k', '1', delay => '1 s')$$,
	$$SELECT queen.cancel('rights', 'k')$$,
	$$SELECT queen.cancel_prefix('rights', 'k')$$,
	$$SELECT queen.peek_timer('rights', 'k')$$,
	$$SELECT queen.list_timers('rights')$$,
	$$SELECT queen.count_timers('rights')$$,
	$$SELECT queen.next_timer('rights')$$,
	$$SELECT queen.fire_timers()$$,
	$$SELECT * FROM queen.log_timers$$,
	$$SELECT * FROM queen.verify()$$,
	$$SELECT * FROM queen.list_groups('rights')$$,
	$$SELECT * FROM queen.lag('rights', 'g')$$,
	$$SELECT queen.drop_queue('rights')$$,
	$$SELECT queen.purge_queue('rights')$$,
	$$CALL queen.maintain()$$,
	$$SELECT * FROM queen.list_rights()$$,
	$$SELECT queen.grant_admin('regress_queen_nobody')$$,
	$$SELECT queen.revoke_admin('regress_queen_app')$$,
	$$SELECT queen.change_rights('regress_queen_nobody', 'admin', true)$$,
	$$SELECT * FROM queen.stat_blocked()$$,
	$$SELECT * FROM queen.pg_stat_queen_blocked$$,
	$$SELECT * FROM queen.queues$$,
	$$SELECT * FROM queen.log_partitions$$,
	$$SELECT * FROM queen.log_starts$$,
	$$SELECT * FROM queen.log_dropped$$,
	$$SELECT * FROM queen.log_txns$$,
	$$SELECT * FROM queen.log_segments$$,
	$$SELECT * FROM queen.log_groups$$,
	$$SELECT * FROM queen.log_retired_groups$$,
	$$SELECT * FROM queen.log_consumers$$,
	$$SELECT * FROM queen.log_cursors$$,
	$$SELECT * FROM queen.dead_letters$$,
	$$DELETE FROM queen.log_segments$$,
	$$SELECT nextval('queen.queue_ids')$$,
	$$SELECT last_value FROM queen.partition_ids$$,
	$$CREATE TEMP TABLE mine (m queen.message)$$,
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
SELECT count(*) >= 0 AS ok FROM queen.pg_stat_queen_workers;
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

RESET search_path;
SET search_path = test_rights;
DROP OWNED BY regress_queen_nobody, regress_queen_app;

-- queen.list_rights() is what the grants go by: it names every routine once, and nothing else.
SELECT coalesce(p.oid::regprocedure::text, routine) AS in_one_only FROM pg_proc p FULL JOIN queen.list_rights() ON routine = proname
WHERE (p.oid IS NULL OR pronamespace = 'queen'::regnamespace) AND (p.oid IS NULL OR routine IS NULL);
SELECT routine FROM queen.list_rights() GROUP BY routine HAVING count(*) > 1;
SELECT right_of, string_agg(routine, ' ' ORDER BY routine COLLATE "C") FROM queen.list_rights() GROUP BY right_of ORDER BY 1;

-- Each right gives what is said there, and takes it again; a name that must be quoted is.
CREATE ROLE regress_queen_producer;
CREATE ROLE regress_queen_consumer;
CREATE ROLE "regress_queen Ad""min, x";
\set admin '"regress_queen Ad""min, x"'
GRANT USAGE ON SCHEMA test_rights TO regress_queen_producer, regress_queen_consumer, :admin;
CREATE VIEW given AS SELECT grantee, kind, count(*), string_agg(DISTINCT privilege_type, ' ') AS privileges,
	CASE WHEN count(*) < 12 THEN string_agg(name, ' ' ORDER BY name COLLATE "C") END AS names
FROM rights WHERE grantee LIKE '%regress_queen%' GROUP BY grantee, kind;
SELECT queen.grant_producer('regress_queen_producer'), queen.grant_consumer('regress_queen_consumer'), queen.grant_admin('regress_queen Ad"min, x');
SELECT * FROM given ORDER BY grantee COLLATE "C", kind;
SELECT routine, right_of FROM pg_proc p JOIN queen.list_rights() ON routine = proname WHERE pronamespace = 'queen'::regnamespace
	AND has_function_privilege('regress_queen Ad"min, x', p.oid, 'EXECUTE') <> (right_of <> 'owner');
-- Twice is once.
SELECT queen.grant_producer('regress_queen_producer');
SELECT * FROM given WHERE grantee = 'regress_queen_producer' ORDER BY kind;

-- A producer makes queues by its pushes, and takes nothing; a consumer takes, and pushes nothing; both change no queue.
SET ROLE regress_queen_producer;
SELECT count(queen.push('rights given', to_jsonb(n), 'p')) FROM generate_series(1, 3) n;
SELECT count(*) FROM queen.push_batch('rights given', '[4, 5]', 'p');
SELECT attempts(
	$$SELECT queen.pop('rights given')$$,
	$$SELECT queen.peek('rights given', 'p')$$,
	$$SELECT queen.create_queue('rights other')$$,
	$$SELECT queen.drop_queue('rights given')$$,
	$$SELECT queen.configure('rights given', '{"retention": 0}')$$,
	$$SELECT queen.grant_consumer('regress_queen_producer')$$,
	$$GRANT EXECUTE ON FUNCTION queen.push_batch TO regress_queen_nobody$$,
	$$SELECT count(*) FROM queen.dead_letters$$);
SET ROLE regress_queen_consumer;
SELECT queen.subscribe('rights given', 'g');
SELECT message FROM take('rights given', 'g', max_messages => 2);
SELECT queen.extend(lease()) > now() AS extended, queen.release(lease());
SELECT message FROM take('rights given', 'g');
SELECT queen.nack(lease(), dead => true), queen.ack_all('{}');
SELECT message FROM take('rights given', 'g');
SELECT queen.ack(lease());
SELECT lag, state FROM queen.lag('rights given', 'g');
CREATE FUNCTION pg_temp.wrapped() RETURNS SETOF queen.message LANGUAGE sql AS $$ SELECT * FROM queen.peek('rights given', 'p') $$;
SELECT count(*) FROM pg_temp.wrapped();
SELECT attempts(
	$$SELECT queen.push('rights given', '1')$$,
	$$SELECT queen.push_batch('rights given', '[1]')$$,
	$$SELECT queen.push_bytes('rights given', 'x')$$,
	$$SELECT queen.seek('rights given', 'g', 0)$$,
	$$SELECT queen.unsubscribe('rights given', 'g')$$,
	$$SELECT queen.pause('rights given')$$,
	$$SELECT queen.purge_queue('rights given')$$,
	$$SELECT * FROM queen.list_queues()$$,
	$$CALL queen.maintain()$$);
SET ROLE :admin;
SELECT queen.seek('rights given', 'g', 0, 'p'), queen.pause('rights given'), queen.resume('rights given'), queen.unsubscribe('rights given', 'g');
SELECT queen.purge_queue('rights given'), queen.configure('rights given', '{}') IS NOT NULL AS configured, queen.drop_queue('rights given');
SELECT count(*) > 0 AS ok FROM queen.status();
CALL queen.maintain();
SELECT attempts(
	$$SELECT * FROM queen.stat_blocked()$$,
	$$SELECT * FROM queen.pg_stat_queen_blocked$$,
	$$SELECT * FROM queen.dead_letters$$,
	$$SELECT queen.grant_admin('regress_queen_nobody')$$);
RESET ROLE;
DROP FUNCTION pg_temp.wrapped();

-- Whoever may call the function but does not own the extension learns that GRANT would do nothing.
GRANT EXECUTE ON FUNCTION queen.grant_producer, queen.change_rights TO :admin;
SET ROLE :admin;
SELECT attempt($$SELECT queen.grant_producer('regress_queen_nobody')$$);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION queen.grant_producer, queen.change_rights FROM :admin;

-- The schema stays as long as a routine does; an admin less the producer's right; a role that has both.
SELECT queen.grant_consumer('regress_queen_producer'), queen.revoke_producer('regress_queen_producer');
SELECT * FROM given WHERE grantee = 'regress_queen_producer' ORDER BY kind;
SELECT queen.revoke_consumer('regress_queen_producer'), queen.revoke_consumer('regress_queen_consumer'), queen.revoke_producer('regress_queen Ad"min, x');
SELECT * FROM given ORDER BY grantee COLLATE "C", kind;
SELECT queen.revoke_admin('regress_queen Ad"min, x'), queen.revoke_admin('regress_queen_consumer');
SELECT * FROM given;
-- What somebody else made in the schema is not given away, whatever it is called.
CREATE FUNCTION queen.push(secret int) RETURNS int LANGUAGE sql AS 'SELECT 1';
REVOKE ALL ON FUNCTION queen.push(int) FROM PUBLIC;
SELECT queen.grant_admin('regress_queen_producer');
SELECT has_function_privilege('regress_queen_producer', 'queen.push(int)', 'EXECUTE');
SELECT queen.revoke_admin('regress_queen_producer');
DROP FUNCTION queen.push(int);
SELECT * FROM rights ORDER BY kind, name, grantee;

DROP OWNED BY regress_queen_watch, regress_queen_producer, regress_queen_consumer, :admin;
DROP ROLE regress_queen_nobody, regress_queen_app, regress_queen_watch, regress_queen_producer, regress_queen_consumer, :admin;
