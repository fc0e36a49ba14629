/*
 * hotlist_process_test.cpp: several processes, each with the pool mapped at another address, mark, take, claim, check in, promote, walk and
 * drain at the same time. What was produced and consumed is counted beside the pool; every tenth of a second all of them pause, and
 * then every ring that owes nothing must hold whatever is not consumed.
 *
 * A process that is killed is killed between two calls: within one, the server would begin anew with all of its memory.
 */
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "hotlist_support.h"

namespace queen::test
{
namespace
{

namespace hotlist = core::hotlist;
using core::Verdict;
using hotlist::Hotlist;
using hotlist::Micros;
using hotlist::Owner;

constexpr int worker_count = 4;
constexpr int groups = 2;
constexpr int partitions = 300;
constexpr std::size_t pool_size = std::size_t{1} << 20;
constexpr Micros lease_time = 20'000;
constexpr hotlist::QueueKey queue_key = {1, 2, 3};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int rounds = 10;
#else
constexpr int rounds = 30;
#endif

hotlist::RingKey
ring_key(int group)
{
	return {queue_key, group + 1};
}

/* A cursor: whose it is for a moment, how far it came, and its lease. */
struct alignas(64) SharedCursor
{
	std::atomic<std::uint32_t> locked;
	std::atomic<std::uint64_t> consumed;
	std::atomic<std::uint64_t> lease; /* 0: none */
	std::atomic<Micros> lease_until;
};

struct Worker
{
	std::atomic<std::uint32_t> life;	/* its owner's transaction, 0: dead */
	std::atomic<std::uint32_t> unsafe;	/* in a call, or between what must not be told apart */
	std::atomic<std::uint32_t> holding; /* candidates checked out */
	std::atomic<std::uint64_t> calls;
};

struct Shared
{
	std::atomic<std::uint64_t> produced[partitions];
	SharedCursor cursors[groups][partitions];
	Worker workers[worker_count + 1];
	std::atomic<std::uint32_t> pause;
	std::atomic<std::uint32_t> paused;
	std::atomic<std::uint32_t> stop;
	std::atomic<std::uint64_t> leases;
	std::atomic<std::uint64_t> reclaimed;
	std::atomic<std::uint64_t> lost; /* leases that ran out before they were acknowledged */
};

Shared *shared;

Micros
now()
{
	timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1'000'000 + at.tv_nsec / 1000;
}

bool
alive(Owner owner) noexcept
{
	return shared->workers[owner.process].life.load() == owner.transaction;
}

void
told(void *, std::uint32_t, std::uint32_t) noexcept
{
}

constexpr hotlist::Listener listener = {told, nullptr};

struct HeldLease
{
	int group, partition;
	std::uint64_t lease, end;
};

/* What one process does. */
class Actor
{
  public:
	Actor(const Hotlist &list, int index, std::uint64_t seed) : list_(list), me_(shared->workers[index]), dice_(seed)
	{
		owner_ = {static_cast<std::uint32_t>(index), me_.life.load()};
	}

	void
	act()
	{
		const std::uint64_t kind = dice_() % 100;

		if (kind < 45)
			push();
		else if (kind < 85)
			pop(static_cast<int>(dice_() % groups));
		else if (kind < 94)
			acknowledge(false);
		else if (kind < 96)
			walk(static_cast<int>(dice_() % groups), false);
		else if (kind < 97)
			call([&] { hotlist::owe_ring(list_, ring_key(static_cast<int>(dice_() % groups)), listener); });
		else
			call([&] { hotlist::drain(list_, 16, now(), listener); });
	}

	void
	push()
	{
		const int partition = static_cast<int>(dice_() % partitions);
		const auto messages = static_cast<std::uint32_t>(dice_() % 4 + 1);
		const hotlist::Mark mark = {partition + 1, messages};

		me_.unsafe = 1; /* nobody dies between the commit and its mark */
		shared->produced[partition].fetch_add(messages);
		hotlist::mark(list_, queue_key, {&mark, 1}, now(), listener);
		me_.unsafe = 0;
	}

