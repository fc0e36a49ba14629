/*
 * pool.cpp: the hot-list's pool in shared memory. See pool.h.
 *
 * Raises in pool_init and at the server's start only. Locks: LWLocks of its own tranche, taken by the core. Laid out in the postmaster;
 * runs in every process.
 */
#include "hotlist/pool.h"

#include <atomic>

#include "hotlist/gates.h"
#include "server/settings.h"
#include "server/shared_memory.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

/* What lies before the pool. */
struct Head
{
	int tranche;
	std::atomic<uint64> fallbacks[(int) Fallback::count];
	std::atomic<int64> logged_at;
	std::atomic<int64> swept_at;
};
static_assert(std::atomic<uint64>::is_always_lock_free);

constexpr Size head_size = 256;
static_assert(sizeof(Head) <= head_size && head_size % PG_CACHE_LINE_SIZE == 0);

constinit Head *head = nullptr;
constinit hot::Hotlist the_hotlist = {};
constinit int tranche_being_laid_out = 0;

void
lock_init(void *lock) noexcept
{
	LWLockInitialize((LWLock *) lock, tranche_being_laid_out);
}

void
lock_exclusive(void *lock) noexcept
{
	LWLockAcquire((LWLock *) lock, LW_EXCLUSIVE);
}

void
lock_shared(void *lock) noexcept
{
	LWLockAcquire((LWLock *) lock, LW_SHARED);
}

void
lock_release(void *lock) noexcept
{
	LWLockRelease((LWLock *) lock);
}

constexpr hot::LockCalls lock_calls = {LWLOCK_PADDED_SIZE, lock_init, lock_exclusive, lock_shared, lock_release};

Size
pool_size()
{
	return (Size) setting_hotlist_size * 1024;
}

hot::PoolOptions
pool_options()
{
	hot::PoolOptions options;

	options.window_batch = (uint32) setting_hotlist_window_batch;
	return options;
}

void *
pool_of(void *memory)
{
	return (char *) CACHELINEALIGN(memory) + head_size;
}

void
lay_out(void *memory)
{
	const hot::PoolOptions options = pool_options();
	Head *h = (Head *) CACHELINEALIGN(memory);

	memset((void *) h, 0, head_size);
	h->tranche = LWLockNewTrancheId();
	tranche_being_laid_out = h->tranche;
	/* queen.hotlist_size has a least value with which it succeeds; without a pool pops ask the tables */
	if (!hot::lay_out(pool_of(memory), pool_size(), &lock_calls, &options))
		ereport(LOG, (errmsg("queen.hotlist_size of %d kB is too small for the hot-list", setting_hotlist_size)));
}

void
attach(void *memory)
{
	head = (Head *) CACHELINEALIGN(memory);
	LWLockRegisterTranche(head->tranche, "queen_hotlist");
	if (!hot::attach(pool_of(memory), &lock_calls, &the_hotlist))
		the_hotlist = {};
}

void
forget_database(Oid database)
{
	if (the_hotlist.pool != nullptr)
		(void) hot::forget_tables(the_hotlist, database, 0);
}

bool
turn(std::atomic<int64> *last, hot::Micros interval)
{
	const hot::Micros now = hotlist_now();
	int64 before = last->load(std::memory_order_relaxed);

	return now - before >= interval && last->compare_exchange_strong(before, now, std::memory_order_relaxed);
}

} // namespace

const hot::Hotlist &
hotlist()
{
	return the_hotlist;
}

const hot::Listener &
hotlist_listener()
{
	static constinit const hot::Listener gates = {gates_ring_ready, nullptr};
	static constinit const hot::Listener nobody = {};

	return gates_there() ? gates : nobody;
}

uint32
hotlist_rings()
{
	const hot::PoolOptions options = pool_options();

	return setting_hotlist_size == 0 ? 0 : hot::ring_places_of(pool_size(), &lock_calls, &options);
}

hot::Micros
hotlist_now()
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (hot::Micros) INSTR_TIME_GET_MICROSEC(now);
}

hot::Micros
hotlist_time(TimestampTz at)
{
	hot::Micros in;

	if (TIMESTAMP_IS_NOEND(at) || pg_sub_s64_overflow(at, GetCurrentTimestamp(), &in) ||
		pg_add_s64_overflow(in, hotlist_now(), &in))
		return hot::never;
	return in;
}

hot::Owner
hotlist_owner()
{
	return {(uint32) my_proc_number(), proc_lxid(my_proc_number())};
}

bool
hotlist_owner_alive(hot::Owner owner) noexcept
{
	return owner.process < ProcGlobal->allProcCount && proc_lxid((int) owner.process) == owner.transaction;
}

hot::QueueKey
hotlist_queue_key(Oid tables, int64 queue_id)
{
	return {MyDatabaseId, tables, queue_id};
}

hot::RingKey
hotlist_ring_key(Oid tables, int64 queue_id, int64 group_id)
{
	return {hotlist_queue_key(tables, queue_id), group_id};
}

void
count_fallback(Fallback fallback)
{
	if (head != nullptr)
		head->fallbacks[(int) fallback].fetch_add(1, std::memory_order_relaxed);
}

uint64
fallbacks(Fallback fallback)
{
	return head != nullptr ? head->fallbacks[(int) fallback].load(std::memory_order_relaxed) : 0;
}

void
reset_fallbacks()
{
	for (int i = 0; head != nullptr && i < (int) Fallback::count; i++)
		head->fallbacks[i].store(0, std::memory_order_relaxed);
}

bool
hotlist_turn_to_log(hot::Micros interval)
{
	return head != nullptr && turn(&head->logged_at, interval);
}

bool
hotlist_turn_to_sweep(hot::Micros interval)
{
	return head != nullptr && turn(&head->swept_at, interval);
}

hot::Micros
hotlist_next_log(hot::Micros interval)
{
	return head == nullptr ? hot::never : head->logged_at.load(std::memory_order_relaxed) + interval;
}

hot::Micros
hotlist_next_sweep(hot::Micros interval)
{
	return head == nullptr ? hot::never : head->swept_at.load(std::memory_order_relaxed) + interval;
}

void
pool_init()
{
	static constinit SharedPart part = {"queen hotlist", 0, lay_out, attach, forget_database, nullptr};

	if (setting_hotlist_size == 0)
		return;
	part.size = pool_size() + head_size + PG_CACHE_LINE_SIZE;
	shared_memory_join(&part);
}

} // namespace queen
