/*
 * retention.cpp: deleting the segments at a partition's beginning. See retention.h; README.md says why it holds.
 *
 * Raises. Locks: the partition's, from the decision to the end of the transaction. Runs in backends and workers.
 */
#include "log/retention.h"

#include "log/append.h"
#include "log/cursors.h"
#include "log/dropped.h"
#include "log/groups.h"
#include "log/partition_lock.h"
#include "log/starts.h"
#include "server/errors.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* A step's bounds: pushes to the partition wait for it. */
constexpr int most_rows = 1000;
constexpr int64 most_time = 4 * 1000; /* microseconds under the lock */

/* How far the groups let the deletion of completed messages go. */
struct Hold
{
	int64 passed;		  /* every cursor has completed up to there */
	TimestampTz start_at; /* a group without a cursor begins with what was pushed then; DT_NOBEGIN: with everything */
};

void
hold_for(Hold *hold, EraHandle *cursors, int64 partition_id, const GroupRow *groups, int count, TimestampTz idle)
{
	for (int i = 0; i < count; i++)
	{
		int64 committed;

		if (groups[i].active_at < idle)
			continue;
		if (cursor_least(cursors, partition_id, groups[i].group_id, &committed))
			hold->passed = Min(hold->passed, committed);
		else
			hold->start_at = Min(hold->start_at, groups[i].has_start ? groups[i].start_at : DT_NOBEGIN);
	}
}

/*
 * Ask all groups, those that are being subscribed too. By the latest snapshot, which misses none that is committed, and
 * then by a dirty look, which may miss a row that is being updated but not one that is being inserted.
 */
Hold
find_hold(const QueueRow *queue, int64 partition_id, TimestampTz idle)
{
	Hold hold = {PG_INT64_MAX, DT_NOEND};
	Snapshot snapshot = register_latest_snapshot();
	SnapshotData dirty;
	EraHandle cursors;
	GroupRow *groups;
	int count;

	InitDirtySnapshot(dirty);
	era_open(&cursors, &cursor_table);
	groups = group_list(queue->queue_id, snapshot, &count);
	if (count == 0)
		/* nobody has consumed anything */
		hold.passed = -1;
	hold_for(&hold, &cursors, partition_id, groups, count, idle);
	groups = group_list(queue->queue_id, &dirty, &count);
	hold_for(&hold, &cursors, partition_id, groups, count, idle);
	era_close(&cursors);
	UnregisterSnapshot(snapshot);
	return hold;
}

bool
is_due(const RetentionRules *rules, const Hold *hold, TimestampTz created_at, int64 end_offset)
{
	return created_at < rules->old ||
		   (created_at < rules->completed && end_offset <= hold->passed && created_at < hold->start_at);
}

TimestampTz
created_at_of(TupleTableSlot *slot)
{
	bool isnull;

	return DatumGetTimestampTz(slot_getattr(slot, segment_col_created_at + 1, &isnull));
}

/* A scan over the partition's segments from its beginning. */
void
scan_from(IndexScan *scan, Relation segments, Relation index, Snapshot snapshot, int64 partition_id, int64 offset)
{
	index_scan_open(scan, segments, index, snapshot);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_key_int8(scan, 2, BTGreaterEqualStrategyNumber, offset);
	index_scan_start(scan);
}

enum class First
{
	none, /* no segment is visible */
	kept, /* by its age alone */
	perhaps,
};

/* Look without a lock whether there may be something to do: mostly there is not. */
First
look_at_first(Relation segments, Relation index, int64 partition_id, const LogStart *start, const RetentionRules *rules)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	First first = First::none;

	scan_from(&scan, segments, index, snapshot, partition_id, start->offset);
	if (index_scan_next(&scan, ForwardScanDirection))
		first = created_at_of(scan.slot) < Max(rules->old, rules->completed) ? First::perhaps : First::kept;
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return first;
}

/* The segments to delete, in order, and what the log begins with then. */
struct Due
{
	ItemPointerData *tids;
	int count;
	bool more;
	LogStart start;
};

/*
 * Under the lock: the rows from the log's beginning that are due. A dirty look, which stops at the first row of a running
 * transaction: what lies behind it may not become the log's beginning before that one is decided.
 */
