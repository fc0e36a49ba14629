/*
 * hotlist_walk_test.cpp: what rings owe, and walks that pay it.
 */
#include "hotlist_fixture.h"

namespace queen::test
{
namespace
{

using hot::Owes;
using hot::Reseeded;

constexpr std::int64_t p = 42;

class HotlistWalk : public HotlistTest
{
  protected:
	using HotlistTest::HotlistTest;

	Owes
	owed(Micros interval = 0)
	{
		return hot::owes(pool, ring, now, interval);
	}

	hot::Ticket
	begin(hot::Owner owner = me)
	{
		hot::Ticket ticket{};

		EXPECT_TRUE(hot::reseed_begin(pool, ring, now, owner, alive, &ticket));
		return ticket;
	}

	Reseeded
	row(hot::Ticket *ticket, std::int64_t partition)
	{
		return hot::reseed_row(pool, ticket, partition, now, alive);
	}

	void
	end(const hot::Ticket &ticket, bool whole = true, std::int64_t stopped_at = 0, std::uint64_t repairs = 0)
	{
		hot::reseed_end(pool, ticket, whole, stopped_at, repairs, now, told.listener());
	}

	/* A whole walk that finds the partition pending. */
	Reseeded
	walk_over(std::int64_t partition)
	{
		hot::Ticket ticket = begin();
		const Reseeded found = row(&ticket, partition);

		end(ticket);
		return found;
	}

