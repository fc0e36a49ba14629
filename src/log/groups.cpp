/*
 * groups.cpp: rows of queen.log_groups. See groups.h.
 *
 * Raises. Locks: a subscription holds its unique key until the transaction ends, a change the row; only group_subscribe,
 * group_set_paused and group_delete wait for them. Runs in backends.
 */
#include "log/groups.h"

#include "log/births.h"
#include "log/event_counts.h"
#include "log/queues.h"

namespace queen
{

namespace
{

/* Columns of queen.log_groups, from 0. */
enum GroupColumn : int
{
	col_group_id,
	col_tenant,
	col_queue_id,
	col_name,
	col_created_at,
	col_start_at,
	col_paused,
	col_active_at,
	group_cols,
};

/* active_at is not written more often than that: a row that is updated at every pop would rot. */
constexpr int64 touch_interval = USECS_PER_MINUTE;

/* The table with the index that is asked for. */
struct GroupTable
{
	Relation table;
	Relation index;
};

void
open_by_name(GroupTable *groups, LOCKMODE mode)
{
	groups->table = open_table(Table::log_groups, mode);
	groups->index = open_index(groups->table, {col_queue_id + 1, col_name + 1}, mode);
}

void
open_by_id(GroupTable *groups, LOCKMODE mode)
{
	groups->table = open_table(Table::log_groups, mode);
	groups->index = open_index(groups->table, {col_group_id + 1}, mode);
}

void
close_groups(GroupTable *groups)
{
	index_close(groups->index, NoLock);
	table_close(groups->table, NoLock);
}

void
row_from_slot(TupleTableSlot *slot, GroupRow *row)
{
	slot_getallattrs(slot);
	row->group_id = DatumGetInt64(slot->tts_values[col_group_id]);
	row->tenant = *DatumGetUUIDP(slot->tts_values[col_tenant]);
	row->queue_id = DatumGetInt64(slot->tts_values[col_queue_id]);
	row->name = TextDatumGetCString(slot->tts_values[col_name]);
	row->created_at = DatumGetTimestampTz(slot->tts_values[col_created_at]);
	row->has_start = !slot->tts_isnull[col_start_at];
	row->start_at = row->has_start ? DatumGetTimestampTz(slot->tts_values[col_start_at]) : DT_NOBEGIN;
	row->paused = DatumGetBool(slot->tts_values[col_paused]);
	row->active_at = DatumGetTimestampTz(slot->tts_values[col_active_at]);
	row->own = row_is_own(slot);
}

void
key_by_name(IndexScan *scan, int64 queue_id, Name name)
{
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, queue_id);
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name.data, name.size)));
}

bool
find_by_name(GroupTable *groups, int64 queue_id, Name name, GroupRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, groups->table, groups->index, snapshot);
	key_by_name(&scan, queue_id, name);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

bool
insert_group(GroupTable *groups, const pg_uuid_t *tenant, int64 queue_id, Name name, const TimestampTz *start_at)
{
	const TimestampTz now = GetCurrentTimestamp();
	TableWriter writer;
	Datum values[group_cols] = {};
	bool nulls[group_cols] = {};
	bool born;

	values[col_group_id] = Int64GetDatum(next_id(Sequence::group_ids));
	values[col_tenant] = UUIDPGetDatum(tenant);
	values[col_queue_id] = Int64GetDatum(queue_id);
	values[col_name] = PointerGetDatum(cstring_to_text_with_len(name.data, name.size));
	values[col_created_at] = values[col_active_at] = TimestampTzGetDatum(now);
	nulls[col_start_at] = start_at == nullptr;
	if (start_at != nullptr)
		values[col_start_at] = TimestampTzGetDatum(*start_at);
	values[col_paused] = BoolGetDatum(false);
	table_writer_open(&writer, groups->table, group_cols, true);
	born = table_writer_insert_unless_exists(&writer, values, nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	queue_tell(queue_id);
	return born;
}

/* Is nobody known to insert this name? An insertion that would only meet another's is not even tried. */
Birth
look_dirty(GroupTable *groups, int64 queue_id, Name name, bool wait)
{
	SnapshotData dirty;
	IndexScan scan;
	Birth birth;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, groups->table, groups->index, &dirty);
	key_by_name(&scan, queue_id, name);
	birth = look_for_birth(&scan, &dirty, wait, "consumer group", name_to_cstring(name));
	index_scan_close(&scan);
	return birth;
}

