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
