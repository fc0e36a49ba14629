/*
 * log_reader.cpp: a partition's segments in offset order, by the gap rule. See log_reader.h.
 *
 * Raises. No locks but the table's. Runs in backends and on a standby.
 */
#include "log/log_reader.h"

#include "log/append.h"
#include "server/relations.h"

namespace queen
{

void
segment_table_open(SegmentTable *segments)
{
	segments->table = open_table(Table::log_segments, AccessShareLock);
	segments->index =
		open_index(segments->table, {segment_col_partition_id + 1, segment_col_base_offset + 1}, AccessShareLock);
}

void
segment_table_close(SegmentTable *segments)
{
	index_close(segments->index, NoLock);
	table_close(segments->table, NoLock);
}

namespace
{

void
close_scan(LogReader *reader)
{
	if (reader->scan_open)
		index_scan_close(&reader->scan);
	reader->scan_open = false;
	reader->scanning_forward = false;
	reader->ended = false;
}

void
new_snapshot(LogReader *reader)
{
	close_scan(reader);
	if (reader->snapshot != nullptr)
		UnregisterSnapshot(reader->snapshot);
	reader->snapshot = register_latest_snapshot();
}

/* Position the scan on (partition, base_offset <op> offset). */
void
start_scan(LogReader *reader, StrategyNumber strategy, int64 offset)
{
	IndexScan *scan = &reader->scan;

	if (!reader->scan_open)
		index_scan_open(scan, reader->segments->table, reader->segments->index, reader->snapshot);
	reader->scan_open = true;
	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, reader->partition_id);
	index_scan_key_int8(scan, 2, strategy, offset);
	index_scan_start(scan);
}

enum class Gap
{
	permanent,
	running,
	committed_since,
};

/* Look dirty into [reader->want, limit); a segment that begins below want may reach into it. */
Gap
look_into_gap(LogReader *reader, int64 limit)
{
	SnapshotData dirty;
	IndexScan scan;
	Gap gap = Gap::permanent;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, reader->segments->table, reader->segments->index, &dirty);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, reader->partition_id);
	index_scan_key_int8(&scan, 2, BTLessStrategyNumber, limit);
	index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, reader->want - core::segment_max_frames);
	index_scan_start(&scan);
	/* backwards, so that the last row met is the lowest, which decides */
	while (index_scan_next(&scan, BackwardScanDirection))
	{
		if (segment_int8(scan.slot, segment_col_end_offset) < reader->want)
			break;
		gap = dirty_row_owner(&dirty, scan.slot) == RowOwner::running ? Gap::running : Gap::committed_since;
		reader->running = dirty.xmin;
	}
	index_scan_close(&scan);
	return gap;
}

/* Find the row that covers want or the first one behind it; false when the snapshot sees none. */
bool
find_row(LogReader *reader)
{
	if (!reader->scanning_forward)
	{
		/* mostly want is where a segment begins, and one entry is all that has to be looked at */
		start_scan(reader, BTEqualStrategyNumber, reader->want);
		if (index_scan_next(&reader->scan, ForwardScanDirection))
			return true;
		start_scan(reader, BTLessStrategyNumber, reader->want);
		if (index_scan_next(&reader->scan, BackwardScanDirection) &&
			segment_int8(reader->scan.slot, segment_col_end_offset) >= reader->want)
			return true;
		start_scan(reader, BTGreaterStrategyNumber, reader->want);
		reader->scanning_forward = true;
	}
	return index_scan_next(&reader->scan, ForwardScanDirection);
}

} // namespace

void
log_reader_open(LogReader *reader, SegmentTable *segments, int64 partition_id, int64 from)
{
	*reader = {};
	reader->segments = segments;
	reader->partition_id = partition_id;
	reader->want = from;
	new_snapshot(reader);
}

ReadResult
log_reader_next(LogReader *reader)
{
	for (;;)
	{
		int64 limit;

		reader->found = find_row(reader);
		reader->ended = !reader->found;
		limit = reader->found ? segment_int8(reader->scan.slot, segment_col_base_offset) : PG_INT64_MAX;

		if (limit > reader->want)
		{
			switch (look_into_gap(reader, limit))
			{
				case Gap::running:
					return ReadResult::behind_push;
				case Gap::committed_since:
					new_snapshot(reader);
					continue;
				case Gap::permanent:
					break;
			}
		}
		if (!reader->found)
			return ReadResult::end;
		/* our own row is visible to us and may still be rolled back */
		if (row_is_own(reader->scan.slot))
			return ReadResult::behind_push;
		log_reader_take(reader, reader->scan.slot);
		reader->want = reader->end + 1;
		reader->found = false;
		return ReadResult::segment;
	}
}

void
log_reader_take(LogReader *reader, TupleTableSlot *slot)
{
	bool isnull;

	reader->base = segment_int8(slot, segment_col_base_offset);
	reader->end = segment_int8(slot, segment_col_end_offset);
	reader->created_at = DatumGetTimestampTz(slot_getattr(slot, segment_col_created_at + 1, &isnull));
	reader->blob = slot_getattr(slot, segment_col_blob + 1, &isnull);
}

bool
log_reader_has_more(LogReader *reader)
{
	/* a row that was met and not given lies behind a push that runs */
	return reader->found || (!reader->ended && find_row(reader));
}

void
log_reader_close(LogReader *reader)
{
	close_scan(reader);
	UnregisterSnapshot(reader->snapshot);
}

bool
log_surely_empty_after(SegmentTable *segments, int64 partition_id, int64 offset)
{
	SnapshotData dirty;
	IndexScan scan;
	bool empty;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, segments->table, segments->index, &dirty);
	/* a segment that reaches behind offset begins less than a segment's length before it, or behind it */
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, offset);
	index_scan_start(&scan);
	empty = !index_scan_next(&scan, ForwardScanDirection);
	if (empty)
	{
		index_scan_reset_keys(&scan);
		index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
		index_scan_key_int8(&scan, 2, BTLessEqualStrategyNumber, offset);
		index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, offset - core::segment_max_frames);
		index_scan_start(&scan);
		empty =
			!index_scan_next(&scan, BackwardScanDirection) || segment_int8(scan.slot, segment_col_end_offset) <= offset;
	}
	index_scan_close(&scan);
	return empty;
}

bool
log_newest(SegmentTable *segments, int64 partition_id, TimestampTz *created_at, int64 *end)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, segments->table, segments->index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(&scan);
	found = index_scan_next(&scan, BackwardScanDirection);
	if (found)
	{
		bool isnull;

		*created_at = DatumGetTimestampTz(slot_getattr(scan.slot, segment_col_created_at + 1, &isnull));
		*end = segment_int8(scan.slot, segment_col_end_offset);
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

int64
log_count_messages(SegmentTable *segments, int64 partition_id, int64 from, int64 to)
{
	LogReader reader;
	int64 count = 0;

	log_reader_open(&reader, segments, partition_id, from);
	while (find_row(&reader) && segment_int8(reader.scan.slot, segment_col_base_offset) <= to)
	{
		log_reader_take(&reader, reader.scan.slot);
		count += Min(reader.end, to) - Max(reader.base, from) + 1;
		reader.want = reader.end + 1;
	}
	log_reader_close(&reader);
	return count;
}

} // namespace queen
