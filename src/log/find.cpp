/*
 * find.cpp: queen.find.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby. All of an answer is read with one latest snapshot.
 */
#include "core/uuid7.h"
#include "log/append.h"
#include "log/dead_letters.h"
#include "log/partition_walk.h"
#include "log/positions.h"
#include "log/queues.h"
#include "log/timer_rows.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/settings.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/*
 * A message's id bears the time of its push, its segment the later one of its commit; both by the server's clock, which may
 * have been set back between them.
 */
constexpr int64 clock_slack = 10 * USECS_PER_MINUTE;

/* Columns of the answer, from 0. */
enum FindColumn : int
{
	col_place,
	col_partition,
	col_msg_offset,
	col_consumer_group,
	col_dead_id,
	col_enqueued_at,
	find_cols,
};

/* What is sought, and what it is read from. */
struct Search
{
	ReturnSetInfo *rsinfo;
	Name name; /* the queue's */
	QueueRow queue;
	core::Uuid id;
	bool one_partition;
	Name partition;
	Snapshot snapshot;
};

TimestampTz
time_of(const core::Uuid &id)
{
	constexpr int64 epoch_difference = ((int64) POSTGRES_EPOCH_JDATE - (int64) UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return (int64) core::uuid7_millis(id) * 1000 - epoch_difference;
}

/* Pushes of one transaction have ids that ascend, so mostly the first one tells; what timers have brought is read to the end. */
bool
find_in_segment(const LogReader *segment, const Search *search, const char *partition, int64 *offset)
{
	SegmentFrames frames;
	core::Frame frame;
	bool found = false;
	bool passed = false;

	segment_frames_open(&frames, segment, segment->base, search->queue.name, partition);
	while (!found && !passed && segment_frames_next(&frames, &frame, offset))
	{
		found = frame.message_id == search->id;
		passed = frames.ids_ascend && core::uuid7_less(search->id, frame.message_id);
	}
	segment_frames_check(&frames);
	segment_frames_close(&frames);
	return found;
}

void
put_log_row(const Search *search, const char *partition, int64 offset, TimestampTz enqueued_at)
{
	Datum values[find_cols] = {};
	bool nulls[find_cols] = {};

	values[col_place] = CStringGetTextDatum("log");
	values[col_partition] = CStringGetTextDatum(partition);
	values[col_msg_offset] = Int64GetDatum(offset);
	nulls[col_consumer_group] = nulls[col_dead_id] = true;
	values[col_enqueued_at] = TimestampTzGetDatum(enqueued_at);
	tuplestore_putvalues(search->rsinfo->setResult, search->rsinfo->setDesc, values, nulls);
}

/* Read a partition from the id's time on; nothing tells how long after its push a message was committed. */
bool
find_in_partition(const LogPositions *positions, const Search *search, const PartitionRow *partition)
{
	SegmentTable *segments = positions->segments;
	PartitionEnds ends;
	IndexScan scan;
	int64 before;
	bool found = false;

	log_ends(positions, partition->partition_id, search->snapshot, &ends);
	before =
		log_before_time(positions, partition->partition_id, &ends, time_of(search->id) - clock_slack, search->snapshot);
	index_scan_open(&scan, segments->table, segments->index, search->snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition->partition_id);
	index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, before);
	index_scan_start(&scan);
	while (!found && index_scan_next(&scan, ForwardScanDirection))
	{
		LogReader segment;
		int64 offset;

		log_reader_take(&segment, scan.slot);
		found = find_in_segment(&segment, search, partition->name, &offset);
		if (found)
			put_log_row(search, partition->name, offset, segment.created_at);
	}
	index_scan_close(&scan);
	return found;
}

void
find_in_log(const Search *search)
{
	SegmentTable segments;
	LogPositions positions;
	PartitionWalk walk;
	bool found = false;

	segment_table_open(&segments);
	log_positions_open(&positions, &segments, nullptr);
	partition_walk_open(&walk, search->queue.log_id, 0, search->snapshot);
	if (search->one_partition)
	{
		PartitionRow row;

		if (partition_find(&walk.partitions, search->queue.log_id, search->partition, &row))
			find_in_partition(&positions, search, &row);
	}
	else
		while (!found)
		{
			const PartitionRow *partition = partition_walk_next(&walk);

			if (partition == nullptr)
				break;
			found = find_in_partition(&positions, search, partition);
		}
	partition_walk_close(&walk);
	log_positions_close(&positions);
	segment_table_close(&segments);
}

bool
is_wanted(const Search *search, TupleTableSlot *slot)
{
	const text *name;

	slot_getallattrs(slot);
	if (!dead_is_of(slot, search->queue.queue_id, setting_tenant(), search->name))
		return false;
	if (!search->one_partition)
		return true;
	if (slot->tts_isnull[dead_col_partition])
		return false;
	name = DatumGetTextPP(slot->tts_values[dead_col_partition]);
	return (int) VARSIZE_ANY_EXHDR(name) == search->partition.size &&
		   memcmp(VARDATA_ANY(name), search->partition.data, (Size) search->partition.size) == 0;
}

