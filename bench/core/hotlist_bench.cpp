/*
 * hotlist_bench.cpp: what the calls of the hot-list cost, in pairs of acquiring and releasing an uncontended lock of the kind that
 * they take, measured in the same run; and how that grows with the candidates that there are.
 *
 * The lock is what PostgreSQL's light-weight lock is when nobody is in the way: one compare-exchange to take it, one
 * subtraction to give it back. Candidates lie in memory in another order than the one in which they are served and marked.
 * Time is the processor's that the thread has had, so that others on the machine count as little as can be. What four threads do to
 * each other is measured for whole cycles, where nothing has to be set up beside the clock: the time of one among four, against
 * its time alone. Who waits for a lock gives the processor up after some tries, so that is what the contention costs.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/hotlist/hotlist.h"

namespace
{

namespace hotlist = queen::core::hotlist;
using hotlist::Micros;
using hotlist::Taken;
using queen::core::Verdict;

/* ---- the lock ---- */

constexpr std::uint32_t writer = 1U << 24;

struct alignas(64) Lock
{
	std::atomic<std::uint32_t> word;
};

void
lock_init(void *lock) noexcept
{
	static_cast<Lock *>(lock)->word.store(0);
}

void
lock_exclusive(void *lock) noexcept
{
	auto &word = static_cast<Lock *>(lock)->word;
	std::uint32_t expected = 0;

	for (int tries = 0; !word.compare_exchange_strong(expected, writer); tries++)
	{
		if (tries > 100)
			std::this_thread::yield();
		expected = 0;
	}
}

void
lock_shared(void *lock) noexcept
{
	auto &word = static_cast<Lock *>(lock)->word;
	std::uint32_t expected = word.load(std::memory_order_relaxed) & ~writer;

	for (int tries = 0; !word.compare_exchange_strong(expected, expected + 1); tries++)
	{
		if (tries > 100)
			std::this_thread::yield();
		expected &= ~writer;
	}
}

void
lock_release(void *lock) noexcept
{
	auto &word = static_cast<Lock *>(lock)->word;

	/* the server knows from its list of held locks how this one is held */
	word.fetch_sub(word.load(std::memory_order_relaxed) >= writer ? writer : 1);
}

constexpr hotlist::LockCalls lock_calls = {sizeof(Lock), lock_init, lock_exclusive, lock_shared, lock_release};

/* ---- a pool with candidates ---- */

constexpr std::size_t pool_bytes = std::size_t{256} << 20;
constexpr hotlist::QueueKey queue = {1, 2, 3};
constexpr hotlist::RingKey key = {queue, 4};
constexpr hotlist::Owner owner = {1, 1};
constexpr Micros start = 1'000'000;
constexpr Micros apart = 20; /* deadlines */

void
told(void *, std::uint32_t, std::uint32_t) noexcept
{
}
constexpr hotlist::Listener listener = {told, nullptr};

enum class State
{
	ready,
	parked,
};

struct Pool
{
	std::int64_t candidates;
	State state;
	void *memory;
	hotlist::Hotlist list;
	hotlist::RingRef ring;
	std::atomic<Micros> now = start;
	std::mt19937_64 dice{42};

	Pool(std::int64_t n, State wanted) : candidates(n), state(wanted), memory(std::aligned_alloc(4096, pool_bytes))
	{
		const hotlist::PoolOptions options;
		std::vector<std::int64_t> order(static_cast<std::size_t>(n));
		hotlist::Ticket ticket;

		if (memory == nullptr || !hotlist::lay_out(memory, pool_bytes, &lock_calls, &options) ||
			!hotlist::attach(memory, &lock_calls, &list) ||
			hotlist::ring_register(list, key, start, &ring) != hotlist::Registered::created)
			std::abort();
		hotlist::reseed_begin(
			list, ring, start, owner, [](hotlist::Owner) noexcept { return true; }, &ticket);
		hotlist::reseed_end(list, ticket, true, 0, 0, start, listener);
		for (std::int64_t i = 0; i < n; i++)
			order[static_cast<std::size_t>(i)] = i + 1;
		std::shuffle(order.begin(), order.end(), dice);
		for (const std::int64_t partition : order)
			mark(partition);

		/* out of the order in which the slots were given */
		std::vector<Taken> all = take_all();

		if (all.size() != static_cast<std::size_t>(n))
			std::abort();
		std::shuffle(all.begin(), all.end(), dice);
		for (const Taken &taken : all)
			give_back(taken);
	}

