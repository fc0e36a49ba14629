/*
 * schedule.cpp: when the tasks of a background process run. See schedule.h.
 *
 * noexcept, no heap, no lock.
 */
#include "core/schedule.h"

namespace queen::core
{

namespace
{

Micros
later(Micros now, Micros by) noexcept
{
	return by > never - now ? never : now + by;
}

} // namespace

Micros
back_off(std::uint32_t failures) noexcept
{
	Micros rest = least_back_off;

	if (failures == 0)
		return 0;
	for (std::uint32_t i = 1; i < failures && rest < most_back_off; i++)
		rest *= 2;
	return rest < most_back_off ? rest : most_back_off;
}

void
schedule_begin(Schedule *schedule, std::span<ScheduledTask> tasks, Micros now) noexcept
{
	*schedule = {};
	schedule->tasks = tasks;
	/* so that the first turn is the first task's */
	schedule->last = static_cast<std::uint32_t>(tasks.size()) - 1;
	for (ScheduledTask &task : tasks)
		task = {now, 0};
}

std::uint32_t
schedule_next(const Schedule &schedule, Micros now) noexcept
{
	const auto count = static_cast<std::uint32_t>(schedule.tasks.size());

	for (std::uint32_t i = 1; i <= count; i++)
	{
		const std::uint32_t task = (schedule.last + i) % count;

		if (schedule.tasks[task].due <= now)
			return task;
	}
	return count;
}

Micros
schedule_sleep_until(const Schedule &schedule) noexcept
{
	Micros until = never;

	for (const ScheduledTask &task : schedule.tasks)
		until = task.due < until ? task.due : until;
	return until;
}

void
schedule_ran(Schedule *schedule, std::uint32_t task, Micros next, Micros now) noexcept
{
	schedule->tasks[task] = {next > now ? next : now, 0};
	schedule->last = task;
	schedule->errors_in_row = 0;
}

void
schedule_failed(Schedule *schedule, std::uint32_t task, Micros now) noexcept
{
	ScheduledTask *failed = &schedule->tasks[task];

	failed->errors_in_row++;
	failed->due = later(now, back_off(failed->errors_in_row));
	schedule->last = task;
	schedule->errors_in_row++;
}

void
schedule_deferred(Schedule *schedule, std::uint32_t task, Micros next) noexcept
{
	schedule->tasks[task].due = next;
	schedule->last = task;
}

void
schedule_ring(Schedule *schedule, std::uint32_t task, Micros now) noexcept
{
	ScheduledTask *rung = &schedule->tasks[task];

	if (rung->errors_in_row == 0 && rung->due > now)
		rung->due = now;
}

bool
schedule_is_hopeless(const Schedule &schedule) noexcept
{
	return schedule.errors_in_row >= most_errors_in_row;
}

} // namespace queen::core
