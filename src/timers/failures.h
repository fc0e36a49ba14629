/*
 * failures.h: what becomes of a timer that could not be pushed.
 */
#ifndef QUEEN_TIMERS_FAILURES_H
#define QUEEN_TIMERS_FAILURES_H

#include "log/timer_rows.h"
#include "server/pg.h"
#include "timers/due.h"

namespace queen
{

enum class Failure
{
	everybodys, /* resources, an operator, a system: the next one would fail as well. Come again in a second */
	passing,	/* a lock, a conflict: again in a second, no attempt is spent */
	its_own,	/* an attempt is spent */
};

Failure failure_of(int sqlerrcode);

/*
 * Put a timer off, in the caller's transaction, or bury it when its attempts are spent. Does nothing when another transaction is at the
 * row. Raises; what then is still there comes again. True when it was buried.
 */
bool timer_failed(TimerTable *timers, const DueTimer *timer, Failure failure, const ErrorData *error);

} // namespace queen

#endif
