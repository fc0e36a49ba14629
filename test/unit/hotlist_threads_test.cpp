/*
 * hotlist_threads_test.cpp: threads that push, consume, walk, forget and look at the same time, in rounds. Every second round is without what a walk
 * is owed for: no walk hides that the ring lost something, and nothing that was produced may be left when it holds nothing. Also for a thread
 * sanitizer; processes that share a pool are in hotlist_process_test.cpp.
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
constexpr std::uint64_t pushes = 5'000;
#else
constexpr std::uint64_t pushes = 20'000;
#endif
constexpr int rounds = 4;
/* Of a round: pushes move on through them, so what is lost is not found by a later push. */
constexpr std::int64_t partitions = static_cast<std::int64_t>(pushes / 4) + 4;
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
	HotlistThreads() : HotlistTest(std::size_t{1} << 24, {2, 100}), table(rounds * partitions)
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
	push(int round, std::uint64_t n, std::mt19937_64 &random)
	{
		hot::Mark marks[3];
		const std::size_t count = 1 + random() % 3;
		hot::RingRef served;

		/* consumers keep up, so that pushes and claims meet in the same partitions */
		while (hot::ring_find(pool, key, &served) && hot::ready_count(pool, served) > 3)
			std::this_thread::yield();

		for (std::size_t i = 0; i < count; i++)
		{
			marks[i] = {round * partitions + static_cast<std::int64_t>(n / 4 + random() % 4), 1};
			at(marks[i].partition_id).produced.fetch_add(1, std::memory_order_release);
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
		Partition &partition = at(id);

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
			const hot::Outcome what = i == 3 ? hot::Outcome{} : claim(at(taken[i].partition_id), random);

			/* whoever pushes now comes between claim and check-in */
			if (random() % 8 == 0)
				std::this_thread::yield();
			hot::check_in(pool, from, taken[i], what, clock(), {});
			if (what.lease)
				acknowledge(taken[i].partition_id, what.lease_number);
		}
		return count;
	}

	void
	walk_what_is_owed(int round, std::uint32_t number)
	{
		const hot::RingRef walked = served_ring();
		hot::Ticket ticket{};

		if (hot::owes(pool, walked, clock(), 0) == hot::Owes::nothing ||
			!hot::reseed_begin(pool, walked, clock(), {number, 1}, all_alive, &ticket))
			return;
		/* what an earlier round produced was consumed in it */
		for (std::int64_t id = round * partitions; id < (round + 1) * partitions; id++)
			if (at(id).produced.load(std::memory_order_acquire) > at(id).consumed.load(std::memory_order_relaxed))
				hot::reseed_row(pool, &ticket, id, clock(), all_alive);
		hot::reseed_end(pool, ticket, true, 0, 0, clock(), {});
	}

	/* Rings of other groups come and go, and everything is looked at. */
	void
	disturb(std::mt19937_64 &random)
	{
		const hot::RingKey another = {key.queue, 100 + static_cast<std::int64_t>(random() % 2)};
		hot::RingRef made;
		hot::RingStatistics found{};
		hot::Taken taken[16];

		switch (random() % 64)
		{
			case 0:
				hot::ring_register(pool, another, clock(), &made);
				break;
			case 1:
				hot::forget_ring(pool, another);
				break;
			case 2:
				hot::drain(pool, 10, clock(), {});
				break;
			case 3:
				hot::ring_statistics(pool, static_cast<std::uint32_t>(random() % hot::ring_places(pool)), &found);
				break;
			default:
				/* that one's consumers want nothing */
				if (!hot::ring_find(pool, another, &made))
					break;
				for (std::uint32_t got = hot::take(pool, made, 16, UINT64_MAX, clock(), {9, 1}, taken, {}); got > 0;
					 got--)
					hot::check_in(pool, made, taken[got - 1], sure(Verdict::empty), clock(), {});
				break;
		}
	}

	/* The ring is forgotten, or owes a walk. */
	void
	disturb_the_ring(std::mt19937_64 &random)
	{
		switch (random() % 512)
		{
			case 0:
				hot::forget_ring(pool, key);
				break;
			case 1:
				hot::sweep(pool, clock());
				break;
			case 2:
				hot::owe_queue(pool, key.queue, {});
				break;
			default:
				break;
		}
	}

	/* Threads push, two of them, while others do the rest. */
	void
	run(int round, bool quiet)
	{
		std::atomic<int> pushing{2};
		std::vector<std::thread> threads;
		const auto start = [&](auto what) {
			threads.emplace_back([what, seed = static_cast<std::uint64_t>(round) * 10 + threads.size()] {
				std::mt19937_64 random(seed);

				what(random, static_cast<std::uint32_t>(seed));
			});
		};

		for (int i = 0; i < 2; i++)
			start([&](std::mt19937_64 &random, std::uint32_t) {
				for (std::uint64_t n = 0; n < pushes; n++)
					push(round, n, random);
				pushing.fetch_sub(1);
			});
		for (int i = 0; i < 2; i++)
			start([&](std::mt19937_64 &random, std::uint32_t number) {
				while (pushing.load() > 0)
				{
					if (!quiet)
						walk_what_is_owed(round, number);
					/* what waits does not wait for long */
					if (consume(number, random) == 0)
						time.fetch_add(1000, std::memory_order_relaxed);
				}
			});
		start([&](std::mt19937_64 &random, std::uint32_t) {
			while (pushing.load() > 0)
			{
				disturb(random);
				if (!quiet)
					disturb_the_ring(random);
			}
		});
		for (std::thread &thread : threads)
			thread.join();
	}

	/* Consume what there is, until nothing waits. */
	void
	settle()
	{
		std::mt19937_64 random(6);

		for (;;)
		{
			if (consume(6, random) > 0)
				continue;

			const Micros next = hot::drain(pool, 0, clock(), {});
			if (next == hot::never)
				break;
			time.store(std::max(time.load(), next));
		}
	}

	Partition &
	at(std::int64_t id)
	{
		return table[static_cast<std::size_t>(id)];
	}

	std::vector<Partition> table;
	std::atomic<Micros> time{100 * second};
	std::atomic<std::uint64_t> leases{0};
};

TEST_F(HotlistThreads, NothingProducedIsLost)
{
	for (int round = 0; round < rounds; round++)
	{
		const bool quiet = round % 2 == 1;

		run(round, quiet);
		EXPECT_STREQ(hot::inconsistency(pool), nullptr);
		ring = served_ring();
		if (quiet)
		{
			EXPECT_EQ(hot::owes(pool, ring, clock(), 0), hot::Owes::nothing) << "a walk would hide what is lost";
		}
		else
			walk_what_is_owed(round, 6);
		settle();
		EXPECT_EQ(hot::owes(pool, ring, clock(), 0), hot::Owes::nothing);
		EXPECT_EQ(place(), Place::idle);

		std::uint64_t produced = 0;
		for (std::int64_t id = round * partitions; id < (round + 1) * partitions; id++)
		{
			EXPECT_EQ(at(id).consumed.load(), at(id).produced.load()) << id << " in round " << round;
			produced += at(id).produced.load();
		}
		EXPECT_GE(produced, 2 * pushes);
	}
}

} // namespace
} // namespace queen::test
