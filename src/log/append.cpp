/*
 * append.cpp: the log as its own allocator. See append.h.
 *
 * Raises. Locks: one partition (heavyweight, exclusive), from the search for the newest segment to the end of the index
 * insert. Runs in backends, in PRE_COMMIT.
 */
#include "log/append.h"

#include "log/partition_lock.h"
#include "log/pushed_partitions.h"
#include "log/starts.h"
#include "log/tails.h"
#include "server/errors.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* The newest segment's end and time, by a dirty look: rows of running transactions count. */
Tail
search_newest(Appender *appender, int64 partition_id)
{
	static constinit HintCache cache = {};
	Tail floor = {0, DT_NOBEGIN};
	IndexScan *scan = &appender->tail;

	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, partition_id);
	if (index_scan_newest(scan, &cache, partition_id, 0, 2, segment_col_base_offset + 1))
	{
		bool isnull;

		floor.base = segment_int8(scan->slot, segment_col_end_offset) + 1;
		floor.created_at = DatumGetTimestampTz(slot_getattr(scan->slot, segment_col_created_at + 1, &isnull));
		ExecClearTuple(scan->slot);
	}
	return floor;
}

/*
 * Raise the floor to what retention has deleted. With the latest snapshot, under the lock: a REPEATABLE READ pusher's own
 * may be older than the deletion.
 */
void
raise_to_log_start(Appender *appender, int64 partition_id, Tail *floor)
{
	Snapshot snapshot = register_latest_snapshot();
	LogStart start;

	index_scan_set_snapshot(&appender->start, snapshot);
	log_start_find(&appender->start, partition_id, &start);
	floor->base = Max(floor->base, start.offset);
	floor->created_at = Max(floor->created_at, start.last_created_at);
	index_scan_set_snapshot(&appender->start, InvalidSnapshot);
	UnregisterSnapshot(snapshot);
}

void
open_search(Appender *appender)
{
	MemoryContext caller = MemoryContextSwitchTo(appender->context);

	appender->starts = open_table(Table::log_starts, RowExclusiveLock);
	appender->starts_index = open_index(appender->starts, {start_col_partition_id + 1}, AccessShareLock);
	appender->segments_index =
		open_index(appender->segments, {segment_col_partition_id + 1, segment_col_base_offset + 1}, RowExclusiveLock);
	InitDirtySnapshot(appender->dirty);
	index_scan_open(&appender->tail, appender->segments, appender->segments_index, &appender->dirty);
	index_scan_open(&appender->start, appender->starts, appender->starts_index, InvalidSnapshot);
	queue_table_open(&appender->queues, AccessShareLock);
	appender->can_search = true;
	MemoryContextSwitchTo(caller);
}

void
close_search(Appender *appender)
{
	queue_table_close(&appender->queues);
	index_scan_close(&appender->start);
	index_scan_close(&appender->tail);
	index_close(appender->segments_index, NoLock);
	index_close(appender->starts_index, NoLock);
	table_close(appender->starts, NoLock);
}

} // namespace

void
appender_open(Appender *appender)
{
	appender->segments = open_table(Table::log_segments, RowExclusiveLock);
	table_writer_open(&appender->writer, appender->segments, segment_cols, false);
	appender->context = CurrentMemoryContext;
	appender->can_search = false;
	if (!tails_are_shared())
		open_search(appender);
}

void
appender_close(Appender *appender)
{
	if (appender->can_search)
		close_search(appender);
	table_writer_close(&appender->writer);
	table_close(appender->segments, NoLock);
}

/*
 * Whoever drops or purges a queue first marks its row, then takes the lock of each partition that is there or being born,
 * which makes shared memory forget the tail, and waits for the transactions that it finds there. So where there is a tail
 * nobody has come by since it was noted; whoever comes later will find us. Otherwise the row says whether somebody has.
 */
static LogState
look_for_drop(Appender *appender, const FlushTarget *target, const Tail *tail, TransactionId *changer)
{
	if (tail->base == log_start_deleted)
		return LogState::gone;
	return queue_log_state(&appender->queues, target->known.queue_id, target->known.log_id, changer);
}

Append
append_segment(Appender *appender, const FlushTarget *target, uint32 count, Datum blob, bool known,
			   TransactionId *changer)
{
	const Oid tables = RelationGetRelid(appender->segments);
	const int64 partition_id = target->known.partition_id;
	LogState log = LogState::alive;
	Append result = Append::gone;
	Tail tail;

	pushed_partitions_reserve();
	/* the transaction id is taken before the lock: less to do under it */
	(void) GetCurrentTransactionId();
	if (!partition_lock_for_append(partition_id))
		raise_partition_locked(name_to_cstring(target->buffered->name), name_to_cstring(target->buffered->queue->name));

	if (!tail_find(tables, partition_id, &tail))
	{
		if (!appender->can_search)
			open_search(appender);
		tail = search_newest(appender, partition_id);
		raise_to_log_start(appender, partition_id, &tail);
		log = look_for_drop(appender, target, &tail, changer);
	}
	if (log == LogState::changing && !known)
		result = Append::changing;
	else if (log != LogState::gone)
	{
		Datum values[segment_cols];
		bool nulls[segment_cols] = {};

		/* stamped under the lock and never below the predecessor's: a clock that steps back does not break the order */
		tail.created_at = Max(GetCurrentTimestamp(), tail.created_at);
		values[segment_col_partition_id] = Int64GetDatum(partition_id);
		values[segment_col_base_offset] = Int64GetDatum(tail.base);
		values[segment_col_end_offset] = Int64GetDatum(tail.base + count - 1);
		values[segment_col_created_at] = TimestampTzGetDatum(tail.created_at);
		values[segment_col_blob] = blob;
		table_writer_insert(&appender->writer, values, nulls);
		/* when this fails half-way, the row is never seen, and the tail is what it was */
		tail.base += count;
		/* whoever drops the queue waits for us, but may have been here: those who come after must look, too */
		if (log == LogState::alive)
			tail_put(tables, partition_id, &tail);
		pushed_partitions_note(tables, target->known.queue_id, partition_id, count, target->known.channel);
		result = Append::done;
	}
	partition_unlock(partition_id);
	return result;
}

} // namespace queen