	void
	owe()
	{
		hot::owe_ring(pool, key, told.listener());
	}
};

/* ---- rows ---- */

TEST_F(HotlistWalk, ARowOfAnIdlePartitionIsReady)
{
	EXPECT_EQ(walk_over(p), Reseeded::added);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(told.ready[ring.index], 1U) << "told when the walk ends";
	check_in(take_one(), sure(Verdict::empty));
	defer(3 * second, 3 * second);
	EXPECT_EQ(walk_over(p), Reseeded::added);
	EXPECT_EQ(place(), Place::ready) << "where the queue defers too: it may have been due for long";
}

TEST_F(HotlistWalk, ARowOfWhatIsReadyChangesNothing)
{
	mark(p);
	EXPECT_EQ(walk_over(p), Reseeded::held);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistWalk, ARowOfWhatIsParkedEndsItsWait)
{
	for (const hot::Outcome &what :
		 {outcome(Verdict::leased, now + second), outcome(Verdict::locked),
		  outcome(Verdict::deferred, now + 9 * second), leased(true, now + second, 5), outcome(Verdict::behind_push)})
	{
		serve(p, what);
		ASSERT_EQ(place(), Place::parked);
		EXPECT_EQ(walk_over(p), Reseeded::held);
		EXPECT_EQ(place(), Place::ready) << static_cast<int>(what.verdict);
		check_in(take_one(), sure(Verdict::empty));
	}
}

TEST_F(HotlistWalk, ARowOfADeferringQueueEndsNoWaitButBehindAPush)
{
	for (const hot::Deferral &queue : {hot::Deferral{3 * second, 0}, hot::Deferral{0, 3 * second}})
	{
		defer(0, 0);
		defer(queue.delay, queue.window);
		walk(ring);
		mark(p);
		EXPECT_EQ(walk_over(p), Reseeded::held);
		EXPECT_EQ(place(), Place::parked);
		mark_ring(p);
		check_in(take_one(), outcome(Verdict::behind_push));
		EXPECT_EQ(walk_over(p), Reseeded::held);
		EXPECT_EQ(place(), Place::ready);
		check_in(take_one(), sure(Verdict::empty));
	}
}

/* Something happened to the tables, and nobody knows to what: rows end waits, whatever for. */
TEST_F(HotlistWalk, OneThatIsOwedEndsEveryWait)
{
	defer(3 * second, 0);
	mark(p);
	owe();
	EXPECT_EQ(walk_over(p), Reseeded::held);
	EXPECT_EQ(place(), Place::ready);
}

TEST_F(HotlistWalk, AQueueThatDefersLessOwesOne)
{
	const hot::Deferral more[] = {{0, 0}, {0, 2}, {2, 2}, {2, 3}};
	const hot::Deferral less[] = {{2, 2}, {1, 9}, {1, 0}, {0, 1}};

	for (const hot::Deferral &queue : more)
	{
		defer(queue.delay, queue.window);
		EXPECT_EQ(owed(), Owes::nothing);
	}
	for (const hot::Deferral &queue : less)
	{
		defer(queue.delay, queue.window);
		EXPECT_EQ(owed(), Owes::walk) << queue.delay << " " << queue.window;
		defer(queue.delay, queue.window);
		walk(ring);
		EXPECT_EQ(owed(), Owes::nothing);
		defer(queue.delay, queue.window);
		EXPECT_EQ(owed(), Owes::nothing) << "the same again";
	}
}

TEST_F(HotlistWalk, ARowOfWhatSomebodyHoldsOnlyMovesItsEpoch)
{
	mark(p);
	const hot::Taken taken = take_one(other);

	EXPECT_EQ(walk_over(p), Reseeded::held);
	EXPECT_EQ(place(), Place::out);
	EXPECT_TRUE(check_in(taken, sure(Verdict::empty))) << "it was pending after the take, for all that is known";

	/* but it was not told that a row was freed */
	const hot::Taken again = take_one(other);
	EXPECT_EQ(walk_over(p), Reseeded::held);
	EXPECT_FALSE(check_in(again, outcome(Verdict::locked)));
}

TEST_F(HotlistWalk, WhoIsGoneHoldsNothing)
{
	mark(p);
	take_one(other);
	bury(other);
	EXPECT_EQ(walk_over(p), Reseeded::reclaimed);
	EXPECT_EQ(place(), Place::ready);
	EXPECT_EQ(told.ready[ring.index], 2U);
}

/* ---- debts ---- */

TEST_F(HotlistWalk, DebtsArePaidByOneThatBeganBehindThem)
{
	owe();
	EXPECT_EQ(owed(), Owes::walk);
	EXPECT_EQ(told.ready[ring.index], 1U) << "so that somebody walks";
	hot::Ticket ticket = begin();
	EXPECT_EQ(owed(), Owes::walk) << "not yet";
	owe();
	end(ticket);
	EXPECT_EQ(owed(), Owes::walk) << "what came during the walk is owed still";
	walk(ring);
	EXPECT_EQ(owed(), Owes::nothing);
}

TEST_F(HotlistWalk, DebtsOfAQueueAndOfTables)
{
	const hot::RingKey keys[] = {key, {key.queue, 5}, {{1, 2, 9}, 4}, {{1, 9, 3}, 4}, {{7, 2, 3}, 4}};
	std::vector<hot::RingRef> rings = {ring};
	const auto who_owes = [&] {
		std::vector<bool> which;

		for (const hot::RingRef &one : rings)
		{
			which.push_back(hot::owes(pool, one, now, 0) == Owes::walk);
			walk(one);
		}
		return which;
	};

	for (std::size_t i = 1; i < std::size(keys); i++)
		rings.push_back(make_ring(keys[i]));
	owe();
	EXPECT_EQ(who_owes(), (std::vector<bool>{true, false, false, false, false}));
	hot::owe_queue(pool, key.queue, told.listener());
	EXPECT_EQ(who_owes(), (std::vector<bool>{true, true, false, false, false}));
	hot::owe_tables(pool, 1, 2, told.listener());
	EXPECT_EQ(who_owes(), (std::vector<bool>{true, true, true, false, false}));
	hot::owe_tables(pool, 1, 0, told.listener());
	EXPECT_EQ(who_owes(), (std::vector<bool>{true, true, true, true, false}));
}

TEST_F(HotlistWalk, OneThatWasCutShortPaysNothingAndSaysWhereToGoOn)
{
	owe();
	hot::Ticket ticket = begin();
	EXPECT_EQ(ticket.resume_at, 0);
	end(ticket, false, 77);
	EXPECT_EQ(owed(), Owes::walk);
	ticket = begin();
	EXPECT_EQ(ticket.resume_at, 77);
	end(ticket);
	EXPECT_EQ(owed(), Owes::nothing);
	EXPECT_EQ(begin().resume_at, 0);
}

TEST_F(HotlistWalk, SettledIsARingThatOwedNothing)
{
	hot::Ticket ticket = begin();
	EXPECT_TRUE(ticket.settled);
	EXPECT_FALSE(ticket.ease);
	end(ticket);
	owe();
	ticket = begin();
	EXPECT_FALSE(ticket.settled);
	EXPECT_TRUE(ticket.ease);
	end(ticket);
}

/* ---- who walks ---- */

TEST_F(HotlistWalk, OneAtATime)
{
	hot::Ticket mine = begin();
	hot::Ticket ticket{};

	EXPECT_FALSE(hot::reseed_begin(pool, ring, now, other, alive, &ticket));
	end(mine);
	EXPECT_TRUE(hot::reseed_begin(pool, ring, now, other, alive, &ticket));
	EXPECT_FALSE(hot::reseed_begin(pool, ring, now, me, alive, &mine));
}

TEST_F(HotlistWalk, OnesOwnThatAnErrorEndedBeginsAnew)
{
	owe();
	begin();
	hot::Ticket again = begin();
	EXPECT_EQ(owed(), Owes::walk);
	end(again);
	EXPECT_EQ(owed(), Owes::nothing);
}

TEST_F(HotlistWalk, OneWhoIsGoneIsTakenOver)
{
	owe();
	const hot::Ticket theirs = begin(other);
	hot::Ticket ticket{};

	bury(other);
	ASSERT_TRUE(hot::reseed_begin(pool, ring, now, me, alive, &ticket));
	EXPECT_EQ(owed(), Owes::walk);
	/* it was not gone after all: its end frees nobody else's walk */
	end(theirs, false, 5);
	hot::Ticket third{};
	EXPECT_FALSE(hot::reseed_begin(pool, ring, now, {3, 3}, alive, &third));
	end(ticket);
	EXPECT_EQ(owed(), Owes::nothing);
	EXPECT_TRUE(hot::reseed_begin(pool, ring, now, {3, 3}, alive, &third));
}

/* ---- when ---- */

TEST_F(HotlistWalk, TheFloorComesAfterTheIntervalAndSomeMore)
{
	constexpr Micros interval = 10 * second;
	const Micros walked = now;

	EXPECT_EQ(owed(0), Owes::nothing) << "no floor";
	now = walked + interval - 1;
	EXPECT_EQ(owed(interval), Owes::nothing);
	now = walked + interval + interval / 5 + 1;
	EXPECT_EQ(owed(interval), Owes::floor);
	EXPECT_EQ(owed(0), Owes::nothing);
	EXPECT_FALSE(hot::overdue(pool, ring, now, interval));
	now = walked + 3 * interval;
	EXPECT_TRUE(hot::overdue(pool, ring, now, interval));
	EXPECT_FALSE(hot::overdue(pool, ring, now, 0));
	walk(ring);
	EXPECT_EQ(owed(interval), Owes::nothing);
	EXPECT_FALSE(hot::overdue(pool, ring, now, interval));
}

TEST_F(HotlistWalk, RingsThatBeganTogetherDoNotWalkTogether)
{
	constexpr Micros interval = 100 * second;
	std::vector<hot::RingRef> rings;
	int due = 0;

	for (std::int64_t g = 100; g < 140; g++)
		rings.push_back(make_ring({key.queue, g}));
	now += interval + interval / 10;
	for (const hot::RingRef &one : rings)
		due += hot::owes(pool, one, now, interval) == Owes::floor;
	EXPECT_GT(due, 5);
	EXPECT_LT(due, 35);
}

/* Walks that take long lie far apart: one hundredth of the time is theirs at most. */
TEST_F(HotlistWalk, ALongOneIsNotMadeOften)
{
	hot::Ticket ticket = begin();

	now += 7 * second;
	end(ticket);
	EXPECT_EQ(statistics().last_reseed_took, 7 * second);
	now += 699 * second;
	EXPECT_EQ(owed(second), Owes::nothing);
	now += 200 * second;
	EXPECT_EQ(owed(second), Owes::floor);
	owe();
	EXPECT_EQ(owed(second), Owes::walk) << "what happened is not waited with";
}

TEST_F(HotlistWalk, StatisticsTellOfThem)
{
	hot::Ticket ticket = begin();

	row(&ticket, 1);
	row(&ticket, 2);
	now += second;
	end(ticket, true, 0, 2);
	EXPECT_EQ(statistics().reseeds, 2U) << "make_ring's, too";
	EXPECT_EQ(statistics().reseed_rows, 2U);
	EXPECT_EQ(statistics().reseed_repairs, 2U);
	EXPECT_EQ(statistics().last_reseed, now);
	EXPECT_EQ(statistics().last_reseed_took, second);
}

/* ---- a shard without room ---- */

class HotlistFull : public HotlistWalk
{
  protected:
	HotlistFull() : HotlistWalk(0, {1, 100})
	{
		hot::PoolStatistics found{};

		hot::pool_statistics(pool, &found);
		slots = static_cast<std::int64_t>(found.slots);
		some = static_cast<std::uint32_t>(slots / 8);
	}

