/*
 * schedule.h: when the tasks of a background process run: which one now, until when to sleep, what follows an error.
 *
 * Time is handed in. One process owns a schedule; nothing here is shared.
 */
#ifndef QUEEN_CORE_SCHEDULE_H
#define QUEEN_CORE_SCHEDULE_H

#include <cstdint>
#include <span>

namespace queen::core
{

/* Microseconds of a clock that never steps back. */
using Micros = std::int64_t;

inline constexpr Micros never = INT64_MAX;

/* What follows failures in a row: a second, twice as long after each, at most a minute. */
inline constexpr Micros least_back_off = 1'000'000;
inline constexpr Micros most_back_off = 60'000'000;

/* A process that has met that many errors in a row, of whichever tasks, is of no use: a fresh one may be. */
inline constexpr std::uint32_t most_errors_in_row = 8;

/* How long to wait after so many failures in a row; 0 after none. */
Micros back_off(std::uint32_t failures) noexcept;

struct ScheduledTask
{
	Micros due;
	std::uint32_t errors_in_row;
};

struct Schedule
{
	std::span<ScheduledTask> tasks;
	std::uint32_t last;			 /* the task that ran last */
	std::uint32_t errors_in_row; /* of all tasks */
};

/* All tasks are due. The tasks stay where they are. */
void schedule_begin(Schedule *schedule, std::span<ScheduledTask> tasks, Micros now) noexcept;

/* The task to run now, tasks.size() for none. Who is due always has its turn before another has its second. */
std::uint32_t schedule_next(const Schedule &schedule, Micros now) noexcept;

/* Until when nothing is due; never without a bound. */
Micros schedule_sleep_until(const Schedule &schedule) noexcept;

/* A task has run and wants to run again at next: never, or at once for what is not in the future. */
void schedule_ran(Schedule *schedule, std::uint32_t task, Micros next, Micros now) noexcept;

/* A task has failed: it rests. */
void schedule_failed(Schedule *schedule, std::uint32_t task, Micros now) noexcept;

/* A task could not run, which is nobody's fault: it is tried again at next. */
void schedule_deferred(Schedule *schedule, std::uint32_t task, Micros next) noexcept;

/* Something happened that the task may have to see to: it is due, unless it rests after an error. */
void schedule_ring(Schedule *schedule, std::uint32_t task, Micros now) noexcept;

/* Have there been too many errors in a row? */
bool schedule_is_hopeless(const Schedule &schedule) noexcept;

} // namespace queen::core

#endif
