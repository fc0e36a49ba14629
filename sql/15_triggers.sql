-- What a restore, or a superuser, writes into the tables: a server that has used them remembers of them what may no longer
-- hold. The code itself writes without SQL and fires no trigger.

CREATE FUNCTION queen.loaded()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_loaded';
COMMENT ON FUNCTION queen.loaded() IS
'Trigger of the extension''s tables: makes the server forget what it remembers of them when SQL writes them, as pg_restore does.';

-- Not for DELETE and TRUNCATE of segments: offsets go on behind what was there, and so behind all cursors.
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.log_segments FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.log_starts FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.queues FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_partitions FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_groups FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.log_cursors FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();
CREATE TRIGGER loaded BEFORE INSERT OR UPDATE ON queen.messages FOR EACH STATEMENT EXECUTE FUNCTION queen.loaded();

CREATE FUNCTION queen.counted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_counted';
COMMENT ON FUNCTION queen.counted() IS
'Trigger of queen.messages: counts what SQL does to messages of work queues, when the transaction commits. Changes that a replica applies are counted row by row.';

CREATE TRIGGER counted_insert AFTER INSERT ON queen.messages REFERENCING NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_update AFTER UPDATE ON queen.messages REFERENCING OLD TABLE AS was NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_delete AFTER DELETE ON queen.messages REFERENCING OLD TABLE AS was
	FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
CREATE TRIGGER counted_truncate AFTER TRUNCATE ON queen.messages FOR EACH STATEMENT EXECUTE FUNCTION queen.counted();
ALTER TABLE queen.messages ENABLE ALWAYS TRIGGER counted_truncate;
-- where session_replication_role is replica, this one in the place of the three: an apply worker fires none for statements
CREATE TRIGGER counted_row AFTER INSERT OR UPDATE OR DELETE ON queen.messages FOR EACH ROW EXECUTE FUNCTION queen.counted();
ALTER TABLE queen.messages ENABLE REPLICA TRIGGER counted_row;

-- also where session_replication_role keeps other triggers from running
ALTER TABLE queen.log_segments ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_starts ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.queues ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_partitions ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_groups ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.log_cursors ENABLE ALWAYS TRIGGER loaded;
ALTER TABLE queen.messages ENABLE ALWAYS TRIGGER loaded;