/* A row that this transaction has locked. */
struct LockedGroup
{
	ItemPointerData tid;
	GroupRow row;
	Datum values[group_cols]; /* copies */
	bool nulls[group_cols];
};

/* Find a group and lock its row, waiting for whoever changes it; false when it is not there. */
bool
lock_by_name(GroupTable *groups, int64 queue_id, Name name, LockedGroup *locked)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		TM_Result result = TM_Ok;
		IndexScan scan;
		bool found;

		CHECK_FOR_INTERRUPTS();
		index_scan_open(&scan, groups->table, groups->index, snapshot);
		key_by_name(&scan, queue_id, name);
		index_scan_start(&scan);
		found = index_scan_next(&scan, ForwardScanDirection);
		if (found)
		{
			row_from_slot(scan.slot, &locked->row);
			locked->tid = scan.slot->tts_tid;
			memcpy(locked->values, scan.slot->tts_values, sizeof(locked->values));
			memcpy(locked->nulls, scan.slot->tts_isnull, sizeof(locked->nulls));
			locked->values[col_tenant] = datumCopy(locked->values[col_tenant], false, UUID_LEN);
			locked->values[col_name] = datumCopy(locked->values[col_name], false, -1);
			result = lock_row(groups->table, &locked->tid, snapshot, true);
		}
		index_scan_close(&scan);
		UnregisterSnapshot(snapshot);
		if (!found || result == TM_Ok)
			return found;
	}
}

} // namespace

GroupFind
group_find_or_subscribe(const pg_uuid_t *tenant, int64 queue_id, Name name, GroupRow *row)
{
	GroupTable groups;
	GroupFind result = GroupFind::found;

	open_by_name(&groups, RowExclusiveLock);
	while (!find_by_name(&groups, queue_id, name, row))
	{
		Birth birth = look_dirty(&groups, queue_id, name, false);

		CHECK_FOR_INTERRUPTS();
		if (birth == Birth::committed)
			continue; /* since our snapshot */
		if (birth == Birth::running || !insert_group(&groups, tenant, queue_id, name, nullptr))
		{
			result = GroupFind::running;
			break;
		}
	}
	close_groups(&groups);
	return result;
}

bool
group_subscribe(const pg_uuid_t *tenant, int64 queue_id, Name name, const TimestampTz *start_at, GroupRow *row)
{
	GroupTable groups;
	bool born = false;

	open_by_name(&groups, RowExclusiveLock);
	while (!find_by_name(&groups, queue_id, name, row))
	{
		CHECK_FOR_INTERRUPTS();
		if (look_dirty(&groups, queue_id, name, true) == Birth::absent)
			born = insert_group(&groups, tenant, queue_id, name, start_at);
	}
	close_groups(&groups);
	return born;
}

bool
group_find(int64 queue_id, Name name, GroupRow *row)
{
	GroupTable groups;
	bool found;

	open_by_name(&groups, AccessShareLock);
	found = find_by_name(&groups, queue_id, name, row);
	close_groups(&groups);
	return found;
}

bool
group_find_by_id(int64 group_id, GroupRow *row)
{
	GroupTable groups;
	Snapshot snapshot;
	IndexScan scan;
	bool found;

	open_by_id(&groups, AccessShareLock);
	snapshot = register_latest_snapshot();
	index_scan_open(&scan, groups.table, groups.index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, group_id);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	close_groups(&groups);
	return found;
}

GroupRow *
group_list(int64 queue_id, Snapshot snapshot, int *count)
{
	GroupTable groups;
	IndexScan scan;
	int room = 8;
	auto *rows = (GroupRow *) palloc(sizeof(GroupRow) * (Size) room);

	*count = 0;
	open_by_name(&groups, AccessShareLock);
	index_scan_open(&scan, groups.table, groups.index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, queue_id);
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		if (*count == room)
		{
			room *= 2;
			rows = (GroupRow *) repalloc_huge(rows, sizeof(GroupRow) * (Size) room);
		}
		row_from_slot(scan.slot, &rows[(*count)++]);
	}
	index_scan_close(&scan);
	close_groups(&groups);
	return rows;
}

