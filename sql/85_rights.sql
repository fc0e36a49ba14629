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
