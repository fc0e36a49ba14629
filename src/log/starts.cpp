/*
 * starts.cpp: rows of queen.log_starts. See starts.h.
 *
 * Raises. No locks but the table's: the partition's lock is the caller's. Runs in backends and workers.
 */
#include "log/starts.h"

#include "server/relations.h"

namespace queen
{

void
log_start_find(IndexScan *scan, int64 partition_id, LogStart *start)
{
	*start = {};
	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(scan);
	if (index_scan_next(scan, ForwardScanDirection))
	{
		bool isnull;

		start->offset = DatumGetInt64(slot_getattr(scan->slot, start_col_log_start + 1, &isnull));
		start->last_created_at = DatumGetTimestampTz(slot_getattr(scan->slot, start_col_last_created_at + 1, &isnull));
		start->stored = true;
		start->tid = scan->slot->tts_tid;
		ExecClearTuple(scan->slot);
	}
}

void
log_start_read(int64 partition_id, LogStart *start)
{
	Relation table = open_table(Table::log_starts, AccessShareLock);
	Relation index = open_index(table, {start_col_partition_id + 1}, AccessShareLock);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;

	index_scan_open(&scan, table, index, snapshot);
	log_start_find(&scan, partition_id, start);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
}

void
log_start_write(int64 partition_id, const LogStart *start)
{
	Relation table = open_table(Table::log_starts, RowExclusiveLock);
	TableWriter writer;
	Datum values[start_cols];
	bool nulls[start_cols] = {};

	values[start_col_partition_id] = Int64GetDatum(partition_id);
	values[start_col_log_start] = Int64GetDatum(start->offset);
	values[start_col_last_created_at] = TimestampTzGetDatum(start->last_created_at);
	table_writer_open(&writer, table, start_cols, false);
	if (start->stored)
	{
		ItemPointerData tid = start->tid;

		table_writer_update(&writer, &tid, values, nulls);
	}
	else
	{
		table_writer_insert(&writer, values, nulls);
		CommandCounterIncrement();
	}
	table_writer_close(&writer);
	table_close(table, NoLock);
}

} // namespace queen
