-- Consuming from log queues.

CREATE FUNCTION queen.pop(queue text, consumer_group text DEFAULT 'default', max_messages integer DEFAULT 1,
	partition text DEFAULT NULL, max_partitions integer DEFAULT 1, lease_time interval DEFAULT NULL,
	auto_ack boolean DEFAULT false, wait interval DEFAULT '0')
RETURNS SETOF queen.message LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_pop';
COMMENT ON FUNCTION queen.pop(text, text, integer, text, integer, interval, boolean, interval) IS
'Take up to max_messages messages for a consumer group, from one partition (any with work, or the one named) or up to max_partitions, in (partition, msg_offset) order. Each partition taken is leased for lease_time (default: the queue''s) and delivers nothing else to the group until its lease is acknowledged, given back or over; with auto_ack the messages are completed by this transaction''s commit instead. Never waits for a lock. A message that was delivered before and not completed comes alone. An unknown group of a known queue is subscribed at the earliest message; an unknown queue or partition gives nothing. max_messages: 1 to 100000. max_partitions: 1 to 1000. lease_time: 1 s to 12 h, not with auto_ack (22023). With wait (up to 1 day) a pop that finds nothing sleeps until something may be there or the time is over, inside of the caller''s statement: its snapshot, and all that its transaction holds, is held meanwhile, which keeps vacuum from cleaning up and is why queen.wait() is there. READ COMMITTED only (25000). A corrupt segment raises XX001 in the call that begins at it.';

CREATE FUNCTION queen.peek(queue text, partition text DEFAULT 'Default', from_offset bigint DEFAULT NULL,
	max_messages integer DEFAULT 10)
RETURNS SETOF queen.message LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_peek';
COMMENT ON FUNCTION queen.peek(text, text, bigint, integer) IS
'Look at the messages of one partition (''Default'' unless named) from an offset (default: the first) without taking them; works in a read-only transaction and on a standby. Stops where a push that has not ended may still add a message. max_messages: 1 to 100000. An unknown queue is an error (42704), an unknown partition is empty.';
