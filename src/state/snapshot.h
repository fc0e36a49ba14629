/*
 * snapshot.h: the state of all queues as the last collection of each database has found it, in shared memory of a fixed size.
 *
 * Only who collects writes, and whoever reads copies. Without preload it is the session's own, and knows what queen.collect() has found there.
 */
#ifndef QUEEN_STATE_SNAPSHOT_H
#define QUEEN_STATE_SNAPSHOT_H

#include "log/queues.h"
#include "log/state_gauges.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

/* A queue's. Of a log only what lies at 0 of the arrays. */
struct QueueState
{
	int64 queue_id;
	pg_uuid_t tenant;
	QueueKind kind;
	uint8 name_size;
	char name[max_name_bytes];
	StateGauges gauges[priority_count]; /* the lowest first */
	int64 dead[priority_count];
	int64 timers[priority_count];
	int64 messages[priority_count]; /* that are stored */
	int64 bytes;					/* of a log */
};

/* A consumer group's. */
struct GroupState
{
	int64 group_id;
	int32 queue; /* its place among the queues */
	uint8 name_size;
	char name[max_name_bytes];
	StateGauges gauges;
};

/* What has become of a database's collections. Times of the wall clock, 0 for none; microseconds. */
struct CollectorRecord
{
	uint64 attempts;
	uint64 failures;
	TimestampTz last_attempt;
	TimestampTz collected_at; /* what the snapshot shows */
	TimestampTz last_failure;
	int64 last_took;
	int64 longest;
	int64 total;
	int64 queues; /* in the snapshot */
	int64 left_out_queues;
	int64 left_out_groups;
	int last_sqlstate;
	char last_message[160];
	TimestampTz stats_reset;
};

/* A copy. */
struct StateSnapshot
{
	const QueueState *queues; /* by queue_id */
	int queue_count;
	const GroupState *groups;
	int group_count;
	CollectorRecord record;
};

/* Called once by _PG_init. */
void snapshot_init();

/*
 * A collection has come to its end: what it found takes the place of what was there, unless that is newer. What finds no room is left out, the
 * youngest queues first. Raises for memory only, before it changes anything, where not preloaded.
 */
void snapshot_publish(Oid tables, const StateSnapshot *found, TimestampTz collected_at, int64 took);

/* It has failed: the last one stays. The same. */
void snapshot_failed(Oid tables, int64 took, int sqlstate, const char *message);

/* What is there of this database's tables, palloc'ed; nothing but zeros where none was collected. Raises for memory only. */
void snapshot_read(Oid tables, StateSnapshot *copy);

/* The record alone; false where nothing was tried. Never raises. */
bool snapshot_record(Oid tables, CollectorRecord *record);

/* Counts of this database's collections begin anew. Never raises. */
void snapshot_reset_counts();

/* There is nobody any more who would collect in a database. Never raises. */
void snapshot_forget(Oid database);

} // namespace queen

#endif
