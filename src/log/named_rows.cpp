/*
 * named_rows.cpp: rows that are keyed by tenant, queue and a key. See named_rows.h.
 *
 * Raises. Locks: rows, to the end of the transaction, waiting for whom the caller says. Runs in backends and workers.
 */
#include "log/named_rows.h"

namespace queen
{

namespace
{

/*
 * A transaction that fires holds this lock on its own transaction id: the class (field 4) is ours, see partition_lock.cpp. Whoever
 * meets a row that it holds asks for the lock, and so needs no shared memory to know.
 */
constexpr uint16 fire_lock_class = 0x5158;

LOCKTAG
fire_tag(TransactionId xid)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, xid, fire_lock_class);
	return tag;
}

bool
is_firing(TransactionId xid)
{
	LOCKTAG tag;

	if (!TransactionIdIsNormal(xid))
		return false;
	/* a savepoint's transaction is not what it said */
	tag = fire_tag(SubTransGetTopmostTransaction(xid));
	if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, ShareLock, false);
	return false;
}

/* Is a transaction that fires at the row that a scan's slot has pinned? It may have come since the scan. */
bool
is_held_by_fire(TupleTableSlot *slot)
{
	const auto [xid, infomask] = row_holder(slot);
	MultiXactMember *members;
	bool firing = false;
	int count;

	if ((infomask & HEAP_XMAX_IS_MULTI) == 0)
		return is_firing(xid);
	/* savepoints of one transaction: what one of them has locked another one has changed */
	count = GetMultiXactIdMembers(xid, &members, false, HEAP_XMAX_IS_LOCKED_ONLY(infomask));
	for (int i = 0; i < count && !firing; i++)
		firing = is_firing(members[i].xid);
	return firing;
}

void
key_by_name(IndexScan *scan, const TimerName *name)
{
	index_scan_reset_keys(scan);
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(name->tenant));
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name->queue.data, name->queue.size)));
	index_scan_key_text(scan, 3, PointerGetDatum(cstring_to_text_with_len(name->key.data, name->key.size)));
	index_scan_start(scan);
}

/* Wait for a transaction that has inserted the row's name and not ended. */
void
wait_for_birth(const NamedTable *table, const NamedRow *row)
{
	TransactionId inserter = InvalidTransactionId;
	SnapshotData dirty;
	IndexScan scan;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, table->table, table->by_key, &dirty);
	index_scan_key_uuid(&scan, 1, row->values[0]);
	index_scan_key_text(&scan, 2, row->values[1]);
	index_scan_key_text(&scan, 3, row->values[2]);
	index_scan_start(&scan);
	if (index_scan_next(&scan, ForwardScanDirection))
		inserter = dirty.xmin;
	index_scan_close(&scan);
	if (TransactionIdIsValid(inserter))
		XactLockTableWait(inserter, nullptr, nullptr, XLTW_InsertIndex);
}

} // namespace

void
named_row_begin(const TimerName *name, NamedRow *row)
{
	*row = {};
	memset(row->nulls, true, sizeof(row->nulls));
	named_row_put(row, 0, UUIDPGetDatum(name->tenant));
	named_row_put(row, 1, PointerGetDatum(cstring_to_text_with_len(name->queue.data, name->queue.size)));
	named_row_put(row, 2, PointerGetDatum(cstring_to_text_with_len(name->key.data, name->key.size)));
}

void
named_scan_start(IndexScan *scan, const NamedTable *table, Snapshot snapshot, const pg_uuid_t *tenant, Name queue,
				 Name from)
{
	index_scan_open(scan, table->table, table->by_key, snapshot);
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(tenant));
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(queue.data, queue.size)));
	if (from.data != nullptr)
		index_scan_key_text(scan, 3, PointerGetDatum(cstring_to_text_with_len(from.data, from.size)),
							BTGreaterEqualStrategyNumber);
	index_scan_start(scan);
}

Name
named_row_key(TupleTableSlot *slot)
{
	bool isnull;
	const text *key = DatumGetTextPP(slot_getattr(slot, 3, &isnull));

	return {VARDATA_ANY(key), (int) VARSIZE_ANY_EXHDR(key)};
}

void
named_row_copy(const NamedTable *table, TupleTableSlot *slot, NamedRow *row)
{
	TupleDesc desc = slot->tts_tupleDescriptor;

	slot_getallattrs(slot);
	row->tid = slot->tts_tid;
	for (int i = 0; i < table->columns; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		row->nulls[i] = slot->tts_isnull[i];
		row->values[i] =
			row->nulls[i] ? (Datum) 0 : datumCopy(slot->tts_values[i], attribute->attbyval, attribute->attlen);
	}
}

bool
named_row_find(const NamedTable *table, const TimerName *name, Snapshot snapshot, NamedRow *row)
{
	IndexScan scan;
	bool found;

	index_scan_open(&scan, table->table, table->by_key, snapshot);
	key_by_name(&scan, name);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		named_row_copy(table, scan.slot, row);
	index_scan_close(&scan);
	return found;
}

TimerLock
named_row_lock(const NamedTable *table, const TimerName *name, RowWait wait, NamedRow *row)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		TM_Result result = TM_Deleted;
		bool held = false;
		IndexScan scan;
		bool found;

		CHECK_FOR_INTERRUPTS();
		index_scan_open(&scan, table->table, table->by_key, snapshot);
		key_by_name(&scan, name);
		found = index_scan_next(&scan, ForwardScanDirection);
		if (found)
		{
			named_row_copy(table, scan.slot, row);
			result = lock_row(table->table, &row->tid, snapshot, false);
			held = result == TM_WouldBlock &&
				   (wait == RowWait::nobody || (wait == RowWait::users && is_held_by_fire(scan.slot)));
			if (result == TM_WouldBlock && !held)
				result = lock_row(table->table, &row->tid, snapshot, true);
		}
		index_scan_close(&scan);
		UnregisterSnapshot(snapshot);
		if (!found)
			return TimerLock::absent;
		if (held)
			return TimerLock::held;
		if (result == TM_Ok)
			return TimerLock::locked;
		/* this very command has changed it, by SQL: no snapshot would show that before the next one begins */
		if (result == TM_SelfModified || result == TM_Invisible)
			CommandCounterIncrement();
	}
}

bool
named_row_insert(const NamedTable *table, const NamedRow *row)
{
	TableWriter writer;
	bool inserted;

	table_writer_open(&writer, table->table, table->columns, true);
	inserted = table_writer_insert_unless_exists(&writer, row->values, row->nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	if (!inserted)
		wait_for_birth(table, row);
	return inserted;
}

void
named_row_update(const NamedTable *table, NamedRow *row)
{
	TableWriter writer;

	table_writer_open(&writer, table->table, table->columns, false);
	table_writer_update(&writer, &row->tid, row->values, row->nulls);
	table_writer_close(&writer);
}

void
timer_fire_begin()
{
	LOCKTAG tag = fire_tag(GetTopTransactionId());

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

} // namespace queen
