/*
 * counts.h: what became of timers, by queue, in shared memory (core/timer_counts); preloaded only. Counts are noted by who fires, and
 * written when that is committed.
 */
#ifndef QUEEN_TIMERS_COUNTS_H
#define QUEEN_TIMERS_COUNTS_H

#include "server/pg.h"
#include "server/xact.h"
#include "timers/due.h"

namespace queen
{

extern const TransactionParticipant timer_counts_participant;

/* Called once by _PG_init. */
void timer_counts_init();

enum class TimerEnd
{
	fired,
	failed,
	dead,
	dropped,
};

/* That became of some timers, which are next to each other in a batch, if this transaction commits. Raises for memory only. */
void timer_counts_note(const DueTimer *timers, int count, TimerEnd end);

} // namespace queen

#endif
