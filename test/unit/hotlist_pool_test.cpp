/*
 * hotlist_pool_test.cpp: how the memory is divided, the wheel, what is counted, and how long a lock is held.
 */
#include "hotlist_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

namespace queen::test
{
namespace
{

constexpr std::size_t mebi = std::size_t{1} << 20;

struct Freed
{
	void
	operator()(void *memory) const
	{
		std::free(memory);
	}
};

/* Exactly so much memory, of a line's alignment, full of rubbish. */
std::unique_ptr<void, Freed>
memory_of(std::size_t size)
{
	std::unique_ptr<void, Freed> memory(std::aligned_alloc(64, (size + 63) / 64 * 64));

	std::memset(memory.get(), 0xa5, size);
	return memory;
}

hot::PoolStatistics
statistics_of(const hot::Hotlist &list)
{
	hot::PoolStatistics found{};

	hot::pool_statistics(list, &found);
	return found;
}

/* ---- the memory ---- */

TEST(HotlistPool, IsLaidOutInAnySizeFromTheLeast)
{
	for (const std::uint32_t shards : {1U, 3U, 8U, 64U})
	{
		const hot::PoolOptions options = {shards, 100};
		const std::size_t least = hot::least_size(&spin_locks, &options);

		EXPECT_FALSE(hot::lay_out(memory_of(least - 64).get(), least - 64, &spin_locks, &options)) << shards;
		for (std::size_t size = least; size < least + 20 * 64; size += 24)
		{
			const TestPool pool(size, options);
			const hot::PoolStatistics found = statistics_of(pool);

			EXPECT_EQ(found.bytes, size);
			EXPECT_EQ(found.shards, shards);
			EXPECT_GE(found.slots, 15U * shards);
			EXPECT_GE(found.rings, 4U);
		}
	}
}

TEST(HotlistPool, IsNotLaidOutForNonsense)
{
	const auto memory = memory_of(mebi);
	const auto takes = [&memory](hot::PoolOptions options, std::size_t lock_size = sizeof(SpinLock)) {
		hot::LockCalls locks = spin_locks;

		locks.size = lock_size;
		return hot::lay_out(memory.get(), mebi, &locks, &options);
	};

	EXPECT_TRUE(takes({8, 100}));
	EXPECT_TRUE(takes({64, 1}));
	EXPECT_FALSE(takes({0, 100}));
	EXPECT_FALSE(takes({65, 100}));
	EXPECT_FALSE(takes({8, 0}));
	EXPECT_FALSE(takes({8, 100}, 0));
	EXPECT_FALSE(takes({8, 100}, 12));
	EXPECT_FALSE(takes({8, 100}, 8192));
	const hot::PoolOptions none = {0, 100};
	EXPECT_EQ(hot::least_size(&spin_locks, &none), SIZE_MAX);
}

TEST(HotlistPool, IsNotAttachedToWhatIsNone)
{
	const hot::PoolOptions options;
	const auto memory = memory_of(mebi);
	hot::LockCalls larger = spin_locks;
	hot::Hotlist list;

	EXPECT_FALSE(hot::attach(memory.get(), &spin_locks, &list));
	EXPECT_EQ(list.pool, nullptr);
	ASSERT_TRUE(hot::lay_out(memory.get(), mebi, &spin_locks, &options));
	larger.size *= 2;
	EXPECT_FALSE(hot::attach(memory.get(), &larger, &list));
	EXPECT_TRUE(hot::attach(memory.get(), &spin_locks, &list));
	static_cast<unsigned char *>(memory.get())[0] ^= 1; /* another version's */
	EXPECT_FALSE(hot::attach(memory.get(), &spin_locks, &list));
}

/* What 64 MB hold is in the README. */
TEST(HotlistPool, HoldsWhatIsPromised)
{
	const TestPool pool(64 * mebi);
	const hot::PoolStatistics found = statistics_of(pool);

	EXPECT_GT(found.slots, 600'000U);
	EXPECT_GT(found.rings, 8'000U);
	RecordProperty("slots", std::to_string(found.slots));
	RecordProperty("rings", std::to_string(found.rings));
}

/* Nothing is known of where it lies: another process maps it elsewhere. */
TEST(HotlistPool, CanLieElsewhere)
{
	const hot::PoolOptions options;
	const hot::RingKey key = {{1, 2, 3}, 4};
	const hot::Mark marks[] = {{1, 1}, {2, 1}, {3, 1}};
	auto first = memory_of(mebi);
	const auto moved = memory_of(mebi);
	hot::Hotlist list;
	hot::RingRef ring;

	ASSERT_TRUE(hot::lay_out(first.get(), mebi, &spin_locks, &options));
	ASSERT_TRUE(hot::attach(first.get(), &spin_locks, &list));
	ASSERT_EQ(hot::ring_register(list, key, 0, &ring), hot::Registered::created);
	hot::mark(list, key.queue, marks, 0, {});
	std::memcpy(moved.get(), first.get(), mebi);
	first.reset();
	ASSERT_TRUE(hot::attach(moved.get(), &spin_locks, &list));
	EXPECT_STREQ(hot::inconsistency(list), nullptr);
	EXPECT_EQ(hot::ready_count(list, ring), 3U);
}

/* ---- the wheel ---- */

class HotlistWheel : public HotlistTest
{
  protected:
	HotlistWheel() : HotlistTest(std::size_t{1} << 20, {1, 100})
	{
	}

	/* Park a partition until then. */
	void
	park(std::int64_t partition, Micros until)
	{
		hot::Taken taken{};

		mark_ring(partition);
		ASSERT_EQ(hot::take(pool, ring, 1, 1, now, me, &taken, told.listener()), 1U);
		ASSERT_EQ(taken.partition_id, partition);
		check_in(taken, outcome(Verdict::deferred, until - hot::pad));
	}
};

TEST_F(HotlistWheel, WhatIsDueFirstComesFirst)
{
	std::mt19937_64 random(7);
	std::vector<std::pair<Micros, std::int64_t>> all;

	for (std::int64_t i = 0; i < 500; i++)
	{
		all.emplace_back(now + 1 + static_cast<Micros>(random() % 1000), i);
		park(i, all.back().first);
		if (i % 50 == 0)
		{
			ASSERT_STREQ(hot::inconsistency(pool), nullptr);
		}
	}
	/* some leave from the middle */
	for (std::size_t i = 0; i < all.size(); i += 3)
		unpark(all[i].second);
	for (const hot::Taken &taken : take(500))
		check_in(taken, sure(Verdict::empty));
	std::vector<std::pair<Micros, std::int64_t>> left;
	for (std::size_t i = 0; i < all.size(); i++)
		if (i % 3 != 0)
			left.push_back(all[i]);
	std::sort(left.begin(), left.end());
	EXPECT_STREQ(hot::inconsistency(pool), nullptr);

	std::size_t at = 0;
	while (at < left.size())
	{
		EXPECT_EQ(deadline(), left[at].first);
		now = left[at].first;
		std::vector<std::int64_t> due;
		for (; at < left.size() && left[at].first == now; at++)
			due.push_back(left[at].second);
		std::vector<std::int64_t> came;
		for (const hot::Taken &taken : take(1000))
		{
			came.push_back(taken.partition_id);
			check_in(taken, sure(Verdict::empty));
		}
		std::sort(came.begin(), came.end());
		EXPECT_EQ(came, due);
	}
	EXPECT_EQ(deadline(), hot::never);
	EXPECT_EQ(statistics_of(pool).slots_used, 0U);
}

/* A wait that is over long before its deadline leaves nothing: the wheel never has more than the slots (the seed's grew, errata hole f). */
TEST_F(HotlistWheel, WhatLeavesEarlyLeavesNothing)
{
	const std::uint64_t slots = statistics_of(pool).slots;

	for (std::uint64_t i = 0; i < 3 * slots; i++)
	{
		park(7, now + 1'000'000 * second);
		unpark(7);
		check_in(take_one(), sure(Verdict::empty));
	}
	EXPECT_EQ(deadline(), hot::never);
	EXPECT_EQ(statistics_of(pool).slots_used, 0U);
	EXPECT_EQ(statistics().dropped, 0U);
}

TEST_F(HotlistWheel, ADrainDoesAsMuchAsIsAskedFor)
{
	for (std::int64_t i = 0; i < 300; i++)
		park(i, now + 1 + i);
	now += 1000;
	EXPECT_EQ(hot::drain(pool, 100, now, told.listener()), now - 1000 + 101);
	EXPECT_EQ(statistics().ready, 100U);
	EXPECT_EQ(told.ready[ring.index], 400U) << "300 marks, and these";
	EXPECT_EQ(hot::drain(pool, UINT32_MAX, now, told.listener()), hot::never);
	EXPECT_EQ(statistics().ready, 300U);
}

/* ---- what is counted ---- */

TEST_F(HotlistWheel, StatisticsOfARing)
{
	mark(1);
	now += second;
	mark(2);
	mark(3);
	hot::RingStatistics found = statistics();
	EXPECT_TRUE(found.key == key);
	EXPECT_EQ(found.ready, 3U);
	EXPECT_EQ(found.oldest_ready, now - second);
	EXPECT_EQ(found.marks, 3U);
	EXPECT_EQ(found.owes, hot::Owes::nothing);

	const std::vector<hot::Taken> taken = take(2);
	check_in(taken[0], outcome(Verdict::locked));
	found = statistics();
	EXPECT_EQ(found.ready, 1U);
	EXPECT_EQ(found.parked, 1U);
	EXPECT_EQ(found.checked_out, 1U);
	EXPECT_EQ(found.takes, 2U);
	EXPECT_EQ(found.oldest_ready, now);
	EXPECT_EQ(found.last_served, now);
	take(1);
	EXPECT_EQ(statistics().oldest_ready, 0);
}

TEST_F(HotlistWheel, StatisticsBeginAnew)
{
	const hot::RingKey elsewhere = {{8, 2, 3}, 4};
	const hot::RingRef far = make_ring(elsewhere);

	mark(1);
	mark_ring(2);
	hot::mark_ring(pool, elsewhere, 5, now, told.listener());
	for (const hot::Taken &taken : take(2))
		check_in(taken, outcome(Verdict::none));
	hot::reset_statistics(pool, key.queue.database);

	const hot::RingStatistics found = statistics();
	EXPECT_EQ(found.marks + found.takes + found.clears + found.requeues + found.conflicts + found.dropped +
				  found.reseeds + found.reseed_rows + found.reseed_repairs,
			  0U);
	for (const std::uint64_t count : found.verdicts)
		EXPECT_EQ(count, 0U);
	EXPECT_EQ(found.ready, 2U) << "what there is, is";
	EXPECT_NE(found.last_reseed, 0);
	EXPECT_EQ(statistics(far).marks, 1U);
	hot::reset_statistics(pool, 0);
	EXPECT_EQ(statistics(far).marks, 0U);
}

TEST(HotlistPool, WhatDidNotFitCanBeCountedAnewAndIsOwedStill)
{
	TestPool pool(0, {1, 100});
	const hot::RingKey key = {{1, 2, 3}, 4};
	const std::int64_t slots = static_cast<std::int64_t>(statistics_of(pool).slots);
	hot::RingRef ring;
	hot::RingStatistics found{};

	ASSERT_EQ(hot::ring_register(pool, key, 0, &ring), hot::Registered::created);
	for (std::int64_t i = 0; i < slots + 5; i++)
		hot::mark_ring(pool, key, i, 0, {});
	ASSERT_TRUE(hot::ring_statistics(pool, ring.index, &found));
	EXPECT_EQ(found.dropped, 5U);
	EXPECT_EQ(statistics_of(pool).refused_slots, 5U);
	hot::reset_statistics(pool, 0);
	ASSERT_TRUE(hot::ring_statistics(pool, ring.index, &found));
	EXPECT_EQ(found.dropped, 0U);
	EXPECT_EQ(found.owes, hot::Owes::full);
	EXPECT_EQ(statistics_of(pool).refused_slots, 0U);
}

/* ---- the hash ---- */

/* A full shard, where some of the buckets have more than they have room for. */
TEST(HotlistPool, WhatIsInAFullShardIsFound)
{
	TestPool pool(mebi, {1, 100});
	const hot::RingKey key = {{1, 2, 3}, 4};
	const std::size_t slots = statistics_of(pool).slots;
	hot::RingRef ring;
	hot::Outcome empty;

	empty.verdict = Verdict::empty;
	empty.may_clear = true;
	ASSERT_EQ(hot::ring_register(pool, key, 0, &ring), hot::Registered::created);
	for (int round = 0; round < 3; round++)
	{
		std::vector<hot::Taken> taken(slots);
		std::size_t n = 0;

		for (std::size_t i = 0; i < slots; i++)
			hot::mark_ring(pool, key, static_cast<std::int64_t>(i), 0, {});
		EXPECT_EQ(statistics_of(pool).slots_used, slots);
		EXPECT_EQ(statistics_of(pool).refused_slots, 0U);
		ASSERT_EQ(hot::inconsistency(pool), nullptr);
		while (const std::uint32_t some = hot::take(pool, ring, 64, UINT64_MAX, 0, me, taken.data() + n, {}))
			n += some;
		ASSERT_EQ(n, slots);
		std::shuffle(taken.begin(), taken.end(), std::mt19937_64(static_cast<std::uint64_t>(round)));
		for (std::size_t i = 0; i < slots; i++)
			hot::check_in(pool, ring, taken[i], i % 3 == 0 ? outcome(Verdict::none) : empty, 0, {});
		ASSERT_EQ(hot::inconsistency(pool), nullptr);
		for (std::size_t i = 0; i < slots; i++)
			ASSERT_EQ(hot::holds(pool, ring, taken[i].partition_id), i % 3 == 0);
	}
}

/* ---- holds ---- */

/* Locks that look, whenever one was released, at what was done under it. */
struct Watch
{
	const hot::Hotlist *list = nullptr;
	std::uint32_t ring_index = 0;
	hot::RingStatistics ring{}; /* at the last look */
	std::uint64_t used = 0;
	std::uint64_t most = 0; /* steps that show, in one hold */
};

thread_local Watch watch;

std::uint64_t
apart(std::uint64_t a, std::uint64_t b)
{
	return a > b ? a - b : b - a;
}

void
look()
{
	const hot::RingStatistics before = watch.ring;
	const std::uint64_t used_before = watch.used;

	hot::ring_statistics(*watch.list, watch.ring_index, &watch.ring);
	watch.used = statistics_of(*watch.list).slots_used;

	const std::uint64_t marks = watch.ring.marks - before.marks;
	const std::uint64_t changed = apart(watch.ring.ready, before.ready);
	/* a mark of the test makes a slot that is ready, or meets one; so what is missing was taken back */
	const std::uint64_t freed = used_before + (marks > 0 ? changed : 0) - watch.used;
	watch.most = std::max({watch.most, marks + freed, watch.ring.takes - before.takes, changed});
}

void
look_after_release(void *lock) noexcept
{
	spin_locks.release(lock);
	look();
}

constexpr hot::LockCalls watched_locks = {sizeof(SpinLock), nullptr,
										  [](void *lock) noexcept { spin_locks.exclusive(lock); },
										  [](void *lock) noexcept { spin_locks.shared(lock); }, look_after_release};

class HotlistHolds : public HotlistTest
{
  protected:
	/* one shard, so that all could be done in one hold */
	HotlistHolds() : HotlistTest(std::size_t{1} << 18, {1, 100}), plain(pool), watched({plain.pool, &watched_locks})
	{
		watch = {};
		watch.list = &plain;
	}

	void
	begin()
	{
		watch.ring_index = ring.index;
		look();
		watch.most = 0;
	}

	const hot::Hotlist &plain;
	const hot::Hotlist watched;
};

TEST_F(HotlistHolds, AreShort)
{
	constexpr std::uint64_t limit = hot::steps_per_hold;
	const std::uint64_t count = statistics_of(pool).slots;
	std::vector<hot::Mark> marks;
	std::vector<hot::Taken> taken(count);

	ASSERT_GT(count, 5 * limit);
	for (std::uint64_t i = 0; i < count; i++)
		marks.push_back({static_cast<std::int64_t>(i), 1});

	begin();
	hot::mark(watched, key.queue, marks, now, told.listener());
	EXPECT_EQ(statistics().ready, count);
	EXPECT_GT(watch.most, limit / 4) << "nor are they many";
	EXPECT_LE(watch.most, limit);

	begin();
	EXPECT_EQ(
		hot::take(watched, ring, static_cast<std::uint32_t>(count), UINT64_MAX, now, me, taken.data(), told.listener()),
		count);
	EXPECT_EQ(watch.most, limit);

	for (const hot::Taken &one : taken)
		check_in(one, outcome(Verdict::locked));
	now += second;
	begin();
	hot::drain(watched, UINT32_MAX, now, told.listener());
	EXPECT_EQ(statistics().ready, count);
	EXPECT_EQ(watch.most, limit);

	/* a shard full of garbage: marks look for slots to take back, also when they have met others in the same hold */
	for (const std::int64_t met : {0, 20, 40, 60})
	{
		hot::forget_ring(pool, key);
		ring = make_ring(key);
		for (std::int64_t i = 0; i < met; i++)
			mark(i);
		begin();
		hot::mark(watched, key.queue, marks, now, told.listener());
		EXPECT_EQ(statistics().ready, count);
		EXPECT_GT(watch.most, limit / 2);
		EXPECT_LE(watch.most, limit) << met;
	}

	hot::forget_ring(pool, key);
	ring = make_ring(key);
	begin();
	hot::sweep(watched, now);
	EXPECT_EQ(statistics_of(pool).slots_used, 0U);
	EXPECT_GT(watch.most, limit / 4);
	EXPECT_LE(watch.most, limit);
}

} // namespace
} // namespace queen::test
