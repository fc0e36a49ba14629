/*
 * log_reader.h: a partition's segments in offset order, by the gap rule.
 *
 * A reader never steps over an offset that may still become visible. At a gap, and at the tail, it looks with a dirty
 * snapshot after its own: a row of a running transaction, its own included: stop there; a committed row: its snapshot is
 * old, take the latest and try again; nothing: the hole is permanent, step over it.
 *
 * Raises. Takes no lock but the table's AccessShareLock. Works on a standby.
 */
#ifndef QUEEN_LOG_LOG_READER_H
#define QUEEN_LOG_LOG_READER_H

#include "core/segment.h"
#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

/* queen.log_segments opened for reading. */
struct SegmentTable
{
	Relation table;
	Relation index;
};

void segment_table_open(SegmentTable *segments);
void segment_table_close(SegmentTable *segments);

enum class ReadResult
{
	segment,
	end,		 /* nothing visible is left, and nothing is on its way */
	behind_push, /* the next offset belongs to a transaction that has not ended */
};

struct LogReader
{
	SegmentTable *segments;
	int64 partition_id;
	Snapshot snapshot; /* registered by the reader */
	IndexScan scan;
	bool scan_open;
	bool scanning_forward;
	bool found; /* the last search met a row … */
	bool ended; /* … or the end; going on after it would start over */
	int64 want; /* the next offset to read */
	/* the current segment; blob points into the scan's slot */
	int64 base;
	int64 end;
	TimestampTz created_at;
	Datum blob;
	/* behind_push: the transaction to wait for */
	TransactionId running;
};

/* Read from an offset on. */
void log_reader_open(LogReader *reader, SegmentTable *segments, int64 partition_id, int64 from);

/* The segment that holds the next offset, or the first one behind it. */
ReadResult log_reader_next(LogReader *reader);

/* Does the snapshot see a segment behind the last one that log_reader_next gave? Ends the reading. */
bool log_reader_has_more(LogReader *reader);

void log_reader_close(LogReader *reader);

/* Take the row of queen.log_segments in a slot as the current segment: for segment_frames_open, of a row found otherwise. */
void log_reader_take(LogReader *reader, TupleTableSlot *slot);

/*
 * Does the partition surely hold nothing behind an offset, neither visible nor on its way? False proves nothing. Cheaper
 * than a reader: no snapshot, and mostly no row.
 */
bool log_surely_empty_after(SegmentTable *segments, int64 partition_id, int64 offset);

/* When the newest segment that the latest snapshot sees was pushed, and its last offset; false when it sees none. */
bool log_newest(SegmentTable *segments, int64 partition_id, TimestampTz *created_at, int64 *end);

/* How many messages lie in [from, to], without the holes, as the latest snapshot sees them. */
int64 log_count_messages(SegmentTable *segments, int64 partition_id, int64 from, int64 to);

/* Frames of one segment, decoded. */
struct SegmentFrames
{
	const char *trouble; /* what is corrupt, or null; nothing more comes then */
	bool ids_ascend;	 /* each message id is above the one before, or so it says */
	core::SegmentReader reader;
	MemoryContext context; /* holds the detoasted blob and the buffers */
	const char *queue;
	const char *partition;
	int64 base;
	int64 next_offset;
};

/*
 * Start at an offset inside the reader's current segment. queue and partition name it in errors. Corrupt data raises
 * nothing here: segment_frames_next gives no frame, and trouble says why.
 */
void segment_frames_open(SegmentFrames *frames, const LogReader *reader, int64 from, const char *queue,
						 const char *partition);

/* The next frame; its views hold until the next call. False at the segment's end and where it is corrupt. */
bool segment_frames_next(SegmentFrames *frames, core::Frame *frame, int64 *offset);

/* Raise XX001, naming queue, partition and offset, when frames->trouble says that the segment is corrupt. */
void segment_frames_check(const SegmentFrames *frames);

void segment_frames_close(SegmentFrames *frames);

} // namespace queen

#endif
