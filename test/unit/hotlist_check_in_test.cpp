/*
 * hotlist_check_in_test.cpp: taking, and what becomes of what is given back: the second table of src/core/hotlist/README.md.
 */
#include "hotlist_fixture.h"

#include <algorithm>
#include <set>

namespace queen::test
{
namespace
{

constexpr std::int64_t p = 42;

class HotlistCheckIn : public HotlistTest
{
  protected:
	/* A candidate that was marked once and is checked out. */
	hot::Taken
	out()
	{
		mark(p);
		return take_one();
	}
};

/* ---- verdicts ---- */

TEST_F(HotlistCheckIn, EmptyIsIdle)
{
	EXPECT_FALSE(check_in(out(), sure(Verdict::empty)));
	EXPECT_EQ(place(), Place::idle);
	EXPECT_EQ(statistics().clears, 1U);
}

TEST_F(HotlistCheckIn, EmptyIsReadyWhenItMayNotClear)
{
	EXPECT_TRUE(check_in(out(), outcome(Verdict::empty)));
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistCheckIn, EmptyIsReadyWhenAnythingCameMeanwhile)
{
	for (int news = 0; news < 4; news++)
	{
		const hot::Taken taken = out();

		switch (news)
		{
			case 0:
				mark(p);
				break;
			case 1:
				mark_ring(p);
				break;
			case 2:
				unpark(p);
				break;
			default:
				promote(p, 0);
				break;
		}
		EXPECT_TRUE(check_in(taken, sure(Verdict::empty))) << news;
		check_in(take_one(), sure(Verdict::empty));
		EXPECT_EQ(place(), Place::idle);
	}
	EXPECT_EQ(statistics().conflicts, 4U);
}

TEST_F(HotlistCheckIn, AMarkBeforeTheTakeOrAfterTheClearIsNoConflict)
{
	mark(p);
	mark(p);
	EXPECT_FALSE(check_in(take_one(), sure(Verdict::empty)));
	mark(p);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(statistics().conflicts, 0U);
}

TEST_F(HotlistCheckIn, TookUnderALeaseWaitsForItsEnd)
{
	EXPECT_FALSE(check_in(out(), leased(true, now + second / 3, 1)));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + second / 3 + hot::pad);
	drain_at(deadline());
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistCheckIn, NoLeaseIsWaitedForLongerThanTheCap)
{
	for (const Micros until : {now + 300 * second, hot::never})
	{
		check_in(out(), leased(false, until, 1));
		EXPECT_EQ(deadline(), now + hot::lease_park_cap);
		unpark(p);
		check_in(take_one(), outcome(Verdict::leased, until));
		EXPECT_EQ(deadline(), now + hot::lease_park_cap);
		unpark(p);
	}
}

TEST_F(HotlistCheckIn, ALeaseThatIsOverIsDueAtOnce)
{
	check_in(out(), outcome(Verdict::leased, INT64_MIN));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(take(1).size(), 1U);
}

TEST_F(HotlistCheckIn, TookAndCompletedIsIdleWhenDrained)
{
	EXPECT_FALSE(check_in(out(), took(true)));
	EXPECT_EQ(place(), Place::idle);
}

TEST_F(HotlistCheckIn, TookAndCompletedIsReadyOtherwise)
{
	EXPECT_TRUE(check_in(out(), took(false)));

	hot::Outcome unsure = took(true);
	unsure.may_clear = false;
	EXPECT_TRUE(check_in(take_one(), unsure));

	const hot::Taken taken = take_one();
	mark(p);
	EXPECT_TRUE(check_in(taken, took(true)));
}

TEST_F(HotlistCheckIn, TookOfAWindowQueueWaitsForAnotherWindow)
{
	defer(0, 2 * second);
	mark(p, 1000);
	EXPECT_FALSE(check_in(take_one(), took(false)));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + 2 * second);
	drain_at(deadline());
	EXPECT_FALSE(check_in(take_one(), took(true)));
	EXPECT_EQ(place(), Place::idle) << "but not for one when nothing is left";

	defer(second, 2 * second);
	mark_ring(p);
	EXPECT_TRUE(check_in(take_one(), took(false))) << "the delay rules";
}

