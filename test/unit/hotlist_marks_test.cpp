/*
 * hotlist_marks_test.cpp: what news does to a partition in each state: the first table of src/core/hotlist/README.md, cell by cell.
 */
#include "hotlist_fixture.h"

namespace queen::test
{
namespace
{

constexpr std::int64_t p = 42;
constexpr std::uint32_t batch = 100; /* PoolOptions' */

class HotlistMarks : public HotlistTest
{
};

/* ---- idle ---- */

TEST_F(HotlistMarks, OfAnIdlePartition)
{
	EXPECT_EQ(place(), Place::idle);
	EXPECT_EQ(mark(p), 1U);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(told.ready[ring.index], 1U);
}

TEST_F(HotlistMarks, OfAnIdlePartitionWaitForTheDelay)
{
	defer(3 * second, 0);
	mark(p, batch); /* however many */
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + 3 * second);
	EXPECT_EQ(told.calls, 0);
}

TEST_F(HotlistMarks, OfAnIdlePartitionWaitForTheWindow)
{
	defer(0, 2 * second);
	mark(p, batch - 1);
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + 2 * second);
}

TEST_F(HotlistMarks, AWholeBatchWaitsForNoWindow)
{
	defer(0, 2 * second);
	mark(p, batch);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, TheDelayRulesTheWindow)
{
	defer(3 * second, 2 * second);
	mark(p, batch);
	EXPECT_EQ(deadline(), now + 3 * second);
}

TEST_F(HotlistMarks, OfOneRingWaitForNothing)
{
	for (const Micros delay : {Micros{0}, 3 * second})
	{
		defer(delay, 3 * second);
		EXPECT_TRUE(mark_ring(p));
		EXPECT_EQ(place(), Place::ready);
		check_in(take_one(), sure(Verdict::empty));
	}
}

TEST_F(HotlistMarks, NeitherPromoteNorUnparkMakesASlot)
{
	promote(p, 1);
	unpark(p);
	EXPECT_EQ(place(), Place::idle);
	EXPECT_EQ(told.calls, 0);
}

/* ---- ready ---- */

TEST_F(HotlistMarks, ChangeNothingOfWhatIsReady)
{
	mark(p);
	const Micros since = now;

	now += second;
	mark(p);
	mark_ring(p);
	unpark(p);
	promote(p, 0);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(told.ready[ring.index], 1U) << "ready once, told once";
	EXPECT_EQ(take_one().ready_since, since);
}

/* ---- parked ---- */

TEST_F(HotlistMarks, EndTheWaitBehindAPush)
{
	for (const Micros delay : {Micros{0}, 3 * second})
	{
		mark_ring(p);
		defer(delay, 0);
		check_in(take_one(), outcome(Verdict::behind_push));
		EXPECT_EQ(place(), Place::parked);
		EXPECT_EQ(deadline(), now + hot::behind_push_park);
		mark(p);
		EXPECT_EQ(place(), Place::ready);
		check_in(take_one(), sure(Verdict::empty));
	}
}

TEST_F(HotlistMarks, NeverShortenADelay)
{
	defer(3 * second, 2 * second);
	mark(p);
	const Micros due = deadline();

	for (int i = 0; i < 5; i++)
	{
		now += second / 2;
		mark(p, batch);
		EXPECT_EQ(place(), Place::parked);
		EXPECT_EQ(deadline(), due);
	}
	now = due - 1; /* within the pad too */
	mark(p);
	EXPECT_EQ(place(), Place::parked);
	drain_at(due);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, NeverMoveAWindow)
{
	defer(0, 2 * second);
	mark(p);
	const Micros due = deadline();

	now += second;
	mark(p);
	EXPECT_EQ(deadline(), due);
	drain_at(due - 1);
	EXPECT_EQ(place(), Place::parked);
	drain_at(due);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, AFullBatchEndsAWindow)
{
	defer(0, 2 * second);
	mark(p, batch - 2);
	mark(p);
	EXPECT_EQ(place(), Place::parked);
	mark(p);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(told.ready[ring.index], 1U);
}

TEST_F(HotlistMarks, AMarkOfNoMessagesIsOne)
{
	defer(0, 2 * second);
	for (std::uint32_t i = 0; i < batch; i++)
	{
		EXPECT_NE(place(), Place::ready) << i;
		mark(p, 0);
	}
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, CountsStopAtTheirEnd)
{
	defer(0, 2 * second);
	mark(p, batch - 1);
	mark(p, UINT32_MAX);
	EXPECT_EQ(place(), Place::ready) << "a count that runs over is not small again";
}

