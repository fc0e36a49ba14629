/*
 * pulse.cpp: what a database's pulse does: short work at exact times, never behind slow work.
 *
 * Raises, in tasks. Runs in pulses.
 */
#include "worker/process.h"

namespace queen
{

namespace
{

constexpr std::span<const Task> tasks = {};

} // namespace

} // namespace queen

void
queen_pulse_main(Datum arg)
{
	(void) arg;
	queen::worker_main(queen::WorkerKind::pulse, queen::tasks, nullptr);
}
