/*
 * hotlist_threads_test.cpp: threads that push, consume, walk, forget and look at the same time. Nothing that was produced may be left when the ring
 * holds nothing and owes nothing. Mostly for a thread sanitizer; processes that share a pool are in hotlist_process_test.cpp.
 */
#include "hotlist_fixture.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

namespace queen::test
{
namespace
{

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t pushes = 20'000;
#else
constexpr std::uint64_t pushes = 200'000;
#endif
constexpr std::int64_t partitions = 200;
constexpr std::uint64_t batch = 3;

bool
all_alive(hot::Owner) noexcept
{
	return true;
}

/* What the tables would hold of a partition. */
struct Partition
{
	std::atomic<std::uint64_t> produced;
	std::atomic<std::uint64_t> consumed;
	std::atomic<bool> locked;
	std::atomic<std::uint64_t> lease; /* 0: none */
};

class HotlistThreads : public HotlistTest
{
  protected:
	HotlistThreads() : HotlistTest(std::size_t{1} << 19, {2, 100})
	{
		hot::forget_ring(pool, key);
	}

	Micros
	clock()
	{
		return time.fetch_add(1, std::memory_order_relaxed);
	}

	hot::RingRef
	served_ring()
	{
		hot::RingRef found;

		EXPECT_NE(hot::ring_register(pool, key, clock(), &found), hot::Registered::full);
		return found;
	}

	void
	push(std::mt19937_64 &random)
	{
		hot::Mark marks[3];
		const std::size_t count = 1 + random() % 3;

		for (std::size_t i = 0; i < count; i++)
		{
			marks[i] = {static_cast<std::int64_t>(random() % partitions), 1};
			table[marks[i].partition_id].produced.fetch_add(1, std::memory_order_release);
		}
		hot::mark(pool, key.queue, {marks, count}, clock(), {});
	}

	/* A claim: what it finds, after the take. */
	hot::Outcome
	claim(Partition &partition, std::mt19937_64 &random)
	{
		if (partition.locked.exchange(true, std::memory_order_acquire))
			return outcome(Verdict::locked);

		const std::uint64_t consumed = partition.consumed.load(std::memory_order_relaxed);
		const std::uint64_t left = partition.produced.load(std::memory_order_acquire) - consumed;
		hot::Outcome what = sure(Verdict::empty);
		if (partition.lease.load(std::memory_order_relaxed) != 0)
			what = outcome(Verdict::leased, clock() + hot::lease_park_cap);
		else if (left > 0 && random() % 4 == 0)
		{
			what = leased(left <= batch, clock() + hot::lease_park_cap,
						  leases.fetch_add(1, std::memory_order_relaxed) + 1);
			partition.lease.store(what.lease_number, std::memory_order_relaxed);
		}
		else if (left > 0)
		{
			what = took(left <= batch);
			partition.consumed.store(consumed + std::min(left, batch), std::memory_order_relaxed);
		}
		partition.locked.store(false, std::memory_order_release);
		return what;
	}

	void
	acknowledge(std::int64_t id, std::uint64_t lease)
	{
		Partition &partition = table[id];

		while (partition.locked.exchange(true, std::memory_order_acquire))
			std::this_thread::yield();
		const std::uint64_t consumed = partition.consumed.load(std::memory_order_relaxed);
		const std::uint64_t left = partition.produced.load(std::memory_order_acquire) - consumed;
		/* as many as were there at the claim, at least */
		partition.consumed.store(consumed + std::min(left, batch), std::memory_order_relaxed);
		partition.lease.store(0, std::memory_order_relaxed);
		partition.locked.store(false, std::memory_order_release);
		hot::promote(pool, key, id, lease, clock(), {});
	}

	/* What it leased is acknowledged behind the check-in. Returns how many candidates there were. */
	std::uint32_t
	consume(std::uint32_t number, std::mt19937_64 &random)
	{
		const hot::RingRef from = served_ring();
		hot::Taken taken[4];
		const std::uint32_t count = hot::take(pool, from, 4, 10, clock(), {number, 1}, taken, {});

		for (std::uint32_t i = 0; i < count; i++)
		{
			const hot::Outcome what = i == 3 ? hot::Outcome{} : claim(table[taken[i].partition_id], random);

			hot::check_in(pool, from, taken[i], what, clock(), {});
			if (what.lease)
				acknowledge(taken[i].partition_id, what.lease_number);
		}
		return count;
	}

