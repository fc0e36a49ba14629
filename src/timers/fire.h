/*
 * fire.h: timers that are due enter their queues.
 */
#ifndef QUEEN_TIMERS_FIRE_H
#define QUEEN_TIMERS_FIRE_H

#include "server/pg.h"

namespace queen
{

/* What a step of the fire has done. */
struct FireStep
{
	int64 fired;
	int64 failed;	  /* put off, or buried */
	int64 dropped;	  /* overdue (queen.overdue_limit), or missed and not wanted any more */
	int64 made;		  /* queues that were missing */
	bool more;		  /* come again at once */
	bool paused;	  /* a failure that is nobody's: come again in a second */
	bool complete;	  /* next is sure */
	TimestampTz next; /* when the next one is due, as far as was seen; DT_NOEND: none */
};

/*
 * A step, in the current transaction, which should be committed then: up to queen.timer_batch timers that are due are pushed and deleted. Nothing
 * may be buffered for a push before (22023): it would be written along with them. Raises what is not a timer's fault.
 */
void fire_step(int64 most, FireStep *step);

} // namespace queen

#endif
