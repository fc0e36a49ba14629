/*
 * verify.cpp: what SQL cannot do of queen.verify (sql/82_verify.sql): decoding every segment, and repairs.
 *
 * Raises. Locks: segments none; a repair those of the protocol that it follows, to the end of the transaction, see each.
 * Runs in backends, without a repair also on a standby.
 */
#include "core/uuid7.h"
#include "log/append.h"
#include "log/cursors.h"
#include "log/dropped.h"
#include "log/groups.h"
#include "log/log_reader.h"
#include "log/queues.h"
#include "log/retired_groups.h"
#include "server/errors.h"
#include "server/guards.h"

namespace queen
{

namespace
{

/* Columns of what queen_verify_segments answers, from 0. */
enum BadSegmentColumn : int
{
	bad_partition_id,
	bad_base_offset,
	bad_problem,
	bad_cols,
};

/* What is wrong with a segment, palloc'ed, or null. */
const char *
trouble_of(const LogReader *segment)
{
	const char *trouble = nullptr;
	core::Uuid last = {};
	SegmentFrames frames;
	core::Frame frame;
	int64 offset;

	segment_frames_open(&frames, segment, segment->base, "", "");
	while (trouble == nullptr && segment_frames_next(&frames, &frame, &offset))
	{
		/* queen.find rests on it */
		if (frames.ids_ascend && !core::uuid7_less(last, frame.message_id))
			trouble = psprintf("the message id at offset %lld is not above the one before", (long long) offset);
		last = frame.message_id;
	}
	if (frames.trouble != nullptr)
		trouble = psprintf("is corrupt: reading the message at offset %lld: %s", (long long) frames.next_offset,
						   frames.trouble);
	segment_frames_close(&frames);
	return trouble;
}

/* The group's cursors are for nobody: as if it had been unsubscribed now. */
bool
mend_cursors(int64 group_id, int64 log_id)
{
	return retired_group_file(log_id, group_id);
}

/* A cursor without an identity, or the reverse. */
bool
mend_cursor(int64 partition_id, int64 group_id)
{
	Snapshot snapshot = register_latest_snapshot();
	EraHandle cursors;
	bool mended = false;

	era_open(&cursors, &cursor_table);
	switch (era_seek(&cursors, {partition_id, group_id}, snapshot))
	{
		case EraSeek::found:
			mended = era_birth(&cursors);
			break;
		case EraSeek::stale:
			mended = era_forget_identity(&cursors);
			break;
		case EraSeek::running:
		case EraSeek::absent:
			break;
	}
	era_close(&cursors);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	return mended;
}

/* Groups of a queue that is not there. */
bool
mend_groups(int64 queue_id)
{
	QueueTable queues;
	QueueRow queue;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find_by_id(&queues, queue_id, &queue);
	queue_table_close(&queues);
	if (!found)
		group_delete_all(queue_id);
	return !found;
}

} // namespace

QUEEN_FUNCTION(queen_verify_segments)
QUEEN_FUNCTION(queen_verify_mend)

/*
 * queen.verify_segments(repair boolean) returns setof (partition_id, base_offset, problem): segments that do not decode, as
 * the statement's snapshot sees them. repair is checked here, because this is always called.
 */
Datum
queen_verify_segments(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext per_segment;
	Relation segments;
	TableScanDesc scan;
	TupleTableSlot *slot;

	if (PG_ARGISNULL(0))
		raise_null_argument("repair");
	if (PG_GETARG_BOOL(0))
		guard_write("queen.verify(repair => true)");
	InitMaterializedSRF(fcinfo, 0);
	per_segment = AllocSetContextCreate(CurrentMemoryContext, "queen verify", ALLOCSET_DEFAULT_SIZES);
	segments = open_table(Table::log_segments, AccessShareLock);
	slot = table_slot_create(segments, nullptr);
	scan = table_beginscan(segments, GetActiveSnapshot(), 0, nullptr);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_segment);
		LogReader segment;
		const char *trouble;

		CHECK_FOR_INTERRUPTS();
		log_reader_take(&segment, slot);
		trouble = trouble_of(&segment);
		if (trouble != nullptr)
		{
			Datum values[bad_cols];
			bool nulls[bad_cols] = {};

			values[bad_partition_id] = Int64GetDatum(segment_int8(slot, segment_col_partition_id));
			values[bad_base_offset] = Int64GetDatum(segment.base);
			values[bad_problem] = CStringGetTextDatum(trouble);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_segment);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(segments, NoLock);
	return (Datum) 0;
}

/* queen.verify_mend(what text, bigint, bigint) returns boolean: repair one problem; false when that was not possible. */
Datum
queen_verify_mend(PG_FUNCTION_ARGS)
{
	const char *what;
	int64 first;
	int64 second;
	bool mended = false;

	guard_write("queen.verify(repair => true)");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		raise_null_argument("a problem");
	what = text_to_cstring(PG_GETARG_TEXT_PP(0));
	first = PG_GETARG_INT64(1);
	second = PG_GETARG_INT64(2);
	if (strcmp(what, "partition") == 0)
		mended = partition_file_orphan(first);
	else if (strcmp(what, "groups") == 0)
		mended = mend_groups(first);
	else if (strcmp(what, "cursors") == 0)
		mended = mend_cursors(first, second);
	else if (strcmp(what, "cursor") == 0)
		mended = mend_cursor(first, second);
	return BoolGetDatum(mended);
}

} // namespace queen