	void
	walk_what_is_owed(std::uint32_t number)
	{
		const hot::RingRef walked = served_ring();
		hot::Ticket ticket{};

		if (hot::owes(pool, walked, clock(), 0) == hot::Owes::nothing ||
			!hot::reseed_begin(pool, walked, clock(), {number, 1}, all_alive, &ticket))
			return;
		for (std::int64_t id = 0; id < partitions; id++)
			if (table[id].produced.load(std::memory_order_acquire) > table[id].consumed.load(std::memory_order_relaxed))
				hot::reseed_row(pool, &ticket, id, clock(), all_alive);
		hot::reseed_end(pool, ticket, true, 0, 0, clock(), {});
	}

	/* Rings of other groups come and go, the served one is forgotten, everything is looked at. */
	void
	disturb(std::mt19937_64 &random)
	{
		const hot::RingKey another = {key.queue, 100 + static_cast<std::int64_t>(random() % 40)};
		hot::RingRef made;
		hot::RingStatistics found{};

		switch (random() % 8)
		{
			case 0:
			case 1:
				hot::ring_register(pool, another, clock(), &made);
				break;
			case 2:
				hot::forget_ring(pool, another);
				break;
			case 3:
				if (random() % 16 == 0)
					hot::forget_ring(pool, key);
				break;
			case 4:
				hot::sweep(pool, clock());
				break;
			case 5:
				hot::owe_queue(pool, key.queue, {});
				break;
			case 6:
				hot::drain(pool, 10, clock(), {});
				break;
			default:
				hot::ring_statistics(pool, static_cast<std::uint32_t>(random() % hot::ring_places(pool)), &found);
				break;
		}
	}

	Partition table[partitions] = {};
	std::atomic<Micros> time{100 * second};
	std::atomic<std::uint64_t> leases{0};
};

TEST_F(HotlistThreads, NothingProducedIsLost)
{
	std::atomic<int> pushing{2};
	std::vector<std::thread> threads;
	const auto until_all_is_pushed = [&pushing](auto what) {
		return [&pushing, what](std::uint64_t seed) {
			std::mt19937_64 random(seed);

			while (pushing.load() > 0)
				what(random, static_cast<std::uint32_t>(seed));
		};
	};

	for (std::uint64_t seed = 1; seed <= 2; seed++)
		threads.emplace_back([this, &pushing, seed] {
			std::mt19937_64 random(seed);

			for (std::uint64_t i = 0; i < pushes; i++)
				push(random);
			pushing.fetch_sub(1);
		});
	for (std::uint64_t seed = 3; seed <= 4; seed++)
		threads.emplace_back(until_all_is_pushed([this](std::mt19937_64 &random, std::uint32_t number) {
								 walk_what_is_owed(number);
								 consume(number, random);
							 }),
							 seed);
	threads.emplace_back(until_all_is_pushed([this](std::mt19937_64 &random, std::uint32_t) { disturb(random); }), 5);
	for (std::thread &thread : threads)
		thread.join();

	EXPECT_STREQ(hot::inconsistency(pool), nullptr);
	std::mt19937_64 random(6);
	for (;;)
	{
		walk_what_is_owed(6);
		if (consume(6, random) > 0)
			continue;
		/* what waits, waits for a deadline */
		const Micros next = hot::drain(pool, 0, clock(), {});
		if (next == hot::never)
			break;
		time.store(std::max(time.load(), next));
	}
	ring = served_ring();
	EXPECT_EQ(hot::owes(pool, ring, clock(), 0), hot::Owes::nothing);
	EXPECT_EQ(place(), Place::idle);
	std::uint64_t produced = 0;
	for (std::int64_t id = 0; id < partitions; id++)
	{
		EXPECT_EQ(table[id].consumed.load(), table[id].produced.load()) << id;
		produced += table[id].produced.load();
	}
	EXPECT_GT(produced, 2 * pushes);
}

} // namespace
} // namespace queen::test
