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

static bool
text_is(TupleTableSlot *slot, DeadColumn column, Name name)
{
	bool isnull;
	const Datum value = slot_getattr(slot, column + 1, &isnull);
	const text *found = isnull ? nullptr : DatumGetTextPP(value);

	return found != nullptr && (int) VARSIZE_ANY_EXHDR(found) == name.size &&
		   memcmp(VARDATA_ANY(found), name.data, (Size) name.size) == 0;
}

bool
dead_is_of(TupleTableSlot *slot, int64 queue_id, const pg_uuid_t *tenant, Name queue)
{
	bool isnull;
	const int64 found = DatumGetInt64(slot_getattr(slot, dead_col_queue_id + 1, &isnull));

	if (found != dead_of_no_queue)
		return found == queue_id;
	return text_is(slot, dead_col_queue, queue) &&
		   memcmp(DatumGetUUIDP(slot_getattr(slot, dead_col_tenant + 1, &isnull)), tenant, UUID_LEN) == 0;
}

static bool
is_chosen(const DeadChoice *choice, TupleTableSlot *slot)
{
	return dead_is_of(slot, choice->queue_id, choice->tenant, choice->queue) &&
		   (!choice->has_group || text_is(slot, dead_col_consumer_group, choice->group));
}

/* Go on to the next letter that is chosen. */
static void
stream_next(DeadScan *scan, DeadStream *stream)
{
	bool isnull;

	do
		stream->there = index_scan_next(&stream->scan, ForwardScanDirection);
	while (stream->there && !is_chosen(scan->choice, stream->scan.slot));
	if (stream->there)
		stream->dead_id = DatumGetInt64(slot_getattr(stream->scan.slot, dead_col_dead_id + 1, &isnull));
}

/* Begin with letters behind a dead_id, or with that one alone. */
static void
stream_start(DeadScan *scan, DeadStream *stream, StrategyNumber how, int64 dead_id)
{
	index_scan_reset_keys(&stream->scan);
	index_scan_key_int8(&stream->scan, 1, BTEqualStrategyNumber, stream->queue_id);
	index_scan_key_int8(&stream->scan, 2, how, dead_id);
	index_scan_start(&stream->scan);
	stream_next(scan, stream);
}

void
dead_scan_open(DeadScan *scan, const DeadChoice *choice, LOCKMODE mode)
{
	*scan = {};
	scan->choice = choice;
	scan->table = open_table(Table::dead_letters, mode);
	scan->index = open_index(scan->table, {dead_col_queue_id + 1, dead_col_dead_id + 1}, mode, false);
	scan->snapshot = register_latest_snapshot();
	if (choice->queue_id != dead_of_no_queue)
		scan->streams[scan->stream_count++].queue_id = choice->queue_id;
	scan->streams[scan->stream_count++].queue_id = dead_of_no_queue;
	for (int i = 0; i < scan->stream_count; i++)
		index_scan_open(&scan->streams[i].scan, scan->table, scan->index, scan->snapshot);
}

static bool
next_of_ids(DeadScan *scan)
{
	const DeadChoice *choice = scan->choice;

	for (; scan->at < choice->id_count; scan->at++)
		for (int i = 0; i < scan->stream_count; i++)
		{
			DeadStream *stream = &scan->streams[i];

			stream_start(scan, stream, BTEqualStrategyNumber, choice->ids[scan->at]);
			if (!stream->there)
				continue;
			scan->slot = stream->scan.slot;
			scan->at++;
			return true;
		}
	return false;
}

bool
dead_scan_next(DeadScan *scan)
{
	DeadStream *next = nullptr;

	if (scan->choice->has_ids)
		return next_of_ids(scan);
	for (int i = 0; i < scan->stream_count; i++)
	{
		DeadStream *stream = &scan->streams[i];

		if (!scan->begun)
			stream_start(scan, stream, BTGreaterStrategyNumber, scan->choice->after);
		else if (scan->slot == stream->scan.slot)
			stream_next(scan, stream);
		if (stream->there && (next == nullptr || stream->dead_id < next->dead_id))
			next = stream;
	}
	scan->begun = true;
	if (next != nullptr)
		scan->slot = next->scan.slot;
	return next != nullptr;
}

void
dead_scan_close(DeadScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
		index_scan_close(&scan->streams[i].scan);
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
		ItemPointerData tid = scan.slot->tts_tid;

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

	return dead_letters_any(&choice, nullptr);
}

bool
dead_letters_any(const DeadChoice *choice, QueueKind *kind)
{
	QueueKind wanted = QueueKind::log;
	bool found = false;
	DeadScan scan;

	dead_scan_open(&scan, choice, AccessShareLock);
	while ((!found || (kind != nullptr && wanted == QueueKind::log)) && dead_scan_next(&scan))
	{
		found = true;
		if (!slot_attisnull(scan.slot, dead_col_priority + 1))
			wanted = QueueKind::work;
	}
	dead_scan_close(&scan);
	if (kind != nullptr)
		*kind = wanted;
	return found;
}

bool
dead_queue_find(const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	QueueTable queues;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find(&queues, tenant, name, row);
	queue_table_close(&queues);
	if (found)
		return true;
	if (!dead_letters_wait_for(tenant, name))
		raise_unknown_queue(name);
	row->queue_id = dead_of_no_queue;
	return false;
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

/* Died it so long ago that the queue with its name, or one with no options, would not have it any more? */
static bool
is_expired(QueueTable *queues, TupleTableSlot *slot, TimestampTz now)
{
	bool isnull;
	const text *name = DatumGetTextPP(slot_getattr(slot, dead_col_queue + 1, &isnull));
	const pg_uuid_t *tenant = DatumGetUUIDP(slot_getattr(slot, dead_col_tenant + 1, &isnull));
	const TimestampTz dead_at = DatumGetTimestampTz(slot_getattr(slot, dead_col_dead_at + 1, &isnull));
	QueueRow queue;

	if (!queue_find(queues, tenant, {VARDATA_ANY(name), (int) VARSIZE_ANY_EXHDR(name)}, &queue))
		queue.options = {};
	return queue.options.dead_retention != option_off && dead_at < now - queue.options.dead_retention;
}

bool
dead_letters_expire_of_no_queue(int64 *after, TimestampTz now)
{
	constexpr int most = 1000;
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen dead letter", ALLOCSET_DEFAULT_SIZES);
	Relation table = open_table(Table::dead_letters, RowExclusiveLock);
	Relation index = open_index(table, {dead_col_queue_id + 1, dead_col_dead_id + 1}, RowExclusiveLock, false);
	Snapshot snapshot = register_latest_snapshot();
	QueueTable queues;
	IndexScan scan;
	int count = 0;

	queue_table_open(&queues, AccessShareLock);
	index_scan_open(&scan, table, index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, dead_of_no_queue);
	index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, *after);
	index_scan_start(&scan);
	PushActiveSnapshot(snapshot);
	for (; count < most && index_scan_next(&scan, ForwardScanDirection); count++)
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		ItemPointerData tid = scan.slot->tts_tid;
		bool isnull;

		*after = DatumGetInt64(slot_getattr(scan.slot, dead_col_dead_id + 1, &isnull));
		if (is_expired(&queues, scan.slot, now))
			(void) delete_row_unless_locked(table, &tid, snapshot);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
	}
	PopActiveSnapshot();
	index_scan_close(&scan);
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	MemoryContextDelete(per_row);
	CommandCounterIncrement();
	return count == most;
}

} // namespace queen