TEST_F(HotlistMarks, AFullBatchEndsNoLease)
{
	defer(0, 2 * second);
	mark(p, batch);
	check_in(take_one(), leased(false, now + second / 2, 1));
	mark(p, batch);
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + second / 2 + hot::pad);
}

TEST_F(HotlistMarks, EndAWaitOfWhichThePadIsLeft)
{
	serve(p, outcome(Verdict::leased, now + second / 2));
	const Micros end = now + second / 2;

	now = end - 1;
	mark(p);
	EXPECT_EQ(place(), Place::parked) << "the lease is not over";
	now = end;
	mark(p);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, EndNoOtherWait)
{
	for (const hot::Outcome &what : {outcome(Verdict::leased, now + second), outcome(Verdict::locked),
									 outcome(Verdict::deferred, now + 9 * second), leased(true, now + second, 5)})
	{
		serve(p, what);
		mark(p, batch);
		EXPECT_EQ(place(), Place::parked) << static_cast<int>(what.verdict);
		mark_ring(p);
		check_in(take_one(), sure(Verdict::empty));
		ASSERT_EQ(place(), Place::idle);
	}
}

TEST_F(HotlistMarks, OfOneRingAndUnparkEndEveryWait)
{
	for (const hot::Outcome &what :
		 {outcome(Verdict::leased, now + second), outcome(Verdict::locked),
		  outcome(Verdict::deferred, now + 9 * second), leased(true, now + second, 5), outcome(Verdict::behind_push)})
		for (const bool by_unpark : {false, true})
		{
			serve(p, what);
			ASSERT_EQ(place(), Place::parked);
			if (by_unpark)
				unpark(p);
			else
				mark_ring(p);
			EXPECT_EQ(place(), Place::ready) << static_cast<int>(what.verdict);
			check_in(take_one(), sure(Verdict::empty));
		}
	defer(9 * second, 0);
	mark(p);
	unpark(p);
	EXPECT_EQ(place(), Place::ready);
}

/* ---- promote ---- */

TEST_F(HotlistMarks, AWholeAcknowledgementOfAllThereWasIsIdle)
{
	serve(p, leased(true, now + second, 5));
	promote(p, 5);
	EXPECT_EQ(place(), Place::idle);
	EXPECT_EQ(statistics().clears, 1U);
	EXPECT_FALSE(hot::holds(pool, ring, p));
}

TEST_F(HotlistMarks, WhatIsLeftBehindALeaseIsReadyAtItsEnd)
{
	serve(p, leased(false, now + second, 5));
	promote(p, 5);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, WhatCameDuringALeaseIsReadyAtItsEnd)
{
	serve(p, leased(true, now + second, 5));
	mark(p);
	promote(p, 5);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, TheEndOfAnotherLeaseClearsNothing)
{
	serve(p, leased(true, now + second, 5));
	promote(p, 4);
	EXPECT_EQ(place(), Place::ready);
	/* nor does that of a lease which its claim only met */
	check_in(take_one(), outcome(Verdict::leased, now + second));
	promote(p, 5);
	EXPECT_EQ(place(), Place::ready);
	check_in(take_one(), outcome(Verdict::leased, now + second));
	promote(p, 0);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistMarks, AnAcknowledgementEndsOtherWaitsToo)
{
	for (const hot::Outcome &what :
		 {outcome(Verdict::locked), outcome(Verdict::deferred, now + 9 * second), outcome(Verdict::behind_push)})
	{
		serve(p, what);
		promote(p, 5);
		EXPECT_EQ(place(), Place::ready);
		check_in(take_one(), sure(Verdict::empty));
	}
}

/* 1,000 messages of one push in batches of 100: each acknowledgement finds the next batch ready, the last one nothing (errata 3.6). */
TEST_F(HotlistMarks, ABacklogGoesOnWithEachAcknowledgement)
{
	mark(p, 1000);
	for (std::uint64_t served = 100; served <= 1000; served += 100)
	{
		check_in(take_one(), leased(served == 1000, now + second, served));
		EXPECT_EQ(place(), Place::parked);
		promote(p, served);
		EXPECT_EQ(place(), served < 1000 ? Place::ready : Place::idle);
	}
	EXPECT_EQ(statistics().takes, 10U) << "a probe for each batch, and none that finds nothing";
}

