/*
 * partitions.cpp: rows of queen.log_partitions. See partitions.h.
 *
 * Raises. Locks: none but the table's; a birth holds its unique key until the transaction ends. Runs in backends.
 */
#include "log/partitions.h"

#include "hotlist/journal.h"
#include "log/births.h"

namespace queen
{

/* Columns of queen.log_partitions, from 0. */
enum PartitionColumn : int
{
	col_partition_id,
	col_log_id,
	col_name,
	col_created_at,
	partition_cols,
};

void
partition_table_open(PartitionTable *partitions, LOCKMODE mode)
{
	partitions->table = open_table(Table::log_partitions, mode);
	partitions->by_name = open_index(partitions->table, {col_log_id + 1, col_name + 1}, mode);
	partitions->by_log = open_index(partitions->table, {col_log_id + 1, col_partition_id + 1}, mode, false);
	partitions->by_id = open_index(partitions->table, {col_partition_id + 1}, mode);
}

void
partition_table_close(PartitionTable *partitions)
{
	index_close(partitions->by_id, NoLock);
	index_close(partitions->by_log, NoLock);
	index_close(partitions->by_name, NoLock);
	table_close(partitions->table, NoLock);
}

static void
row_from_slot(TupleTableSlot *slot, PartitionRow *row)
{
	slot_getallattrs(slot);
	row->partition_id = DatumGetInt64(slot->tts_values[col_partition_id]);
	row->name = TextDatumGetCString(slot->tts_values[col_name]);
	row->log_id = DatumGetInt64(slot->tts_values[col_log_id]);
	row->created_at = DatumGetTimestampTz(slot->tts_values[col_created_at]);
	row->own = row_is_own(slot);
}

static void
key_by_name(IndexScan *scan, int64 log_id, Name name)
{
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, log_id);
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name.data, name.size)));
}

bool
partition_find(PartitionTable *partitions, int64 log_id, Name name, PartitionRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, partitions->table, partitions->by_name, snapshot);
	key_by_name(&scan, log_id, name);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

bool
partition_find_by_id(PartitionTable *partitions, int64 partition_id, PartitionRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, partitions->table, partitions->by_id, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

static void
insert_partition(PartitionTable *partitions, int64 log_id, Name name)
{
	TableWriter writer;
	Datum values[partition_cols] = {};
	bool nulls[partition_cols] = {};

	values[col_partition_id] = Int64GetDatum(next_id(Sequence::partition_ids));
	values[col_log_id] = Int64GetDatum(log_id);
	values[col_name] = PointerGetDatum(cstring_to_text_with_len(name.data, name.size));
	values[col_created_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	table_writer_open(&writer, partitions->table, partition_cols, true);
	/* false, somebody was quicker: the caller looks again */
	(void) table_writer_insert_unless_exists(&writer, values, nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	journal_tell_all(gate_key(News::births, own_tables(), log_id));
}

void
partition_ensure(PartitionTable *partitions, int64 log_id, Name name, PartitionRow *row)
{
	while (!partition_find(partitions, log_id, name, row))
	{
		SnapshotData dirty;
		IndexScan scan;
		Birth birth;

		CHECK_FOR_INTERRUPTS();
		InitDirtySnapshot(dirty);
		index_scan_open(&scan, partitions->table, partitions->by_name, &dirty);
		key_by_name(&scan, log_id, name);
		birth = look_for_birth(&scan, &dirty, true, "partition", name_to_cstring(name));
		index_scan_close(&scan);
		if (birth == Birth::absent)
			insert_partition(partitions, log_id, name);
	}
}

int
partition_page(PartitionTable *partitions, int64 log_id, int64 first, int64 last, Snapshot snapshot, PartitionRow *rows,
			   int count)
{
	IndexScan scan;
	int found = 0;

	index_scan_open(&scan, partitions->table, partitions->by_log, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, log_id);
	index_scan_key_int8(&scan, 2, BTGreaterEqualStrategyNumber, first);
	index_scan_key_int8(&scan, 2, BTLessEqualStrategyNumber, last);
	index_scan_start(&scan);
	while (found < count && index_scan_next(&scan, ForwardScanDirection))
		row_from_slot(scan.slot, &rows[found++]);
	index_scan_close(&scan);
	return found;
}

int64
partition_count(PartitionTable *partitions, int64 log_id)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	int64 count = 0;

	index_scan_open(&scan, partitions->table, partitions->by_log, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, log_id);
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
		count++;
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return count;
}

bool
partition_id_range(PartitionTable *partitions, int64 log_id, Snapshot snapshot, int64 *least, int64 *greatest)
{
	IndexScan scan;
	bool isnull;
	bool found;

	index_scan_open(&scan, partitions->table, partitions->by_log, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, log_id);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
	{
		*least = *greatest = DatumGetInt64(slot_getattr(scan.slot, col_partition_id + 1, &isnull));
		index_scan_start(&scan);
		if (index_scan_next(&scan, BackwardScanDirection))
			*greatest = DatumGetInt64(slot_getattr(scan.slot, col_partition_id + 1, &isnull));
	}
	index_scan_close(&scan);
	return found;
}

void
partition_delete(int64 partition_id)
{
	Snapshot snapshot = register_latest_snapshot();
	PartitionTable partitions;
	IndexScan scan;

	partition_table_open(&partitions, RowExclusiveLock);
	index_scan_open(&scan, partitions.table, partitions.by_id, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(&scan);
	if (index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		Relation queues = open_table(Table::queues, AccessShareLock);

		invalidate_names(queues);
		table_close(queues, NoLock);
		delete_row(partitions.table, &tid);
	}
	index_scan_close(&scan);
	partition_table_close(&partitions);
	UnregisterSnapshot(snapshot);
}

} // namespace queen