	std::uint64_t
	refused()
	{
		hot::PoolStatistics found{};

		hot::pool_statistics(pool, &found);
		EXPECT_LE(found.slots_used, found.slots);
		return found.refused_slots;
	}

	std::int64_t slots;
	std::uint32_t some; /* so much room that a walk is of use */
};

TEST_F(HotlistFull, WhatDoesNotFitIsOwed)
{
	for (std::int64_t i = 0; i < slots; i++)
		mark(i);
	EXPECT_EQ(owed(), Owes::nothing);
	EXPECT_EQ(statistics().ready, static_cast<std::uint64_t>(slots)) << "every slot is used";
	mark(slots);
	EXPECT_EQ(statistics().ready, static_cast<std::uint64_t>(slots));
	EXPECT_FALSE(hot::holds(pool, ring, slots));
	EXPECT_EQ(statistics().dropped, 1U);
	EXPECT_EQ(refused(), 1U);
	EXPECT_EQ(owed(), Owes::full) << "no room that a walk would be of use for";
	EXPECT_FALSE(hot::overdue(pool, ring, now + 1000 * second, second));
	owe();
	EXPECT_EQ(owed(), Owes::full);
	EXPECT_TRUE(mark_ring(slots + 1)) << "the ring is there";
	EXPECT_EQ(statistics().dropped, 2U);
	mark(1); /* what is there is marked */
	EXPECT_EQ(statistics().dropped, 2U);
}

TEST_F(HotlistFull, AWalkGoesOnWhereItStopped)
{
	/* three times as many are pending as there are slots: two walks, the second from where the first one found no room */
	const std::int64_t pending = 3 * slots;
	std::int64_t served = 0;
	int walks = 0;

	for (std::int64_t i = 1; i <= pending; i++)
		mark(i);
	std::vector<bool> seen(static_cast<std::size_t>(pending) + 1);
	for (;;)
	{
		for (const hot::Taken &taken : take(1000))
		{
			check_in(taken, took(true));
			EXPECT_FALSE(seen[static_cast<std::size_t>(taken.partition_id)]);
			seen[static_cast<std::size_t>(taken.partition_id)] = true;
			served++;
		}
		if (owed() == Owes::nothing)
			break;
		EXPECT_EQ(owed(), Owes::incomplete);
		ASSERT_LT(walks++, 4);

		hot::Ticket ticket = begin();
		std::int64_t stopped = 0;
		EXPECT_FALSE(ticket.settled);
		EXPECT_FALSE(ticket.ease);
		for (std::int64_t i = 0; i < pending && stopped == 0; i++)
		{
			/* around, from there */
			const std::int64_t at = (ticket.resume_at + pending - 1 + i) % pending + 1;

			if (!seen[static_cast<std::size_t>(at)] && row(&ticket, at) == Reseeded::full)
				stopped = at;
		}
		end(ticket, stopped == 0, stopped);
	}
	EXPECT_EQ(served, pending);
	EXPECT_EQ(walks, 2);
}

TEST_F(HotlistFull, AWalkThatFindsNoRoomSaysSo)
{
	for (std::int64_t i = 0; i < slots; i++)
		mark(i);
	hot::Ticket ticket = begin();
	EXPECT_EQ(row(&ticket, 1), Reseeded::held);
	EXPECT_EQ(row(&ticket, slots), Reseeded::full);
	end(ticket, false, slots);
	EXPECT_EQ(owed(), Owes::full);
	for (const hot::Taken &taken : take(some))
		check_in(taken, sure(Verdict::empty));
	EXPECT_EQ(owed(), Owes::incomplete) << "now there is some";
	EXPECT_EQ(begin().resume_at, slots);
}

/* What did not fit while the walk ran is not in it. */
TEST_F(HotlistFull, WhatDidNotFitDuringAWalkIsOwedStill)
{
	for (std::int64_t i = 0; i < slots; i++)
		mark(i);
	hot::Ticket ticket = begin();
	mark(slots);
	for (const hot::Taken &taken : take(some))
		check_in(taken, sure(Verdict::empty));
	end(ticket);
	EXPECT_EQ(owed(), Owes::incomplete);
	walk(ring);
	EXPECT_EQ(owed(), Owes::nothing);
}

TEST_F(HotlistFull, ForgottenRingsGiveTheirSlots)
{
	for (std::int64_t i = 0; i < slots; i++)
		mark(i);
	take(some); /* check-outs too */
	hot::forget_ring(pool, key);
	ring = make_ring(key);
	EXPECT_EQ(owed(), Owes::nothing);
	for (std::int64_t i = slots; i < 2 * slots; i++)
		mark(i);
	EXPECT_EQ(statistics().ready, static_cast<std::uint64_t>(slots));
	EXPECT_EQ(refused(), 0U);
	EXPECT_EQ(owed(), Owes::nothing);
	mark(0);
	EXPECT_EQ(refused(), 1U);
	for (const hot::Taken &taken : take(1000))
		EXPECT_GE(taken.partition_id, slots);
}

} // namespace
} // namespace queen::test
