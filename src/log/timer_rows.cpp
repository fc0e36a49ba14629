/*
 * timer_rows.cpp: rows of queen.log_timers. See timer_rows.h.
 *
 * Raises. Locks: rows, to the end of the transaction, as named_rows.h says. Runs in backends and workers.
 */
#include "log/timer_rows.h"

#include "log/timer_news.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

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

} // namespace

void
timer_row_fill(const TimerName *name, const TimerMessage *message, TimerRow *row)
{
	const TimestampTz now = GetCurrentTimestamp();
	auto put = [row](TimerColumn column, Datum value) { named_row_put(row, column, value); };

	named_row_begin(name, row);
	put(timer_col_partition,
		PointerGetDatum(cstring_to_text_with_len(message->partition.data, message->partition.size)));
	put(timer_col_deliver_at, TimestampTzGetDatum(message->deliver_at));
	put(timer_col_message_id, uuid_to_datum(message->id));
	if (!is_occurrence(name->key))
		put(message->raw ? timer_col_payload : timer_col_message, message->content);
	if (message->headers != nullptr)
		put(timer_col_headers, PointerGetDatum(message->headers));
	if (message->priority != 0)
		put(timer_col_priority, Int16GetDatum(message->priority));
	if (message->ttl != 0)
		put(timer_col_ttl, Int64GetDatum(message->ttl));
	put(timer_col_attempts, Int32GetDatum(0));
	put(timer_col_created_at, TimestampTzGetDatum(now));
	put(timer_col_updated_at, TimestampTzGetDatum(now));
}

void
timer_table_open(TimerTable *timers, LOCKMODE mode)
{
	timers->columns = timer_cols;
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

bool
timer_find_message(const TimerTable *timers, const pg_uuid_t *tenant, Name queue, const core::Uuid &id, TimerRow *row)
{
	const char *text = uuid_text(id);
	const TimerName by_id = {tenant, queue, {text, (int) strlen(text)}};
	Snapshot snapshot = register_latest_snapshot();
	bool found;

	found = named_row_find(timers, &by_id, snapshot, row) && uuid_from_datum(row->values[timer_col_message_id]) == id;
	if (!found)
	{
		IndexScan scan;

		named_scan_start(&scan, timers, snapshot, tenant, queue, {nullptr, 0});
		while (!found && index_scan_next(&scan, ForwardScanDirection))
		{
			bool isnull;

			found = uuid_from_datum(slot_getattr(scan.slot, timer_col_message_id + 1, &isnull)) == id;
		}
		if (found)
			named_row_copy(timers, scan.slot, row);
		index_scan_close(&scan);
	}
	UnregisterSnapshot(snapshot);
	return found;
}

TimerLock
timer_lock(TimerTable *timers, const TimerName *name, TimerRow *row, RowWait wait)
{
	const TimerLock lock = named_row_lock(timers, name, wait, row);

	/* whatever becomes of this transaction, the fire may have passed it by meanwhile; who does not wait is the fire */
	if (lock == TimerLock::locked && wait != RowWait::nobody)
		timer_news_note(visible_at(row));
	return lock;
}

bool
timer_insert(TimerTable *timers, TimerRow *row)
{
	generate(row);
	timer_news_note(visible_at(row));
	return named_row_insert(timers, row);
}

void
timer_update(TimerTable *timers, TimerRow *row)
{
	generate(row);
	timer_news_note(visible_at(row));
	named_row_update(timers, row);
}

void
timer_delete(TimerTable *timers, TimerRow *row)
{
	delete_row(timers->table, &row->tid);
}

int64
timers_delete_of_queue(const pg_uuid_t *tenant, Name queue)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen timer", ALLOCSET_DEFAULT_SIZES);
	Snapshot snapshot = register_latest_snapshot();
	TimerTable timers;
	IndexScan scan;
	int64 count = 0;

	timer_table_open(&timers, RowExclusiveLock);
	named_scan_start(&scan, &timers, snapshot, tenant, queue, first_timer_key);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		const TimerName name = {tenant, queue, named_row_key(scan.slot)};
		ItemPointerData tid = scan.slot->tts_tid;
		bool isnull;
		TimerRow row;

		timer_news_note(DatumGetTimestampTz(slot_getattr(scan.slot, timer_col_visible_at + 1, &isnull)));
		if (delete_row_unless_changed(timers.table, &tid, snapshot))
			count++;
		/* what was fired or cancelled meanwhile is gone; what was moved or put off is there under its name */
		else if (timer_lock(&timers, &name, &row, RowWait::everybody) == TimerLock::locked)
		{
			timer_delete(&timers, &row);
			count++;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
	}
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(per_row);
	CommandCounterIncrement();
	return count;
}

} // namespace queen
