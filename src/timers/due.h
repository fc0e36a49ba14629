/*
 * due.h: which timers are due, and in which order they are taken.
 */
#ifndef QUEEN_TIMERS_DUE_H
#define QUEEN_TIMERS_DUE_H

#include "log/timer_rows.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

/* Rows of a batch, at most. */
inline constexpr int most_due_rows = 10000;

/* A place in the order of (visible_at, message_id). */
struct TimerMark
{
	TimestampTz at;
	pg_uuid_t id;
};

/* In which order a batch is fired. */
enum class DueRank
{
	fresh,
	put_off, /* it failed before, or another one for its destination did */
	trying,	 /* its queue was held: holds.h */
};

/* A timer that is due. Everything it points to is in the memory context in which it was collected. */
struct DueTimer
{
	ItemPointerData tid;
	pg_uuid_t tenant;
	Name queue;
	Name key;
	Name partition;
	TimestampTz deliver_at;
	TimerMark mark;
	DueRank rank;
	int16 priority; /* 0: none was given */
};

/* A key as users know it. */
inline const char *
shown_key(const DueTimer *timer)
{
	return timer->key.data + is_occurrence(timer->key);
}

struct DueBatch
{
	DueTimer *timers; /* by rank, tenant, queue, partition, then by mark */
	int count;
	bool more;		  /* not all that is due was looked at, but for what is held */
	TimestampTz next; /* when the first is that was not due, or that was held is to be tried; DT_NOEND: none was seen */
	bool complete;	  /* the scan began where nothing could be missed: what it says of next is so */
};

bool same_destination(const DueTimer *left, const DueTimer *right);
bool same_queue(const DueTimer *left, const DueTimer *right);

/* What a transaction has collected and was rolled back is looked at again. */
extern const TransactionParticipant due_participant;

/* Something due at that time was told: nothing is known of what lies behind it any more. */
void due_lower(TimestampTz at);

/* The next batch is looked for from the bottom, and nothing is held: for a process that nobody tells anything. */
void due_from_bottom();

/*
 * Collect what is due at a time: the oldest up to rows and bytes; where more is due, each queue's oldest, by turns. The table is open, the
 * snapshot registered.
 */
void due_collect(TimerTable *timers, Snapshot snapshot, TimestampTz now, int rows, Size bytes, DueBatch *batch);

} // namespace queen

#endif
