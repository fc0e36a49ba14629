/*
 * message_rows.cpp: rows of queen.messages. See message_rows.h.
 *
 * Raises. Locks: the rows that are changed, to the end of the transaction, without waiting unless message_lock does. Runs in backends and workers.
 */
#include "workqueue/message_rows.h"

#include "state/rollup.h"
#include "state/spread.h"

namespace queen
{

namespace
{

static_assert(message_col_log_id == counted_col_log_id && message_col_order == counted_col_order &&
			  message_col_visible_at == counted_col_visible_at && message_col_priority == counted_col_priority &&
			  message_col_shard == counted_col_shard && message_col_state == counted_col_state);

/* Of the row's shard. */
void
count(const MessageTable *messages, const MessageRow *row, int ready, int in_flight)
{
	rollup_note(messages->tables,
				{row->log_id, row->priority, DatumGetInt16(row->values[message_col_shard]), ready, in_flight});
}

/* It is in flight now. */
void
count_update(const MessageTable *messages, const MessageRow *before, const MessageRow *row)
{
	if (!before->in_flight)
		count(messages, row, -1, 1);
}

void
count_delete(const MessageTable *messages, const MessageRow *row)
{
	if (row->in_flight)
		count(messages, row, 0, -1);
	else
		rollup_note(messages->tables, {row->log_id, row->priority, spread_draw(messages->tables, row->log_id), -1, 0});
}

/*
 * The row as it was is gone unless that is rolled back. Before it is written: what writes it may fail when others have passed it by already. One that
 * is left then has been noted for nothing: a mark is lowered, somebody woken, if the transaction rolls back.
 */
void
note_gone(const MessageTable *messages, const MessageRow *row, int64 queue_id)
{
	const MarkKey key = message_mark(messages, row);
	const MarkKey expiry = {messages->tables, 0, 0, MarkedIndex::expiry};

	claim_note_taken(&key, message_key(row), queue_id);
	/* the cleaner's mark rises over what somebody is at */
	claim_note_taken(&expiry, row->expires_at, 0);
}

/* It can be found as it is now. count: of those that may be taken at once. */
void
note_there(const MessageTable *messages, const MessageRow *row, int64 queue_id, uint32 count)
{
	const MarkKey key = message_mark(messages, row);

	claim_note_inserted(&key, message_key(row), queue_id, count);
}

TableWriter *
writer_of(MessageTable *messages)
{
	if (!messages->has_writer)
	{
		MemoryContext caller = MemoryContextSwitchTo(messages->context);

		table_writer_open(&messages->writer, messages->table, message_cols, false);
		messages->has_writer = true;
		MemoryContextSwitchTo(caller);
	}
	return &messages->writer;
}

/* What the columns say about the state, from the row's own fields. */
void
fill_state(MessageRow *row)
{
	row->in_flight = true;
	row->values[message_col_state] = CStringGetTextDatum("IN_FLIGHT");
	row->values[message_col_visible_at] = TimestampTzGetDatum(row->visible_at);
	row->nulls[message_col_visible_at] = false;
	row->values[message_col_attempts] = Int16GetDatum((int16) Min(row->attempts, PG_INT16_MAX));
}

/* Whose messages: the first keys of a scan. Returns the column of the next one. */
AttrNumber
key_messages(IndexScan *scan, MarkedIndex index, int64 log_id, int16 priority)
{
	AttrNumber column = 1;

	index_scan_reset_keys(scan);
	if (index != MarkedIndex::expiry)
		index_scan_key_int8(scan, column++, BTEqualStrategyNumber, log_id);
	if (index != MarkedIndex::expiry && priority != 0)
		index_scan_key_int2(scan, column++, priority);
	return column;
}

} // namespace

void
message_table_open(MessageTable *messages, LOCKMODE mode)
{
	messages->tables = own_tables();
	messages->table = open_table(Table::messages, mode);
	messages->by_id = open_index(messages->table, {message_col_id + 1}, mode);
	messages->ready =
		open_partial_index(messages->table, {message_col_log_id + 1, message_col_priority + 1, message_col_order + 1},
						   message_col_state + 1, "READY", mode);
	messages->in_flight = open_partial_index(
		messages->table, {message_col_log_id + 1, message_col_priority + 1, message_col_visible_at + 1},
		message_col_state + 1, "IN_FLIGHT", mode);
	messages->by_expiry = open_index(messages->table, {message_col_expires_at + 1}, mode, false);
	messages->writing = mode >= RowExclusiveLock;
	messages->has_writer = false;
	messages->batch = {};
	messages->context = CurrentMemoryContext;
}

void
message_table_close(MessageTable *messages)
{
	if (messages->has_writer)
	{
		table_writer_flush(&messages->writer, &messages->batch);
		row_batch_close(&messages->batch);
		table_writer_close(&messages->writer);
	}
	if (messages->writing)
	{
		CommandCounterIncrement();
		rollup_settle();
	}
	index_close(messages->by_expiry, NoLock);
	index_close(messages->in_flight, NoLock);
	index_close(messages->ready, NoLock);
	index_close(messages->by_id, NoLock);
	table_close(messages->table, NoLock);
}

void
message_row_read(TupleTableSlot *slot, MessageRow *row)
{
	slot_getallattrs(slot);
	row->tid = slot->tts_tid;
	memcpy(row->values, slot->tts_values, sizeof(row->values));
	memcpy(row->nulls, slot->tts_isnull, sizeof(row->nulls));
	row->log_id = DatumGetInt64(row->values[message_col_log_id]);
	row->order = DatumGetInt64(row->values[message_col_order]);
	row->priority = DatumGetInt16(row->values[message_col_priority]);
	row->attempts = DatumGetInt16(row->values[message_col_attempts]);
	row->expires_at = DatumGetTimestampTz(row->values[message_col_expires_at]);
	row->in_flight = !row->nulls[message_col_visible_at];
	row->visible_at = row->in_flight ? DatumGetTimestampTz(row->values[message_col_visible_at]) : 0;
}

MarkKey
message_mark(const MessageTable *messages, const MessageRow *row)
{
	return {messages->tables, row->log_id, row->priority, row->in_flight ? MarkedIndex::in_flight : MarkedIndex::ready};
}

int64
message_key(const MessageRow *row)
{
	return row->in_flight ? row->visible_at : row->order;
}

void
message_insert(MessageTable *messages, MessageRow *row, int64 queue_id)
{
	const MarkKey expiry = {messages->tables, 0, 0, MarkedIndex::expiry};

	row->in_flight = false;
	row->visible_at = 0;
	row->attempts = 0;
	row->values[message_col_log_id] = Int64GetDatum(row->log_id);
	row->values[message_col_order] = Int64GetDatum(row->order);
	row->values[message_col_expires_at] = TimestampTzGetDatum(row->expires_at);
	row->values[message_col_priority] = Int16GetDatum(row->priority);
	row->values[message_col_attempts] = Int16GetDatum(0);
	row->values[message_col_state] = CStringGetTextDatum("READY");
	row->nulls[message_col_visible_at] = row->nulls[message_col_delivered_at] = true;
	row->nulls[message_col_receipt] = row->nulls[message_col_last_error] = true;
	table_writer_add(writer_of(messages), &messages->batch, row->values, row->nulls);
	note_there(messages, row, queue_id, 1);
	count(messages, row, 1, 0);
	claim_note_inserted(&expiry, row->expires_at, 0, 0);
}

bool
message_update_unless_locked(MessageTable *messages, const MessageRow *before, MessageRow *row, int64 queue_id)
{
	fill_state(row);
	note_gone(messages, before, queue_id);
	if (!table_writer_update_unless_locked(writer_of(messages), &row->tid, row->values, row->nulls))
		return false;
	note_there(messages, row, queue_id, 0);
	count_update(messages, before, row);
	return true;
}

void
message_update(MessageTable *messages, const MessageRow *before, MessageRow *row, int64 queue_id, bool now)
{
	fill_state(row);
	note_gone(messages, before, queue_id);
	table_writer_update(writer_of(messages), &row->tid, row->values, row->nulls);
	note_there(messages, row, queue_id, now ? 1 : 0);
	count_update(messages, before, row);
}

bool
message_lock(MessageTable *messages, const MessageRow *row, Snapshot snapshot, int64 queue_id)
{
	ItemPointerData tid = row->tid;

	note_gone(messages, row, queue_id);
	return lock_row(messages->table, &tid, snapshot, true) == TM_Ok;
}

void
message_leave(MessageTable *messages, const MessageRow *row, int64 queue_id)
{
	note_there(messages, row, queue_id, 1);
}

void
message_delete(MessageTable *messages, const MessageRow *row, int64 queue_id)
{
	ItemPointerData tid = row->tid;

	note_gone(messages, row, queue_id);
	delete_row(messages->table, &tid);
	count_delete(messages, row);
}

bool
message_delete_unless_locked(MessageTable *messages, const MessageRow *row, Snapshot snapshot, int64 queue_id)
{
	ItemPointerData tid = row->tid;

	note_gone(messages, row, queue_id);
	if (!delete_row_unless_locked(messages->table, &tid, snapshot))
		return false;
	count_delete(messages, row);
	return true;
}

void
message_scan_open(IndexScan *scan, const MessageTable *messages, MarkedIndex index, Snapshot snapshot)
{
	Relation by = messages->by_id;

	if (index == MarkedIndex::ready)
		by = messages->ready;
	else if (index == MarkedIndex::in_flight)
		by = messages->in_flight;
	else if (index == MarkedIndex::expiry)
		by = messages->by_expiry;
	index_scan_open(scan, messages->table, by, snapshot);
}

void
message_scan_start(IndexScan *scan, MarkedIndex index, int64 log_id, int16 priority, int64 from)
{
	const AttrNumber column = key_messages(scan, index, log_id, priority);

	if (index == MarkedIndex::ready && priority != 0)
		index_scan_key_int8(scan, column, BTGreaterEqualStrategyNumber, from);
	else if (index == MarkedIndex::expiry || priority != 0)
		index_scan_key_time(scan, column, BTGreaterEqualStrategyNumber, from);
	index_scan_start(scan);
}

void
message_scan_start_until(IndexScan *scan, MarkedIndex index, int64 log_id, int16 priority, TimestampTz from,
						 TimestampTz until)
{
	const AttrNumber column = key_messages(scan, index, log_id, priority);

	index_scan_key_time(scan, column, BTGreaterEqualStrategyNumber, from);
	index_scan_key_time(scan, column, BTLessEqualStrategyNumber, until);
	index_scan_start(scan);
}

void
message_scan_start_one(IndexScan *scan, const pg_uuid_t *message_id)
{
	index_scan_reset_keys(scan);
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(message_id));
	index_scan_start(scan);
}

} // namespace queen