/* What one claim saw behind its batch says nothing of the next one's (errata 3.6). */
TEST_F(HotlistMarks, WhatWasDrainedOnceIsNotDrainedForGood)
{
	serve(p, leased(true, now + second, 5));
	unpark(p);
	check_in(take_one(), leased(false, now + second, 5));
	promote(p, 5);
	EXPECT_EQ(place(), Place::ready);
}

/* ---- checked out ---- */

TEST_F(HotlistMarks, WhatIsCheckedOutStaysOut)
{
	mark(p);
	const hot::Taken taken = take_one();

	mark(p);
	mark_ring(p);
	unpark(p);
	promote(p, 0);
	EXPECT_EQ(place(), Place::out);
	drain_at(now + 1000 * second);
	EXPECT_EQ(place(), Place::out);
	check_in(taken, sure(Verdict::empty));
	EXPECT_EQ(place(), Place::ready);
}

/* ---- several rings, several partitions ---- */

TEST_F(HotlistMarks, ReachEveryRingOfTheirQueueAndNoOther)
{
	constexpr int groups = 5;
	std::vector<hot::RingRef> rings = {ring};

	for (int g = 1; g < groups; g++)
		rings.push_back(make_ring({key.queue, key.group_id + g}));
	std::vector<hot::RingRef> strangers;
	for (const hot::QueueKey &queue : {hot::QueueKey{9, 2, 3}, hot::QueueKey{1, 9, 3}, hot::QueueKey{1, 2, 9}})
		strangers.push_back(make_ring({queue, key.group_id}));

	EXPECT_EQ(mark(p), static_cast<std::uint32_t>(groups));
	for (const hot::RingRef &one : rings)
	{
		EXPECT_EQ(statistics(one).ready, 1U);
		EXPECT_EQ(told.ready[one.index], 1U);
	}
	for (const hot::RingRef &one : strangers)
		EXPECT_EQ(statistics(one).ready, 0U);
	mark_ring(p + 1);
	EXPECT_EQ(statistics(rings[1]).ready, 1U);
	EXPECT_EQ(statistics(rings[0]).ready, 2U);
}

TEST_F(HotlistMarks, WithoutARing)
{
	const hot::Mark one = {p, 1};

	EXPECT_EQ(hot::mark(pool, {7, 7, 7}, {&one, 1}, now, told.listener()), 0U);
	EXPECT_FALSE(hot::mark_ring(pool, {{7, 7, 7}, 7}, p, now, told.listener()));
	hot::promote(pool, {{7, 7, 7}, 7}, p, 1, now, told.listener());
	hot::owe_ring(pool, {{7, 7, 7}, 7}, told.listener());
	hot::owe_queue(pool, {7, 7, 7}, told.listener());
	EXPECT_EQ(told.calls, 0);
}

TEST_F(HotlistMarks, OfNothingCountTheRings)
{
	make_ring({key.queue, 5});
	EXPECT_EQ(hot::mark(pool, key.queue, {}, now, told.listener()), 2U);
	EXPECT_EQ(told.calls, 0);
}

TEST_F(HotlistMarks, OfManyPartitionsAtOnce)
{
	constexpr std::int64_t count = 1000;
	const hot::RingRef second_ring = make_ring({key.queue, 5});
	std::vector<hot::Mark> marks;

	for (std::int64_t i = 0; i < count; i++)
		marks.push_back({i * i - 300, static_cast<std::uint32_t>(i)}); /* negative ids too */
	marks.push_back({-300, 3});										   /* twice */
	EXPECT_EQ(hot::mark(pool, key.queue, marks, now, told.listener()), 2U);
	for (const hot::RingRef &one : {ring, second_ring})
	{
		EXPECT_EQ(statistics(one).ready, static_cast<std::uint64_t>(count));
		EXPECT_EQ(told.ready[one.index], static_cast<std::uint64_t>(count));
		EXPECT_EQ(statistics(one).marks, static_cast<std::uint64_t>(count) + 1);
	}
	for (const hot::Mark &one : marks)
		EXPECT_TRUE(hot::holds(pool, ring, one.partition_id));
	EXPECT_FALSE(hot::holds(pool, ring, 2));
}

} // namespace
} // namespace queen::test
