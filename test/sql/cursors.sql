-- The cursor, an era table: however often it changes, a group's position in a partition is one live row, whose era moves
-- at every 16th change.
\getenv inputdir PG_ABS_SRCDIR
\set topic cursors
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE VIEW shown AS SELECT queue, consumer_group, era, changes, era = changes / 16 AS era_fits, committed, lease IS NOT NULL AS leased FROM cursors WHERE queue LIKE 'cursors%' ORDER BY 1, 2, 3;
CREATE PROCEDURE rounds(queue text, n int, commits boolean DEFAULT true) LANGUAGE plpgsql AS $$
DECLARE
	m record;
BEGIN
	FOR i IN 1..n LOOP
		SELECT * INTO STRICT m FROM queen.pop(rounds.queue);
		IF queen.ack(m.lease) <> 1 OR m.msg_offset::text::jsonb <> m.message THEN
			RAISE EXCEPTION 'round %: %', i, m;
		END IF;
		IF commits THEN
			COMMIT;
		END IF;
	END LOOP;
END
$$;

-- Sixty rounds of pop and ack, a transaction each, with VACUUM and ANALYZE between.
SELECT count(queen.push('cursors', to_jsonb(i))) FROM generate_series(0, 199) i;
CALL rounds('cursors', 7);
SELECT * FROM shown;
CALL rounds('cursors', 1);
SELECT * FROM shown;
CALL rounds('cursors', 1);
SELECT * FROM shown;
ANALYZE queen.log_cursors;
CALL rounds('cursors', 21);
SELECT * FROM shown;
VACUUM queen.log_cursors;
CALL rounds('cursors', 20);
VACUUM ANALYZE queen.log_cursors, queen.log_consumers;
CALL rounds('cursors', 10);
SELECT * FROM shown;
VACUUM FULL queen.log_cursors;
CALL rounds('cursors', 10);
REINDEX TABLE queen.log_cursors;
CALL rounds('cursors', 10);
SELECT * FROM shown;
SELECT count(*) FROM queen.log_consumers JOIN cursors USING (partition_id, group_id) WHERE queue = 'cursors';

-- In one transaction, over several eras, with savepoints that roll moves back.
BEGIN;
CALL rounds('cursors', 20, false);
SELECT * FROM shown;
SAVEPOINT s;
CALL rounds('cursors', 20, false);
ROLLBACK TO s;
SELECT * FROM shown;
CALL rounds('cursors', 5, false);
COMMIT;
SELECT * FROM shown;
BEGIN;
CALL rounds('cursors', 30, false);
ROLLBACK;
SELECT * FROM shown;

-- The first contact and many changes in one transaction, then rolled back, then again.
SELECT count(queen.push('cursors birth', to_jsonb(i))) FROM generate_series(0, 99) i;
BEGIN;
CALL rounds('cursors birth', 40, false);
SELECT * FROM shown WHERE queue = 'cursors birth';
ROLLBACK;
SELECT * FROM shown WHERE queue = 'cursors birth';
BEGIN;
SAVEPOINT s;
CALL rounds('cursors birth', 1, false);
ROLLBACK TO s;
CALL rounds('cursors birth', 40, false);
COMMIT;
SELECT * FROM shown WHERE queue = 'cursors birth';

-- Changes of every kind count: pop, extend, partial ack, ack, nack, release, auto_ack.
SELECT count(queen.push('cursors kinds', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT count(*) FROM take('cursors kinds', max_messages => 3);
SELECT changes FROM shown WHERE queue = 'cursors kinds';
SELECT count(queen.extend(lease()));
SELECT queen.ack(lease(), 0), queen.ack(lease(), 0);
SELECT changes FROM shown WHERE queue = 'cursors kinds';
SELECT queen.release(lease());
SELECT count(*) FROM queen.pop('cursors kinds', max_messages => 2, auto_ack => true);
SELECT count(*) FROM take('cursors kinds', max_messages => 3);
SELECT queen.nack(lease(), delay => '0');
SELECT count(*) FROM take('cursors kinds', max_messages => 3);
SELECT queen.ack(lease()), queen.ack(lease());
SELECT era, changes, committed, leased FROM shown WHERE queue = 'cursors kinds';

-- A group's cursor in a partition without messages is not made, nor by pops that find nothing new.
SELECT queen.create_queue('cursors none');
SELECT count(*) FROM queen.pop('cursors none');
SELECT count(*) FROM shown WHERE queue = 'cursors none';
SELECT changes FROM shown WHERE queue = 'cursors birth';
SELECT count(*) FROM queen.pop('cursors birth', 'default', 1, 'no such partition');
SELECT changes FROM shown WHERE queue = 'cursors birth';
