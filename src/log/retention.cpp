/*
 * retention.cpp: deleting the segments at a partition's beginning. See retention.h; README.md says why it holds.
 *
 * Raises. Locks: the partition's seek lock, while the groups are asked, then the partition's, both to the end of the
 * transaction. Runs in backends and workers.
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
	int64 *asked;		  /* ids of the groups that have answered, sorted */
	int count;
};

int
compare_ids(const void *left, const void *right)
{
	const int64 a = *(const int64 *) left;
	const int64 b = *(const int64 *) right;

	return a < b ? -1 : a > b;
}

/* Ask those of some groups that have not answered yet. */
void
ask_these(Hold *hold, EraHandle *cursors, int64 partition_id, const GroupRow *groups, int count, TimestampTz idle)
{
	const int before = hold->count;

	hold->asked = (int64 *) repalloc_huge(hold->asked, sizeof(int64) * (Size) (before + count + 1));
	for (int i = 0; i < count; i++)
	{
		int64 committed;

		if (groups[i].active_at < idle ||
			bsearch(&groups[i].group_id, hold->asked, (size_t) before, sizeof(int64), compare_ids) != nullptr)
			continue;
		if (cursor_least(cursors, partition_id, groups[i].group_id, &committed))
			hold->passed = Min(hold->passed, committed);
		else
			hold->start_at = Min(hold->start_at, groups[i].has_start ? groups[i].start_at : DT_NOBEGIN);
		hold->asked[hold->count++] = groups[i].group_id;
	}
	if (hold->count > before)
		qsort(hold->asked, (size_t) hold->count, sizeof(int64), compare_ids);
}

/*
 * Ask all groups that have not answered yet, those that are being subscribed too. By the latest snapshot, which misses none
 * that is committed, and then by a dirty look, which may miss a row that is being updated but not one that is being inserted.
 * Under the seek lock an answer holds until the transaction's end: cursors only move on.
 */
void
ask_groups(Hold *hold, const QueueRow *queue, int64 partition_id, TimestampTz idle)
{
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
		hold->passed = -1;
	ask_these(hold, &cursors, partition_id, groups, count, idle);
	groups = group_list(queue->queue_id, &dirty, &count);
	ask_these(hold, &cursors, partition_id, groups, count, idle);
	era_close(&cursors);
	UnregisterSnapshot(snapshot);
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

/* The partition's first segment. */
struct First
{
	bool any; /* one is visible */
	TimestampTz created_at;
	int64 end;
};

/* Look without a lock whether there may be something to do: mostly there is not. */
First
look_at_first(Relation segments, Relation index, int64 partition_id, const LogStart *start)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	First first = {};

	scan_from(&scan, segments, index, snapshot, partition_id, start->offset);
	first.any = index_scan_next(&scan, ForwardScanDirection);
	if (first.any)
	{
		first.created_at = created_at_of(scan.slot);
		first.end = segment_int8(scan.slot, segment_col_end_offset);
	}
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

/* Nothing was done under the locks that are given back. */
RetentionStep
leave(int64 partition_id, bool locked, bool seek_locked)
{
	if (locked)
		partition_unlock(partition_id);
	if (seek_locked)
		partition_seek_unlock(partition_id);
	return RetentionStep::nothing;
}

RetentionStep
warn_locked(const QueueRow *queue, const PartitionRow *partition)
{
	ereport(WARNING, (errcode(errcode_flush_timeout),
					  errmsg("partition \"%s\" of queue \"%s\" stayed locked: nothing is deleted from it now",
							 partition->name, queue->name),
					  errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout)));
	return RetentionStep::nothing;
}

/* Delete what is due, as far as the time goes; whole segments only. */
RetentionStep
delete_due(Relation segments, Relation index, const QueueRow *queue, const PartitionRow *partition,
		   const RetentionRules *rules, const First *first)
{
	const int64 partition_id = partition->partition_id;
	const bool asks = rules->completed > rules->old;
	TimestampTz stop_at;
	Hold hold = {PG_INT64_MAX, DT_NOEND, (int64 *) palloc(sizeof(int64)), 0};
	Due due;

	if (asks)
	{
		if (!partition_seek_lock(partition_id))
			return warn_locked(queue, partition);
		/* pushes do not wait for that, however many groups there are */
		ask_groups(&hold, queue, partition_id, rules->idle);
		if (!is_due(rules, &hold, first->created_at, first->end))
			return leave(partition_id, false, true);
	}
	if (!partition_lock(partition_id))
	{
		(void) leave(partition_id, false, asks);
		return warn_locked(queue, partition);
	}
	log_start_read(partition_id, &due.start);
	if (asks)
		/* those that came, or became active, since */
		ask_groups(&hold, queue, partition_id, rules->idle);
	stop_at = GetCurrentTimestamp() + most_time / 2;
	find_due(segments, index, partition_id, rules, &hold, stop_at, &due);
	if (due.count == 0)
		return leave(partition_id, true, asks);
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
	First first;

	log_start_read(partition_id, &start);
	first = look_at_first(segments, index, partition_id, &start);
	if (!first.any)
		step = partition_expire(partition, &start, rules->unused) ? RetentionStep::done : RetentionStep::nothing;
	else if (first.created_at < Max(rules->old, rules->completed))
		step = delete_due(segments, index, queue, partition, rules, &first);
	index_close(index, NoLock);
	table_close(segments, NoLock);
	return step;
}

int64
retention_age(const QueueOptions *options)
{
	auto age = [](int64 option) { return option == option_off ? PG_INT64_MAX : option; };

	return Min(age(options->retention), age(options->completed_retention));
}

TimestampTz
retention_due(const PartitionRow *partition, int64 age)
{
	Relation segments = open_table(Table::log_segments, AccessShareLock);
	Relation index = open_index(segments, {segment_col_partition_id + 1, segment_col_base_offset + 1}, AccessShareLock);
	int64 since;
	LogStart start;
	First first;
	TimestampTz due;

	log_start_read(partition->partition_id, &start);
	first = look_at_first(segments, index, partition->partition_id, &start);
	index_close(index, NoLock);
	table_close(segments, NoLock);
	since = first.any ? first.created_at : Max(partition->created_at, start.last_created_at);
	if (!first.any)
		age = setting_partition_expiry == 0 ? PG_INT64_MAX : (int64) setting_partition_expiry * USECS_PER_SEC;
	return age == PG_INT64_MAX || pg_add_s64_overflow(since, age, &due) ? (TimestampTz) DT_NOEND : due;
}

} // namespace queen
