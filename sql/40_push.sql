-- Producing into log queues. A push belongs to the caller's transaction: rolled back, it never was.

CREATE FUNCTION queen.push(queue text, message jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push';
COMMENT ON FUNCTION queen.push(text, jsonb, text, jsonb, text, interval, timestamptz) IS
'Append a message to a partition of a log queue when the transaction commits, and answer its id (UUIDv7). Queue and partition are born with the first push. Messages of a partition are delivered in the order of their commits, those of one transaction in the order of the calls. headers is a JSON object. A message has at most 256 MB with its headers; names have 1 to 255 bytes and no control character. With a dedup_key (1 to 255 bytes) a message is dropped when another with the same key was pushed to the same partition within the queue''s dedup_window, and the answer is that one''s id where it is committed or in the same transaction; when another transaction commits the key between this call and the commit, the message is dropped then and its id names nothing. The queue''s option dedup makes a duplicate an error (23505) at the call or at the commit. With a delay or a deliver_at it is a timer that is named by its id until then (see queen.schedule), and takes no dedup_key (22023). Refused: a read-only transaction or a standby (25006). The commit raises QN002 when it waits longer than queen.flush_timeout for a lock or for a transaction that brings the same key, 42704 when the queue is not there and queen.auto_create is off.';

CREATE FUNCTION queen.push_batch(queue text, messages jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_keys jsonb DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_batch';
COMMENT ON FUNCTION queen.push_batch(text, jsonb, text, jsonb, jsonb) IS
'Push each element of a JSON array as a message, in order, and answer their ids in that order. headers is an object for all of them, or an array with an object or null for each. dedup_keys is an array with a string or null for each message: see queen.push; a duplicate is answered with the original''s id in its place.';

CREATE FUNCTION queen.push_bytes(queue text, payload bytea, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_bytes';
COMMENT ON FUNCTION queen.push_bytes(text, bytea, text, jsonb, text, interval, timestamptz) IS
'As queen.push, for a message of any bytes, up to 256 MB with its headers.';
