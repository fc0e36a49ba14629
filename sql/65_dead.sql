-- Messages that were given up, and where a message is.

CREATE FUNCTION queen.list_dead(queue text, consumer_group text DEFAULT NULL, after_id bigint DEFAULT NULL,
	max_rows integer DEFAULT 100,
	OUT dead_id bigint, OUT partition text, OUT consumer_group text, OUT msg_offset bigint, OUT message_id uuid,
	OUT message jsonb, OUT payload bytea, OUT headers jsonb, OUT attempts integer, OUT error text,
	OUT enqueued_at timestamptz, OUT dead_at timestamptz, OUT timer_key text, OUT priority text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_dead';
COMMENT ON FUNCTION queen.list_dead(text, text, bigint, integer) IS
'The dead letters of a queue (of a group), in the order of dead_id, up to max_rows behind after_id: to page, give the last dead_id seen. Ids are drawn as messages die and seen when their transactions commit, so one may still appear below the last. attempts: deliveries to the group; error: what the last nack said; enqueued_at: when it was pushed. A timer that could not be pushed has a timer_key, no group and no offset; enqueued_at is when it was scheduled, and its queue need not exist: the letter is there for whatever queue has the name. One of a work queue has a priority, and no partition, group and offset. Works in a read-only transaction and on a standby. max_rows: 1 to 100000. An unknown queue is an error (42704) unless timers have left letters to it.';

CREATE FUNCTION queen.purge_dead(queue text, consumer_group text DEFAULT NULL, dead_ids bigint[] DEFAULT NULL,
	before timestamptz DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_purge_dead';
COMMENT ON FUNCTION queen.purge_dead(text, text, bigint[], timestamptz) IS
'Delete dead letters of a queue: those of the group, with these ids, that died before a time; what is null does not matter, so purge_dead(queue) deletes all. Answers how many that were. All of it is one transaction, however much it is: the option dead_retention deletes in steps. Waits for a transaction that redrives or purges the same letters; what that one took does not count. An unknown queue is an error (42704) unless timers have left letters to it.';

CREATE FUNCTION queen.redrive(queue text, consumer_group text DEFAULT NULL, dead_ids bigint[] DEFAULT NULL,
	max_rows integer DEFAULT 1000)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_redrive';
COMMENT ON FUNCTION queen.redrive(text, text, bigint[], integer) IS
'Push dead letters of a queue (of the group, with these ids) to their partitions, or into the work queue, again and delete them, in one transaction: each goes back once or not at all. Takes up to max_rows, the lowest dead_id first, and answers how many; 0 when none is left. The messages become new ones behind what is there, in the order in which they were pushed first: new message_id, offset, enqueued_at and deliveries, no dedup_key. Every group of the queue gets them, not only the one that gave them up: the header queen_redriven says what each was ({"message_id", "msg_offset", "consumer_groups"}, of a timer {"message_id", "timer_key"}), beside the headers that it had. Those of a work queue keep their priority, and live for its message_ttl. Letters of one message that several groups gave up become one message when the same call takes them. Waits for a transaction that redrives or purges the same letters, and holds off who drops, purges or configures the queue until this one ends. max_rows: 1 to 100000. A queue that does not exist is made as by a push, or an enqueue when one of the timers has a priority, when timers have left letters to it and queen.auto_create is on; otherwise it is an error (42704).';

CREATE FUNCTION queen.find(queue text, message_id uuid, partition text DEFAULT NULL,
	OUT place text, OUT partition text, OUT msg_offset bigint, OUT consumer_group text, OUT dead_id bigint,
	OUT enqueued_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'queen_find';
COMMENT ON FUNCTION queen.find(text, uuid, text) IS
'Where a message of a queue (in a partition) is: place log, with its partition and msg_offset, consumed or not; place dead, once for each group that gave it up, whether the log still has it or not, or without a group for a timer that could not be pushed; place work, in a work queue, delivered or not; place timer, until its message is pushed (a look at all timers of the queue, but for what was pushed with a delay); no row: nowhere, because it is not committed, its push was rolled back or dropped as a duplicate, or retention deleted it. Ids bear the time of their push: each partition is read from 10 minutes before that on (a clock that was set back by more hides a message), and as nothing tells when a push was committed, up to its end. So a recent message is found at once, an old id that is nowhere costs as much as reading all that was pushed since: name the partition where it is known. Works in a read-only transaction and on a standby. An unknown queue is an error (42704) unless timers have left dead letters to it, what is no message id too (22023); an unknown partition holds nothing. A corrupt segment on the way raises XX001.';
