/*
 * timer_counts_test.cpp: histograms of times, and a table of queues that is too small.
 */
#include "core/timer_counts.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace queen::test
{
namespace
{

using namespace core;

TEST(TimerCounts, BucketsAreInOrderAndNoWiderThanAQuarter)
{
	std::uint32_t last = 0;

	for (std::uint64_t t = 0; t < 200'000'000'000; t += 1 + t / 64)
	{
		const std::uint32_t bucket = time_bucket(t);

		ASSERT_LT(bucket, time_buckets);
		ASSERT_GE(bucket, last);
		ASSERT_LE(bucket, last + 1);
		last = bucket;
		if (bucket == time_buckets - 1)
			continue;
		ASSERT_GE(time_bucket_end(bucket), t);
		ASSERT_LE(time_bucket_end(bucket), t + t / 4);
		ASSERT_EQ(time_bucket(time_bucket_end(bucket)), bucket);
		ASSERT_EQ(time_bucket(time_bucket_end(bucket) + 1), bucket + 1);
	}
	ASSERT_EQ(last, time_buckets - 1);
	ASSERT_GT(time_bucket_end(time_buckets - 2), std::uint64_t{86'400} * 1'000'000) << "a day has a bucket";
	ASSERT_EQ(time_bucket(UINT64_MAX), time_buckets - 1);
}

TEST(TimerCounts, QuantilesAreOfTheTimesThatWereAdded)
{
	auto histogram = std::make_unique<TimeHistogram>();

	EXPECT_EQ(time_histogram_quantile(*histogram, 0.5), 0U);
	for (std::uint64_t t = 1; t <= 1000; t++)
		time_histogram_add(histogram.get(), t * 1000);
	for (const double part : {0.01, 0.25, 0.5, 0.9, 0.99, 1.0})
	{
		const auto exact = static_cast<std::uint64_t>(part * 1'000'000);

		EXPECT_GE(time_histogram_quantile(*histogram, part), exact);
		EXPECT_LE(time_histogram_quantile(*histogram, part), exact + exact / 4);
	}
	EXPECT_LE(time_histogram_quantile(*histogram, 0), 1250U);

	*histogram = {};
	time_histogram_add(histogram.get(), 0);
	EXPECT_EQ(time_histogram_quantile(*histogram, 0.99), 0U);
	time_histogram_add(histogram.get(), UINT64_MAX);
	EXPECT_EQ(time_histogram_quantile(*histogram, 0.5), 0U);
	EXPECT_EQ(time_histogram_quantile(*histogram, 0.51), time_bucket_end(time_buckets - 1));
}

struct Table
{
	explicit Table(std::size_t count) : places(count)
	{
	}

	TimerCounts *
	of(const std::string &name, std::uint32_t database = 1, std::uint32_t tables = 2, std::uint8_t tenant = 3)
	{
		TimerQueue queue{};

		queue.database = database;
		queue.tables = tables;
		queue.tenant.bytes[15] = tenant;
		queue.size = static_cast<std::uint8_t>(name.size());
		std::memcpy(queue.name, name.data(), name.size());
		return timer_counts_of(table(), queue);
	}

	TimerCountsTable
	table()
	{
		return {places, &clock, &evicted};
	}

	std::vector<TimerCounts> places;
	std::uint64_t clock = 0;
	std::uint64_t evicted = 0;
};

TEST(TimerCounts, AQueueIsItsDatabaseTablesTenantAndName)
{
	Table t(512);

	t.of("q")->fired = 1;
	t.of("q", 9)->fired = 2;
	t.of("q", 1, 9)->fired = 3;
	t.of("q", 1, 2, 9)->fired = 4;
	t.of("q2")->fired = 5;
	t.of(std::string(255, 'q'))->fired = 6;
	t.of(std::string(254, 'q') + "r")->fired = 7;
	EXPECT_EQ(t.of("q")->fired, 1U);
	EXPECT_EQ(t.of("q", 9)->fired, 2U);
	EXPECT_EQ(t.of("q", 1, 9)->fired, 3U);
	EXPECT_EQ(t.of("q", 1, 2, 9)->fired, 4U);
	EXPECT_EQ(t.of("q2")->fired, 5U);
	EXPECT_EQ(t.of(std::string(255, 'q'))->fired, 6U);
	EXPECT_EQ(t.of(std::string(254, 'q') + "r")->fired, 7U);
	EXPECT_EQ(t.evicted, 0U);
}

TEST(TimerCounts, TheQueueThatWasUsedLongestAgoGoes)
{
	Table t(timer_ways);

	for (std::uint32_t i = 0; i < timer_ways; i++)
		t.of("q" + std::to_string(i))->fired = i + 1;
	EXPECT_EQ(t.evicted, 0U);
	t.of("q0");
	EXPECT_EQ(t.of("new")->fired, 0U) << "a place begins at zero";
	EXPECT_EQ(t.evicted, 1U);
	EXPECT_EQ(t.of("q0")->fired, 1U);
	EXPECT_EQ(t.of("q2")->fired, 3U);
	EXPECT_EQ(t.of("q1")->fired, 0U) << "it was the oldest";
	EXPECT_EQ(t.evicted, 2U);
}

TEST(TimerCounts, ADatabaseIsForgotten)
{
	Table t(512);

	t.of("q", 1)->fired = 1;
	t.of("q", 2)->fired = 2;
	timer_counts_forget(t.table(), 1);
	EXPECT_EQ(t.of("q", 2)->fired, 2U);
	EXPECT_EQ(t.of("q", 1)->fired, 0U);
	timer_counts_forget(t.table(), 0);
	EXPECT_EQ(t.of("q", 2)->fired, 0U);
	EXPECT_EQ(t.evicted, 0U);
}

} // namespace
} // namespace queen::test