	/* Returns how many candidates there were. */
	std::uint32_t
	pop(int group)
	{
		hotlist::Taken taken[8];
		hotlist::RingRef ring;
		std::uint32_t n = 0;

		call([&] { hotlist::ring_register(list_, ring_key(group), now(), &ring); });
		if (hotlist::owes(list_, ring, now(), 1'000'000) != hotlist::Owes::nothing)
			walk(group, true);
		call([&] {
			n = hotlist::take(list_, ring, static_cast<std::uint32_t>(dice_() % 8 + 1), UINT64_MAX, now(), owner_,
							  taken, listener);
			me_.holding = n;
		});
		for (std::uint32_t i = 0; i < n; i++)
		{
			if (dice_() % 16 == 0)
				usleep(static_cast<useconds_t>(dice_() % 300));
			me_.unsafe = 1;
			claim(group, ring, taken[i]);
			me_.holding--;
			me_.unsafe = 0;
		}
		return n;
	}

	void
	acknowledge(bool all)
	{
		while (!leases_.empty())
		{
			const HeldLease held = leases_.back();
			SharedCursor &cursor = shared->cursors[held.group][held.partition];

			if (!lock(cursor))
				return;
			leases_.pop_back();
			me_.unsafe = 1;
			const bool mine = cursor.lease == held.lease;

			if (mine)
			{
				cursor.consumed = held.end;
				cursor.lease = 0;
			}
			else
				shared->lost++;
			cursor.locked = 0;
			if (mine)
				hotlist::promote(list_, ring_key(held.group), held.partition + 1, held.lease, now(), listener);
			me_.unsafe = 0;
			if (!all)
				return;
		}
	}

	void
	walk(int group, bool because_owed)
	{
		hotlist::Ticket ticket;
		hotlist::RingRef ring;
		bool begun = false;
		const std::uint64_t stops = because_owed || dice_() % 4 != 0 ? partitions : dice_() % partitions;

		call([&] { begun = hotlist::ring_find(list_, ring_key(group), &ring); });
		call([&] { begun = begun && hotlist::reseed_begin(list_, ring, now(), owner_, alive, &ticket); });
		if (!begun)
			return;
		for (std::uint64_t i = 0; i < stops; i++)
		{
			const auto partition = static_cast<int>((i + static_cast<std::uint64_t>(ticket.resume_at)) % partitions);

			if (shared->produced[partition] > shared->cursors[group][partition].consumed)
				call([&] {
					if (hotlist::reseed_row(list_, &ticket, partition + 1, now(), alive) ==
						hotlist::Reseeded::reclaimed)
						shared->reclaimed++;
				});
		}
		call([&] {
			const bool whole = stops == partitions;

			hotlist::reseed_end(
				list_, ticket, whole,
				whole ? 0
					  : static_cast<std::int64_t>((stops + static_cast<std::uint64_t>(ticket.resume_at)) % partitions),
				0, now(), listener);
		});
	}

  private:
	template <class Call>
	void
	call(Call &&what)
	{
		me_.unsafe = 1;
		what();
		me_.calls++;
		me_.unsafe = 0;
	}

	bool
	lock(SharedCursor &cursor)
	{
		std::uint32_t nobody = 0;

		me_.unsafe = 1;
		if (cursor.locked.compare_exchange_strong(nobody, owner_.process + 1))
			return true;
		me_.unsafe = 0;
		return false;
	}