	~Pool()
	{
		std::free(memory);
	}

	Pool(const Pool &) = delete;
	Pool &operator=(const Pool &) = delete;

	void
	mark(std::int64_t partition)
	{
		const hotlist::Mark one = {partition, 1};

		hotlist::mark(list, queue, {&one, 1}, now.load(std::memory_order_relaxed), listener);
	}

	std::vector<Taken>
	take_all()
	{
		std::vector<Taken> all;
		Taken some[64];

		while (const std::uint32_t n = hotlist::take(list, ring, 64, UINT64_MAX, now, owner, some, listener))
			all.insert(all.end(), some, some + n);
		return all;
	}

	/* To wait for some time, or to be ready, in the last place. */
	void
	give_back(const Taken &taken)
	{
		hotlist::Outcome outcome;

		outcome.reached = true;
		if (state == State::parked)
		{
			outcome.verdict = Verdict::deferred;
			outcome.until = now + static_cast<Micros>(dice() % static_cast<std::uint64_t>(2 * candidates * apart));
		}
		hotlist::check_in(list, ring, taken, outcome, now, listener);
	}
};

/* One pool at a time: the largest has a million candidates. */
Pool &
pool_of(std::int64_t candidates, State state)
{
	static std::map<std::pair<std::int64_t, State>, std::unique_ptr<Pool>> pools;
	static std::atomic_flag busy = ATOMIC_FLAG_INIT;

	while (busy.test_and_set())
		std::this_thread::yield();
	std::unique_ptr<Pool> &pool = pools[{candidates, state}];

	if (pool == nullptr)
		pool = std::make_unique<Pool>(candidates, state);
	busy.clear();
	return *pool;
}

/* The processor's time that this thread has had: others on the machine cost nothing but their traces in the caches. */
double
processor_seconds()
{
	timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
}

constexpr int batch = 256;

/* ---- what is measured ---- */

