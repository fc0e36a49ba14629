/*
 * schedule_test.cpp: tasks of a background process against a clock that the test moves.
 */
#include "core/schedule.h"

#include <vector>

#include <gtest/gtest.h>

namespace queen::test
{
namespace
{

using namespace core;

constexpr Micros second = 1'000'000;

/* What a loop does with a schedule, in a world where a task takes no time. */
struct Clock
{
	explicit Clock(std::size_t count) : tasks(count)
	{
		schedule_begin(&schedule, tasks, now);
	}

	/* The task that runs now, or -1. */
	int
	next() const
	{
		const std::uint32_t task = schedule_next(schedule, now);

		return task == tasks.size() ? -1 : static_cast<int>(task);
	}

	void
	ran(int task, Micros when)
	{
		schedule_ran(&schedule, static_cast<std::uint32_t>(task), when, now);
	}

	void
	failed(int task)
	{
		schedule_failed(&schedule, static_cast<std::uint32_t>(task), now);
	}

	void
	ring(int task)
	{
		schedule_ring(&schedule, static_cast<std::uint32_t>(task), now);
	}

	Micros now = 1'000 * second;
	std::vector<ScheduledTask> tasks;
	Schedule schedule{};
};

TEST(Schedule, AllTasksRunAtTheStartInTheirOrder)
{
	Clock clock(3);

	for (int task = 0; task < 3; task++)
	{
		ASSERT_EQ(clock.next(), task);
		clock.ran(task, never);
	}
	EXPECT_EQ(clock.next(), -1);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), never);
}

TEST(Schedule, SleepsToTheNextDeadline)
{
	Clock clock(2);

	clock.ran(0, clock.now + 60 * second);
	clock.ran(1, clock.now + 5 * second);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), clock.now + 5 * second);
	clock.now += 5 * second - 1;
	EXPECT_EQ(clock.next(), -1);
	clock.now++;
	EXPECT_EQ(clock.next(), 1);
}

TEST(Schedule, WhoIsAlwaysDueKeepsNobodyWaiting)
{
	Clock clock(3);
	std::vector<int> turns(3);

	for (int i = 0; i < 300; i++)
	{
		const int task = clock.next();

		ASSERT_GE(task, 0);
		turns[static_cast<std::size_t>(task)]++;
		/* 0, what is past, and now all mean "at once" */
		clock.ran(task, i % 3 == 0 ? 0 : clock.now - i % 2);
	}
	EXPECT_EQ(turns, std::vector<int>({100, 100, 100}));
}

TEST(Schedule, ErrorsAreFollowedByRestsThatDouble)
{
	const std::vector<Micros> rests = {1, 2, 4, 8, 16, 32, 60, 60};
	Clock clock(1);

	for (const Micros rest : rests)
	{
		ASSERT_FALSE(schedule_is_hopeless(clock.schedule));
		ASSERT_EQ(clock.next(), 0);
		clock.failed(0);
		ASSERT_EQ(schedule_sleep_until(clock.schedule), clock.now + rest * second);
		ASSERT_EQ(clock.next(), -1);
		clock.now += rest * second;
	}
	EXPECT_TRUE(schedule_is_hopeless(clock.schedule));
	clock.ran(0, 0);
	EXPECT_FALSE(schedule_is_hopeless(clock.schedule));
	clock.failed(0);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), clock.now + second);
}

TEST(Schedule, OneThatFailsIsNoReasonToGiveUpOnTheOthers)
{
	Clock clock(2);

	for (int i = 0; i < 100; i++)
	{
		clock.now += most_back_off;
		ASSERT_EQ(clock.next(), 0);
		clock.failed(0);
		ASSERT_EQ(clock.next(), 1);
		clock.ran(1, 0);
		ASSERT_FALSE(schedule_is_hopeless(clock.schedule));
	}
}

TEST(Schedule, RingingEndsASleepButNoRest)
{
	Clock clock(2);

	clock.ran(0, never);
	clock.failed(1);
	clock.ring(0);
	clock.ring(1);
	EXPECT_EQ(clock.next(), 0);
	clock.ran(0, never);
	EXPECT_EQ(clock.next(), -1);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), clock.now + second);
	/* nor does it put off what is overdue */
	clock.now += 2 * second;
	clock.ring(1);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), clock.now - second);
}

TEST(Schedule, WhatIsDeferredHasNotFailed)
{
	Clock clock(1);

	clock.failed(0);
	clock.now += second;
	schedule_deferred(&clock.schedule, 0, clock.now + second);
	EXPECT_EQ(clock.next(), -1);
	clock.now += second;
	ASSERT_EQ(clock.next(), 0);
	clock.failed(0);
	/* and it forgives nothing */
	EXPECT_EQ(schedule_sleep_until(clock.schedule), clock.now + 2 * second);
}

TEST(Schedule, BackOffAtItsEdges)
{
	EXPECT_EQ(back_off(0), 0);
	EXPECT_EQ(back_off(1), least_back_off);
	EXPECT_EQ(back_off(7), most_back_off);
	EXPECT_EQ(back_off(UINT32_MAX), most_back_off);
}

TEST(Schedule, TimesAtTheEndOfTheClock)
{
	Clock clock(1);

	clock.now = never - second / 2;
	clock.failed(0);
	EXPECT_EQ(schedule_sleep_until(clock.schedule), never);
}

} // namespace
} // namespace queen::test