/* A mark's messages count for the batch until a claim has taken what it saw. */
TEST_F(HotlistCheckIn, TookForgetsTheCountOnlyWhenNothingCame)
{
	for (const bool meanwhile : {false, true})
	{
		defer(0, 2 * second);
		mark(p, 99);
		mark_ring(p);
		const hot::Taken taken = take_one();
		if (meanwhile)
			mark_ring(p);
		check_in(taken, took(false));
		ASSERT_EQ(place(), Place::parked);
		mark(p);
		EXPECT_EQ(place(), meanwhile ? Place::ready : Place::parked);
		mark_ring(p);
		check_in(take_one(), sure(Verdict::empty));
	}
}

/* A lease with which a mark raced is not of all that there is. */
TEST_F(HotlistCheckIn, DrainedIsNotBelievedWhenAMarkCameMeanwhile)
{
	const hot::Taken taken = out();

	mark_ring(p); /* no messages are counted that could tell the promote */
	unpark(p);
	check_in(taken, leased(true, now + second, 3));
	EXPECT_EQ(place(), Place::ready);
	check_in(take_one(), leased(false, now + second, 4));
	mark(p);
	promote(p, 4);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistCheckIn, LeasedNeverClears)
{
	hot::Outcome what = outcome(Verdict::leased, now + second / 3);

	what.may_clear = true;
	what.drained = true;
	EXPECT_FALSE(check_in(out(), what));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + second / 3 + hot::pad);
	promote(p, 0);
	EXPECT_EQ(place(), Place::ready);

	const hot::Taken taken = take_one();
	mark(p); /* whatever the epoch */
	EXPECT_FALSE(check_in(taken, what));
	EXPECT_EQ(place(), Place::parked);
}

TEST_F(HotlistCheckIn, DeferredWaitsUntilThenAndNoCapEndsIt)
{
	EXPECT_FALSE(check_in(out(), outcome(Verdict::deferred, now + 3600 * second)));
	EXPECT_EQ(deadline(), now + 3600 * second + hot::pad);
	mark_ring(p);
	EXPECT_FALSE(check_in(take_one(), outcome(Verdict::deferred, hot::never)));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), hot::never - 1) << "a deadline that is never is still one";
}

TEST_F(HotlistCheckIn, DeferredByAWindowWhoseBatchIsFullIsReady)
{
	defer(0, 2 * second);
	mark(p, 60);
	mark_ring(p);
	hot::Taken taken = take_one();
	EXPECT_FALSE(check_in(taken, outcome(Verdict::deferred, now + second))) << "without a mark since";
	EXPECT_EQ(place(), Place::parked);
	mark(p, 39);
	EXPECT_EQ(place(), Place::parked);
	mark(p, 1);
	EXPECT_EQ(place(), Place::ready) << "the count stayed";

	taken = take_one();
	EXPECT_FALSE(check_in(taken, outcome(Verdict::deferred, now + second)))
		<< "the claim saw the whole batch and knows better";
	unpark(p);
	taken = take_one();
	mark(p);
	EXPECT_TRUE(check_in(taken, outcome(Verdict::deferred, now + second)));
}

TEST_F(HotlistCheckIn, LockedIsLookedAtSoonAndNeverIdle)
{
	hot::Outcome what = sure(Verdict::locked);

	EXPECT_FALSE(check_in(out(), what));
	EXPECT_EQ(place(), Place::parked);
	EXPECT_EQ(deadline(), now + hot::locked_park);
}

TEST_F(HotlistCheckIn, BehindAPushIsReadyWhenTheMarkCameFirst)
{
	const hot::Taken taken = out();

	mark(p);
	EXPECT_TRUE(check_in(taken, outcome(Verdict::behind_push)));
	EXPECT_EQ(place(), Place::ready);
	EXPECT_FALSE(check_in(take_one(), outcome(Verdict::behind_push)));
	EXPECT_EQ(deadline(), now + hot::behind_push_park);
}

