/*
 * positions.cpp: where in a partition a cursor may stand. See positions.h.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby.
 */
#include "log/positions.h"

#include "log/append.h"
#include "log/starts.h"
#include "server/relations.h"

namespace queen
{

namespace
{

struct Span
{
	int64 base;
	int64 end;
	TimestampTz created_at;
};

/* The segment nearest to base_offset <op> offset: the last one for < and <=, the first one for >= and >. */
bool
find_span(const LogPositions *positions, int64 partition_id, StrategyNumber op, int64 offset, Snapshot snapshot,
		  Span *span)
{
	const bool backward = op == BTLessStrategyNumber || op == BTLessEqualStrategyNumber;
	IndexScan scan;
	bool found;

	index_scan_open(&scan, positions->segments->table, positions->segments->index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_key_int8(&scan, 2, op, offset);
	index_scan_start(&scan);
	found = index_scan_next(&scan, backward ? BackwardScanDirection : ForwardScanDirection);
	if (found)
	{
		bool isnull;

		*span = {segment_int8(scan.slot, segment_col_base_offset), segment_int8(scan.slot, segment_col_end_offset),
				 DatumGetTimestampTz(slot_getattr(scan.slot, segment_col_created_at + 1, &isnull))};
	}
	index_scan_close(&scan);
	return found;
}

/*
 * The least offset of a segment in (from, to] that the snapshot does not see, though it is there: its push runs, or ended
 * since, or is our own; to + 1 when there is none. Whatever lies below a segment that the snapshot sees was in the index
 * before the snapshot was taken, so a dirty look after it misses nothing.
 */
int64
first_unsettled(const LogPositions *positions, int64 partition_id, int64 from, int64 to, Snapshot snapshot)
{
	const SegmentTable *segments = positions->segments;
	SnapshotData dirty;
	IndexScan scan;
	int64 result = to + 1;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, segments->table, segments->index, &dirty);
	/* a segment that reaches behind from begins less than a segment's length before it */
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_key_int8(&scan, 2, BTGreaterStrategyNumber, from - core::segment_max_frames);
	index_scan_key_int8(&scan, 2, BTLessEqualStrategyNumber, to);
	index_scan_start(&scan);
	while (result > to && index_scan_next(&scan, ForwardScanDirection))
	{
		if (segment_int8(scan.slot, segment_col_end_offset) > from &&
			(row_is_own(scan.slot) || !row_is_visible(segments->table, scan.slot, snapshot)))
			result = segment_int8(scan.slot, segment_col_base_offset);
	}
	index_scan_close(&scan);
	return result;
}

} // namespace

void
log_positions_open(LogPositions *positions, SegmentTable *segments, const EraHandle *cursors)
{
	positions->segments = segments;
	positions->cursors = cursors;
	positions->starts = open_table(Table::log_starts, AccessShareLock);
	positions->starts_index = open_index(positions->starts, {start_col_partition_id + 1}, AccessShareLock);
}

void
log_positions_close(LogPositions *positions)
{
	index_close(positions->starts_index, NoLock);
	table_close(positions->starts, NoLock);
}

void
log_ends(const LogPositions *positions, int64 partition_id, Snapshot snapshot, PartitionEnds *ends)
{
	IndexScan scan;
	LogStart start;
	Span newest;

	*ends = {};
	index_scan_open(&scan, positions->starts, positions->starts_index, snapshot);
	log_start_find(&scan, partition_id, &start);
	index_scan_close(&scan);
	ends->first = start.offset;
	ends->last = ends->first - 1;
	ends->any = find_span(positions, partition_id, BTLessEqualStrategyNumber, PG_INT64_MAX, snapshot, &newest);
	if (ends->any)
	{
		ends->last = newest.end;
		ends->newest_at = newest.created_at;
	}
}

bool
log_time_behind(const LogPositions *positions, int64 partition_id, int64 offset, Snapshot snapshot,
				TimestampTz *created_at)
{
	Span span;
	bool found =
		find_span(positions, partition_id, BTLessEqualStrategyNumber, offset + 1, snapshot, &span) && span.end > offset;

	found = found || find_span(positions, partition_id, BTGreaterStrategyNumber, offset + 1, snapshot, &span);
	if (found)
		*created_at = span.created_at;
	return found;
}

int64
log_before_time(const LogPositions *positions, int64 partition_id, const PartitionEnds *ends, TimestampTz at,
				Snapshot snapshot)
{
	Span low; /* pushed before */
	Span high;

	if (!ends->any || ends->newest_at < at)
		return ends->last;
	if (!find_span(positions, partition_id, BTGreaterEqualStrategyNumber, ends->first, snapshot, &low) ||
		low.created_at >= at)
		return ends->first - 1;
	high = low;
	if (!find_span(positions, partition_id, BTLessEqualStrategyNumber, PG_INT64_MAX, snapshot, &high))
		return ends->last;
	/* low was pushed before the time, high since */
	for (;;)
	{
		const int64 middle = low.base + (high.base - low.base) / 2;
		Span span;

		if (!find_span(positions, partition_id, BTLessEqualStrategyNumber, middle, snapshot, &span) ||
			span.base <= low.base)
		{
			/* none between low and the middle: the next one is behind it */
			if (!find_span(positions, partition_id, BTGreaterStrategyNumber, middle, snapshot, &span) ||
				span.base >= high.base)
				return high.base - 1;
		}
		if (span.created_at >= at)
			high = span;
		else
			low = span;
	}
}

int64
log_settled(const LogPositions *positions, int64 partition_id, const PartitionEnds *ends, int64 offset,
			Snapshot snapshot)
{
	const int64 target = Max(Min(offset, ends->last), ends->first - 1);
	int64 from;

	if (target < ends->first)
		return target;
	from = Max(cursors_furthest(positions->cursors, partition_id, snapshot), ends->first - 1);
	return from >= target ? target : first_unsettled(positions, partition_id, from, target, snapshot) - 1;
}

int64
group_start_in(const LogPositions *positions, int64 partition_id, const GroupRow *group, const PartitionEnds *ends,
			   Snapshot snapshot, bool exact)
{
	int64 start;

	if (!group->has_start)
		return ends->first - 1;
	start = log_before_time(positions, partition_id, ends, group->start_at, snapshot);
	return exact ? log_settled(positions, partition_id, ends, start, snapshot) : start;
}

} // namespace queen
