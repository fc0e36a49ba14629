-- Consumer groups: where they start, where they stand, whether they get anything.

CREATE FUNCTION queen.subscribe(queue text, consumer_group text, start text DEFAULT 'earliest')
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_subscribe';
COMMENT ON FUNCTION queen.subscribe(text, text, text) IS
'Make a consumer group of a log queue that starts at the earliest message that is retained, at the latest (it gets what this call cannot see yet: also pushes that run or are prepared, and those of this transaction), or at a timestamp (the first segment of each partition that was pushed then or since; 22023 when it lies in the future). A group that is there stays as it is and where it is, whatever start says: queen.seek moves it. Creates the queue as a first push does (42704 with queen.auto_create off). Waits for a running subscription of the same name up to queen.flush_timeout (QN002).';

CREATE FUNCTION queen.unsubscribe(queue text, consumer_group text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_unsubscribe';
COMMENT ON FUNCTION queen.unsubscribe(text, text) IS
'Forget a consumer group with its position in all partitions; false when there is none. Its leases are lost (QN001). The next queen.subscribe or queen.pop under that name makes a new group. Waits for a transaction that changes the group''s row. An unknown queue is an error (42704).';

CREATE FUNCTION queen.seek(queue text, consumer_group text, msg_offset bigint, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek';
COMMENT ON FUNCTION queen.seek(text, text, bigint, text) IS
'Make msg_offset the next message that the group gets from a partition (default: from each), forwards or backwards, and answer how many partitions it was set in. An offset that is not retained any more means the first that is; one behind the end, or behind a push that has not ended, means there. Deliveries are counted anew, a retry delay is over, leases are lost (QN001). Waits for transactions that are at the position; works in every isolation level. Unknown queue, group or partition: 42704; msg_offset below 0: 22023.';

CREATE FUNCTION queen.seek_to_time(queue text, consumer_group text, at timestamptz, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek_to_time';
COMMENT ON FUNCTION queen.seek_to_time(text, text, timestamptz, text) IS
'As queen.seek, to the first message of the first segment that was pushed at a time or since (a segment holds messages of one commit and has one time); to the end when there is none.';

CREATE FUNCTION queen.seek_to_end(queue text, consumer_group text, partition text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_seek_to_end';
COMMENT ON FUNCTION queen.seek_to_end(text, text, text) IS
'As queen.seek, behind the last message: the group gets what this call cannot see yet, also pushes that run or are prepared.';

CREATE FUNCTION queen.pause(queue text, consumer_group text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_pause';
COMMENT ON FUNCTION queen.pause(text, text) IS
'From its commit on queen.pop gives the group (default: any group of the queue) nothing; pushes, acks, extends and running leases go on. False when it was paused before. Queue and group are paused each for itself. Waits for a transaction that changes the same row. Unknown queue or group: 42704.';

CREATE FUNCTION queen.resume(queue text, consumer_group text DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_resume';
COMMENT ON FUNCTION queen.resume(text, text) IS
'End what queen.pause of the same arguments began; false when it was not paused. Waits and fails as that does.';

CREATE FUNCTION queen.list_groups(queue text,
	OUT consumer_group text, OUT start_at timestamptz, OUT paused boolean, OUT created_at timestamptz,
	OUT active_at timestamptz, OUT partitions bigint, OUT lag bigint, OUT leased bigint, OUT blocked bigint,
	OUT oldest_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'queen_list_groups';
COMMENT ON FUNCTION queen.list_groups(text) IS
'The consumer groups of a queue, by name. start_at: where it starts in a partition in which it has no position (null: at the beginning); active_at: its last pop, to the minute; partitions: in how many it has a position; lag: offsets behind its positions, of all partitions, leased ones included (an offset that a rolled-back push left empty counts until it is passed); leased, blocked: partitions under a lease, or waiting for a retry delay; oldest_at: when the oldest message that it has not completed was pushed. Read from the tables with one snapshot; an unknown queue is an error (42704).';

CREATE FUNCTION queen.lag(queue text, consumer_group text,
	OUT partition text, OUT committed bigint, OUT end_offset bigint, OUT lag bigint, OUT oldest_at timestamptz,
	OUT state text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_lag';
COMMENT ON FUNCTION queen.lag(text, text) IS
'How a group stands in each partition of a queue, in the order of their births. committed: the last offset that it has completed (-1: none; where it will start when it has no position yet); end_offset: the last one that is committed; lag: the offsets between them (one that a rolled-back push left empty counts until it is passed); oldest_at: when the first message behind committed was pushed; state: idle (nothing there), ready, leased, or blocked (waits for a retry delay). A ready partition may still be deferred, paused, or behind a push that has not ended: see pg_stat_queen_blocked. Read from the tables with one snapshot; unknown queue or group: 42704.';
