/*
 * timer_rows.cpp: rows of queen.log_timers. See timer_rows.h.
 *
 * Raises. Locks: rows, to the end of the transaction, waiting for other users' transactions but never for one that fires. Runs in backends
 * and workers.
 */
#include "log/timer_rows.h"

#include "log/timer_news.h"
#include "server/uuids.h"

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

/* The transaction at the row that a scan's slot has pinned: it may have come since the scan. */
TransactionId
holder_of(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	TransactionId xid = HeapTupleHeaderGetRawXmax(tuple->t_data);

	if ((tuple->t_data->t_infomask & HEAP_XMAX_IS_MULTI) != 0)
		xid = InvalidTransactionId;
	if (should_free)
		heap_freetuple(tuple);
	return xid;
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

void
key_by_name(IndexScan *scan, const TimerName *name)
{
	index_scan_reset_keys(scan);
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(name->tenant));
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name->queue.data, name->queue.size)));
	index_scan_key_text(scan, 3, PointerGetDatum(cstring_to_text_with_len(name->key.data, name->key.size)));
	index_scan_start(scan);
}

/* visible_at is generated, which only SQL does by itself. */
void
generate(TimerRow *row)
{
	TimestampTz at = DatumGetTimestampTz(row->values[timer_col_deliver_at]);

	if (!row->nulls[timer_col_retry_at])
		at = Max(at, DatumGetTimestampTz(row->values[timer_col_retry_at]));
	row->values[timer_col_visible_at] = TimestampTzGetDatum(at);
	row->nulls[timer_col_visible_at] = false;
}

TimestampTz
visible_at(const TimerRow *row)
{
	return DatumGetTimestampTz(row->values[timer_col_visible_at]);
}

/* Wait for a transaction that has inserted the name and not ended. */
void
wait_for_birth(TimerTable *timers, const TimerName *name)
{
	TransactionId inserter = InvalidTransactionId;
	SnapshotData dirty;
	IndexScan scan;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, timers->table, timers->by_key, &dirty);
	key_by_name(&scan, name);
	if (index_scan_next(&scan, ForwardScanDirection))
		inserter = dirty.xmin;
	index_scan_close(&scan);
	if (TransactionIdIsValid(inserter))
		XactLockTableWait(inserter, nullptr, nullptr, XLTW_InsertIndex);
}

} // namespace

void
timer_row_fill(const TimerName *name, const TimerMessage *message, TimerRow *row)
{
	const TimestampTz now = GetCurrentTimestamp();
	auto put = [row](TimerColumn column, Datum value) {
		row->values[column] = value;
		row->nulls[column] = false;
	};

	*row = {};
	memset(row->nulls, true, sizeof(row->nulls));
	put(timer_col_tenant, UUIDPGetDatum(name->tenant));
	put(timer_col_queue, PointerGetDatum(cstring_to_text_with_len(name->queue.data, name->queue.size)));
	put(timer_col_key, PointerGetDatum(cstring_to_text_with_len(name->key.data, name->key.size)));
	put(timer_col_partition,
		PointerGetDatum(cstring_to_text_with_len(message->partition.data, message->partition.size)));
	put(timer_col_deliver_at, TimestampTzGetDatum(message->deliver_at));
	put(timer_col_message_id, uuid_to_datum(message->id));
	put(message->raw ? timer_col_payload : timer_col_message, message->content);
	if (message->headers != nullptr)
		put(timer_col_headers, PointerGetDatum(message->headers));
	put(timer_col_attempts, Int32GetDatum(0));
	put(timer_col_created_at, TimestampTzGetDatum(now));
	put(timer_col_updated_at, TimestampTzGetDatum(now));
}

void
timer_table_open(TimerTable *timers, LOCKMODE mode)
{
	timers->table = open_table(Table::log_timers, mode);
	timers->by_key = open_index(timers->table, {timer_col_tenant + 1, timer_col_queue + 1, timer_col_key + 1}, mode);
	timers->by_time = open_index(timers->table, {timer_col_visible_at + 1, timer_col_message_id + 1}, mode, false);
	timers->by_queue = open_index(
		timers->table, {timer_col_tenant + 1, timer_col_queue + 1, timer_col_visible_at + 1, timer_col_message_id + 1},
		mode, false);
}

void
timer_table_close(TimerTable *timers)
{
	index_close(timers->by_queue, NoLock);
	index_close(timers->by_time, NoLock);
	index_close(timers->by_key, NoLock);
	table_close(timers->table, NoLock);
}

void
timer_scan_keys(IndexScan *scan, const TimerTable *timers, Snapshot snapshot, const pg_uuid_t *tenant, Name queue,
				Name from)
{
	index_scan_open(scan, timers->table, timers->by_key, snapshot);
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(tenant));
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(queue.data, queue.size)));
	if (from.data != nullptr)
		index_scan_key_text(scan, 3, PointerGetDatum(cstring_to_text_with_len(from.data, from.size)),
							BTGreaterEqualStrategyNumber);
	index_scan_start(scan);
}

