-- Pause and resume, of a queue and of a group.
\getenv inputdir PG_ABS_SRCDIR
\set topic pause
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SELECT count(queen.push('pause', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT queen.subscribe('pause', g) FROM unnest(ARRAY['g', 'h']) g;
-- A group: nothing for it, be it asked by name of a partition or not; the others go on.
SELECT queen.pause('pause', 'g');
SELECT count(*) FROM queen.pop('pause', 'g');
SELECT count(*) FROM queen.pop('pause', 'g', partition => 'Default', auto_ack => true);
SELECT count(*) FROM queen.pop('pause', 'h');
SELECT consumer_group, paused FROM queen.list_groups('pause');
SELECT queen.pause('pause', 'g'), queen.resume('pause', 'h');
SELECT queen.resume('pause', 'g'), queen.resume('pause', 'g');
SELECT msg_offset FROM take('pause', 'g', 3);

-- Pushes, peeks and what ends a lease go on.
SELECT queen.pause('pause', 'g');
SELECT count(queen.push('pause', '"paused"'));
SELECT count(*) FROM queen.peek('pause', max_messages => 100);
SELECT queen.extend(lease()) IS NOT NULL AS extended, queen.ack(lease(), 0);
SELECT queen.nack(lease(), 1, delay => '0');
SELECT count(*) FROM take('pause', 'g');
SELECT queen.seek('pause', 'g', 5);
SELECT count(*) FROM take('pause', 'g');
SELECT queen.resume('pause', 'g');
SELECT msg_offset FROM take('pause', 'g', 2);
SELECT queen.release(lease());

-- A queue: nothing for any group, known or not. A pause of both is two pauses.
SELECT queen.pause('pause');
SELECT count(*) FROM unnest(ARRAY['g', 'new', 'h']) g, queen.pop('pause', g);
SELECT consumer_group, paused FROM queen.list_groups('pause');
SELECT queen.pause('pause'), queen.pause('pause', 'g');
SELECT queen.resume('pause');
SELECT count(*) FROM queen.pop('pause', 'g');
SELECT count(*) FROM queen.pop('pause', 'new');
SELECT queen.resume('pause', 'g'), queen.resume('pause');
SELECT count(*) FROM queen.pop('pause', 'g', auto_ack => true);

-- Its options stay, and pausing changes none; another queue is another queue.
SELECT queen.create_queue('pause other', options => '{"max_deliveries": 7}');
SELECT queen.pause('pause other');
SELECT queen.configure('pause other', '{"lease_time": "1 minute"}') -> 'max_deliveries' AS max_deliveries;
SELECT queen.pause('pause other'), queen.configure('pause other', '{}') -> 'lease_time' AS lease_time;
SELECT count(*) FROM queen.pop('pause', 'g', auto_ack => true);
-- Rolled back it never was, also with a savepoint.
BEGIN;
SELECT queen.pause('pause');
SELECT count(*) FROM queen.pop('pause', 'g', auto_ack => true);
SAVEPOINT s;
SELECT queen.resume('pause');
SELECT count(*) FROM queen.pop('pause', 'g', auto_ack => true);
ROLLBACK TO s;
SELECT count(*) FROM queen.pop('pause', 'g', auto_ack => true);
ROLLBACK;
SELECT msg_offset FROM queen.pop('pause', 'g', auto_ack => true);
-- In other isolation levels; all partitions of many calls in one statement.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT queen.pause('pause', 'g'), queen.resume('pause', 'g'), queen.pause('pause');
ROLLBACK;
SELECT queen.pause('pause', g) FROM unnest(ARRAY['g', 'h', 'g', 'new']) g;
