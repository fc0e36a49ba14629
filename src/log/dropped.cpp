/*
 * dropped.cpp: cleaning up what is gone for everybody. See dropped.h.
 *
 * Raises. Locks: the filing's row and the rows that are deleted, without waiting; partition_expire the partition, to the end
 * of the transaction. Runs in backends and workers.
 */
#include "log/dropped.h"

#include "log/append.h"
#include "log/partition_lock.h"
#include "log/work_calls.h"
#include "server/guards.h"
#include "server/relations.h"

namespace queen
{

namespace
{

/* Columns of queen.log_dropped, from 0. */
enum DroppedColumn : int
{
	col_dropped_id,
	col_log_id,
	col_partition_id,
	col_queue_id,
	col_dropped_at,
	dropped_cols,
};

constexpr int piece_rows = 1000;
constexpr int most_looks = 1000;		/* at filings that have to wait, in one step */
constexpr int64 piece_time = 50 * 1000; /* microseconds */
constexpr int64 partition_grace = USECS_PER_HOUR;

/* What is left of a piece. */
struct Budget
{
	int rows;
	TimestampTz end;
};

bool
is_spent(const Budget *budget)
{
	return budget->rows <= 0 || GetCurrentTimestamp() >= budget->end;
}

void
file(int64 log_id, int64 partition_id, int64 queue_id)
{
	Relation table = open_table(Table::log_dropped, RowExclusiveLock);
	TableWriter writer;
	Datum values[dropped_cols];
	bool nulls[dropped_cols] = {};

	values[col_dropped_id] = Int64GetDatum(next_id(Sequence::dropped_ids));
	values[col_log_id] = Int64GetDatum(log_id);
	nulls[col_log_id] = log_id == 0;
	values[col_partition_id] = Int64GetDatum(partition_id);
	nulls[col_partition_id] = partition_id == 0;
	values[col_queue_id] = Int64GetDatum(queue_id);
	nulls[col_queue_id] = queue_id == 0;
	values[col_dropped_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	table_writer_open(&writer, table, dropped_cols, false);
	table_writer_insert(&writer, values, nulls);
	table_writer_close(&writer);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* Is there a row under a key, also one of a running transaction? */
bool
is_there(Table which, std::initializer_list<AttrNumber> columns, int64 key)
{
	Relation table = open_table(which, AccessShareLock);
	Relation index = open_index(table, columns, AccessShareLock, false);
	SnapshotData dirty;
	IndexScan scan;
	bool found;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, table, index, &dirty);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, key);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	index_scan_close(&scan);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return found;
}

/*
 * Delete the rows whose index (on columns) begins with a key. True when none is left; false when the budget is spent,
 * somebody is at a row, or has inserted one and not ended: a consumer that had found the queue before its drop was committed.
 */
bool
delete_rows(Table which, std::initializer_list<AttrNumber> columns, int64 key, Budget *budget)
{
	Relation table = open_table(which, RowExclusiveLock);
	Relation index = open_index(table, columns, RowExclusiveLock, false);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool done = true;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, key);
	index_scan_start(&scan);
	PushActiveSnapshot(snapshot);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		done = !is_spent(budget) && delete_row_unless_locked(table, &tid, snapshot);
		if (!done)
			break;
		budget->rows--;
	}
	PopActiveSnapshot();
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	CommandCounterIncrement();
	return done && !is_there(which, columns, key);
}

/* All that is filed under a partition's id. */
bool
clean_partition(int64 partition_id, Budget *budget)
{
	return delete_rows(Table::log_segments, {1, 2}, partition_id, budget) &&
		   delete_rows(Table::log_txns, {1, 2}, partition_id, budget) &&
		   delete_rows(Table::log_cursors, {1, 2, 3}, partition_id, budget) &&
		   delete_rows(Table::log_consumers, {1, 2}, partition_id, budget) &&
		   delete_rows(Table::log_starts, {1}, partition_id, budget) &&
		   delete_rows(Table::log_partitions, {1}, partition_id, budget);
}

/* The partitions of a log from *next on, which is moved: a scan from the first would meet all that a held snapshot keeps. */
bool
clean_log(int64 log_id, int64 *next, Budget *budget)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		PartitionTable partitions;
		PartitionRow row;
		bool found;

		partition_table_open(&partitions, AccessShareLock);
		found = partition_page(&partitions, log_id, *next, PG_INT64_MAX, snapshot, &row, 1) > 0;
		partition_table_close(&partitions);
		UnregisterSnapshot(snapshot);
		if (!found)
			break;
		*next = row.partition_id;
		if (!clean_partition(row.partition_id, budget))
			return false;
		*next = row.partition_id + 1;
	}
	/* a commit that began before the drop may still be bringing one to life */
	return work_calls->delete_log(log_id, budget->end, &budget->rows) &&
		   !is_there(Table::log_partitions, {2, 1}, log_id);
}

