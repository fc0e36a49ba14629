-- queen: the install script is assembled from sql/NN_topic.sql in the order that the Makefile lists.

-- complain if the script is sourced in psql rather than run by CREATE EXTENSION
\echo Use "CREATE EXTENSION queen" to load this file. \quit

-- A schema that is somebody else's would let them drop or rename what is in it. A superuser's is let through: pg_restore
-- gives the schema back to its owner before it comes to the extension.
DO $$
BEGIN
	IF EXISTS (
		SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
		WHERE n.nspname OPERATOR(pg_catalog.=) 'queen' AND r.rolname OPERATOR(pg_catalog.<>) CURRENT_USER AND NOT r.rolsuper)
	THEN
		RAISE EXCEPTION 'schema "queen" belongs to another role' USING ERRCODE = 'insufficient_privilege',
			HINT = 'Drop it, or give it to the role that creates the extension.';
	END IF;
END
$$;

-- Nothing in this extension is for PUBLIC: rights are given by role, see 90_grants.sql.
REVOKE ALL ON SCHEMA @extschema@ FROM PUBLIC;