void
find_due(Relation segments, Relation index, int64 partition_id, const RetentionRules *rules, const Hold *hold,
		 TimestampTz stop_at, Due *due)
{
	SnapshotData dirty;
	IndexScan scan;

	due->tids = (ItemPointerData *) palloc(sizeof(ItemPointerData) * most_rows);
	due->count = 0;
	due->more = false;
	InitDirtySnapshot(dirty);
	scan_from(&scan, segments, index, &dirty, partition_id, due->start.offset);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		int64 end = segment_int8(scan.slot, segment_col_end_offset);

		if (dirty_row_owner(&dirty, scan.slot) == RowOwner::running ||
			!is_due(rules, hold, created_at_of(scan.slot), end))
			break;
		/* half of the time is for the deletion */
		if (due->count == most_rows || (due->count > 0 && GetCurrentTimestamp() >= stop_at))
		{
			due->more = true;
			break;
		}
		due->tids[due->count++] = scan.slot->tts_tid;
		due->start.offset = end + 1;
		due->start.last_created_at = Max(due->start.last_created_at, created_at_of(scan.slot));
	}
	index_scan_close(&scan);
}

/* Delete what is due, as far as the time goes; whole segments only. */
RetentionStep
delete_due(Relation segments, Relation index, const QueueRow *queue, const PartitionRow *partition,
		   const RetentionRules *rules)
{
	const int64 partition_id = partition->partition_id;
	TimestampTz stop_at;
	Hold hold = {-1, DT_NOBEGIN};
	Due due;

	if (!partition_lock(partition_id))
	{
		ereport(WARNING, (errcode(errcode_flush_timeout),
						  errmsg("partition \"%s\" of queue \"%s\" stayed locked: nothing is deleted from it now",
								 partition->name, queue->name),
						  errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout)));
		return RetentionStep::nothing;
	}
	stop_at = GetCurrentTimestamp() + most_time / 2;
	log_start_read(partition_id, &due.start);
	if (rules->completed > rules->old)
		hold = find_hold(queue, partition_id, rules->idle);
	find_due(segments, index, partition_id, rules, &hold, stop_at, &due);
	if (due.count == 0)
	{
		partition_unlock(partition_id);
		return RetentionStep::nothing;
	}
	/* the values that a large segment was cut into are found by a snapshot: one that sees what the dirty look saw */
	PushActiveSnapshot(GetLatestSnapshot());
	for (int i = 0; i < due.count; i++)
		simple_table_tuple_delete(segments, &due.tids[i], GetActiveSnapshot());
	PopActiveSnapshot();
	log_start_write(partition_id, &due.start);
	CommandCounterIncrement();
	return due.more ? RetentionStep::more : RetentionStep::done;
}

} // namespace

RetentionRules
retention_rules(const QueueOptions *options, TimestampTz now)
{
	auto before = [now](int64 age) { return age == option_off ? (TimestampTz) DT_NOBEGIN : now - age; };

	return {before(options->retention), before(options->completed_retention), before(options->group_expiry),
			setting_partition_expiry == 0 ? (TimestampTz) DT_NOBEGIN
										  : now - (int64) setting_partition_expiry * USECS_PER_SEC};
}

RetentionStep
retention_step(const QueueRow *queue, const PartitionRow *partition, const RetentionRules *rules)
{
	const int64 partition_id = partition->partition_id;
	Relation segments = open_table(Table::log_segments, RowExclusiveLock);
	Relation index =
		open_index(segments, {segment_col_partition_id + 1, segment_col_base_offset + 1}, RowExclusiveLock);
	RetentionStep step = RetentionStep::nothing;
	LogStart start;

	log_start_read(partition_id, &start);
	switch (look_at_first(segments, index, partition_id, &start, rules))
	{
		case First::none:
			if (partition_expire(partition, &start, rules->unused))
				step = RetentionStep::done;
			break;
		case First::perhaps:
			step = delete_due(segments, index, queue, partition, rules);
			break;
		case First::kept:
			break;
	}
	index_close(index, NoLock);
	table_close(segments, NoLock);
	return step;
}

} // namespace queen
