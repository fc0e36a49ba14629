/*
 * pulse.cpp: what a database's pulse does: short work at exact times, never behind slow work.
 *
 * Raises, in tasks. Runs in pulses.
 */
#include "hotlist/gates.h"
#include "hotlist/notify.h"
#include "log/notify.h"
#include "log/timer_news.h"
#include "server/settings.h"
#include "timers/fire.h"
#include "worker/process.h"

namespace queen
{

namespace
{

/*
 * Notifications, wakes that are owed, deadlines of the hot-list. In this order: a wait for a lock in the transaction of the first resets the latch,
 * and what was told meanwhile is looked at behind it.
 */
core::Micros
tick(const TaskRun *run)
{
	const core::Micros notify_at = notify_tick();
	const core::Micros wake_at = gates_tick();

	(void) run;
	return notify_at == core::never && notify_pending() ? 0 : Min(notify_at, wake_at);
}

/* A batch of timers that are due. */
core::Micros
fire(const TaskRun *run)
{
	/* what failed for everybody is looked at again; also when a clock was set, and for rows that nobody told of */
	constexpr int64 unsure_again = 5 * USECS_PER_SEC;
	constexpr int64 paused_again = USECS_PER_SEC;
	constexpr int64 look_again = 10 * USECS_PER_SEC;
	constexpr int64 idle_again = USECS_PER_MINUTE;
	TimestampTz now;
	TimestampTz until;
	FireStep step;

	if (!setting_timers)
	{
		/* nobody need tell */
		(void) timer_news_sleep(DT_NOBEGIN);
		return core::never;
	}
	fire_step(PG_INT32_MAX, &step);
	now = GetCurrentTimestamp();
	/* a wait for a lock may have reset the latch that was set for the other task */
	if (step.fired + step.failed + step.dropped + step.made > 0)
		SetLatch(MyLatch);
	if (step.paused)
	{
		/* what is told meanwhile is heard then */
		(void) timer_news_sleep(DT_NOBEGIN);
		return hotlist_now() + paused_again;
	}
	if (step.more)
		until = now;
	else if (!step.complete)
		until = Min(step.next, now + unsure_again);
	else
		until = Min(step.next, now + (step.next == DT_NOEND ? idle_again : look_again));
	/* something came since the step began */
	if (!timer_news_sleep(until))
		until = now;
	(void) run;
	return until <= now ? 0 : hotlist_now() + (until - now);
}

void
begin()
{
	gates_attend();
	if (!timer_news_attend())
		ereport(LOG, (errmsg("queen pulse: nobody can tell of timers that are due soon: they may be late by a minute"),
					  errdetail("There is memory for some databases only.")));
}

constexpr Task tasks[] = {
	{"wake", TaskNeeds::nothing, false, [] { return true; }, tick},
	{"timers", TaskNeeds::tables, false, timer_news_there, fire},
};

} // namespace

} // namespace queen

void
queen_pulse_main(Datum arg)
{
	(void) arg;
	queen::worker_main(queen::WorkerKind::pulse, queen::tasks, queen::begin);
}
