/*
 * event_counts.h: how often what has happened to queues and groups since the server started, in shared memory (core/event_counts);
 * preloaded only. src/state/README.md says what is counted where, and shows it.
 *
 * Whoever does something notes it; what is rolled back, to a savepoint too, counts for nothing, the rest is counted when it is committed.
 * Noting raises for memory only. tables: own_tables().
 */
#ifndef QUEEN_LOG_EVENT_COUNTS_H
#define QUEEN_LOG_EVENT_COUNTS_H

#include "core/event_counts.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

using core::Event;
using core::EventScope;

extern const TransactionParticipant event_counts_participant;

/* Called once by _PG_init. */
void event_counts_init();

/* Of a log queue, or of a group of one, which counts for its queue as well; of messages of a work queue of some priority. */
void event_note_log(Oid tables, int64 queue_id, Event event, uint64 amount);
void event_note_group(Oid tables, int64 queue_id, int64 group_id, Event event, uint64 amount);
void event_note_work(Oid tables, int64 queue_id, int16 priority, Event event, uint64 amount);

/* A queue, but for its groups, or a group is gone: so are its counts, when this transaction commits. */
void event_note_queue_gone(Oid tables, int64 queue_id);
void event_note_group_gone(Oid tables, int64 queue_id, int64 group_id);

/* The group has another id: its counts go on under that. */
void event_note_group_renewed(Oid tables, int64 queue_id, int64 group_id, int64 new_id);

/* Set counts of a queue and its groups to 0, or for 0 of all queues, at once. False without shared memory. Never raises. */
bool event_counts_reset(Oid tables, int64 queue_id, TimestampTz now);

/* As a column shows it. */
inline Datum
event_count_datum(uint64 count)
{
	return Int64GetDatum((int64) Min(count, (uint64) PG_INT64_MAX));
}

/* All there is of this database's tables, palloc'ed; count 0 without shared memory. */
core::EventCounts *event_counts_read(Oid tables, uint32 *count);

/* Of one object, a work queue's with the priority as id; false when it has no counts. Never raises. */
bool event_counts_find(Oid tables, EventScope scope, int64 queue_id, int64 id, core::EventCounts *found);

struct EventCountsState
{
	int64 places;
	int64 used;
	int64 evicted;			  /* objects whose counts were given up for others' */
	TimestampTz last_evicted; /* 0: never */
	int64 lost;				  /* changes that were not counted, at most: of transactions with too many objects */
	TimestampTz since;		  /* of the memory */
};

/* False without shared memory. Never raises. */
bool event_counts_state(EventCountsState *state);

} // namespace queen

#endif
