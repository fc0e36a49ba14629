-- Messages that were delivered and not completed: exact blame, max_deliveries, the dead letters.
\getenv inputdir PG_ABS_SRCDIR
\set topic redelivery
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

CREATE VIEW dead AS SELECT queue, kind, partition, consumer_group, msg_offset, message, payload, headers, attempts, error FROM queen.dead_letters ORDER BY dead_id;

-- A batch of three is lost: each of its messages comes alone, as its second attempt; what lies behind it is a first one again.
SELECT count(queen.push('blame', to_jsonb(i))) FROM generate_series(0, 9) i;
SELECT msg_offset, attempt FROM take('blame', max_messages => 3);
SELECT time_passes('blame');
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('blame', max_messages => 3);
SELECT queen.ack(lease());
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);

-- The same message again and again: its attempts count, nothing else of the partition is delivered, then it is dead.
SELECT time_passes('blame');
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT time_passes('blame');
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT time_passes('blame');
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT time_passes('blame');
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT time_passes('blame');
-- Five deliveries were the queue's maximum: this call takes it out of the way, and delivers nothing.
SELECT count(*) FROM take('blame', max_messages => 10);
SELECT * FROM dead WHERE queue = 'blame';
SELECT msg_offset, attempt FROM take('blame', max_messages => 10);
SELECT queen.ack(lease());
-- Another group is not concerned.
SELECT count(*), max(attempt) FROM take('blame', 'other', 100);

-- Only what was redelivered is alone: other partitions are taken by the same call, unless such a head comes first.
SELECT count(queen.push('alone', to_jsonb(i), p)) FROM generate_series(0, 2) i, unnest(ARRAY['failed', 'fine']) p;
SELECT count(*) FROM take('alone', max_messages => 3, only_partition => 'failed');
SELECT time_passes('alone');
CREATE TABLE calls AS SELECT 0 AS call, partition, msg_offset, attempt FROM take('alone', max_messages => 100, max_partitions => 100);
INSERT INTO calls SELECT 1, partition, msg_offset, attempt FROM take('alone', max_messages => 100, max_partitions => 100);
SELECT partition, msg_offset, attempt FROM calls ORDER BY 1, 2;
SELECT count(DISTINCT call) AS calls, count(*) AS messages FROM calls;

-- max_deliveries 1: one chance. A lost batch is dead, one message a call.
SELECT queen.create_queue('max 1', options => '{"max_deliveries": 1}');
SELECT count(queen.push('max 1', to_jsonb(i), headers => '{"h": 1}')) FROM generate_series(0, 2) i;
SELECT count(queen.push_bytes('max 1', '\x03ff'));
SELECT msg_offset, attempt FROM take('max 1', max_messages => 2);
SELECT time_passes('max 1');
SELECT count(*) FROM take('max 1', max_messages => 10);
SELECT count(*) FROM take('max 1', max_messages => 10);
SELECT msg_offset, attempt FROM take('max 1', max_messages => 10);
SELECT queen.nack(lease(), error => 'no good');
SELECT msg_offset, attempt FROM take('max 1', max_messages => 10);
SELECT time_passes('max 1');
-- auto_ack buries as well.
SELECT count(*) FROM take('max 1', auto_ack => true);
SELECT count(*) FROM take('max 1', auto_ack => true);
SELECT * FROM dead WHERE queue = 'max 1';
SELECT count(*) AS dead_letters, count(DISTINCT d.message_id) AS ids, bool_and(d.message_id = m.message_id AND d.enqueued_at = m.enqueued_at AND d.dead_at >= d.enqueued_at) AS the_messages
FROM queen.dead_letters d JOIN queen.peek('max 1') m USING (msg_offset) WHERE d.queue = 'max 1';

-- max_deliveries 2, with a last error that was told before.
SELECT queen.create_queue('max 2', options => '{"max_deliveries": 2, "retry_delay": 0}');
SELECT count(queen.push('max 2', to_jsonb(i))) FROM generate_series(0, 2) i;
SELECT msg_offset, attempt FROM take('max 2');
SELECT queen.nack(lease(), error => 'first error');
SELECT msg_offset, attempt FROM take('max 2');
SELECT queen.nack(lease(), error => 'second error');
SELECT msg_offset, attempt FROM take('max 2');
SELECT queen.nack(lease(), error => 'told before');
SELECT msg_offset, attempt FROM take('max 2');
SELECT time_passes('max 2');
SELECT count(*) FROM take('max 2');
SELECT msg_offset, attempt FROM take('max 2');
SELECT queen.nack(lease());
SELECT msg_offset, attempt FROM take('max 2');
SELECT queen.nack(lease());
SELECT count(*) FROM take('max 2');
SELECT msg_offset, attempts, error FROM dead WHERE queue = 'max 2';
-- A lower maximum counts at once for what was delivered before; a higher one lets it go on.
SELECT count(queen.push('max changes', to_jsonb(i))) FROM generate_series(0, 1) i;
SELECT msg_offset, attempt FROM take('max changes');
SELECT time_passes('max changes');
SELECT msg_offset, attempt FROM take('max changes');
SELECT time_passes('max changes');
SELECT queen.configure('max changes', '{"max_deliveries": 2}') -> 'max_deliveries' AS max_deliveries;
BEGIN;
SELECT count(*) FROM take('max changes');
SELECT msg_offset, attempts FROM dead WHERE queue = 'max changes';
ROLLBACK;
-- A burial that is rolled back did not happen.
SELECT count(*) FROM dead WHERE queue = 'max changes';
SELECT queen.configure('max changes', '{"max_deliveries": 3}') -> 'max_deliveries' AS max_deliveries;
SELECT msg_offset, attempt FROM take('max changes');
SELECT queen.ack(lease());

-- Acknowledging begins the count anew: the next message has its own.
SELECT msg_offset, attempt FROM take('max changes');
SELECT time_passes('max changes');
SELECT msg_offset, attempt FROM take('max changes');

-- Errors of any length: the dead letter keeps all of a nack's, the cursor its first 1,000 bytes, whole characters.
SELECT queen.create_queue('errors', options => '{"max_deliveries": 2, "retry_delay": 0}');
SELECT count(queen.push('errors', to_jsonb(i))) FROM generate_series(0, 1) i;
SELECT msg_offset, attempt FROM take('errors');
SELECT queen.nack(lease(), error => 'x' || repeat('é', 2000));
SELECT octet_length(last_error), char_length(last_error), right(last_error, 1) FROM cursors WHERE queue = 'errors';
SELECT msg_offset, attempt FROM take('errors');
SELECT queen.nack(lease(), error => 'y' || repeat('é', 2000));
SELECT msg_offset, attempt FROM take('errors');
SELECT queen.nack(lease(), error => '', dead => true);
SELECT msg_offset, attempts, left(error, 2) AS error, char_length(error) FROM dead WHERE queue = 'errors';
