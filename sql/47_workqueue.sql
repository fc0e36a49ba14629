-- Work queues: a row a message, priorities, time to live, receipts.

CREATE FUNCTION queen.enqueue(queue text, message jsonb, priority text DEFAULT 'medium', ttl interval DEFAULT NULL,
	headers jsonb DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_enqueue';
COMMENT ON FUNCTION queen.enqueue(text, jsonb, text, interval, jsonb, interval, timestamptz) IS
'Put a message into a work queue when the transaction commits, and answer its id (UUIDv7). The queue is born with the first one (42704 with queen.auto_create off). priority: high, medium or low; the first of the highest priority is delivered first. ttl (default: the queue''s message_ttl): 1 s to 30 days, then it is not delivered any more, and deleted. headers is a JSON object. A message has at most 256 MB with its headers. With delay, or deliver_at (one of them), it is a timer until then, under its id as timer_key, and needs no queue before; ttl counts from then on. Waits for who drops or purges the queue, or brings it to life, up to queen.flush_timeout (QN002). A log queue is an error (42809).';

CREATE FUNCTION queen.enqueue_batch(queue text, messages jsonb, priority text DEFAULT 'medium', ttl interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_enqueue_batch';
COMMENT ON FUNCTION queen.enqueue_batch(text, jsonb, text, interval) IS
'queen.enqueue each element of a JSON array, in order, and answer their ids in that order.';

CREATE FUNCTION queen.dequeue(queue text, max_messages integer DEFAULT 1, visibility interval DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF queen.delivery LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_dequeue';
COMMENT ON FUNCTION queen.dequeue(text, integer, interval, interval) IS
'Take up to max_messages messages from a work queue: the highest priority first; within one those whose visibility is over first, then those that were never delivered, first in, first out. Each is hidden from others for visibility (default: the queue''s visibility_timeout), and comes again afterwards unless it was acknowledged. Never waits for a lock, and passes by what other transactions are at. Never delivers an expired message. What has been delivered max_delivery_attempts times goes to the dead letters, up to 100 messages a call, or max_messages if that is more. A message whose deliveries have rolled back, and one in its last delivery, is the only one of its call: one that has others already passes it by, ten calls at most; a call that buries a message because its deliveries have rolled back gives nothing. An unknown queue gives nothing. max_messages: 1 to 10000. visibility: 1 s to 6 h. With wait (up to 1 day) a call that finds nothing sleeps until something may be there or the time is over, inside of the caller''s statement: its snapshot is held meanwhile. READ COMMITTED only (25000). A log queue is an error (42809).';

CREATE FUNCTION queen.acknowledge(message_id uuid, receipt uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_acknowledge';
COMMENT ON FUNCTION queen.acknowledge(uuid, uuid) IS
'Delete a message that was delivered under a receipt: true. False, and nothing happens, when it was acknowledged before, or its visibility is over, whoever has it now, or there is no such message or receipt. Waits for a transaction that is at the message (a heartbeat''s queen.change_visibility, say). Works in every isolation level: acknowledging in the transaction that did the work is exactly-once in effect.';

CREATE FUNCTION queen.acknowledge_batch(message_ids uuid[], receipts uuid[])
RETURNS SETOF boolean LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_acknowledge_batch';
COMMENT ON FUNCTION queen.acknowledge_batch(uuid[], uuid[]) IS
'queen.acknowledge for several messages, each with the receipt in the same place; answers in that order. Takes them in one order, so that two calls cannot wait for each other. 22023: the arrays have different lengths.';

CREATE FUNCTION queen.change_visibility(message_id uuid, receipt uuid, visibility interval)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_change_visibility';
COMMENT ON FUNCTION queen.change_visibility(uuid, uuid, interval) IS
'Hide a message that was delivered under a receipt until visibility from now, longer or shorter than it was, and answer when that is; with 0 it can be taken again at once. Null, and nothing happens, where queen.acknowledge would answer false. visibility: 0 to 6 h. Waits as that does.';

CREATE FUNCTION queen.reject(message_id uuid, receipt uuid, error text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reject';
COMMENT ON FUNCTION queen.reject(uuid, uuid, text) IS
'Say that a message that was delivered under a receipt failed: it comes again after the queue''s retry_delay, or goes to the dead letters when that was its last delivery (max_delivery_attempts). error is kept for those. True; false, and nothing happens, where queen.acknowledge would answer that. Waits as that does.';

CREATE FUNCTION queen.count_messages(queue text, OUT priority text, OUT ready bigint, OUT in_flight bigint, OUT exhausted bigint,
	OUT expired bigint, OUT oldest_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'queen_count_messages';
COMMENT ON FUNCTION queen.count_messages(text) IS
'How many messages of a work queue can be taken (ready), are under a receipt or wait for a retry (in_flight), wait to be moved to the dead letters (exhausted) or to be deleted (expired), and when the oldest of the ready ones was enqueued: a row for each priority. Exact, by a scan of all of them. Works in a read-only transaction and on a standby. An unknown queue is an error (42704).';
