/*
 * snapshot.h: the state of all queues as the last collection of each database has found it, in shared memory of a fixed size.
 *
 * Only who collects writes, and whoever reads copies. Without preload it is the session's own, and knows what queen.collect() has found there.
 */
#ifndef QUEEN_STATE_SNAPSHOT_H
#define QUEEN_STATE_SNAPSHOT_H

#include "hotlist/pool.h"
#include "log/queues.h"
#include "log/state_gauges.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

/* Whose state is kept at a time. */
inline constexpr int snapshot_most_databases = 64;

/* A queue's. Of a log only what lies at 0 of the arrays. */
struct QueueState
{
	int64 queue_id;
	pg_uuid_t tenant;
	QueueKind kind;
	bool paused;
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
	bool paused; /* itself: its queue may be, too */
	uint8 name_size;
	char name[max_name_bytes];
	StateGauges gauges;
};

/*
 * What has become of a database's collections. Times of the wall clock, 0 for none; microseconds. It may be set back: what is waited for, compared, or
 * shown as an age goes by hotlist_now().
 */
struct CollectorRecord
{
	core::hotlist::Micros attempted; /* when the last attempt ended */
	core::hotlist::Micros collected; /* of when the snapshot is */
	bool failing;					 /* the last attempt has failed */
	uint64 attempts;
	uint64 failures;
	TimestampTz last_attempt;
	TimestampTz collected_at; /* what the snapshot shows */
	TimestampTz last_failure;
	int64 rest; /* that the keeper's next one lets go by behind the last attempt, at least */
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
 * A collection has come to its end: what it found, when its record says, takes the place of what was there, unless that is newer. What finds no room
 * is left out, the youngest queues first. began: of hotlist_now(); rest: see CollectorRecord. Raises for memory only, before it changes anything, where not
 * preloaded.
 */
void snapshot_publish(Oid tables, const StateSnapshot *found, core::hotlist::Micros began, int64 rest);

/* It has failed: the last one stays. The same. */
void snapshot_failed(Oid tables, core::hotlist::Micros began, int64 rest, int sqlstate, const char *message);

/* What is there of this database's tables, palloc'ed; nothing but zeros where none was collected. Raises for memory only. */
void snapshot_read(Oid tables, StateSnapshot *copy);

/* The record alone; false where nothing was tried. Never raises. */
bool snapshot_record(Oid tables, CollectorRecord *record);

/* Is there a place for this database: its own, or a free one? Never raises. */
bool snapshot_has_place();

/* Counts of this database's collections begin anew. Never raises. */
void snapshot_reset_counts();

/* There is nobody any more who would collect in a database. Never raises. */
void snapshot_forget(Oid database);

} // namespace queen

#endif