	void
	claim(int group, hotlist::RingRef ring, const hotlist::Taken &taken)
	{
		const auto partition = static_cast<int>(taken.partition_id - 1);
		SharedCursor &cursor = shared->cursors[group][partition];
		hotlist::Outcome outcome;
		std::uint32_t nobody = 0;

		if (dice_() % 32 == 0)
			outcome.reached = dice_() % 2 != 0;
		else if (!cursor.locked.compare_exchange_strong(nobody, owner_.process + 1))
			outcome.verdict = Verdict::locked;
		else
		{
			const std::uint64_t produced = shared->produced[partition];
			const std::uint64_t consumed = cursor.consumed;
			const Micros at = now();

			outcome.may_clear = true;
			if (cursor.lease != 0 && cursor.lease_until > at)
			{
				outcome.verdict = Verdict::leased;
				outcome.until = cursor.lease_until;
			}
			else if (consumed == produced)
				outcome.verdict = Verdict::empty;
			else
			{
				const std::uint64_t end = dice_() % 4 == 0 ? consumed + 1 : produced;

				outcome.verdict = Verdict::took;
				outcome.drained = end == produced;
				outcome.lease = dice_() % 3 == 0;
				if (outcome.lease)
				{
					outcome.until = at + lease_time;
					outcome.lease_number = ++shared->leases;
					cursor.lease = outcome.lease_number;
					cursor.lease_until = outcome.until;
					leases_.push_back({group, partition, outcome.lease_number, end});
				}
				else
				{
					cursor.consumed = end;
					cursor.lease = 0;
				}
			}
			cursor.locked = 0; /* visible; what the list hears comes later */
		}
		hotlist::check_in(list_, ring, taken, outcome, now(), listener);
	}

	const Hotlist &list_;
	Worker &me_;
	Owner owner_{};
	std::mt19937_64 dice_;
	std::vector<HeldLease> leases_;
};

class HotlistProcesses : public ::testing::Test
{
  protected:
	void
	SetUp() override
	{
		pool_fd_ = memfd_create("pool", 0);
		ASSERT_GE(pool_fd_, 0);
		ASSERT_EQ(ftruncate(pool_fd_, pool_size), 0);
		memory_ = mmap(nullptr, pool_size, PROT_READ | PROT_WRITE, MAP_SHARED, pool_fd_, 0);
		ASSERT_NE(memory_, MAP_FAILED);
		void *counters = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(counters, MAP_FAILED);
		shared = static_cast<Shared *>(counters); /* all zero, which its atomics may begin as */
		const hotlist::PoolOptions options = {4, 100};

		ASSERT_TRUE(hotlist::lay_out(memory_, pool_size, &spin_locks, &options));
		ASSERT_TRUE(hotlist::attach(memory_, &spin_locks, &list_));
		shared->workers[worker_count].life = 1; /* the parent, as a consumer */
	}

	void
	TearDown() override
	{
		for (const pid_t pid : pids_)
			if (pid > 0)
			{
				kill(pid, SIGKILL);
				waitpid(pid, nullptr, 0);
			}
		munmap(memory_, pool_size);
		munmap(shared, sizeof(Shared));
		close(pool_fd_);
	}

	void
	start(int index)
	{
		shared->workers[index].life = ++lives_;
		shared->workers[index].unsafe = 0;
		shared->workers[index].holding = 0;
		pids_[index] = fork();
		ASSERT_GE(pids_[index], 0);
		if (pids_[index] == 0)
			_exit(run(index));
	}

