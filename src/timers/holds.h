/*
 * holds.h: queues that somebody keeps locked, so that their timers are left alone for a while.
 *
 * What a lock keeps from being pushed is nobody's fault, costs no attempt and is written nowhere: this process remembers the queue, and passes its
 * timers by without a look. From time to time a few of these queues are tried again, one timer first. A hint: who forgets it loses some time.
 */
#ifndef QUEEN_TIMERS_HOLDS_H
#define QUEEN_TIMERS_HOLDS_H

#include "core/schedule.h"
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

struct QueueKey
{
	pg_uuid_t tenant;
	char name[max_name_bytes + 1]; /* zero behind the name */
};

enum class Hold
{
	none,
	held,	/* pass it by */
	trying, /* it was held; this step tries it */
};

QueueKey queue_key(const pg_uuid_t *tenant, Name queue);

/* Nothing is held. */
void holds_forget();

/*
 * A step begins: those that were tried and not held again are free, and a few whose time has come are to be tried. For each of these
 * calls due with the earliest time that it has passed by. Answers when the next one is to be tried, core::never if there is none.
 */
core::Micros holds_begin(core::Micros now, void (*due)(TimestampTz earliest));

/* How it is with a queue. at: when its timer that was met is visible, which is remembered if it is passed by. */
Hold hold_of(const pg_uuid_t *tenant, Name queue, TimestampTz at);

/*
 * Somebody keeps it locked. earliest: of its timers that could not be pushed. known: it was tried; false: try it at once, but by itself. Is
 * it new that it is?
 */
bool hold(const QueueKey *queue, TimestampTz earliest, bool known, core::Micros now);

} // namespace queen

#endif
