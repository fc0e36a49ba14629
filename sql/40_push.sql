-- Producing into log queues. A push belongs to the caller's transaction: rolled back, it never was.

CREATE FUNCTION queen.push(queue text, message jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push';
COMMENT ON FUNCTION queen.push(text, jsonb, text, jsonb, text, interval, timestamptz) IS
'Append a message to a partition of a log queue when the transaction commits, and answer its id (UUIDv7). Queue and partition are born with the first push. Messages of a partition are delivered in the order of their commits, those of one transaction in the order of the calls. headers is a JSON object. A message has at most 256 MB with its headers; names have 1 to 255 bytes and no control character. Refused: dedup_key, delay, deliver_at (0A000), a read-only transaction or a standby (25006). The commit raises QN002 when it waits longer than queen.flush_timeout for a lock, 42704 when the queue is not there and queen.auto_create is off.';

CREATE FUNCTION queen.push_batch(queue text, messages jsonb, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_keys jsonb DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_batch';
COMMENT ON FUNCTION queen.push_batch(text, jsonb, text, jsonb, jsonb) IS
'Push each element of a JSON array as a message, in order, and answer their ids in that order. headers is an object for all of them, or an array with an object or null for each. dedup_keys is refused (0A000).';

CREATE FUNCTION queen.push_bytes(queue text, payload bytea, partition text DEFAULT 'Default', headers jsonb DEFAULT NULL,
	dedup_key text DEFAULT NULL, delay interval DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_push_bytes';
COMMENT ON FUNCTION queen.push_bytes(text, bytea, text, jsonb, text, interval, timestamptz) IS
'As queen.push, for a message of any bytes, up to 256 MB with its headers.';