/* A row that the claim may have met locked or leased was freed before the check-in: nobody would tell again. */
TEST_F(HotlistCheckIn, WhoeverWasToldMeanwhileLooksAgain)
{
	const hot::Outcome whats[] = {outcome(Verdict::leased, now + second), outcome(Verdict::deferred, now + 9 * second),
								  outcome(Verdict::locked), outcome(Verdict::behind_push),
								  leased(true, now + second, 9)};

	mark(p);
	for (const hot::Outcome &what : whats)
		for (int by = 0; by < 3; by++)
		{
			const hot::Taken taken = take_one();

			if (by == 0)
				promote(p, 9);
			else if (by == 1)
				unpark(p);
			else
				mark_ring(p);
			EXPECT_TRUE(check_in(taken, what)) << static_cast<int>(what.verdict) << " " << by;
			ASSERT_EQ(place(), Place::ready);
		}
	/* only that check-out is meant */
	EXPECT_FALSE(check_in(take_one(), whats[2]));
}

/* ---- none ---- */

class HotlistQueueing : public HotlistTest
{
  protected:
	/* one shard: one list */
	HotlistQueueing() : HotlistTest(std::size_t{1} << 18, {1, 100})
	{
	}

	std::vector<std::int64_t>
	order()
	{
		std::vector<hot::Taken> all(100);
		std::vector<std::int64_t> ids;

		all.resize(hot::candidates(pool, ring, 100, all.data()));
		for (const hot::Taken &one : all)
			ids.push_back(one.partition_id);
		return ids;
	}
};