void
groups_each(Snapshot snapshot, void (*fn)(const GroupRow *row, void *arg), void *arg)
{
	Relation table = open_table(Table::log_groups, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(table, nullptr);
	TableScanDesc scan = table_beginscan(table, snapshot, 0, nullptr);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		GroupRow row;

		CHECK_FOR_INTERRUPTS();
		row_from_slot(slot, &row);
		fn(&row, arg);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(table, NoLock);
}

void
group_touch(const GroupRow *group)
{
	const TimestampTz now = GetCurrentTimestamp();
	GroupTable groups;
	Snapshot snapshot;
	IndexScan scan;

	if (now < group->active_at + touch_interval)
		return;
	open_by_id(&groups, RowExclusiveLock);
	snapshot = register_latest_snapshot();
	index_scan_open(&scan, groups.table, groups.index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, group->group_id);
	index_scan_start(&scan);
	if (index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;
		GroupRow row;

		row_from_slot(scan.slot, &row);
		/* look before the lock: another pop may have noted it since */
		if (now >= row.active_at + touch_interval && lock_row(groups.table, &tid, snapshot, false) == TM_Ok)
		{
			TableWriter writer;

			scan.slot->tts_values[col_active_at] = TimestampTzGetDatum(now);
			table_writer_open(&writer, groups.table, group_cols, false);
			table_writer_update(&writer, &tid, scan.slot->tts_values, scan.slot->tts_isnull);
			table_writer_close(&writer);
		}
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	close_groups(&groups);
}

bool
group_set_paused(const char *queue, int64 queue_id, Name name, bool paused)
{
	GroupTable groups;
	LockedGroup locked;
	bool changed;

	open_by_name(&groups, RowExclusiveLock);
	if (!lock_by_name(&groups, queue_id, name, &locked))
		raise_unknown_group(queue, name);
	changed = locked.row.paused != paused;
	if (changed)
	{
		TableWriter writer;

		queue_tell(queue_id);
		locked.values[col_paused] = BoolGetDatum(paused);
		table_writer_open(&writer, groups.table, group_cols, false);
		table_writer_update(&writer, &locked.tid, locked.values, locked.nulls);
		table_writer_close(&writer);
	}
	close_groups(&groups);
	return changed;
}

bool
group_delete(int64 queue_id, Name name, GroupRow *row)
{
	GroupTable groups;
	LockedGroup locked;
	bool found;

	open_by_name(&groups, RowExclusiveLock);
	found = lock_by_name(&groups, queue_id, name, &locked);
	if (found)
	{
		queue_tell(queue_id);
		delete_row(groups.table, &locked.tid);
		event_note_group_gone(own_tables(), queue_id, locked.row.group_id);
		*row = locked.row;
	}
	close_groups(&groups);
	return found;
}

namespace
{

/* Delete all groups of a queue, or give them new ids. */
void
change_all(int64 queue_id, bool renew)
{
	Snapshot snapshot = register_latest_snapshot();
	GroupTable groups;
	TableWriter writer;
	GroupRow *rows;
	int count;

	open_by_name(&groups, RowExclusiveLock);
	table_writer_open(&writer, groups.table, group_cols, false);
	rows = group_list(queue_id, snapshot, &count);
	for (int i = 0; i < count; i++)
	{
		LockedGroup locked;
		int64 new_id;

		/* by name and not by what was read: whoever changed it meanwhile has been waited for */
		if (!lock_by_name(&groups, queue_id, {rows[i].name, (int) strlen(rows[i].name)}, &locked))
			continue;
		if (!renew)
		{
			delete_row(groups.table, &locked.tid);
			event_note_group_gone(own_tables(), queue_id, locked.row.group_id);
			continue;
		}
		new_id = next_id(Sequence::group_ids);
		locked.values[col_group_id] = Int64GetDatum(new_id);
		event_note_group_renewed(own_tables(), queue_id, locked.row.group_id, new_id);
		table_writer_update(&writer, &locked.tid, locked.values, locked.nulls);
	}
	table_writer_close(&writer);
	close_groups(&groups);
	UnregisterSnapshot(snapshot);
}

} // namespace

void
group_delete_all(int64 queue_id)
{
	change_all(queue_id, false);
}

void
group_renew_all(int64 queue_id)
{
	change_all(queue_id, true);
}

void
raise_unknown_group(const char *queue, Name name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("queue \"%s\" has no consumer group \"%s\"", queue, name_to_cstring(name)),
			 errhint("Make it with queen.subscribe(), or by a first queen.pop(); queen.list_groups() names those "
					 "that are there.")));
	pg_unreachable();
}

} // namespace queen
