-- Ending a lease. All of them act in the caller's transaction and work in every isolation level: acknowledging in the
-- transaction that did the work is exactly-once in effect.

CREATE FUNCTION queen.ack(lease uuid, up_to bigint DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_ack';
COMMENT ON FUNCTION queen.ack(uuid, bigint) IS
'Complete the messages under a lease, all of them or those up to an offset (the lease then stays for the rest), and answer how many that were; what retention has deleted of them counts as completed. Accepted after the lease''s end as long as nobody else has taken the messages. 0 when this lease was completed before. Error QN001 when the lease is lost: another consumer has, or had, the messages; 22023 for what never was a lease, or an up_to behind its messages. While the lease runs, waits for a transaction that is at it (a heartbeat''s queen.extend, say).';

CREATE FUNCTION queen.ack_all(leases uuid[])
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_ack_all';
COMMENT ON FUNCTION queen.ack_all(uuid[]) IS
'queen.ack for several leases, all or none; answers the number of messages completed. Takes them in one order, so that two calls cannot wait for each other.';

CREATE FUNCTION queen.nack(lease uuid, msg_offset bigint DEFAULT NULL, delay interval DEFAULT NULL, error text DEFAULT NULL,
	dead boolean DEFAULT false)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_nack';
COMMENT ON FUNCTION queen.nack(uuid, bigint, interval, text, boolean) IS
'Say that a message failed (default: the first under the lease): completes what lies below it (so call it in the transaction that did that work), releases what lies behind it, and ends the lease. Answers retry: the partition is blocked for the group until the delay (default: the queue''s retry_delay) is over and the message comes again; or dead: it went to queen.dead_letters, because max_deliveries is reached or dead was asked for, and the partition goes on; or gone: retention has deleted it, so what is gone is completed and the partition goes on. delay: 0 to 365 days. Error QN001 when the lease is lost or completed; 22023 when no message at msg_offset is under it. Waits as queen.ack does.';

CREATE FUNCTION queen.extend(lease uuid, lease_time interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_extend';
COMMENT ON FUNCTION queen.extend(uuid, interval) IS
'Make a lease end lease_time (default: the queue''s) from now, never sooner than it did, and answer when that is. lease_time: 1 s to 12 h. Error QN001 when it is lost or completed. Waits as queen.ack does.';

CREATE FUNCTION queen.release(lease uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_release';
COMMENT ON FUNCTION queen.release(uuid) IS
'Give a lease back: its messages can be taken again at once and this delivery does not count. False when the lease was completed before. Error QN001 when it is lost. Waits as queen.ack does.';
