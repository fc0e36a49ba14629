/*
 * append.h: the log as its own allocator. README.md of this folder states the protocol; design.md section 3 and its five
 * conditions are why.
 */
#ifndef QUEEN_LOG_APPEND_H
#define QUEEN_LOG_APPEND_H

#include "log/queues.h"
#include "log/targets.h"
#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

/* Columns of queen.log_segments, from 0. */
enum SegmentColumn : int
{
	segment_col_partition_id,
	segment_col_base_offset,
	segment_col_end_offset,
	segment_col_created_at,
	segment_col_blob,
	segment_cols,
};

/* A bigint column of a segment's row. */
inline int64
segment_int8(TupleTableSlot *slot, SegmentColumn column)
{
	bool isnull;

	return DatumGetInt64(slot_getattr(slot, column + 1, &isnull));
}

/* Open tables for one or many appends. */
struct Appender
{
	Relation segments;
	TableWriter writer;
	MemoryContext context; /* where the appender was opened */

	/* for the search of a tail that is not in shared memory; opened when it is first needed, or before any lock where it is always */
	bool can_search;
	Relation segments_index;
	Relation starts;
	Relation starts_index;
	IndexScan tail;	 /* dirty */
	IndexScan start; /* of log_starts, with a new snapshot each time */
	SnapshotData dirty;
	QueueTable queues;
};

void appender_open(Appender *appender);
void appender_close(Appender *appender);

enum class Append
{
	done,
	gone,	  /* the partition was deleted, or its queue dropped or purged: nothing was inserted */
	changing, /* a running transaction drops or purges the queue: nothing was inserted; wait for it and try again */
};

/*
 * Insert one segment of count messages behind the partition's newest, running ones included. Takes the partition's lock,
 * at most queen.flush_timeout (QN002), and releases it before it returns: never held to the transaction's end.
 *   known: this transaction has written to the log before, so whoever drops it waits for us, and not we for them
 *   changer: the transaction to wait for
 */
Append append_segment(Appender *appender, const FlushTarget *target, uint32 count, Datum blob, bool known,
					  TransactionId *changer);

} // namespace queen

#endif
