/*
 * pulse.cpp: what a database's pulse does: short work at exact times, never behind slow work.
 *
 * Raises, in tasks. Runs in pulses.
 */
#include "hotlist/gates.h"
#include "worker/process.h"

namespace queen
{

namespace
{

/* Wakes that are owed, deadlines of the hot-list, notifications. */
core::Micros
tick(const TaskRun *run)
{
	(void) run;
	return gates_tick();
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
