-- Names that lie: whatever a user puts in front of pg_catalog, or into the temporary schema, is not what runs inside our calls.
-- In a database of its own, because casts have no schema.
CREATE DATABASE regress_queen_hostile;
\c regress_queen_hostile
CREATE EXTENSION queen;
CREATE ROLE regress_queen_victim;
CREATE SCHEMA hostile;
GRANT USAGE, CREATE ON SCHEMA hostile TO PUBLIC;

-- Functions, operators, types, tables, casts under the names of those that a body, a view, or a careless C function uses.
-- Each shouts; none is called before they are in the search path.
CREATE FUNCTION hostile.shout() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the hostile schema was called'; END $$;
DO $$
DECLARE
	kind text;
	name text;
BEGIN
	FOREACH kind IN ARRAY ARRAY['text', 'name', 'uuid', 'oid', 'bigint', 'integer', 'boolean', 'jsonb', 'bytea', 'timestamptz', 'interval', 'xid', 'regprocedure', '"char"'] LOOP
		EXECUTE format('CREATE FUNCTION hostile.operand(a %s, b %1$s) RETURNS boolean LANGUAGE sql AS ''SELECT hostile.shout()''', kind);
		FOREACH name IN ARRAY '{=,<>,<,>,<=,>=}'::text[] LOOP
			EXECUTE format('CREATE OPERATOR hostile.%s (FUNCTION = hostile.operand, LEFTARG = %s, RIGHTARG = %2$s)', name, kind);
		END LOOP;
	END LOOP;
	FOREACH name IN ARRAY '{now,current_database,clock_timestamp,transaction_timestamp,gen_random_uuid}'::text[] LOOP
		EXECUTE format('CREATE FUNCTION hostile.%I() RETURNS boolean LANGUAGE sql AS ''SELECT hostile.shout()''', name);
	END LOOP;
	FOREACH name IN ARRAY '{format,quote_ident,pg_has_role,aclexplode,uuid_eq,texteq,jsonb_in,uuid_out,interval_in,pg_describe_object}'::text[] LOOP
		FOREACH kind IN ARRAY '{text,name,oid,uuid,aclitem[]}'::text[] LOOP
			EXECUTE format('CREATE FUNCTION hostile.%I(a %s) RETURNS boolean LANGUAGE sql AS ''SELECT hostile.shout()''', name, kind);
			EXECUTE format('CREATE FUNCTION hostile.%I(a %s, b text) RETURNS boolean LANGUAGE sql AS ''SELECT hostile.shout()''', name, kind);
		END LOOP;
	END LOOP;
	FOREACH name IN ARRAY '{pg_proc,pg_roles,pg_depend,pg_extension,pg_locks,pg_prepared_xacts,pg_class,pg_type,pg_namespace,queues,log_segments,log_groups,dead_letters}'::text[] LOOP
		EXECUTE format('CREATE VIEW hostile.%I AS SELECT hostile.shout() AS oid', name);
		EXECUTE format('CREATE TEMP VIEW %I AS SELECT hostile.shout() AS oid', name);
	END LOOP;
	FOREACH name IN ARRAY '{text,uuid,jsonb,message,regprocedure,regclass,timestamptz}'::text[] LOOP
		EXECUTE format('CREATE DOMAIN hostile.%I AS pg_catalog.int4 CHECK (hostile.shout())', name);
		EXECUTE format('CREATE DOMAIN pg_temp.%I AS pg_catalog.int4 CHECK (hostile.shout())', name);
	END LOOP;
END
$$;
CREATE TYPE hostile.queue_name AS ENUM ('q');
CREATE FUNCTION hostile.cast(hostile.queue_name) RETURNS pg_catalog.text LANGUAGE sql AS 'SELECT hostile.shout()::pg_catalog.text';
CREATE CAST (hostile.queue_name AS pg_catalog.text) WITH FUNCTION hostile.cast(hostile.queue_name) AS IMPLICIT;

