/*
 * dead_letters.cpp: rows of queen.dead_letters. See dead_letters.h.
 *
 * Raises. No locks but the table's. Runs in backends.
 */
#include "log/dead_letters.h"

#include "log/messages.h"

namespace queen
{

void
dead_letter_insert(Datum *values, bool *nulls)
{
	Relation table = open_table(Table::dead_letters, RowExclusiveLock);
	TableWriter writer;

	values[dead_col_dead_id] = Int64GetDatum(next_id(Sequence::dead_ids));
	nulls[dead_col_dead_id] = false;
	values[dead_col_dead_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	nulls[dead_col_dead_at] = false;
	table_writer_open(&writer, table, dead_cols, false);
	table_writer_insert(&writer, values, nulls);
	table_writer_close(&writer);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

static void
insert_letter(const DeadLetter *letter, const core::Frame *frame, TimestampTz enqueued_at)
{
	Datum values[dead_cols];
	bool nulls[dead_cols] = {};
	FrameDatums parts;

	frame_datums(frame, &parts);
	values[dead_col_tenant] = UUIDPGetDatum(&letter->queue->tenant);
	values[dead_col_queue_id] = Int64GetDatum(letter->queue->queue_id);
	values[dead_col_queue] = CStringGetTextDatum(letter->queue->name);
	values[dead_col_kind] = CStringGetTextDatum("log");
	values[dead_col_partition_id] = Int64GetDatum(letter->partition_id);
	values[dead_col_partition] = CStringGetTextDatum(letter->partition);
	values[dead_col_consumer_group] = CStringGetTextDatum(letter->consumer_group);
	values[dead_col_msg_offset] = Int64GetDatum(letter->msg_offset);
	values[dead_col_message_id] = parts.message_id;
	values[dead_col_message] = parts.message;
	nulls[dead_col_message] = parts.message_null;
	values[dead_col_payload] = parts.payload;
	nulls[dead_col_payload] = parts.payload_null;
	values[dead_col_headers] = parts.headers;
	nulls[dead_col_headers] = parts.headers_null;
	values[dead_col_attempts] = Int32GetDatum(letter->attempts);
	values[dead_col_error] = PointerGetDatum(letter->error);
	nulls[dead_col_error] = letter->error == nullptr;
	values[dead_col_enqueued_at] = TimestampTzGetDatum(enqueued_at);
	nulls[dead_col_timer_key] = nulls[dead_col_priority] = true;
	dead_letter_insert(values, nulls);
}

void
dead_letter_bury(const DeadLetter *letter, const LogReader *reader)
{
	SegmentFrames frames;
	core::Frame frame;
	int64 offset;

	segment_frames_open(&frames, reader, letter->msg_offset, letter->queue->name, letter->partition);
	if (!segment_frames_next(&frames, &frame, &offset))
	{
		segment_frames_check(&frames);
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("no message at offset %lld of partition \"%s\"",
																(long long) letter->msg_offset, letter->partition)));
	}
	insert_letter(letter, &frame, reader->created_at);
	segment_frames_close(&frames);
}

void
dead_scan_open(DeadScan *scan, const DeadChoice *choice, LOCKMODE mode)
{
	scan->choice = choice;
	scan->table = open_table(Table::dead_letters, mode);
	scan->index = open_index(scan->table, {dead_col_queue_id + 1, dead_col_dead_id + 1}, mode, false);
	scan->snapshot = register_latest_snapshot();
	scan->at = 0;
	index_scan_open(&scan->scan, scan->table, scan->index, scan->snapshot);
	index_scan_key_int8(&scan->scan, 1, BTEqualStrategyNumber, choice->queue_id);
	if (choice->has_ids)
		return;
	index_scan_key_int8(&scan->scan, 2, BTGreaterStrategyNumber, choice->after);
	index_scan_start(&scan->scan);
}

/* The next row, of whatever group. */
static bool
next_letter(DeadScan *scan)
{
	const DeadChoice *choice = scan->choice;
	bool found = false;

	if (!choice->has_ids)
		return index_scan_next(&scan->scan, ForwardScanDirection);
	while (!found && scan->at < choice->id_count)
	{
		index_scan_reset_keys(&scan->scan);
		index_scan_key_int8(&scan->scan, 1, BTEqualStrategyNumber, choice->queue_id);
		index_scan_key_int8(&scan->scan, 2, BTEqualStrategyNumber, choice->ids[scan->at++]);
		index_scan_start(&scan->scan);
		found = index_scan_next(&scan->scan, ForwardScanDirection);
	}
	return found;
}

static bool
text_is(TupleTableSlot *slot, DeadColumn column, Name name)
{
	bool isnull;
	const Datum value = slot_getattr(slot, column + 1, &isnull);
	const text *found = isnull ? nullptr : DatumGetTextPP(value);

	return found != nullptr && (int) VARSIZE_ANY_EXHDR(found) == name.size &&
		   memcmp(VARDATA_ANY(found), name.data, (Size) name.size) == 0;
}

static bool
is_chosen(const DeadChoice *choice, TupleTableSlot *slot)
{
	bool isnull;

	if (choice->queue_id == dead_of_no_queue &&
		(!text_is(slot, dead_col_queue, choice->queue) ||
		 memcmp(DatumGetUUIDP(slot_getattr(slot, dead_col_tenant + 1, &isnull)), choice->tenant, UUID_LEN) != 0))
		return false;
	return !choice->has_group || text_is(slot, dead_col_consumer_group, choice->group);
}

bool
dead_scan_next(DeadScan *scan)
{
	while (next_letter(scan))
		if (is_chosen(scan->choice, scan->scan.slot))
			return true;
	return false;
}

void
dead_scan_close(DeadScan *scan)
{
	index_scan_close(&scan->scan);
	UnregisterSnapshot(scan->snapshot);
	index_close(scan->index, NoLock);
	table_close(scan->table, NoLock);
}

static DeadChoice
choice_of_no_queue(const pg_uuid_t *tenant, Name queue)
{
	DeadChoice choice = {};

	choice.queue_id = dead_of_no_queue;
	choice.tenant = tenant;
	choice.queue = queue;
	choice.after = PG_INT64_MIN;
	return choice;
}

void
dead_letters_adopt(const pg_uuid_t *tenant, Name queue, int64 queue_id)
{
	const DeadChoice choice = choice_of_no_queue(tenant, queue);
	TableWriter writer;
	DeadScan scan;

	dead_scan_open(&scan, &choice, RowExclusiveLock);
	PushActiveSnapshot(scan.snapshot);
	while (dead_scan_next(&scan))
	{
		TupleTableSlot *slot = scan.scan.slot;
		ItemPointerData tid = slot->tts_tid;
		Datum values[dead_cols];
		bool nulls[dead_cols];

		/* who purges it has it */
		if (lock_row(scan.table, &tid, scan.snapshot, false) != TM_Ok)
			continue;
		slot_getallattrs(slot);
		memcpy(values, slot->tts_values, sizeof(values));
		memcpy(nulls, slot->tts_isnull, sizeof(nulls));
		values[dead_col_queue_id] = Int64GetDatum(queue_id);
		table_writer_open(&writer, scan.table, dead_cols, false);
		table_writer_update(&writer, &tid, values, nulls);
		table_writer_close(&writer);
	}
	PopActiveSnapshot();
	dead_scan_close(&scan);
}

int64
dead_letters_delete_of_no_queue(const pg_uuid_t *tenant, Name queue)
{
	const DeadChoice choice = choice_of_no_queue(tenant, queue);
	DeadScan scan;
	int64 count = 0;

	dead_scan_open(&scan, &choice, RowExclusiveLock);
	PushActiveSnapshot(scan.snapshot);
	while (dead_scan_next(&scan))
	{
		ItemPointerData tid = scan.scan.slot->tts_tid;

		/* one that was changed is a queue's by now, which was born meanwhile */
		if (delete_row_unless_changed(scan.table, &tid, scan.snapshot))
			count++;
	}
	PopActiveSnapshot();
	dead_scan_close(&scan);
	CommandCounterIncrement();
	return count;
}

bool
dead_letters_wait_for(const pg_uuid_t *tenant, Name queue)
{
	const DeadChoice choice = choice_of_no_queue(tenant, queue);
	DeadScan scan;
	bool found;

	dead_scan_open(&scan, &choice, AccessShareLock);
	found = dead_scan_next(&scan);
	dead_scan_close(&scan);
	return found;
}

bool
dead_letters_next_queue(int64 from, int64 *queue_id)
{
	Relation table = open_table(Table::dead_letters, AccessShareLock);
	Relation index = open_index(table, {dead_col_queue_id + 1, dead_col_dead_id + 1}, AccessShareLock, false);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTGreaterEqualStrategyNumber, from);
	index_scan_start(&scan);
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
	{
		bool isnull;

		*queue_id = DatumGetInt64(slot_getattr(scan.slot, dead_col_queue_id + 1, &isnull));
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return found;
}

bool
dead_letters_expire_step(int64 queue_id, TimestampTz before)
{
	constexpr int most = 1000;
	Relation table = open_table(Table::dead_letters, RowExclusiveLock);
	Relation index = open_index(table, {dead_col_queue_id + 1, dead_col_dead_id + 1}, RowExclusiveLock, false);
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	int count = 0;

	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, queue_id);
	index_scan_start(&scan);
	PushActiveSnapshot(snapshot);
	/* ids ascend with the time, but for what transactions that ran side by side have mixed: the next pass gets those */
	while (count < most && index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;
		bool isnull;

		if (DatumGetTimestampTz(slot_getattr(scan.slot, dead_col_dead_at + 1, &isnull)) >= before)
			break;
		if (delete_row_unless_locked(table, &tid, snapshot))
			count++;
	}
	PopActiveSnapshot();
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	CommandCounterIncrement();
	return count == most;
}

} // namespace queen
