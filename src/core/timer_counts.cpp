/*
 * timer_counts.cpp: what became of timers, by queue. See timer_counts.h.
 */
#include "core/timer_counts.h"

#include <bit>
#include <cstring>

namespace queen::core
{

namespace
{

std::uint64_t
hash_of(const TimerQueue &queue) noexcept
{
	std::uint8_t bytes[sizeof(TimerQueue)];
	std::uint64_t hash = 0xcbf29ce484222325U;

	std::memcpy(bytes, &queue, sizeof(bytes));
	for (std::uint32_t i = 0; i < sizeof(bytes) - most_queue_name + queue.size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3U;
	return hash ^ (hash >> 32);
}

bool
is_same(const TimerQueue &a, const TimerQueue &b) noexcept
{
	return a.database == b.database && a.tables == b.tables && a.tenant == b.tenant && a.size == b.size &&
		   std::memcmp(a.name, b.name, a.size) == 0;
}

} // namespace

std::uint32_t
time_bucket(std::uint64_t microseconds) noexcept
{
	if (microseconds < 4)
		return static_cast<std::uint32_t>(microseconds);

	const std::uint32_t exponent = static_cast<std::uint32_t>(std::bit_width(microseconds)) - 1;
	const std::uint32_t quarter = static_cast<std::uint32_t>(microseconds >> (exponent - 2)) & 3;
	const std::uint32_t bucket = (exponent - 1) * 4 + quarter;

	return bucket < time_buckets ? bucket : time_buckets - 1;
}

std::uint64_t
time_bucket_end(std::uint32_t bucket) noexcept
{
	if (bucket < 4)
		return bucket;

	const std::uint32_t exponent = bucket / 4 + 1;

	return ((std::uint64_t{5} + bucket % 4) << (exponent - 2)) - 1;
}

void
time_histogram_add(TimeHistogram *histogram, std::uint64_t microseconds) noexcept
{
	histogram->counts[time_bucket(microseconds)]++;
}

std::uint64_t
time_histogram_quantile(const TimeHistogram &histogram, double part) noexcept
{
	std::uint64_t all = 0;
	std::uint64_t seen = 0;

	for (const std::uint32_t count : histogram.counts)
		all += count;
	if (all == 0)
		return 0;
	for (std::uint32_t i = 0; i < time_buckets; i++)
	{
		seen += histogram.counts[i];
		if (seen > 0 && static_cast<double>(seen) >= part * static_cast<double>(all))
			return time_bucket_end(i);
	}
	return time_bucket_end(time_buckets - 1);
}

TimerCounts *
timer_counts_of(const TimerCountsTable &table, const TimerQueue &queue) noexcept
{
	const std::uint64_t set = hash_of(queue) % (table.places.size() / timer_ways);
	const std::span<TimerCounts> places = table.places.subspan(set * timer_ways, timer_ways);
	TimerCounts *chosen = &places[0];

	for (TimerCounts &place : places)
	{
		if (place.queue.database != 0 && is_same(place.queue, queue))
		{
			place.used = ++*table.clock;
			return &place;
		}
		if (chosen->queue.database != 0 && (place.queue.database == 0 || place.used < chosen->used))
			chosen = &place;
	}
	if (chosen->queue.database != 0)
		++*table.evicted;
	*chosen = {};
	chosen->queue = queue;
	chosen->used = ++*table.clock;
	return chosen;
}

void
timer_counts_forget(const TimerCountsTable &table, std::uint32_t database) noexcept
{
	for (TimerCounts &place : table.places)
		if (database == 0 || place.queue.database == database)
			place.queue.database = 0;
}

} // namespace queen::core
