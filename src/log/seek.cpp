/*
 * seek.cpp: queen.seek, seek_to_time, seek_to_end.
 *
 * Raises. Locks: the group's cursor rows, waiting for whoever holds them, in partition order, to the transaction's end;
 * under each its partition's seek lock for a moment. Runs in backends, in every isolation level.
 */
#include "hotlist/journal.h"
#include "log/aborted.h"
#include "log/groups.h"
#include "log/partition_lock.h"
#include "log/partition_walk.h"
#include "log/positions.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

enum class SeekTo
{
	offset,
	time,
	end,
};

struct Seek
{
	SeekTo to;
	int64 offset;
	TimestampTz at;
	int64 queue_id;
	int64 group_id;
	const char *queue;
	SegmentTable segments;
	EraHandle cursors;
	LogPositions positions;
};

/* Lock the group's cursor in a partition, or begin its birth: then true. Waits for other transactions at it. */
bool
seize(EraHandle *cursors, int64 partition_id, int64 group_id, Cursor *cursor)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		EraSeek found = era_seek(cursors, {partition_id, group_id}, snapshot);
		bool is_new = false;
		bool locked = false;

		CHECK_FOR_INTERRUPTS();
		*cursor = {};
		if (found == EraSeek::absent)
			is_new = era_birth(cursors);
		else if (found == EraSeek::found)
		{
			cursor_read(cursors, cursor);
			/* the row may have changed while we waited: then look again */
			locked = era_lock(cursors, true) == EraLock::ok;
		}
		/* the row is ours: its columns are copied, but for what cursor_move forgets */
		era_release_snapshot(cursors);
		UnregisterSnapshot(snapshot);
		if (is_new || locked)
			return is_new;
		if (found == EraSeek::running)
			era_wait_for_birth(cursors);
	}
}

void
move_cursor(Seek *seek, const PartitionRow *partition)
{
	Cursor cursor;
	PartitionEnds ends;
	bool is_new = seize(&seek->cursors, partition->partition_id, seek->group_id, &cursor);
	const int64 partition_id = partition->partition_id;
	Snapshot snapshot;
	int64 target;

	/*
	 * Retention decides under this lock, by where cursors stand and may come to stand: either it has decided and its commit
	 * says where the log begins, or it meets what is written here.
	 */
	if (!partition_seek_lock(partition_id))
		raise_partition_locked(partition->name, seek->queue);
	/* after the waits: the end is where it is now */
	snapshot = register_latest_snapshot();
	log_ends(&seek->positions, partition_id, snapshot, &ends);
	target = ends.last;
	if (seek->to == SeekTo::offset)
		target = seek->offset - 1;
	else if (seek->to == SeekTo::time)
		target = log_before_time(&seek->positions, partition_id, &ends, seek->at, snapshot);
	cursor_move(&cursor, log_settled(&seek->positions, partition_id, &ends, target, snapshot));
	UnregisterSnapshot(snapshot);
	cursor_store(&seek->cursors, &cursor);
	if (is_new)
		era_insert_state(&seek->cursors);
	else
		era_update(&seek->cursors);
	partition_seek_unlock(partition_id);
	aborted_forget(own_tables(), partition_id, seek->group_id);
	journal_pending(own_tables(), seek->queue_id, seek->group_id, partition_id);
}

/* The functions' common part: arguments queue, consumer_group and, at argno, partition. */
Datum
run(FunctionCallInfo fcinfo, int partition_argno, Seek *seek)
{
	const bool pinned = !PG_ARGISNULL(partition_argno);
	Name queue_name = name_argument(fcinfo, 0, "queue");
	Name group_name = name_argument(fcinfo, 1, "consumer_group");
	Name partition_name = {};
	QueueRow queue;
	GroupRow group;
	Snapshot snapshot;
	PartitionWalk walk;
	int64 count = 0;

	if (pinned)
		partition_name = name_argument(fcinfo, partition_argno, "partition");
	queue_get_log(setting_tenant(), queue_name, hint_for_seek, &queue);
	if (!group_find(queue.queue_id, group_name, &group))
		raise_unknown_group(queue.name, group_name);
	journal_changes();
	seek->queue_id = queue.queue_id;
	seek->group_id = group.group_id;
	seek->queue = queue.name;

	snapshot = register_latest_snapshot();
	if (pinned)
		partition_walk_open_one(&walk, queue.log_id, partition_name, queue.name, snapshot);
	else
		partition_walk_open(&walk, queue.log_id, 0, snapshot);
	segment_table_open(&seek->segments);
	era_open(&seek->cursors, &cursor_table);
	log_positions_open(&seek->positions, &seek->segments, &seek->cursors);
	while (const PartitionRow *partition = partition_walk_next(&walk))
	{
		move_cursor(seek, partition);
		count++;
	}
	log_positions_close(&seek->positions);
	era_close(&seek->cursors);
	segment_table_close(&seek->segments);
	partition_walk_close(&walk);
	UnregisterSnapshot(snapshot);
	return Int64GetDatum(count);
}

} // namespace

QUEEN_FUNCTION(queen_seek)
QUEEN_FUNCTION(queen_seek_to_time)
QUEEN_FUNCTION(queen_seek_to_end)

/* queen.seek(queue, consumer_group, msg_offset bigint, partition) returns bigint */
Datum
queen_seek(PG_FUNCTION_ARGS)
{
	Seek seek = {};

	guard_write("queen.seek()");
	if (PG_ARGISNULL(2))
		raise_null_argument("msg_offset");
	seek.to = SeekTo::offset;
	seek.offset = PG_GETARG_INT64(2);
	if (seek.offset < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("msg_offset %lld is out of range", (long long) seek.offset), errhint("Offsets begin at 0.")));
	return run(fcinfo, 3, &seek);
}

/* queen.seek_to_time(queue, consumer_group, at timestamptz, partition) returns bigint */
Datum
queen_seek_to_time(PG_FUNCTION_ARGS)
{
	Seek seek = {};

	guard_write("queen.seek_to_time()");
	if (PG_ARGISNULL(2))
		raise_null_argument("at");
	seek.to = SeekTo::time;
	seek.at = PG_GETARG_TIMESTAMPTZ(2);
	return run(fcinfo, 3, &seek);
}

/* queen.seek_to_end(queue, consumer_group, partition) returns bigint */
Datum
queen_seek_to_end(PG_FUNCTION_ARGS)
{
	Seek seek = {};

	guard_write("queen.seek_to_end()");
	seek.to = SeekTo::end;
	return run(fcinfo, 2, &seek);
}

} // namespace queen