	/* A process: its own mapping, and paces that the parent sets. */
	int
	run(int index)
	{
		Hotlist list;
		void *apart = mmap(nullptr, pool_size * static_cast<std::size_t>(index + 1), PROT_NONE,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void *mine = mmap(nullptr, pool_size, PROT_READ | PROT_WRITE, MAP_SHARED, pool_fd_, 0);

		if (apart == MAP_FAILED || mine == MAP_FAILED || mine == memory_ || munmap(memory_, pool_size) != 0 ||
			!hotlist::attach(mine, &spin_locks, &list))
			return 2;
		Actor actor(list, index, lives_ * 7919);

		while (shared->stop == 0)
		{
			if (shared->pause != 0)
			{
				shared->paused++;
				while (shared->pause != 0)
					usleep(200);
			}
			actor.act();
		}
		actor.acknowledge(true);
		return 0;
	}

	void
	pause_all()
	{
		shared->paused = 0;
		shared->pause = 1;
		while (shared->paused < worker_count)
			usleep(100);
	}

	/* Nobody moves: the pool holds together, and a ring that owes nothing holds all that is pending. */
	void
	look(std::uint64_t *looked)
	{
		ASSERT_STREQ(hotlist::inconsistency(list_), nullptr);
		for (int group = 0; group < groups; group++)
		{
			hotlist::RingRef ring;

			if (!hotlist::ring_find(list_, ring_key(group), &ring) ||
				hotlist::owes(list_, ring, now(), 0) != hotlist::Owes::nothing)
				continue;
			(*looked)++;
			for (int partition = 0; partition < partitions; partition++)
				ASSERT_TRUE(shared->produced[partition] == shared->cursors[group][partition].consumed ||
							hotlist::holds(list_, ring, partition + 1))
					<< "group " << group << " partition " << partition << " is pending, and the ring owes nothing";
		}
	}

	void
	stop_all()
	{
		shared->pause = 0;
		shared->stop = 1;
		for (pid_t &pid : pids_)
		{
			int status = 0;

			ASSERT_EQ(waitpid(pid, &status, 0), pid);
			pid = 0;
			EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
		}
		for (int i = 0; i < worker_count; i++)
			shared->workers[i].life = 0;
	}

	/* The parent consumes what is left; walks only where they are owed, or where somebody died. */
	void
	consume_rest(bool walks)
	{
		Actor actor(list_, worker_count, 1);
		const Micros end = now() + 5'000'000;

		for (int group = 0; group < groups; group++)
		{
			if (walks)
				actor.walk(group, true);
			while (now() < end && left(group) > 0)
			{
				if (actor.pop(group) == 0)
					usleep(1000);
				actor.acknowledge(true);
			}
			EXPECT_EQ(left(group), 0U) << "group " << group;
		}
		EXPECT_STREQ(hotlist::inconsistency(list_), nullptr);
	}

	static std::uint64_t
	left(int group)
	{
		std::uint64_t sum = 0;

		for (int partition = 0; partition < partitions; partition++)
			sum += shared->produced[partition] - shared->cursors[group][partition].consumed;
		return sum;
	}

	std::uint64_t
	calls() const
	{
		std::uint64_t sum = 0;

		for (const Worker &worker : shared->workers)
			sum += worker.calls;
		return sum;
	}

	int pool_fd_ = -1;
	void *memory_ = nullptr;
	Hotlist list_;
	pid_t pids_[worker_count] = {};
	std::uint32_t lives_ = 1;
};

TEST_F(HotlistProcesses, NothingProducedIsLost)
{
	std::uint64_t looked = 0;

	for (int i = 0; i < worker_count; i++)
		start(i);
	for (int round = 0; round < rounds && !HasFatalFailure(); round++)
	{
		usleep(100'000);
		pause_all();
		look(&looked);
		shared->pause = 0;
	}
	stop_all();
	EXPECT_GT(looked, static_cast<std::uint64_t>(rounds) / 2) << "the rings owed walks most of the time";
	EXPECT_GT(calls(), 1000U);
	consume_rest(false);
}

TEST_F(HotlistProcesses, WhoeverIsKilledIsWalkedOver)
{
	std::uint64_t looked = 0;
	int killed = 0;

	for (int i = 0; i < worker_count; i++)
		start(i);
	for (int round = 0; round < rounds && !HasFatalFailure(); round++)
	{
		const int victim = round % worker_count;
		Worker &worker = shared->workers[victim];

		/* until it is met between two calls, with candidates in its hands */
		for (int tries = 0; tries < 1000; tries++)
		{
			usleep(static_cast<useconds_t>(500 + tries));
			kill(pids_[victim], SIGSTOP);
			waitpid(pids_[victim], nullptr, WUNTRACED);
			if (worker.unsafe == 0 && worker.holding > 0)
			{
				kill(pids_[victim], SIGKILL);
				waitpid(pids_[victim], nullptr, 0);
				worker.life = 0;
				killed++;
				start(victim);
				break;
			}
			kill(pids_[victim], SIGCONT);
		}
		usleep(20'000);
		pause_all();
		look(&looked);
		shared->pause = 0;
	}
	stop_all();
	EXPECT_GT(killed, rounds / 2);
	consume_rest(true);
	EXPECT_GT(shared->reclaimed, 0U);
}

} // namespace
} // namespace queen::test