/* A letter for each group that gave the message up. */
void
find_in_dead_letters(const Search *search)
{
	constexpr DeadColumn shown[] = {dead_col_partition, dead_col_msg_offset, dead_col_consumer_group, dead_col_dead_id,
									dead_col_enqueued_at};
	Relation table = open_table(Table::dead_letters, AccessShareLock);
	Relation index = open_index(table, {dead_col_message_id + 1}, AccessShareLock, false);
	IndexScan scan;

	static_assert(lengthof(shown) == find_cols - 1);
	index_scan_open(&scan, table, index, search->snapshot);
	index_scan_key_uuid(&scan, 1, uuid_to_datum(search->id));
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		Datum values[find_cols] = {};
		bool nulls[find_cols] = {};

		if (!is_wanted(search, scan.slot))
			continue;
		values[col_place] = CStringGetTextDatum("dead");
		for (int i = 1; i < find_cols; i++)
		{
			values[i] = scan.slot->tts_values[shown[i - 1]];
			nulls[i] = scan.slot->tts_isnull[shown[i - 1]];
		}
		tuplestore_putvalues(search->rsinfo->setResult, search->rsinfo->setDesc, values, nulls);
	}
	index_scan_close(&scan);
	index_close(index, NoLock);
	table_close(table, NoLock);
}

/* Is it a timer's, which waits in the queue's name? */
bool
find_in_timers(const Search *search)
{
	Datum values[find_cols] = {};
	bool nulls[find_cols];
	TimerTable timers;
	TimerRow row;
	bool found;

	timer_table_open(&timers, AccessShareLock);
	found = timer_find_message(&timers, setting_tenant(), search->name, search->id, &row);
	timer_table_close(&timers);
	if (found && search->one_partition)
	{
		const text *partition = DatumGetTextPP(row.values[timer_col_partition]);

		found = (int) VARSIZE_ANY_EXHDR(partition) == search->partition.size &&
				memcmp(VARDATA_ANY(partition), search->partition.data, (Size) search->partition.size) == 0;
	}
	if (!found)
		return false;
	memset(nulls, true, sizeof(nulls));
	values[col_place] = CStringGetTextDatum("timer");
	values[col_partition] = row.values[timer_col_partition];
	nulls[col_place] = nulls[col_partition] = false;
	tuplestore_putvalues(search->rsinfo->setResult, search->rsinfo->setDesc, values, nulls);
	return true;
}

/* A work queue has no partitions. */
void
find_in_messages(const Search *search)
{
	Datum values[find_cols] = {};
	bool nulls[find_cols];
	TimestampTz enqueued_at;

	if (search->one_partition || !work_calls->find(&search->queue, search->id, search->snapshot, &enqueued_at))
		return;
	memset(nulls, true, sizeof(nulls));
	values[col_place] = CStringGetTextDatum("work");
	values[col_enqueued_at] = TimestampTzGetDatum(enqueued_at);
	nulls[col_place] = nulls[col_enqueued_at] = false;
	tuplestore_putvalues(search->rsinfo->setResult, search->rsinfo->setDesc, values, nulls);
}

core::Uuid
message_id_argument(FunctionCallInfo fcinfo, int argno)
{
	core::Uuid id;

	if (PG_ARGISNULL(argno))
		raise_null_argument("message_id");
	id = uuid_from_datum(PG_GETARG_DATUM(argno));
	/* "nowhere" would be true, and hide that something else was asked for */
	if (!core::uuid7_is_one(id))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is not a message id", uuid_text(id)),
						errhint("Message ids are UUIDs of version 7; queen.push() and queen.pop() give them.")));
	return id;
}

} // namespace

QUEEN_FUNCTION(queen_find)

/*
 * queen.find(queue, message_id uuid, partition) returns setof (place, partition, msg_offset, consumer_group, dead_id,
 * enqueued_at)
 */
Datum
queen_find(PG_FUNCTION_ARGS)
{
	Search search = {};
	bool has_queue;

	search.name = name_argument(fcinfo, 0, "queue");
	search.id = message_id_argument(fcinfo, 1);
	search.one_partition = !PG_ARGISNULL(2);
	if (search.one_partition)
		search.partition = name_argument(fcinfo, 2, "partition");
	InitMaterializedSRF(fcinfo, 0);
	search.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	/* before the log: what is fired in between is then there */
	if (find_in_timers(&search))
		return (Datum) 0;
	has_queue = dead_queue_find(setting_tenant(), search.name, &search.queue);
	search.snapshot = register_latest_snapshot();
	if (has_queue && search.queue.kind == QueueKind::log)
		find_in_log(&search);
	else if (has_queue)
		find_in_messages(&search);
	find_in_dead_letters(&search);
	UnregisterSnapshot(search.snapshot);
	return (Datum) 0;
}

} // namespace queen
