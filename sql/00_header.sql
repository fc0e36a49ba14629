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
