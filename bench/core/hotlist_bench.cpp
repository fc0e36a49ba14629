/*
 * hotlist_bench.cpp: what the calls of the hot-list cost, in pairs of acquiring and releasing an uncontended lock of the kind that
 * they take, measured in the same run; and how that grows with the candidates that there are.
 *
 * The lock is what PostgreSQL's light-weight lock is when nobody is in the way: one compare-exchange to take it, one
 * subtraction to give it back. Candidates lie in memory in another order than the one in which they are served and marked; those that
 * are marked are drawn from all of them, before the clock is read. A million is measured in pages of 4 kB and, as a server with huge
 * pages has its shared memory, of 2 MB. Beside them is the least that any list could cost: a line for each candidate, and of 16 bytes, as
 * many as a key has.
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
#include <tuple>
#include <thread>
#include <vector>

#include <sys/mman.h>

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
constexpr std::size_t huge_page = std::size_t{2} << 20;
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

enum class Pages
{
	small,
	huge, /* if the kernel has some */
};

/* Memory of such pages, until the end. */
void *
memory_of(std::size_t size, Pages pages)
{
	const std::size_t all = (size + 2 * huge_page - 1) / huge_page * huge_page;
	void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		std::abort();
	memory =
		reinterpret_cast<void *>((reinterpret_cast<std::uintptr_t>(memory) + huge_page - 1) / huge_page * huge_page);
	madvise(memory, size, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return memory;
}

/* How much of this process's memory is in huge pages. */
long
huge_kilobytes()
{
	std::FILE *file = std::fopen("/proc/self/smaps_rollup", "r");
	char text[256];
	long found = 0;

	while (file != nullptr && std::fgets(text, sizeof(text), file) != nullptr)
		(void) std::sscanf(text, "AnonHugePages: %ld kB", &found);
	if (file != nullptr)
		std::fclose(file);
	return found;
}

struct Pool
{
	std::int64_t candidates;
	State state;
	void *memory;
	hotlist::Hotlist list;
	hotlist::RingRef ring;
	std::atomic<Micros> now = start;
	std::mt19937_64 dice{42};

	Pool(std::int64_t n, State wanted, Pages pages) : candidates(n), state(wanted), memory(memory_of(pool_bytes, pages))
	{
		const hotlist::PoolOptions options;
		std::vector<std::int64_t> order(static_cast<std::size_t>(n));
		hotlist::Ticket ticket;

		if (!hotlist::lay_out(memory, pool_bytes, &lock_calls, &options) ||
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

/* Arguments of a benchmark: how many candidates, how many in a call, the pages. */
Pool &
pool_of(const benchmark::State &arguments, State state)
{
	static std::map<std::tuple<std::int64_t, State, Pages>, std::unique_ptr<Pool>> pools;
	const std::int64_t candidates = arguments.range(0);
	const Pages pages = static_cast<Pages>(arguments.range(2));
	static std::atomic_flag busy = ATOMIC_FLAG_INIT;

	while (busy.test_and_set())
		std::this_thread::yield();
	std::unique_ptr<Pool> &pool = pools[{candidates, state, pages}];

	if (pool == nullptr)
		pool = std::make_unique<Pool>(candidates, state, pages);
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

/* What it costs to look at something of each candidate, in any order, and nothing else: each one says which is next. */
template <std::size_t Bytes>
void
look(benchmark::State &state)
{
	struct alignas(Bytes) Something
	{
		std::uint32_t next;
	};
	constexpr int steps = 4096;
	static std::map<std::pair<std::int64_t, std::int64_t>, Something *> all;
	const auto candidates = static_cast<std::uint32_t>(state.range(0));
	Something *&memory = all[{state.range(0), state.range(2)}];
	std::uint32_t at = 0;

	if (memory == nullptr)
	{
		std::vector<std::uint32_t> order(candidates);
		std::mt19937_64 dice(42);

		memory = static_cast<Something *>(memory_of(candidates * Bytes, static_cast<Pages>(state.range(2))));
		for (std::uint32_t i = 0; i < candidates; i++)
			order[i] = i;
		std::shuffle(order.begin(), order.end(), dice);
		for (std::uint32_t i = 0; i < candidates; i++)
			memory[order[i]].next = order[(i + 1) % candidates];
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
	Pool &pool = pool_of(state, State::ready);
	const auto some = static_cast<std::size_t>(state.range(1));
	std::mt19937_64 dice(static_cast<std::uint64_t>(state.thread_index()) + 1);

	for (auto _ : state)
	{
		hotlist::Mark marks[batch];

		for (hotlist::Mark &mark : marks)
			mark = {static_cast<std::int64_t>(dice() % static_cast<std::uint64_t>(pool.candidates)) + 1, 1};
		const double begin = processor_seconds();

		for (std::size_t i = 0; i < batch; i += some)
			hotlist::mark(pool.list, queue, {marks + i, some}, pool.now.load(std::memory_order_relaxed), listener);
		state.SetIterationTime(processor_seconds() - begin);
	}
	state.SetItemsProcessed(state.iterations() * batch);
}

/* Partitions that are idle: some that the ring has never held, and does not hold afterwards. */
void
mark_idle(benchmark::State &state)
{
	Pool &pool = pool_of(state, State::parked);

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
	Pool &pool = pool_of(state, State::ready);
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
	Pool &pool = pool_of(state, State::ready);

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
	Pool &pool = pool_of(state, State::parked);
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
	{"look at 64 bytes", "look_64", 0},
	{"look at 16 bytes", "look_16", 0},
	{"mark, pending", "mark_pending_1", 5},
	{"mark, pending, 64", "mark_pending_64", 0},
	{"mark, idle to ready", "mark_idle", 0},
	{"take and check in, 1", "take_and_check_in_1", 12},
	{"take and check in, 16", "take_and_check_in_16", 0},
	{"promote", "promote", 0},
	{"drain", "drain", 0},
};
constexpr int floors = 2; /* rows that are no calls */
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

		std::printf(
			"\nOne uncontended pair of acquiring and releasing the lock: %.1f ns. One thread, in pairs; growth: from 1 thousand "
			"candidates to 1 million;\nhuge: 1 million in pages of 2 MB (%ld MB were); x 4: the time of one among four threads "
			"against its time alone, at 32 thousand.\nTo look at 64 or 16 bytes of one candidate is no call: it is there to compare.\n\n",
			pair, huge_kilobytes() / 1024);
		std::printf("%-22s %8s %8s %8s %8s %8s %10s %8s %9s %6s\n", "call, a candidate", "1 k", "32 k", "1 M",
					"1 M huge", "bar", "growth", "bar", "ns, 1 M", "x 4");
		for (const Row &row : rows)
		{
			const bool call = &row >= rows + floors;
			const std::string bar = row.bar > 0 ? "<= " + std::to_string(static_cast<int>(row.bar)) : "";
			double pairs[3];

			for (int i = 0; i < 3; i++)
				pairs[i] = 1e9 / rate(row.name, sizes[i], 1) / pair;
			const double growth = pairs[2] / pairs[0];
			/* Google Benchmark adds the items of all threads and takes the mean of their times */
			const double four =
				rate(row.name, sizes[1], 4) > 0 ? 4 * rate(row.name, sizes[1], 1) / rate(row.name, sizes[1], 4) : 0;
			const bool missed =
				call && ((row.bar > 0 && *std::max_element(pairs, pairs + 3) > row.bar) || growth > growth_bar);

			std::printf("%-22s %8.2f %8.2f %8.2f %8.2f %8s ", row.what, pairs[0], pairs[1], pairs[2],
						1e9 / rate(std::string(row.name) + "_huge", sizes[2], 1) / pair, bar.c_str());
			if (call)
				std::printf("%10.2f %8s ", growth, "<= 3");
			else
				std::printf("%10s %8s ", "", "");
			std::printf("%9.1f ", pairs[2] * pair);
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

/* The benchmarks of one size; the two of which calls of several threads meet, also with four. */
void
add(std::int64_t size, Pages pages)
{
	const auto one = [size, pages](const std::string &name, void (*what)(benchmark::State &), std::int64_t some) {
		return benchmark::RegisterBenchmark((name + (pages == Pages::huge ? "_huge" : "")).c_str(), what)
			->Args({size, some, static_cast<std::int64_t>(pages)})
			->UseManualTime();
	};

	one("look_64", look<64>, 1);
	one("look_16", look<16>, 1);
	one("mark_pending_1", mark_pending, 1)->Threads(1)->Threads(4);
	one("mark_pending_64", mark_pending, 64);
	one("mark_idle", mark_idle, 1);
	for (const int most : {1, 16})
		one("take_and_check_in_" + std::to_string(most), take_and_check_in, most)->Threads(1)->Threads(4);
	one("promote", promote, 1);
	one("drain", drain, 1);
}

} // namespace

int
main(int argc, char **argv)
{
	Table table;

	benchmark::Initialize(&argc, argv);
	benchmark::RegisterBenchmark("lock_pair", lock_pair)->UseManualTime();
	for (const std::int64_t size : sizes)
	{
		for (const Pages pages : {Pages::small, Pages::huge})
			if (pages == Pages::small || size == sizes[2])
				add(size, pages);
	}
	benchmark::RunSpecifiedBenchmarks(&table);
	return table.print() ? EXIT_SUCCESS : EXIT_FAILURE;
}
