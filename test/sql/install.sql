-- Installation: what is made, what belongs to it, what happens when it goes and comes back.
-- In a database of its own, because the extension is dropped here.
CREATE DATABASE regress_queen_install;
\c regress_queen_install
\getenv inputdir PG_ABS_SRCDIR
\set topic install
\set helpers :inputdir /sql/helpers.inc
DROP EXTENSION IF EXISTS queen;
CREATE EXTENSION queen;
\ir :helpers
DROP VIEW cursors;

-- One schema, always the same.
SELECT extname, nspname AS schema, extrelocatable, extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
WHERE extname = 'queen';
SELECT attempts(
	'CREATE EXTENSION queen',
	'ALTER EXTENSION queen SET SCHEMA public',
	'DROP SCHEMA queen',
	'DROP TABLE queen.queues',
	'DROP FUNCTION queen.ack(uuid, bigint)');

-- What belongs to the extension.
CREATE VIEW members AS
SELECT classid, objid AS oid, pg_describe_object(classid, objid, 0) AS what, obj_description(objid, classid::regclass::text) AS comment
FROM pg_depend
WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'queen');

-- Functions, types and views carry a comment.
-- (From PostgreSQL 17 on the row and array types of tables belong to the extension too.)
SELECT what FROM members m WHERE what ~ '^(function|procedure|type|view)' AND coalesce(comment, '') = ''
	AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
		WHERE t.oid = m.oid AND (t.typelem <> 0 OR c.relkind <> 'c'))) ORDER BY 1;
-- Everything of the schema belongs to the extension, and the other way round.
SELECT oid::regclass FROM pg_class WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'v', 'S', 'm', 'p', 'f')
	AND oid NOT IN (SELECT oid FROM members);
SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'queen'::regnamespace AND oid NOT IN (SELECT oid FROM members);

-- A function that is not C has its search_path pinned; C functions have no SET clause (a procedure with one cannot commit).
SELECT p.oid::regprocedure FROM pg_proc p JOIN members m USING (oid) JOIN pg_language l ON l.oid = prolang
WHERE lanname <> 'c' AND NOT EXISTS (SELECT FROM unnest(proconfig) s WHERE s LIKE 'search_path=%');
SELECT p.oid::regprocedure FROM pg_proc p JOIN members m USING (oid) JOIN pg_language l ON l.oid = prolang
WHERE lanname = 'c' AND (proconfig IS NOT NULL OR prosecdef);
-- Nothing runs in a parallel worker, nothing is folded or skipped by the planner, nothing is strict (NULL is an error).
SELECT p.oid::regprocedure FROM pg_proc p JOIN members m USING (oid)
WHERE proparallel <> 'u' OR provolatile <> 'v' OR proisstrict OR proleakproof;

-- No parameter bears a name that must be quoted, and no two functions differ in types only.
SELECT p.oid::regprocedure, a FROM pg_proc p JOIN members m USING (oid), unnest(proargnames) a WHERE quote_ident(a) <> a;
SELECT proname FROM pg_proc JOIN members USING (oid) GROUP BY proname HAVING count(*) > 1;

-- Tables and sequences are dumped with what they hold, but for the counts, which the restore of the messages makes anew.
SELECT what FROM members WHERE what ~ '^(table|sequence)' AND what !~ '^table queen.queue_priority_(shards|state_shard)$' AND oid <> ALL (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'queen');

-- Only the owner of the database's extension may drop it, and objects of users keep it from going.
CREATE VIEW watches AS SELECT queue FROM queen.pg_stat_queen_blocked;
SELECT attempt('DROP EXTENSION queen');
DROP VIEW watches;

-- A session goes on through a drop and a new installation, whichever of them is rolled back.
SELECT count(queen.push('q', '1'));
BEGIN;
DROP EXTENSION queen;
SELECT attempt('SELECT queen.push(''q'', ''1'')');
ROLLBACK;
SELECT count(queen.push('q', '2'));
SELECT stored('q');
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION queen CASCADE;
CREATE EXTENSION queen;
SELECT count(queen.push('q', '3'));
ROLLBACK;
SELECT count(queen.push('q', '4'));
SELECT stored('q');
SELECT message, attempt FROM take('q', max_messages => 10);

BEGIN;
SELECT count(queen.push('q', '5'));
SAVEPOINT s;
SET LOCAL client_min_messages = warning;
DROP EXTENSION queen CASCADE;
ROLLBACK TO s;
COMMIT;
SELECT stored('q');

-- What was pushed goes with the tables when their drop commits in the same transaction.
BEGIN;
SELECT count(queen.push('q', '5'));
SET LOCAL client_min_messages = warning;
DROP EXTENSION queen CASCADE;
COMMIT;
SELECT count(*) FROM pg_class WHERE relnamespace = 'queen'::regnamespace;
SELECT count(*) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace;

-- Made, used and dropped in one transaction; then made and kept.
BEGIN;
SET LOCAL client_min_messages = warning;
CREATE EXTENSION queen;
SELECT count(queen.push('q', '6'));
DROP EXTENSION queen CASCADE;
COMMIT;
-- Made and used in one transaction; empty at first.
BEGIN;
CREATE EXTENSION queen;
SELECT queue FROM queen.list_queues();
SELECT count(queen.push('q', '6'));
COMMIT;
SELECT stored('q');

-- A role that is no superuser cannot make it.
DROP EXTENSION queen CASCADE;
CREATE ROLE regress_queen_installer;
GRANT CREATE ON DATABASE regress_queen_install TO regress_queen_installer;
SET ROLE regress_queen_installer;
CREATE EXTENSION queen;
RESET ROLE;
REVOKE ALL ON DATABASE regress_queen_install FROM regress_queen_installer;
DROP ROLE regress_queen_installer;

-- A drop takes all of it but the schema, which may hold more; it is used again, or made again.
CREATE EXTENSION queen;
CREATE TABLE queen.other ();
DROP EXTENSION queen;
SELECT relname FROM pg_class WHERE relnamespace = 'queen'::regnamespace;
SELECT proname FROM pg_proc WHERE pronamespace = 'queen'::regnamespace;
CREATE EXTENSION queen;
DROP EXTENSION queen;
DROP SCHEMA queen CASCADE;
CREATE EXTENSION queen SCHEMA public;
CREATE EXTENSION queen;
SELECT count(queen.push('q', '7'));
SELECT stored('q');

\c postgres
DROP DATABASE regress_queen_install;