/* What belongs to a dropped queue itself. */
bool
clean_queue(int64 queue_id, Budget *budget)
{
	return delete_rows(Table::log_groups, {3, 4}, queue_id, budget) &&
		   delete_rows(Table::dead_letters, {3, 1}, queue_id, budget);
}

/*
 * Can nobody know the id any more? A statement that has found the partition holds a snapshot of before. A push may also
 * have a partition's id from another transaction's time, but not for long once this one's invalidation is on its way.
 */
bool
is_unknown(Relation table, TupleTableSlot *slot)
{
	return row_is_known_to_all(table, slot) &&
		   (slot->tts_isnull[col_partition_id] ||
			DatumGetTimestampTz(slot->tts_values[col_dropped_at]) < GetCurrentTimestamp() - partition_grace);
}

/* A piece of the filing in the scan's slot, from *next_partition on; false when it has to wait. */
bool
step(Relation table, IndexScan *scan, int64 *next_partition)
{
	Budget budget = {piece_rows, GetCurrentTimestamp() + piece_time};
	ItemPointerData tid = scan->slot->tts_tid;
	const Datum *values;
	const bool *nulls;
	bool done;

	slot_getallattrs(scan->slot);
	values = scan->slot->tts_values;
	nulls = scan->slot->tts_isnull;
	if (!is_unknown(table, scan->slot) || lock_row(table, &tid, scan->snapshot, false) != TM_Ok)
		return false;
	if (!nulls[col_partition_id])
		done = clean_partition(DatumGetInt64(values[col_partition_id]), &budget);
	else
		done = clean_log(DatumGetInt64(values[col_log_id]), next_partition, &budget) &&
			   (nulls[col_queue_id] || clean_queue(DatumGetInt64(values[col_queue_id]), &budget));
	if (done)
		delete_row(table, &tid);
	return done || budget.rows < piece_rows;
}

} // namespace

void
dropped_file_log(int64 log_id, int64 queue_id)
{
	file(log_id, 0, queue_id);
}

bool
partition_expire(const PartitionRow *partition, const LogStart *start, TimestampTz unused)
{
	const int64 id = partition->partition_id;
	LogStart now;

	if (Max(partition->created_at, start->last_created_at) >= unused || !partition_lock(id))
		return false;
	log_start_read(id, &now);
	if (now.offset == log_start_deleted || now.last_created_at >= unused || is_there(Table::log_segments, {1, 2}, id) ||
		is_there(Table::log_txns, {1, 2}, id))
	{
		partition_unlock(id);
		return false;
	}
	/* who has found the partition by name and now waits for its lock meets this, and looks for the name again */
	now.offset = log_start_deleted;
	log_start_write(id, &now);
	file(0, id, 0);
	partition_delete(id);
	return true;
}

bool
partition_file_orphan(int64 partition_id)
{
	LogStart start;

	if (!partition_lock(partition_id))
		return false;
	if (is_there(Table::log_segments, {1, 2}, partition_id))
	{
		partition_unlock(partition_id);
		return false;
	}
	/* a session may remember the name that the partition had */
	log_start_read(partition_id, &start);
	start.offset = log_start_deleted;
	log_start_write(partition_id, &start);
	file(0, partition_id, 0);
	return true;
}

bool
dropped_step(int64 *dropped_id, int64 *next_partition)
{
	Relation table = open_table(Table::log_dropped, RowExclusiveLock);
	Relation index = open_index(table, {col_dropped_id + 1}, RowExclusiveLock);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	int looks = 0;
	bool done = false;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTGreaterEqualStrategyNumber, *dropped_id);
	index_scan_start(&scan);
	while (!done && index_scan_next(&scan, ForwardScanDirection))
	{
		bool isnull;
		int64 id = DatumGetInt64(slot_getattr(scan.slot, col_dropped_id + 1, &isnull));

		if (id != *dropped_id)
			*next_partition = 0;
		*dropped_id = id;
		done = step(table, &scan, next_partition);
		if (!done && ++looks == most_looks)
		{
			/* the pass goes on behind them */
			*dropped_id = id + 1;
			*next_partition = 0;
			done = true;
		}
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return done;
}

QUEEN_FUNCTION(queen_dropped_step)

/* For the tests (test/modules/queen_test declares it): one step; answers where the pass stands, nulls when it is through. */
Datum
queen_dropped_step(PG_FUNCTION_ARGS)
{
	int64 dropped_id = PG_GETARG_INT64(0);
	int64 next_partition = PG_GETARG_INT64(1);
	TupleDesc desc;
	Datum values[2];
	bool nulls[2];

	guard_write("queen_test_dropped_step()");
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	nulls[0] = nulls[1] = !dropped_step(&dropped_id, &next_partition);
	values[0] = Int64GetDatum(dropped_id);
	values[1] = Int64GetDatum(next_partition);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

} // namespace queen
