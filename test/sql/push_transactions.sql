-- A push belongs to its transaction: rolled back, also to a savepoint, it never was; committed, it is there.
\getenv inputdir PG_ABS_SRCDIR
\set topic push_transactions
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE FUNCTION add(message text, queue text DEFAULT 'txn', partition text DEFAULT 'Default') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM queen.push(add.queue, to_jsonb(add.message), add.partition);
END
$$;

-- Nothing is there before the commit, not even for the transaction itself; nothing is left of a rolled back one, no queue either.
BEGIN;
SELECT add('1');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'txn';
SELECT count(*) FROM queen.pop('txn');
ROLLBACK;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'txn';
BEGIN;
SELECT add('2');
SELECT count(*) FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'txn';
COMMIT;
SELECT stored('txn');
BEGIN;
SELECT add('lost');
SELECT 1 / 0;
COMMIT;
SELECT stored('txn');

-- Savepoints: rolled back, released, nested.
BEGIN;
SELECT add('a', 'txn savepoint');
SAVEPOINT s1;
SELECT add('lost', 'txn savepoint');
ROLLBACK TO s1;
SELECT add('b', 'txn savepoint');
SAVEPOINT s2;
SELECT add('c', 'txn savepoint');
RELEASE s2;
SAVEPOINT s3;
SAVEPOINT s4;
SELECT add('lost with s3', 'txn savepoint');
RELEASE s4;
ROLLBACK TO s3;
SELECT add('d', 'txn savepoint');
RELEASE s1;
COMMIT;
SELECT stored('txn savepoint');
-- Into several partitions; rolled back to an outer savepoint over inner ones that were released, rolled back, open.
BEGIN;
SELECT add('a1', 'txn savepoint', 'a'), add('b1', 'txn savepoint', 'b');
SAVEPOINT s1;
SELECT add('a2', 'txn savepoint', 'a');
SAVEPOINT s2;
SELECT add('b lost', 'txn savepoint', 'b');
SAVEPOINT s3;
SELECT add('a lost', 'txn savepoint', 'a'), add('c lost', 'txn savepoint', 'c');
RELEASE s3;
SAVEPOINT s4;
SELECT add('b lost', 'txn savepoint', 'b');
ROLLBACK TO s2;
SELECT add('b2', 'txn savepoint', 'b');
SAVEPOINT s5;
SELECT add('a lost', 'txn savepoint', 'a');
SELECT 1 / 0;
ROLLBACK TO s2;
SELECT add('b3', 'txn savepoint', 'b');
COMMIT;
SELECT stored('txn savepoint', 'a'), stored('txn savepoint', 'b');
SELECT partitions FROM queen.list_queues() WHERE queue = 'txn savepoint';
-- A savepoint with the only push of a queue and partition.
BEGIN;
SAVEPOINT s;
SELECT add('lost', 'txn nothing');
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM queen.list_queues() WHERE queue = 'txn nothing';

-- More sub-transactions than the server keeps in memory: each third fails after its push, each sixth after an inner one.
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		BEGIN
			PERFORM add(i::text, 'txn many');
			IF i % 3 = 0 THEN
				BEGIN
					PERFORM add(i || ' inner', 'txn many');
					IF i % 2 = 0 THEN
						RAISE EXCEPTION 'inner';
					END IF;
				EXCEPTION WHEN raise_exception THEN
					NULL;
				END;
				RAISE EXCEPTION 'outer';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
