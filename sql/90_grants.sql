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