-- They are reached, where names are not qualified.
SET search_path = pg_temp, hostile, pg_catalog;
SELECT now();
SELECT 1 WHERE 'a'::pg_catalog.text = 'b'::pg_catalog.text;
SELECT oid FROM pg_proc LIMIT 1;
SELECT count(*) FROM (SELECT 'q'::hostile.queue_name::pg_catalog.text) t;

-- Nothing of that is called from inside; the calls do what they do.
SELECT queen.create_queue('q', options => '{"lease_time": "10 s", "dedup_window": 60}');
SELECT queen.push('q', '1', 'p', '{}') IS NOT NULL AS pushed, queen.push_bytes('q', 'x', 'p') IS NOT NULL AS bytes;
SELECT count(*) FROM queen.push_batch('q', '[2, 3]', 'p');
SELECT queen.subscribe('q', 'g', '2020-01-01 UTC'), queen.subscribe('q', 'late', 'latest');
SELECT msg_offset, attempt, lease AS l FROM queen.pop('q', 'g') \gset
SELECT :msg_offset AS msg_offset, :attempt AS attempt;
SELECT queen.extend(:'l') IS NOT NULL AS extended, queen.nack(:'l', error => 'e', delay => '1 hour');
SELECT partition, consumer_group, reason, blocking_pid FROM queen.pg_stat_queen_blocked;
SELECT queen.seek('q', 'g', 1, 'p'), queen.seek_to_time('q', 'g', '2020-01-01 UTC'), queen.seek_to_end('q', 'late');
SELECT lease AS l FROM queen.pop('q', 'g') \gset
SELECT queen.release(:'l'), queen.pause('q', 'g'), queen.resume('q', 'g');
SELECT lease AS l FROM queen.pop('q', 'g') \gset
SELECT queen.ack(:'l'), queen.ack_all(ARRAY[:'l'::pg_catalog.uuid]);
SELECT msg_offset, payload FROM queen.peek('q', 'p');
SELECT consumer_group, lag FROM queen.list_groups('q');
SELECT partition, lag, state FROM queen.lag('q', 'g');
SELECT queue, partitions, options ->> 'lease_time' FROM queen.list_queues();
SELECT count(*) FROM queen.status() WHERE item OPERATOR(pg_catalog.=) 'version';
SELECT count(*) FROM queen.list_rights() WHERE right_of OPERATOR(pg_catalog.=) 'producer';
SELECT queen.grant_producer('regress_queen_victim'), queen.grant_consumer('regress_queen_victim'), queen.grant_admin('regress_queen_victim');
SELECT queen.revoke_producer('regress_queen_victim'), queen.revoke_consumer('regress_queen_victim'), queen.revoke_admin('regress_queen_victim');
SELECT queen.change_rights('regress_queen_victim', 'admin', true), queen.change_rights('regress_queen_victim', 'admin', false);
SELECT queen.unsubscribe('q', 'g'), queen.purge_queue('q'), queen.drop_queue('q');
CALL queen.maintain();

-- An installation in the same search path; nothing of it depends on the hostile schema.
SET client_min_messages = warning;
DROP EXTENSION queen CASCADE;
DROP SCHEMA queen CASCADE;
CREATE EXTENSION queen;
RESET client_min_messages;
SELECT queen.push('q', '1') IS NOT NULL AS pushed;
RESET search_path;
DISCARD TEMP;
SELECT p.oid::regprocedure, grantee FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE pronamespace = 'queen'::regnamespace AND grantee = 0;
SELECT count(*) AS hostile FROM pg_depend d JOIN pg_depend h ON (h.classid, h.objid) = (d.refclassid, d.refobjid) AND h.refobjid = 'hostile'::regnamespace
JOIN pg_depend m ON (m.classid, m.objid) = (d.classid, d.objid) AND m.deptype = 'e';

\c postgres
DROP DATABASE regress_queen_hostile;
DROP ROLE regress_queen_victim;