void
timer_row_from_slot(TupleTableSlot *slot, TimerRow *row)
{
	TupleDesc desc = slot->tts_tupleDescriptor;

	slot_getallattrs(slot);
	row->tid = slot->tts_tid;
	for (int i = 0; i < timer_cols; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		row->nulls[i] = slot->tts_isnull[i];
		row->values[i] =
			row->nulls[i] ? (Datum) 0 : datumCopy(slot->tts_values[i], attribute->attbyval, attribute->attlen);
	}
}

bool
timer_find(const TimerTable *timers, const TimerName *name, TimerRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, timers->table, timers->by_key, snapshot);
	key_by_name(&scan, name);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
		timer_row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

bool
timer_find_message(const TimerTable *timers, const pg_uuid_t *tenant, Name queue, const core::Uuid &id, TimerRow *row)
{
	const char *text = uuid_text(id);
	const TimerName by_id = {tenant, queue, {text, (int) strlen(text)}};
	Snapshot snapshot;
	IndexScan scan;
	bool found = false;

	if (timer_find(timers, &by_id, row) && uuid_from_datum(row->values[timer_col_message_id]) == id)
		return true;
	snapshot = register_latest_snapshot();
	timer_scan_keys(&scan, timers, snapshot, tenant, queue, {nullptr, 0});
	while (!found && index_scan_next(&scan, ForwardScanDirection))
	{
		bool isnull;

		found = uuid_from_datum(slot_getattr(scan.slot, timer_col_message_id + 1, &isnull)) == id;
	}
	if (found)
		timer_row_from_slot(scan.slot, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

TimerLock
timer_lock(TimerTable *timers, const TimerName *name, TimerRow *row, bool wait)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		TM_Result result = TM_Deleted;
		bool firing = false;
		IndexScan scan;
		bool found;

		CHECK_FOR_INTERRUPTS();
		index_scan_open(&scan, timers->table, timers->by_key, snapshot);
		key_by_name(&scan, name);
		found = index_scan_next(&scan, ForwardScanDirection);
		if (found)
		{
			timer_row_from_slot(scan.slot, row);
			result = lock_row(timers->table, &row->tid, snapshot, false);
			firing = result == TM_WouldBlock && (!wait || is_firing(holder_of(scan.slot)));
			if (result == TM_WouldBlock && !firing)
				result = lock_row(timers->table, &row->tid, snapshot, true);
		}
		index_scan_close(&scan);
		UnregisterSnapshot(snapshot);
		if (!found)
			return TimerLock::absent;
		if (firing)
			return TimerLock::held;
		if (result == TM_Ok)
		{
			/* whatever becomes of this transaction, the fire may have passed it by meanwhile */
			timer_news_note(visible_at(row));
			return TimerLock::locked;
		}
	}
}

bool
timer_insert(TimerTable *timers, TimerRow *row)
{
	TableWriter writer;
	bool inserted;

	generate(row);
	timer_news_note(visible_at(row));
	table_writer_open(&writer, timers->table, timer_cols, true);
	inserted = table_writer_insert_unless_exists(&writer, row->values, row->nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	if (!inserted)
	{
		const text *queue = DatumGetTextPP(row->values[timer_col_queue]);
		const text *key = DatumGetTextPP(row->values[timer_col_key]);
		const TimerName name = {DatumGetUUIDP(row->values[timer_col_tenant]),
								{VARDATA_ANY(queue), (int) VARSIZE_ANY_EXHDR(queue)},
								{VARDATA_ANY(key), (int) VARSIZE_ANY_EXHDR(key)}};

		wait_for_birth(timers, &name);
	}
	return inserted;
}

void
timer_update(TimerTable *timers, TimerRow *row)
{
	TableWriter writer;

	generate(row);
	timer_news_note(visible_at(row));
	table_writer_open(&writer, timers->table, timer_cols, false);
	table_writer_update(&writer, &row->tid, row->values, row->nulls);
	table_writer_close(&writer);
}

void
timer_delete(TimerTable *timers, TimerRow *row)
{
	delete_row(timers->table, &row->tid);
}

int64
timers_delete_of_queue(const pg_uuid_t *tenant, Name queue)
{
	Snapshot snapshot = register_latest_snapshot();
	TimerTable timers;
	IndexScan scan;
	int64 count = 0;

	timer_table_open(&timers, RowExclusiveLock);
	timer_scan_keys(&scan, &timers, snapshot, tenant, queue, {nullptr, 0});
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;
		bool isnull;

		timer_news_note(DatumGetTimestampTz(slot_getattr(scan.slot, timer_col_visible_at + 1, &isnull)));
		/* what was fired or cancelled meanwhile is gone; what was moved is a timer that came after the drop began */
		if (delete_row_unless_changed(timers.table, &tid, snapshot))
			count++;
	}
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	return count;
}

void
timer_fire_begin()
{
	LOCKTAG tag = fire_tag(GetTopTransactionId());

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

} // namespace queen
