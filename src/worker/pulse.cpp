/*
 * pulse.cpp: what a database's pulse does: short work at exact times, never behind slow work.
 *
 * Raises, in tasks. Runs in pulses.
 */
#include "hotlist/gates.h"
#include "hotlist/notify.h"
#include "log/notify.h"
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

constexpr Task tasks[] = {
	{"wake", TaskNeeds::nothing, true, tick},
};

} // namespace

} // namespace queen

void
queen_pulse_main(Datum arg)
{
	(void) arg;
	queen::worker_main(queen::WorkerKind::pulse, queen::tasks, queen::gates_attend);
}
