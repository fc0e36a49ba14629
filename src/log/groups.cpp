/*
 * groups.cpp: rows of queen.log_groups. See groups.h.
 *
 * Raises. Locks: none but the table's; a subscription holds its unique key until the transaction ends. Runs in backends.
 */
#include "log/groups.h"

#include "log/births.h"

namespace queen
{

/* Columns of queen.log_groups, from 0. */
enum GroupColumn : int
{
	col_group_id,
	col_tenant,
	col_queue_id,
	col_name,
	col_created_at,
	group_cols,
};

static void
row_from_slot(TupleTableSlot *slot, GroupRow *row)
{
	slot_getallattrs(slot);
	row->group_id = DatumGetInt64(slot->tts_values[col_group_id]);
	row->tenant = *DatumGetUUIDP(slot->tts_values[col_tenant]);
	row->queue_id = DatumGetInt64(slot->tts_values[col_queue_id]);
	row->name = TextDatumGetCString(slot->tts_values[col_name]);
}

static void
key_by_name(IndexScan *scan, int64 queue_id, Name name)
{
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, queue_id);
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name.data, name.size)));
}

static bool
find_by_name(Relation table, Relation index, int64 queue_id, Name name, GroupRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, table, index, snapshot);
	key_by_name(&scan, queue_id, name);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

static bool
insert_group(Relation table, const pg_uuid_t *tenant, int64 queue_id, Name name)
{
	TableWriter writer;
	Datum values[group_cols] = {};
	bool nulls[group_cols] = {};
	bool born;

	values[col_group_id] = Int64GetDatum(next_id(Sequence::group_ids));
	values[col_tenant] = UUIDPGetDatum(tenant);
	values[col_queue_id] = Int64GetDatum(queue_id);
	values[col_name] = PointerGetDatum(cstring_to_text_with_len(name.data, name.size));
	values[col_created_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	table_writer_open(&writer, table, group_cols, true);
	born = table_writer_insert_unless_exists(&writer, values, nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	return born;
}

/* Is nobody known to insert this name? An insertion that would only meet another's is not even tried. */
static Birth
look_dirty(Relation table, Relation index, int64 queue_id, Name name)
{
	SnapshotData dirty;
	IndexScan scan;
	Birth birth;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, table, index, &dirty);
	key_by_name(&scan, queue_id, name);
	birth = look_for_birth(&scan, &dirty, false, "consumer group", "");
	index_scan_close(&scan);
	return birth;
}

GroupFind
group_find_or_subscribe(const pg_uuid_t *tenant, int64 queue_id, Name name, GroupRow *row)
{
	Relation table = open_table(Table::log_groups, RowExclusiveLock);
	Relation index = open_index(table, {col_queue_id + 1, col_name + 1}, RowExclusiveLock);
	GroupFind result = GroupFind::found;

	while (!find_by_name(table, index, queue_id, name, row))
	{
		Birth birth = look_dirty(table, index, queue_id, name);

		CHECK_FOR_INTERRUPTS();
		if (birth == Birth::committed)
			continue; /* since our snapshot */
		if (birth == Birth::running || !insert_group(table, tenant, queue_id, name))
		{
			result = GroupFind::running;
			break;
		}
	}
	index_close(index, NoLock);
	table_close(table, NoLock);
	return result;
}

bool
group_find_by_id(int64 group_id, GroupRow *row)
{
	Relation table = open_table(Table::log_groups, AccessShareLock);
	Relation index = open_index(table, {col_group_id + 1}, AccessShareLock);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, group_id);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return found;
}

} // namespace queen