SELECT count(*), max(msg_offset), bool_and(message #>> '{}' = (msg_offset / 2 * 3 + msg_offset % 2 + 1)::text) AS right_ones_in_order
FROM queen.peek('txn many', max_messages => 1000);
-- Nested sixty deep: the inner thirty are lost.
CREATE FUNCTION nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add(depth::text, 'txn deep');
	IF depth < 60 THEN
		BEGIN
			PERFORM nest(depth + 1);
			IF depth = 30 THEN
				RAISE EXCEPTION 'too deep';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END IF;
END
$$;
SELECT nest(1);
SELECT count(*), max(msg_offset), bool_and(message #>> '{}' = (msg_offset + 1)::text) AS right_ones_in_order
FROM queen.peek('txn deep', max_messages => 1000);

-- The outbox: a row trigger pushes; a row that is refused behind it takes its message along, others stay.
CREATE TABLE orders (id int PRIMARY KEY, amount int CHECK (amount > 0));
CREATE FUNCTION outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM queen.push('txn outbox', jsonb_build_object('op', TG_OP, 'id', coalesce(NEW.id, OLD.id)), coalesce(NEW.id, OLD.id)::text);
	RETURN coalesce(NEW, OLD);
END
$$;
CREATE TRIGGER outbox BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION outbox();
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		BEGIN
			INSERT INTO orders VALUES (i, CASE WHEN i % 2 = 0 THEN -1 ELSE i END);
		EXCEPTION WHEN check_violation THEN
			NULL;
		END;
	END LOOP;
	UPDATE orders SET amount = 10 WHERE id = 1;
	BEGIN
		INSERT INTO orders VALUES (7, 7), (1, 1);
	EXCEPTION WHEN unique_violation THEN
		NULL;
	END;
	DELETE FROM orders WHERE id = 3;
END
$$;
SELECT partition, msg_offset, message FROM queen.pop('txn outbox', max_messages => 100, max_partitions => 100);
INSERT INTO orders VALUES (8, 8), (9, -9);
SELECT partitions FROM queen.list_queues() WHERE queue = 'txn outbox';
COPY orders FROM stdin;
20	20
21	21
\.
SELECT partition, msg_offset, message FROM queen.pop('txn outbox', max_messages => 100, max_partitions => 100);

-- Deferred constraint triggers push at the commit.
CREATE TABLE deferred (id int);
CREATE FUNCTION push_deferred() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add('row ' || NEW.id, 'txn deferred');
	IF NEW.id < 0 THEN
		RAISE EXCEPTION 'refused at the commit';
	ELSIF NEW.id >= 10 THEN
		-- a deferred trigger that leads to another
		INSERT INTO deferred VALUES (NEW.id - 10);
	END IF;
	RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER push_deferred AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION push_deferred();
BEGIN;
INSERT INTO deferred VALUES (1), (22);
SELECT add('before the commit', 'txn deferred');
COMMIT;
SELECT stored('txn deferred');
BEGIN;
SELECT add('lost', 'txn deferred');
INSERT INTO deferred VALUES (3), (-1);
COMMIT;
SELECT stored('txn deferred');
BEGIN;
INSERT INTO deferred VALUES (4);
SAVEPOINT s;
INSERT INTO deferred VALUES (5);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
SELECT add('end', 'txn deferred');
COMMIT;
SELECT stored('txn deferred');

-- COMMIT AND CHAIN, ROLLBACK AND CHAIN.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT add('1', 'txn chain');
COMMIT AND CHAIN;
SELECT add('lost', 'txn chain');
ROLLBACK AND CHAIN;
SELECT add('2', 'txn chain');
SHOW transaction_isolation;
COMMIT;
SELECT stored('txn chain');

-- Procedures and DO blocks that commit and roll back in the middle.
DO $$
BEGIN
	PERFORM add('1', 'txn do');
	COMMIT;
	PERFORM add('lost', 'txn do');
	ROLLBACK;
	PERFORM add('2', 'txn do');
END
$$;
CREATE PROCEDURE steps(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		PERFORM add('step ' || i, 'txn do');
		IF i % 3 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END
$$;
CALL steps(5);
-- A loop over a cursor that stays open over commits.
DO $$
DECLARE
	m record;
BEGIN
	FOR m IN SELECT message FROM queen.peek('txn do', max_messages => 3) LOOP
		PERFORM add('again ' || (m.message #>> '{}'), 'txn do');
		COMMIT;
	END LOOP;
END
$$;
SELECT message FROM queen.peek('txn do', max_messages => 100);

-- An open cursor at the commit; a held one whose query pushes is run by the commit.
BEGIN;
DECLARE open_one CURSOR FOR SELECT message FROM queen.peek('txn do');
FETCH 1 FROM open_one;
SELECT add('with an open cursor', 'txn cursor');
COMMIT;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT count(queen.push('txn cursor', to_jsonb('held ' || i))) FROM generate_series(1, 2) i;
SELECT add('before held', 'txn cursor');
COMMIT;
FETCH ALL FROM held;
CLOSE held;
SELECT stored('txn cursor');

-- Pushers of every isolation level; a snapshot that is older than another's commit does no harm.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT stored('txn chain');
SELECT add('3', 'txn chain'), add('1', 'txn levels');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT add('4', 'txn chain'), add('2', 'txn levels'), add('3', 'txn levels', 'a new partition');
COMMIT;
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT add('4', 'txn levels');
COMMIT;
SELECT stored('txn chain'), stored('txn levels'), stored('txn levels', 'a new partition');

-- A transaction that becomes read-only after its push commits it, as it would a row; to an old partition and a new queue.
BEGIN;
SELECT add('5', 'txn chain');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT stored('txn chain');
BEGIN;
SELECT add('1', 'txn read only');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT stored('txn read only');

-- Names of the same spelling in two tenants and two queues, in one transaction.
BEGIN;
SELECT add('tenant 0', 'txn tenants');
SET LOCAL queen.tenant = '11111111-1111-1111-1111-111111111111';
SELECT add('tenant 1', 'txn tenants');
SAVEPOINT s;
SET LOCAL queen.tenant = '22222222-2222-2222-2222-222222222222';
SELECT add('lost', 'txn tenants');
ROLLBACK TO s;
SELECT add('tenant 1 again', 'txn tenants');
COMMIT;
SELECT stored('txn tenants');
SET queen.tenant = '11111111-1111-1111-1111-111111111111';
SELECT stored('txn tenants');
SET queen.tenant = '22222222-2222-2222-2222-222222222222';
SELECT count(*) FROM queen.list_queues() WHERE queue = 'txn tenants';
RESET queen.tenant;
