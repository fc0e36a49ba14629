/*
 * hotlist_rings_test.cpp: rings that come and go, what refers to them for too long, and what they leave behind.
 */
#include "hotlist_fixture.h"

#include <functional>
#include <set>

namespace queen::test
{
namespace
{

constexpr std::int64_t p = 42;

class HotlistRings : public HotlistTest
{
  protected:
	hot::RingKey
	group(std::int64_t id) const
	{
		return {key.queue, id};
	}

	hot::PoolStatistics
	all()
	{
		hot::PoolStatistics found{};

		hot::pool_statistics(pool, &found);
		return found;
	}

	hot::Registered
	enroll(const hot::RingKey &of, hot::RingRef *made)
	{
		return hot::ring_register(pool, of, now, made);
	}
};

TEST_F(HotlistRings, AreFoundByTheirWholeKey)
{
	hot::RingRef found;

	EXPECT_EQ(enroll(key, &found), hot::Registered::found);
	EXPECT_EQ(found.id, ring.id);
	EXPECT_EQ(found.index, ring.index);
	EXPECT_TRUE(hot::ring_find(pool, key, &found));
	EXPECT_EQ(found.id, ring.id);
	for (const hot::RingKey &other_key :
		 {hot::RingKey{{9, 2, 3}, 4}, hot::RingKey{{1, 9, 3}, 4}, hot::RingKey{{1, 2, 9}, 4},
		  hot::RingKey{{1, 2, 3}, 9}, hot::RingKey{{2, 1, 3}, 4}, hot::RingKey{{1, 2, 4}, 3},
		  hot::RingKey{{1, 2, -3}, 4}})
		EXPECT_FALSE(hot::ring_find(pool, other_key, &found));
	EXPECT_EQ(all().rings_used, 1U);
}

TEST_F(HotlistRings, ANewOneIsColdAndServesWhatIsMarked)
{
	hot::RingRef made;

	ASSERT_EQ(enroll(group(5), &made), hot::Registered::created);
	EXPECT_EQ(hot::owes(pool, made, now, 0), hot::Owes::walk);
	EXPECT_EQ(mark(p), 2U);
	EXPECT_EQ(hot::ready_count(pool, made), 1U);
}

TEST_F(HotlistRings, IdsAreNeverGivenAgain)
{
	std::set<std::uint64_t> ids = {ring.id};

	for (int i = 0; i < 100; i++)
	{
		hot::RingRef made;

		ASSERT_EQ(enroll(group(5), &made), hot::Registered::created);
		EXPECT_TRUE(ids.insert(made.id).second);
		hot::forget_ring(pool, group(5));
	}
	EXPECT_EQ(hot::ring_places(pool), 2U) << "places are";
	EXPECT_EQ(all().rings_used, 1U);
}

/* ---- references that outlive their ring ---- */

class HotlistOldReference : public HotlistRings
{
  protected:
	/* The ring goes; another is at its place, with one candidate ready, and owes nothing. */
	hot::RingRef
	replace()
	{
		const hot::RingRef old = ring;

		hot::forget_ring(pool, key);
		ring = make_ring(group(5));
		EXPECT_EQ(ring.index, old.index);
		EXPECT_EQ(mark(p), 1U);
		EXPECT_EQ(place(), Place::ready);
		return old;
	}
};

TEST_F(HotlistOldReference, SeesNothingAndChangesNothing)
{
	mark(p);
	const hot::Taken taken = take_one();
	hot::Ticket ticket{};
	ASSERT_TRUE(hot::reseed_begin(pool, ring, now, me, alive, &ticket));
	const hot::RingRef old = replace();
	hot::Taken out[2];

	EXPECT_FALSE(hot::ring_is(pool, old));
	EXPECT_EQ(hot::take(pool, old, 2, 9, now, me, out, told.listener()), 0U);
	EXPECT_EQ(hot::candidates(pool, old, 2, out), 0U);
	EXPECT_EQ(hot::ready_count(pool, old), 0U);
	EXPECT_EQ(hot::owes(pool, old, now, 1), hot::Owes::nothing);
	EXPECT_FALSE(hot::overdue(pool, old, now + 1000 * second, second));
	EXPECT_TRUE(hot::holds(pool, old, 4711));
	hot::ring_defer(pool, old, {5 * second, 0});
	EXPECT_FALSE(hot::check_in(pool, old, taken, sure(Verdict::empty), now, told.listener()));
	EXPECT_EQ(hot::reseed_row(pool, &ticket, 77, now, alive), hot::Reseeded::gone);
	EXPECT_EQ(place(), Place::ready);

	/* the walk of the old one pays nothing of the new one's */
	hot::owe_ring(pool, group(5), told.listener());
	hot::reseed_end(pool, ticket, true, 0, 3, now, told.listener());
	EXPECT_EQ(hot::owes(pool, ring, now, 0), hot::Owes::walk);
	EXPECT_EQ(statistics().reseed_repairs, 0U);
	hot::Ticket another{};
	EXPECT_FALSE(hot::reseed_begin(pool, old, now, other, alive, &another));
	EXPECT_TRUE(hot::reseed_begin(pool, ring, now, other, alive, &another));
	mark(p + 1);
	EXPECT_EQ(statistics().ready, 2U) << "the new one does not defer";
}

TEST_F(HotlistOldReference, ThatIsRubbishIsNoReference)
{
	hot::Taken out[2];

	for (const hot::RingRef &bad : {hot::RingRef{}, hot::RingRef{ring.index, 0}, hot::RingRef{ring.index + 1, ring.id},
									hot::RingRef{UINT32_MAX, UINT64_MAX}, hot::RingRef{ring.index, UINT64_MAX}})
	{
		hot::Ticket ticket{};

		EXPECT_FALSE(hot::ring_is(pool, bad));
		EXPECT_EQ(hot::take(pool, bad, 2, 9, now, me, out, told.listener()), 0U);
		EXPECT_FALSE(hot::check_in(pool, bad, {}, sure(Verdict::empty), now, told.listener()));
		EXPECT_EQ(hot::ready_count(pool, bad), 0U);
		EXPECT_FALSE(hot::reseed_begin(pool, bad, now, me, alive, &ticket));
		ticket.ring = bad;
		EXPECT_EQ(hot::reseed_row(pool, &ticket, p, now, alive), hot::Reseeded::gone);
		hot::reseed_end(pool, ticket, true, 0, 0, now, told.listener());
		hot::ring_defer(pool, bad, {1, 1});
	}
	hot::RingStatistics found{};
	EXPECT_FALSE(hot::ring_statistics(pool, hot::ring_places(pool), &found));
	EXPECT_FALSE(hot::ring_statistics(pool, UINT32_MAX, &found));
}

/* Locks that do something before the first time that one is taken, as another process might. */
thread_local std::function<void()> *before_lock = nullptr;

void
meddle() noexcept
{
	if (before_lock != nullptr)
	{
		std::function<void()> *what = before_lock;

		before_lock = nullptr;
		(*what)();
	}
}

constexpr hot::LockCalls meddling_locks = {sizeof(SpinLock), nullptr,
										   [](void *lock) noexcept {
											   meddle();
											   spin_locks.exclusive(lock);
										   },
										   [](void *lock) noexcept {
											   meddle();
											   spin_locks.shared(lock);
										   },
										   [](void *lock) noexcept { spin_locks.release(lock); }};

/* The ring goes between the look at its id and what is written to it: the one that comes to its place has none of it. */
TEST_F(HotlistOldReference, ThatBecomesOldInTheMiddleOfACall)
{
	const hot::Hotlist meddled = {static_cast<const hot::Hotlist &>(pool).pool, &meddling_locks};
	hot::RingRef old;
	std::function<void()> act = [this, &old] { old = replace(); };
	hot::Ticket ticket{};

	before_lock = &act;
	hot::ring_defer(meddled, ring, {5 * second, 0});
	ASSERT_NE(old.id, 0U);
	mark(p + 1);
	EXPECT_EQ(statistics().ready, 2U);

	before_lock = &act;
	const hot::RingRef second_ring = ring;
	act = [this, &old] {
		hot::forget_ring(pool, group(5));
		old = ring;
		ring = make_ring(group(6));
	};
	EXPECT_FALSE(hot::reseed_begin(meddled, second_ring, now, other, alive, &ticket));
	ASSERT_EQ(old.id, second_ring.id);
	EXPECT_TRUE(hot::reseed_begin(pool, ring, now, me, alive, &ticket)) << "nobody else walks it";

	before_lock = &act;
	act = [this] {
		hot::forget_ring(pool, group(6));
		ring = make_ring(group(7));
	};
	now += second;
	hot::reseed_end(meddled, ticket, false, 4711, 1, now, told.listener());
	EXPECT_EQ(before_lock, nullptr);
	EXPECT_EQ(statistics().reseeds, 1U) << "its own, by make_ring";
	ASSERT_TRUE(hot::reseed_begin(pool, ring, now, me, alive, &ticket));
	EXPECT_EQ(ticket.resume_at, 0);
}

/* ---- what a forgotten ring leaves ---- */

TEST_F(HotlistRings, ForgottenTheyLeaveNothingThatIsServed)
{
	for (std::int64_t i = 0; i < 30; i++)
		mark(i);
	const std::vector<hot::Taken> taken = take(10);
	for (std::size_t i = 0; i < 5; i++)
		check_in(taken[i], outcome(Verdict::locked));
	const std::uint64_t used = all().slots_used;
	EXPECT_EQ(used, 30U);

	hot::forget_ring(pool, key);
	EXPECT_EQ(all().rings_used, 0U);
	EXPECT_EQ(all().slots_used, used) << "garbage, so far";
	EXPECT_EQ(hot::mark(pool, key.queue, {}, now, told.listener()), 0U);
	told = {};
	drain_at(now + 10 * second);
	EXPECT_EQ(told.calls, 0) << "nobody waits for what is gone";
	EXPECT_EQ(all().slots_used, used - 5) << "what was parked went with its deadline";
	EXPECT_STREQ(hot::inconsistency(pool), nullptr);

	ring = make_ring(key);
	EXPECT_EQ(take(100).size(), 0U);
	EXPECT_EQ(place(), Place::idle);
	hot::sweep(pool, now);
	EXPECT_EQ(all().slots_used, 0U);
}

TEST_F(HotlistRings, OfAQueueAndOfTablesAreForgottenTogether)
{
	const hot::RingKey keys[] = {key,			group(5), group(6), {{1, 2, 8}, 4}, {{1, 9, 3}, 4}, {{1, 9, 3}, 5},
								 {{7, 2, 3}, 4}};
	hot::RingRef found;

	for (std::size_t i = 1; i < std::size(keys); i++)
		make_ring(keys[i]);
	hot::forget_queue(pool, key.queue);
	for (std::size_t i = 0; i < std::size(keys); i++)
		EXPECT_EQ(hot::ring_find(pool, keys[i], &found), i >= 3) << i;
	EXPECT_EQ(hot::forget_tables(pool, 1, 2), 1U);
	EXPECT_EQ(hot::forget_tables(pool, 1, 0), 2U);
	EXPECT_EQ(hot::forget_tables(pool, 1, 0), 0U);
	EXPECT_TRUE(hot::ring_find(pool, keys[6], &found));
	EXPECT_EQ(all().rings_used, 1U);
	hot::forget_queue(pool, {7, 2, 3});
	ring = make_ring(key);
	EXPECT_STREQ(hot::inconsistency(pool), nullptr);
}

/* ---- eviction ---- */

class HotlistFewRings : public HotlistRings
{
  protected:
	HotlistFewRings()
	{
		while (all().rings_used < all().rings)
		{
			now += second;
			rings.push_back(make_ring(group(next++)));
		}
	}