void
lock_pair(benchmark::State &state)
{
	constexpr int pairs = 4096;
	static Lock lock;

	for (auto _ : state)
	{
		const double begin = processor_seconds();

		for (int i = 0; i < pairs; i++)
		{
			lock_exclusive(&lock);
			benchmark::ClobberMemory();
			lock_release(&lock);
		}
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(state.iterations() * pairs);
}

/* What a line costs that is in no cache: each one says which is next, all over as much memory as a million candidates have. */
void
cold_line(benchmark::State &state)
{
	constexpr std::uint32_t lines = 1U << 21;
	constexpr int steps = 4096;
	struct alignas(64) Line
	{
		std::uint32_t next;
	};
	static std::vector<Line> memory;
	std::uint32_t at = 0;

	if (memory.empty())
	{
		std::vector<std::uint32_t> order(lines);
		std::mt19937_64 dice(42);

		memory.resize(lines);
		for (std::uint32_t i = 0; i < lines; i++)
			order[i] = i;
		std::shuffle(order.begin(), order.end(), dice);
		for (std::uint32_t i = 0; i < lines; i++)
			memory[order[i]].next = order[(i + 1) % lines];
	}
	for (auto _ : state)
	{
		const double begin = processor_seconds();

		for (int i = 0; i < steps; i++)
			at = memory[at].next;
		benchmark::DoNotOptimize(at);
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(state.iterations() * steps);
}

void
mark_pending(benchmark::State &state)
{
	Pool &pool = pool_of(state.range(0), State::ready);
	std::mt19937_64 dice(static_cast<std::uint64_t>(state.thread_index()) + 1);

	for (auto _ : state)
	{
		const double begin = processor_seconds();

		for (int i = 0; i < batch; i++)
			pool.mark(static_cast<std::int64_t>(dice() % static_cast<std::uint64_t>(pool.candidates)) + 1);
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(state.iterations() * batch);
}

/* Partitions that are idle: some that the ring has never held, and does not hold afterwards. */
void
mark_idle(benchmark::State &state)
{
	Pool &pool = pool_of(state.range(0), State::parked);

	for (auto _ : state)
	{
		std::int64_t partitions[batch];
		hotlist::Outcome empty;

		for (std::int64_t &partition : partitions)
			partition = static_cast<std::int64_t>(pool.dice() >> 2) + pool.candidates + 1;
		const double begin = processor_seconds();

		for (const std::int64_t partition : partitions)
			pool.mark(partition);
		state.SetIterationTime(processor_seconds() - begin);
		empty.verdict = Verdict::empty;
		empty.may_clear = true;
		for (const Taken &taken : pool.take_all())
			hotlist::check_in(pool.list, pool.ring, taken, empty, pool.now, listener);
	}
	state.SetItemsProcessed(state.iterations() * batch);
}

void
take_and_check_in(benchmark::State &state)
{
	Pool &pool = pool_of(state.range(0), State::ready);
	const auto most = static_cast<std::uint32_t>(state.range(1));
	Taken taken[64];
	hotlist::Outcome outcome;
	std::int64_t items = 0;

	outcome.reached = true;
	for (auto _ : state)
	{
		const double begin = processor_seconds();

		for (int i = 0; i < batch; i++)
		{
			const std::uint32_t n =
				hotlist::take(pool.list, pool.ring, most, UINT64_MAX, start, owner, taken, listener);

			for (std::uint32_t c = 0; c < n; c++)
				hotlist::check_in(pool.list, pool.ring, taken[c], outcome, start, listener);
			items += n;
		}
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(items);
}

void
promote(benchmark::State &state)
{
	Pool &pool = pool_of(state.range(0), State::ready);

	for (auto _ : state)
	{
		Taken taken[batch];
		std::uint32_t n = 0;
		hotlist::Outcome outcome;

		while (n < batch)
			n += hotlist::take(pool.list, pool.ring, batch - n, UINT64_MAX, start, owner, taken + n, listener);
		outcome.verdict = Verdict::took;
		outcome.lease = true;
		outcome.lease_number = 1;
		outcome.until = start + 30'000'000;
		for (const Taken &one : taken)
			hotlist::check_in(pool.list, pool.ring, one, outcome, start, listener);
		std::shuffle(std::begin(taken), std::end(taken), pool.dice);
		const double begin = processor_seconds();

		for (const Taken &one : taken)
			hotlist::promote(pool.list, key, one.partition_id, 1, start, listener);
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(state.iterations() * batch);
}

/* Some of all that wait are due. */
void
drain(benchmark::State &state)
{
	Pool &pool = pool_of(state.range(0), State::parked);
	std::int64_t items = 0;

	for (auto _ : state)
	{
		/* as far as makes 64 due, on average */
		pool.now += 64 * (pool.candidates * apart + hotlist::pad) / pool.candidates;
		const double begin = processor_seconds();

		hotlist::drain(pool.list, UINT32_MAX, pool.now, listener);
		state.SetIterationTime(processor_seconds() - begin);
		for (const Taken &taken : pool.take_all())
		{
			pool.give_back(taken);
			items++;
		}
	}
	state.SetItemsProcessed(items);
}

/* ---- the table ---- */

struct Row
{
	const char *what;
	const char *name; /* of the benchmark, without its arguments */
	double bar;		  /* in pairs, 0: none */
};

constexpr Row rows[] = {
	{"mark, pending", "mark_pending", 5},
	{"mark, idle to ready", "mark_idle", 0},
	{"take and check in, 1", "take_and_check_in_1", 12},
	{"take and check in, 16", "take_and_check_in_16", 0},
	{"promote", "promote", 0},
	{"drain", "drain", 0},
};
constexpr std::int64_t sizes[] = {1'000, 32'000, 1'000'000};
constexpr double growth_bar = 3;

/* Keeps the items per second of each repetition. */
class Table : public benchmark::BenchmarkReporter
{
  public:
	bool
	ReportContext(const Context &) override
	{
		return true;
	}

	void
	ReportRuns(const std::vector<Run> &reports) override
	{
		for (const Run &run : reports)
			if (run.run_type == Run::RT_Iteration)
				rates_[run.run_name.function_name + "/" + run.run_name.args.substr(0, run.run_name.args.find('/')) +
					   "/" + std::to_string(run.threads)]
					.push_back(run.counters.at("items_per_second"));
	}

	/* The nanoseconds of one, or the rate of all threads, in the middle one of the repetitions. */
	double
	rate(const std::string &name, std::int64_t size, int threads)
	{
		std::vector<double> &all =
			rates_[name + "/" + (size > 0 ? std::to_string(size) : "") + "/" + std::to_string(threads)];

		if (all.empty())
			return 0;
		std::sort(all.begin(), all.end());
		return all[all.size() / 2];
	}

	/* Prints; false when a bar is missed. */
	bool
	print()
	{
		const double pair = 1e9 / rate("lock_pair", 0, 1);
		bool met = true;

		const double cold = 1e9 / rate("cold_line", 0, 1);

		std::printf(
			"\nOne uncontended pair of acquiring and releasing the lock: %.1f ns; a line of memory that no cache has: %.1f ns, "
			"%.1f pairs.\nOne thread, in pairs; growth: from 1 thousand candidates to 1 million; x 4: the time of one among "
			"four threads against its time\nalone, at 32 thousand.\n\n",
			pair, cold, cold / pair);
		std::printf("%-22s %8s %8s %8s %8s %10s %8s %9s %6s\n", "call, a candidate", "1 k", "32 k", "1 M", "bar",
					"growth", "bar", "ns, 32 k", "x 4");
		for (const Row &row : rows)
		{
			double pairs[3];

			for (int i = 0; i < 3; i++)
				pairs[i] = 1e9 / rate(row.name, sizes[i], 1) / pair;
			const double growth = pairs[2] / pairs[0];
			/* Google Benchmark adds the items of all threads and takes the mean of their times */
			const double four =
				rate(row.name, sizes[1], 4) > 0 ? 4 * rate(row.name, sizes[1], 1) / rate(row.name, sizes[1], 4) : 0;
			const bool missed = (row.bar > 0 && *std::max_element(pairs, pairs + 3) > row.bar) || growth > growth_bar;

			std::printf("%-22s %8.2f %8.2f %8.2f ", row.what, pairs[0], pairs[1], pairs[2]);
			if (row.bar > 0)
				std::printf("%8s", ("<= " + std::to_string(static_cast<int>(row.bar))).c_str());
			else
				std::printf("%8s", "");
			std::printf(" %10.2f %8s %9.1f ", growth, "<= 3", pairs[1] * pair);
			if (four > 0)
				std::printf("%6.2f", four);
			else
				std::printf("%6s", "");
			std::printf("%s\n", missed ? "  MISSED" : "");
			met = met && !missed;
		}
		return met;
	}

  private:
	std::map<std::string, std::vector<double>> rates_;
};

} // namespace

int
main(int argc, char **argv)
{
	Table table;

	benchmark::Initialize(&argc, argv);
	benchmark::RegisterBenchmark("lock_pair", lock_pair)->UseManualTime();
	benchmark::RegisterBenchmark("cold_line", cold_line)->UseManualTime();
	for (const std::int64_t size : sizes)
	{
		benchmark::RegisterBenchmark("mark_pending", mark_pending)->Arg(size)->UseManualTime()->Threads(1)->Threads(4);
		benchmark::RegisterBenchmark("mark_idle", mark_idle)->Arg(size)->UseManualTime();
		for (const int most : {1, 16})
			benchmark::RegisterBenchmark(("take_and_check_in_" + std::to_string(most)).c_str(), take_and_check_in)
				->Args({size, most})
				->UseManualTime()
				->Threads(1)
				->Threads(4);
		benchmark::RegisterBenchmark("promote", promote)->Arg(size)->UseManualTime();
		benchmark::RegisterBenchmark("drain", drain)->Arg(size)->UseManualTime();
	}
	benchmark::RunSpecifiedBenchmarks(&table);
	return table.print() ? EXIT_SUCCESS : EXIT_FAILURE;
}
