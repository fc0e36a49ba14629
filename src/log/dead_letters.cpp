/*
 * dead_letters.cpp: rows of queen.dead_letters. See dead_letters.h.
 *
 * Raises. No locks but the table's. Runs in backends.
 */
#include "log/dead_letters.h"

#include "log/messages.h"

namespace queen
{

/* Columns of queen.dead_letters, from 0. */
enum DeadColumn : int
{
	col_dead_id,
	col_tenant,
	col_queue_id,
	col_queue,
	col_kind,
	col_partition_id,
	col_partition,
	col_consumer_group,
	col_msg_offset,
	col_message_id,
	col_message,
	col_payload,
	col_headers,
	col_attempts,
	col_error,
	col_enqueued_at,
	col_dead_at,
	dead_cols,
};

static void
insert_letter(const DeadLetter *letter, const core::Frame *frame, TimestampTz enqueued_at)
{
	Relation table = open_table(Table::dead_letters, RowExclusiveLock);
	TableWriter writer;
	Datum values[dead_cols];
	bool nulls[dead_cols] = {};
	FrameDatums parts;

	frame_datums(frame, &parts);
	values[col_dead_id] = Int64GetDatum(next_id(Sequence::dead_ids));
	values[col_tenant] = UUIDPGetDatum(&letter->queue->tenant);
	values[col_queue_id] = Int64GetDatum(letter->queue->queue_id);
	values[col_queue] = CStringGetTextDatum(letter->queue->name);
	values[col_kind] = CStringGetTextDatum("log");
	values[col_partition_id] = Int64GetDatum(letter->partition_id);
	values[col_partition] = CStringGetTextDatum(letter->partition);
	values[col_consumer_group] = CStringGetTextDatum(letter->consumer_group);
	values[col_msg_offset] = Int64GetDatum(letter->msg_offset);
	values[col_message_id] = parts.message_id;
	values[col_message] = parts.message;
	nulls[col_message] = parts.message_null;
	values[col_payload] = parts.payload;
	nulls[col_payload] = parts.payload_null;
	values[col_headers] = parts.headers;
	nulls[col_headers] = parts.headers_null;
	values[col_attempts] = Int32GetDatum(letter->attempts);
	values[col_error] = PointerGetDatum(letter->error);
	nulls[col_error] = letter->error == nullptr;
	values[col_enqueued_at] = TimestampTzGetDatum(enqueued_at);
	values[col_dead_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	table_writer_open(&writer, table, dead_cols, false);
	table_writer_insert(&writer, values, nulls);
	table_writer_close(&writer);
	table_close(table, NoLock);
	CommandCounterIncrement();
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

bool
dead_letters_expire_step(int64 queue_id, TimestampTz before)
{
	constexpr int most = 1000;
	Relation table = open_table(Table::dead_letters, RowExclusiveLock);
	Relation index = open_index(table, {col_queue_id + 1, col_dead_id + 1}, RowExclusiveLock, false);
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

		if (DatumGetTimestampTz(slot_getattr(scan.slot, col_dead_at + 1, &isnull)) >= before)
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