	std::vector<hot::RingRef> rings = {ring};
	std::int64_t next = 100;
};

TEST_F(HotlistFewRings, TheOneThatWasServedLongestAgoIsGivenUp)
{
	/* the hand looks at so many at a time: the oldest of some, not of all */
	constexpr std::uint64_t looked_at = 32;
	ASSERT_GT(rings.size(), looked_at);
	hot::RingRef made;

	now += second;
	ASSERT_EQ(hot::ready_count(pool, rings[0]), 0U);
	hot::Taken none{};
	hot::take(pool, rings[0], 1, 1, now, me, &none, told.listener());
	hot::ring_in_use(pool, rings[1], now);
	ASSERT_EQ(enroll(group(next), &made), hot::Registered::created);
	EXPECT_EQ(hot::owes(pool, made, now, 0), hot::Owes::walk);
	EXPECT_EQ(all().evicted_rings, 1U);
	EXPECT_EQ(all().rings_used, all().rings);
	EXPECT_TRUE(hot::ring_is(pool, rings[0])) << "it was served just now";
	EXPECT_TRUE(hot::ring_is(pool, rings[1])) << "somebody waits at it";
	EXPECT_FALSE(hot::ring_is(pool, rings[2]));
	for (std::size_t i = 3; i < rings.size(); i++)
		EXPECT_TRUE(hot::ring_is(pool, rings[i]));
}

TEST_F(HotlistFewRings, WithCheckOutsNoneIsGivenUp)
{
	mark(p);
	for (const hot::RingRef &one : rings)
	{
		hot::Taken taken{};

		ASSERT_EQ(hot::take(pool, one, 1, 1, now, me, &taken, told.listener()), 1U);
		if (one.id == rings.back().id)
			hot::check_in(pool, one, taken, outcome(Verdict::none), now, told.listener());
	}
	/* a single one may go, wherever the hand is; each call looks at some */
	hot::RingRef made;
	int calls = 0;
	while (enroll(group(next), &made) == hot::Registered::full)
		ASSERT_LT(++calls, 1000);
	EXPECT_EQ(all().refused_rings, static_cast<std::uint64_t>(calls));
	EXPECT_EQ(all().evicted_rings, 1U);
	EXPECT_FALSE(hot::ring_is(pool, rings.back()));
	for (const hot::RingRef &one : rings)
		EXPECT_TRUE(hot::ring_is(pool, one) || one.id == rings.back().id);

	hot::Taken taken{};
	mark(p + 1);
	ASSERT_EQ(hot::take(pool, made, 1, 1, now, me, &taken, told.listener()), 1U);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(enroll(group(next + 1), &made), hot::Registered::full);
	EXPECT_EQ(all().evicted_rings, 1U);
}

/* ---- sweep ---- */

TEST_F(HotlistRings, WhatNobodyServedBetweenTwoSweepsGoes)
{
	hot::RingRef idle = make_ring(group(5));
	hot::RingRef unserved = make_ring(group(6));
	hot::RingRef holding = make_ring(group(7));
	hot::RingRef asked = make_ring(group(8));
	hot::Taken taken{};

	mark(p);
	ASSERT_EQ(hot::take(pool, holding, 1, 1, now, me, &taken, told.listener()), 1U);
	EXPECT_EQ(hot::take(pool, idle, 1, 1, now, me, &taken, told.listener()), 1U);
	hot::check_in(pool, idle, taken, sure(Verdict::empty), now, told.listener());
	now += second;
	EXPECT_EQ(hot::sweep(pool, now), 0U) << "the first has nothing to compare with";

	now += second;
	check_in(take_one(), outcome(Verdict::none));
	(void) hot::ready_count(pool, asked);
	EXPECT_EQ(hot::sweep(pool, now), 2U);
	EXPECT_TRUE(hot::ring_is(pool, ring)) << "served";
	EXPECT_TRUE(hot::ring_is(pool, asked)) << "somebody waits for it";
	EXPECT_TRUE(hot::ring_is(pool, holding)) << "a check-out";
	EXPECT_FALSE(hot::ring_is(pool, idle));
	EXPECT_FALSE(hot::ring_is(pool, unserved)) << "whatever it holds";
	EXPECT_EQ(all().slots_used, 3U) << "and that is taken back: ring's, asked's and holding's are left";

	now += second;
	EXPECT_EQ(hot::sweep(pool, now), 1U) << "nobody asked again; the ring was served just when the last sweep came";
	EXPECT_TRUE(hot::ring_is(pool, ring));
	now += second;
	EXPECT_EQ(hot::sweep(pool, now), 1U);
	EXPECT_TRUE(hot::ring_is(pool, holding));
}

} // namespace
} // namespace queen::test
