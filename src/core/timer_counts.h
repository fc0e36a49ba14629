/*
 * timer_counts.h: what became of timers since the server started, by queue: counts, and how late they were, in a table of fixed size.
 *
 * The caller hands in the memory, which processes may share, and holds a lock around each call.
 */
#ifndef QUEEN_CORE_TIMER_COUNTS_H
#define QUEEN_CORE_TIMER_COUNTS_H

#include <cstdint>
#include <span>

#include "core/types.h"

namespace queen::core
{

/*
 * Times in microseconds, four buckets for each doubling, so that what is read is too large by a quarter at most. The last one takes all
 * that is longer than a day and a half, about.
 */
inline constexpr std::uint32_t time_buckets = 144;

struct TimeHistogram
{
	std::uint32_t counts[time_buckets];
};

/* The bucket of a time, and the longest time of a bucket. */
std::uint32_t time_bucket(std::uint64_t microseconds) noexcept;
std::uint64_t time_bucket_end(std::uint32_t bucket) noexcept;

void time_histogram_add(TimeHistogram *histogram, std::uint64_t microseconds) noexcept;

/* The time that a part of all (0 to 1) does not exceed; 0 of none. */
std::uint64_t time_histogram_quantile(const TimeHistogram &histogram, double part) noexcept;

inline constexpr std::uint32_t most_queue_name = 255;

/* A queue of a database's tables. Bytes behind the name are 0. */
struct TimerQueue
{
	std::uint32_t database; /* 0: of nobody */
	std::uint32_t tables;
	Uuid tenant;
	std::uint8_t size;
	char name[most_queue_name];
};

struct TimerCounts
{
	TimerQueue queue;
	std::uint64_t used; /* the table's clock then */
	std::int64_t since; /* the caller's: 0 in a place that was just taken */
	std::uint64_t fired;
	std::uint64_t failed; /* attempts */
	std::uint64_t dead;
	std::uint64_t dropped;
	std::uint64_t longest; /* of lateness */
	TimeHistogram lateness;
};

/* Places that a queue may have, by its hash. */
inline constexpr std::uint32_t timer_ways = 8;

struct TimerCountsTable
{
	std::span<TimerCounts> places; /* a multiple of timer_ways */
	std::uint64_t *clock;
	std::uint64_t *evicted; /* queues whose counts were given up for others */
};

/* The queue's counts: where it has none, it takes a free place, or the one whose queue was used longest ago. */
TimerCounts *timer_counts_of(const TimerCountsTable &table, const TimerQueue &queue) noexcept;

/* Free the places of a database; of all for 0. */
void timer_counts_forget(const TimerCountsTable &table, std::uint32_t database) noexcept;

} // namespace queen::core

#endif
