/*
 * positions.h: where in a partition a cursor may stand: the beginning, the end, the first message since a time, and what no
 * cursor may pass. Nothing here scans segments but log_settled, and that only what no cursor has passed.
 *
 * Raises. Takes no lock but the tables' AccessShareLock. Works on a standby.
 */
#ifndef QUEEN_LOG_POSITIONS_H
#define QUEEN_LOG_POSITIONS_H

#include "log/cursors.h"
#include "log/groups.h"
#include "log/log_reader.h"
#include "server/pg.h"

namespace queen
{

struct LogPositions
{
	SegmentTable *segments;
	const EraHandle *cursors;
	Relation starts;
	Relation starts_index;
};

void log_positions_open(LogPositions *positions, SegmentTable *segments, const EraHandle *cursors);
void log_positions_close(LogPositions *positions);

/* What a snapshot sees of a partition. */
struct PartitionEnds
{
	int64 first; /* the first offset that is retained */
	int64 last;	 /* the last one, first - 1 without a segment */
	bool any;
	TimestampTz newest_at; /* of the last segment */
};

void log_ends(const LogPositions *positions, int64 partition_id, Snapshot snapshot, PartitionEnds *ends);

/* When the first message behind an offset was pushed; false when the snapshot sees none. */
bool log_time_behind(const LogPositions *positions, int64 partition_id, int64 offset, Snapshot snapshot,
					 TimestampTz *created_at);

/*
 * The offset before the first segment that was pushed at a time or since; ends->last when there is none. created_at never
 * steps back in a partition, so it is found by bisecting, in as many probes as the offsets have bits, at most twice.
 */
int64 log_before_time(const LogPositions *positions, int64 partition_id, const PartitionEnds *ends, TimestampTz at,
					  Snapshot snapshot);

/*
 * The offset nearest to one on which a cursor may stand: not before what is retained, not behind the last message that the
 * snapshot sees, and not behind any that it does not see and that may become visible (the gap rule). Looks at the segments
 * between the furthest cursor and there.
 */
int64 log_settled(const LogPositions *positions, int64 partition_id, const PartitionEnds *ends, int64 offset,
				  Snapshot snapshot);

/*
 * Where a group stands in a partition in which it has no cursor, as committed. exact: never behind what may still become
 * visible, which whoever writes or deletes needs, and which may cost a scan; else where it seems.
 */
int64 group_start_in(const LogPositions *positions, int64 partition_id, const GroupRow *group,
					 const PartitionEnds *ends, Snapshot snapshot, bool exact);

} // namespace queen

#endif
