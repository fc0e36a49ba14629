/*
 * retired_groups.cpp: the cursors of groups that were unsubscribed. See retired_groups.h; README.md says why a piece waits.
 *
 * Raises. Locks: the filing's row and the cursors' rows, without waiting, to the transaction's end. Runs in backends and
 * workers.
 */
#include "log/retired_groups.h"

#include "log/cursors.h"
#include "log/partition_walk.h"
#include "server/guards.h"

namespace queen
{

namespace
{

/* Columns of queen.log_retired_groups, from 0. */
enum RetiredColumn : int
{
	col_group_id,
	col_log_id,
	col_retired_at,
	col_next_partition,
	retired_cols,
};

constexpr int piece_size = 1000; /* partitions */

/*
 * Delete the group's cursor in a partition; false when a transaction that has not ended is at it, or when its state alone is gone: the
 * cleaner of a dropped log, which deletes in pieces, is not through with the partition.
 */
bool
delete_cursor(EraHandle *cursors, int64 partition_id, int64 group_id)
{
	bool was_stale = false;

	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		EraSeek found = era_seek(cursors, {partition_id, group_id}, snapshot);
		EraLock lock = EraLock::changed;

		CHECK_FOR_INTERRUPTS();
		if (found == EraSeek::found)
		{
			lock = era_lock(cursors, false);
			if (lock == EraLock::ok)
				era_delete(cursors);
		}
		era_release_snapshot(cursors);
		UnregisterSnapshot(snapshot);
		/* stale twice: a newer snapshot would have seen the state that a birth brings along */
		if (found == EraSeek::running || lock == EraLock::locked || (found == EraSeek::stale && was_stale))
			return false;
		was_stale = found == EraSeek::stale;
		if (found == EraSeek::absent || lock == EraLock::ok)
			return true;
		/* the row changed, or was born, since the snapshot: look again */
	}
}

enum class Piece
{
	none, /* it has to wait */
	some,
	last,
};

/* A piece of the group's partitions from *next on, which is moved. */
Piece
delete_cursors(int64 log_id, int64 group_id, int64 *next)
{
	Snapshot snapshot = register_latest_snapshot();
	EraHandle cursors;
	PartitionWalk walk;
	const PartitionRow *partition;
	int count = 0;
	bool free = true;

	era_open(&cursors, &cursor_table);
	partition_walk_open(&walk, log_id, *next, snapshot);
	while ((partition = partition_walk_next(&walk)) != nullptr && count < piece_size && free)
	{
		free = delete_cursor(&cursors, partition->partition_id, group_id);
		if (free)
		{
			*next = partition->partition_id + 1;
			count++;
		}
	}
	partition_walk_close(&walk);
	era_close(&cursors);
	UnregisterSnapshot(snapshot);
	if (partition == nullptr && free)
		return Piece::last;
	return count > 0 ? Piece::some : Piece::none;
}

/* A piece of the filing in the scan's slot; false when it has to wait. */
bool
step(Relation table, IndexScan *scan)
{
	ItemPointerData tid = scan->slot->tts_tid;
	Datum values[retired_cols];
	bool nulls[retired_cols];
	int64 next;
	Piece piece;

	slot_getallattrs(scan->slot);
	memcpy(values, scan->slot->tts_values, sizeof(values));
	memcpy(nulls, scan->slot->tts_isnull, sizeof(nulls));
	/* a statement that has found the group may still make it a cursor: it begins when none of them is left */
	if (nulls[col_next_partition] && !row_is_known_to_all(table, scan->slot))
		return false;
	if (lock_row(table, &tid, scan->snapshot, false) != TM_Ok)
		return false;
	next = nulls[col_next_partition] ? 0 : DatumGetInt64(values[col_next_partition]);
	piece = delete_cursors(DatumGetInt64(values[col_log_id]), DatumGetInt64(values[col_group_id]), &next);
	if (piece == Piece::last)
		delete_row(table, &tid);
	else if (piece == Piece::some)
	{
		TableWriter writer;

		values[col_next_partition] = Int64GetDatum(next);
		nulls[col_next_partition] = false;
		table_writer_open(&writer, table, retired_cols, false);
		table_writer_update(&writer, &tid, values, nulls);
		table_writer_close(&writer);
	}
	return piece != Piece::none;
}

} // namespace

bool
retired_group_file(int64 log_id, int64 group_id)
{
	Relation table = open_table(Table::log_retired_groups, RowExclusiveLock);
	TableWriter writer;
	Datum values[retired_cols] = {};
	bool nulls[retired_cols] = {};
	bool filed;

	values[col_group_id] = Int64GetDatum(group_id);
	values[col_log_id] = Int64GetDatum(log_id);
	values[col_retired_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	nulls[col_next_partition] = true;
	table_writer_open(&writer, table, retired_cols, true);
	filed = table_writer_insert_unless_exists(&writer, values, nulls);
	table_writer_close(&writer);
	table_close(table, NoLock);
	CommandCounterIncrement();
	return filed;
}

bool
retired_groups_step()
{
	Relation table = open_table(Table::log_retired_groups, RowExclusiveLock);
	Relation index = open_index(table, {col_group_id + 1}, RowExclusiveLock);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool done = false;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_start(&scan);
	while (!done && index_scan_next(&scan, ForwardScanDirection))
		done = step(table, &scan);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return done;
}

QUEEN_FUNCTION(queen_retired_groups_step)

/* For the tests (test/modules/queen_test declares it): one step; returns whether there was something to do. */
Datum
queen_retired_groups_step(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	guard_write("queen_test_retired_groups_step()");
	return BoolGetDatum(retired_groups_step());
}

} // namespace queen