TEST_F(HotlistQueueing, WhatWasReadyFirstIsTakenFirst)
{
	for (std::int64_t i = 1; i <= 5; i++, now++)
		mark(i);
	EXPECT_EQ(order(), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
	const std::vector<hot::Taken> taken = take(3);
	ASSERT_EQ(taken.size(), 3U);
	for (std::size_t i = 0; i < 3; i++)
		EXPECT_EQ(taken[i].partition_id, static_cast<std::int64_t>(i) + 1);
	EXPECT_EQ(order(), (std::vector<std::int64_t>{4, 5}));
}

TEST_F(HotlistQueueing, WhatWasNotReachedKeepsItsTurn)
{
	for (std::int64_t i = 1; i <= 5; i++, now++)
		mark(i);
	const std::vector<hot::Taken> taken = take(3);
	ASSERT_EQ(taken.size(), 3U);
	for (const int i : {0, 2, 1}) /* in whatever order they come back */
		EXPECT_TRUE(check_in(taken[static_cast<std::size_t>(i)], outcome(Verdict::none)));
	EXPECT_EQ(order(), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
	EXPECT_EQ(statistics().requeues, 3U);
	EXPECT_EQ(take(1)[0].ready_since, taken[0].ready_since);
}

/* Marked by one push, all are ready since the same moment. */
TEST_F(HotlistQueueing, WhatWasNotReachedKeepsItsTurnAmongEquals)
{
	for (std::int64_t i = 1; i <= 5; i++)
		mark(i);
	const std::vector<hot::Taken> taken = take(3);
	ASSERT_EQ(taken.size(), 3U);
	for (const int i : {2, 1, 0}) /* as a pop gives back */
		check_in(taken[static_cast<std::size_t>(i)], outcome(Verdict::none));
	EXPECT_EQ(order(), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
}

TEST_F(HotlistQueueing, WhatWasTriedAndRolledBackGoesBehind)
{
	for (std::int64_t i = 1; i <= 3; i++, now++)
		mark(i);
	hot::Outcome tried;
	tried.reached = true;
	check_in(take(1)[0], tried);
	EXPECT_EQ(order(), (std::vector<std::int64_t>{2, 3, 1}));
}

TEST_F(HotlistQueueing, TheLastComesBackToAnEmptyList)
{
	mark(1);
	check_in(take_one(), outcome(Verdict::none));
	mark(2);
	EXPECT_EQ(order(), (std::vector<std::int64_t>{1, 2}));
	check_in(take(1)[0], outcome(Verdict::none));
	check_in(take(2)[1], outcome(Verdict::none)); /* 1 stays out */
	EXPECT_EQ(order(), (std::vector<std::int64_t>{2}));
	mark(3);
	EXPECT_EQ(order(), (std::vector<std::int64_t>{2, 3}));
}

TEST_F(HotlistQueueing, ACandidatesLookTakesNothing)
{
	mark(1);
	EXPECT_EQ(order().size(), 1U);
	EXPECT_EQ(order().size(), 1U);
	EXPECT_EQ(statistics().takes, 0U);
	hot::Taken one{};
	EXPECT_EQ(hot::candidates(pool, {ring.index, ring.id + (std::uint64_t{1} << 40)}, 1, &one), 0U);
}

TEST_F(HotlistQueueing, TakeStopsWhereItHasEnoughMessages)
{
	mark(1, 40);
	mark(2, 60);
	mark(3, 1);
	EXPECT_EQ(take(10, 99).size(), 2U);
	EXPECT_EQ(take(10, 0).size(), 1U) << "one is always given";
	EXPECT_EQ(take(10).size(), 0U);
}

/* Requeued, its messages are no longer counted: what the count is for would otherwise be wrong for good. */
TEST_F(HotlistQueueing, NoneForgetsTheCountOnlyWhenNothingCame)
{
	for (const bool meanwhile : {false, true})
	{
		mark(1, 50);
		const hot::Taken taken = take_one();
		if (meanwhile)
			mark(1, 50);
		check_in(taken, outcome(Verdict::none));
		mark(2, 1);
		/* the first one alone is enough, or is not */
		const std::vector<hot::Taken> both = take(2, 2);
		EXPECT_EQ(both.size(), meanwhile ? 1U : 2U);
		for (const hot::Taken &one : both)
			check_in(one, sure(Verdict::empty));
		if (both.size() < 2)
			check_in(take_one(), sure(Verdict::empty));
	}
}

/* ---- tokens and epochs ---- */

/*
 * The first pop's owner is gone, a walk takes its candidate back, another takes it: both have the epoch that the slot had all the time. What
 * the first one says now is not said of the second check-out.
 */
TEST_F(HotlistCheckIn, AnEarlierCheckOutSaysNothingOfALaterOne)
{
	mark(p);
	const hot::Taken first = take_one(other);
	hot::Ticket ticket{};

	bury(other);
	ASSERT_TRUE(hot::reseed_begin(pool, ring, now, me, alive, &ticket));
	EXPECT_EQ(hot::reseed_row(pool, &ticket, p, now, alive), hot::Reseeded::reclaimed);
	hot::reseed_end(pool, ticket, true, 0, 0, now, told.listener());

	EXPECT_FALSE(check_in(first, sure(Verdict::empty))) << "it is nobody's";
	EXPECT_EQ(place(), Place::ready);
	const hot::Taken taken = take_one();
	EXPECT_EQ(taken.epoch, first.epoch);
	EXPECT_NE(taken.token, first.token);
	EXPECT_FALSE(check_in(first, sure(Verdict::empty)));
	EXPECT_EQ(place(), Place::out);
	EXPECT_FALSE(check_in(taken, sure(Verdict::empty)));
	EXPECT_EQ(place(), Place::idle);
	EXPECT_EQ(statistics().clears, 1U);
}

TEST_F(HotlistCheckIn, ASecondCheckInDoesNothing)
{
	const hot::Taken taken = out();

	EXPECT_TRUE(check_in(taken, outcome(Verdict::none)));
	EXPECT_FALSE(check_in(taken, sure(Verdict::empty)));
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(statistics().verdicts[static_cast<int>(Verdict::empty)], 0U);
}

/* A slot that was freed and made again has neither an epoch nor a token that anybody may remember. */
TEST_F(HotlistCheckIn, EpochsAndTokensNeverComeAgain)
{
	std::set<std::uint64_t> seen;
	hot::Taken before{};

	for (int i = 0; i < 100; i++)
	{
		const hot::Taken taken = out();

		EXPECT_TRUE(seen.insert(taken.epoch).second);
		EXPECT_TRUE(seen.insert(taken.token).second);
		EXPECT_FALSE(check_in(before, sure(Verdict::empty)));
		EXPECT_EQ(place(), Place::out);
		check_in(taken, sure(Verdict::empty));
		EXPECT_EQ(place(), Place::idle);
		before = taken;
		if (i % 10 == 9)
		{
			/* nor when the ring at the place is another */
			hot::forget_ring(pool, key);
			const std::uint32_t index = ring.index;
			ring = make_ring(key);
			ASSERT_EQ(ring.index, index);
		}
	}
}

/* Its slot may be another ring's by now, which counts its tokens for itself. */
TEST_F(HotlistCheckIn, ACheckOutOfAnotherRingInTheSameSlotIsNotMeant)
{
	const hot::RingKey another = {{1, 2, 30}, 4};
	const hot::RingRef there = make_ring(another);
	const hot::Taken before = out();
	hot::Taken taken{};

	check_in(before, sure(Verdict::empty));
	ASSERT_TRUE(hot::mark_ring(pool, another, p, now, told.listener()));
	ASSERT_EQ(hot::take(pool, there, 1, UINT64_MAX, now, other, &taken, told.listener()), 1U);
	ASSERT_EQ(taken.token, before.token);
	ASSERT_EQ(taken.slot, before.slot);
	EXPECT_FALSE(check_in(before, sure(Verdict::empty)));
	EXPECT_EQ(hot::inconsistency(pool), nullptr);
	EXPECT_TRUE(hot::holds(pool, there, p));
}

TEST_F(HotlistCheckIn, ASlotThatIsNoneIsNotLookedAt)
{
	hot::Taken taken = out();

	for (const std::uint32_t slot : {0U, taken.slot + 1, UINT32_MAX})
	{
		taken.slot = slot;
		EXPECT_FALSE(check_in(taken, sure(Verdict::empty)));
		EXPECT_EQ(place(), Place::out);
	}
}

/* ---- how often somebody looks ---- */

/* A partition with one message, as a claim sees it. */
struct OneMessage
{
	Micros visible; /* under the queue's options */
	bool there = true;

	hot::Outcome
	claim(Micros at)
	{
		if (!there)
			return sure(Verdict::empty);
		if (at < visible)
			return outcome(Verdict::deferred, visible);
		there = false;
		return took(true);
	}
};

/* One push of a queue that defers is looked at once or twice, and then never again (the project's 1,098 a minute, errata 3.24). */
TEST_F(HotlistCheckIn, OnePushOfADeferringQueueIsLookedAtTwiceAtMost)
{
	const hot::Deferral queues[] = {{0, 5 * second}, {3 * second, 0}, {3 * second, 5 * second}, {0, 1}, {1, 0}};

	for (const hot::Deferral &queue : queues)
		/* the message is as old as its mark, or was there long before, or its clock was ahead */
		for (const Micros age : {Micros{0}, Micros{700'000}, Micros{-1500}})
			for (const bool found_by_walk : {false, true})
			{
				const std::uint64_t before = statistics().takes;
				OneMessage message = {now - age + (queue.delay != 0 ? queue.delay : queue.window)};
				const Micros end = now + 60 * second;

				defer(queue.delay, queue.window);
				walk(ring);
				if (found_by_walk)
					mark_ring(p);
				else
					mark(p);
				while (now < end)
				{
					for (const hot::Taken &taken : take(1))
						check_in(taken, message.claim(now));
					drain_at(std::max(now + 1, std::min(deadline(), end)));
				}
				EXPECT_FALSE(message.there);
				EXPECT_EQ(place(), Place::idle);
				EXPECT_LE(statistics().takes - before, 2U) << queue.delay << " " << queue.window << " " << age;
			}
}

TEST_F(HotlistCheckIn, VerdictsAreCounted)
{
	const Verdict all[] = {Verdict::none,	  Verdict::took,   Verdict::empty,		Verdict::leased,
						   Verdict::deferred, Verdict::locked, Verdict::behind_push};
	static_assert(sizeof(all) / sizeof(all[0]) == core::verdict_count);

	for (const Verdict verdict : all)
		for (int i = 0; i <= static_cast<int>(verdict); i++)
		{
			mark_ring(p);
			check_in(take_one(), outcome(verdict, now));
		}
	for (int v = 0; v < core::verdict_count; v++)
		EXPECT_EQ(statistics().verdicts[v], static_cast<std::uint64_t>(v) + 1);
}

} // namespace
} // namespace queen::test
