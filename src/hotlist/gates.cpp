/*
 * gates.cpp: how the gates lie in memory, their lists, and telling. See gates.h.
 *
 * Raises at the server's start only. Locks: one LWLock of a gate at a time, for as many steps as processes wait
 * there. Laid out in the postmaster; runs in every process.
 */
#include "hotlist/gates_memory.h"

#include "server/settings.h"
#include "server/shared_memory.h"

namespace queen
{

namespace hot = core::hotlist;

constinit GatesMemory gates_memory = {};

namespace
{

constexpr uint64 any_key = 0;
constexpr uint32 everybody = PG_UINT32_MAX;

constinit GatesMemory &memory = gates_memory;

/* So many of those who wait for a key become due, the longest waiting ones first. Returns how many. */
uint32
choose(SharedGate *gate, uint64 key, uint32 ready)
{
	const uint32 room = core::gate_room(gate->counts, ready);
	uint32 chosen = 0;

	for (uint32 link = gate->first; link != 0 && chosen < room; link = memory.waiters[link - 1].next)
	{
		Waiter *waiter = &memory.waiters[link - 1];

		if (waiter->due || (key != any_key && waiter->key != key))
			continue;
		waiter->due = true;
		chosen++;
	}
	return chosen;
}

Size
measure()
{
	const Size gates = hotlist_rings() + 2 * (Size) buckets;

	return PG_CACHE_LINE_SIZE + CACHELINEALIGN(sizeof(GatesHead)) + CACHELINEALIGN(gates * sizeof(SharedGate)) +
		   sizeof(Waiter) * wait_sides * (Size) MaxBackends;
}

void
point_to(void *start)
{
	char *at = (char *) CACHELINEALIGN(start);

	memory.head = (GatesHead *) at;
	at += CACHELINEALIGN(sizeof(GatesHead));
	memory.gates = (SharedGate *) at;
	at += CACHELINEALIGN((hotlist_rings() + 2 * (Size) buckets) * sizeof(SharedGate));
	memory.waiters = (Waiter *) at;
}

void
lay_out(void *start)
{
	const int tranche = LWLockNewTrancheId();

	memset(start, 0, measure());
	point_to(start);
	memory.head->tranche = tranche;
	memory.head->rings = hotlist_rings();
	LWLockInitialize(&memory.head->databases_lock.lock, tranche);
	LWLockInitialize(&memory.head->channels_lock.lock, tranche);
	for (LWLockPadded &lock : memory.head->locks)
		LWLockInitialize(&lock.lock, tranche);
}

void
attach(void *start)
{
	point_to(start);
	LWLockRegisterTranche(memory.head->tranche, "queen_gates");
}

} // namespace

/* ---- lists, under the gate's lock ---- */

void
list_add(SharedGate *gate, uint32 link)
{
	Waiter *waiter = &memory.waiters[link - 1];

	waiter->next = 0;
	waiter->previous = gate->last;
	if (gate->last != 0)
		memory.waiters[gate->last - 1].next = link;
	else
		gate->first = link;
	gate->last = link;
	waiter->listed = true;
	waiter->due = false;
}

void
list_remove(SharedGate *gate, const Waiter *waiter)
{
	if (waiter->previous != 0)
		memory.waiters[waiter->previous - 1].next = waiter->next;
	else
		gate->first = waiter->next;
	if (waiter->next != 0)
		memory.waiters[waiter->next - 1].previous = waiter->previous;
	else
		gate->last = waiter->previous;
}

void
publish(SharedGate *gate)
{
	gate->waiting.store(gate->counts.waiting, std::memory_order_relaxed);
}

void
take_due(SharedGate *gate, uint32 count, ToWake *to_wake)
{
	for (uint32 link = gate->first; link != 0 && count > 0;)
	{
		Waiter *waiter = &memory.waiters[link - 1];
		const uint32 next = waiter->next;

		if (waiter->due)
		{
			list_remove(gate, waiter);
			waiter->listed = false;
			waiter->due = false;
			waiter->told.store(1, std::memory_order_release);
			gate->wakes.fetch_add(1, std::memory_order_relaxed);
			if (to_wake->count == ToWake::room)
				wake_all(to_wake);
			to_wake->numbers[to_wake->count++] = (int) ((link - 1) / wait_sides);
			count--;
		}
		link = next;
	}
	publish(gate);
}

int32
tell_locked(uint32 number, uint64 key, uint32 ready, hot::Micros interval, ToWake *to_wake)
{
	SharedGate *gate = &memory.gates[number];
	const hot::Micros now = hotlist_now();

	take_due(gate, core::gate_promise(gate->counts, choose(gate, key, ready), now, interval), to_wake);
	return flag_gate(number);
}

void
wake_process(int number)
{
	SetLatch(&ProcGlobal->allProcs[number].procLatch);
}

void
wake_all(ToWake *to_wake)
{
	for (uint32 i = 0; i < to_wake->count; i++)
		wake_process(to_wake->numbers[i]);
	to_wake->count = 0;
}

uint32
bucket_of(int side, uint64 key)
{
	return memory.head->rings + (uint32) side * buckets + (uint32) (key % buckets);
}

namespace
{

void
tell(uint32 number, uint64 key, uint32 ready, hot::Micros interval)
{
	ToWake to_wake = {};
	int32 pulse;

	if (memory.gates[number].waiting.load(std::memory_order_relaxed) == 0)
		return;
	LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
	pulse = tell_locked(number, key, ready, interval, &to_wake);
	LWLockRelease(gate_lock(number));
	wake_all(&to_wake);
	if (pulse != 0)
		wake_process(pulse - 1);
}

} // namespace

bool
gates_there()
{
	return memory.head != nullptr;
}

uint64
gate_key(News news, Oid tables, int64 id, int64 partition_id)
{
	const struct
	{
		uint32 news;
		Oid database;
		Oid tables;
		uint32 zero;
		int64 id;
		int64 partition_id;
	} what = {(uint32) news, MyDatabaseId, tables, 0, id, partition_id};

	return hash_bytes_extended((const unsigned char *) &what, sizeof(what), 0) | 1;
}

uint64
gate_key_of_name(Oid tables, const pg_uuid_t *tenant, const char *name, int size)
{
	const uint64 hash =
		hash_bytes_extended((const unsigned char *) name, size, hash_bytes_extended(tenant->data, UUID_LEN, 0));

	return gate_key(News::queue_birth, tables, (int64) hash);
}

bool
gates_bucket_waiters()
{
	if (!gates_there())
		return false;
	std::atomic_thread_fence(std::memory_order_seq_cst);
	return memory.head->bucket_waiters.load(std::memory_order_relaxed) > 0;
}

void
gates_tell(uint64 work, uint32 ready)
{
	if (gates_bucket_waiters())
		tell(bucket_of(side_work, work), work, ready, wake_interval());
}

void
gates_tell_all(uint64 work)
{
	if (gates_bucket_waiters())
		tell(bucket_of(side_work, work), work, everybody, 0);
}

void
gates_tell_event(uint64 event)
{
	if (!gates_there())
		return;
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (memory.head->event_waiters.load(std::memory_order_relaxed) > 0)
		tell(bucket_of(side_event, event), event, everybody, 0);
}

void
gates_tell_everybody()
{
	if (!gates_there())
		return;
	std::atomic_thread_fence(std::memory_order_seq_cst);
	for (uint32 i = memory.head->rings; i < memory.head->rings + 2 * buckets; i++)
		tell(i, any_key, everybody, 0);
}

void
gates_ring_ready(void *arg, uint32 ring_index, uint32 ready) noexcept
{
	const uint64 channel = memory.gates[ring_index].channel.load(std::memory_order_relaxed);

	(void) arg;
	tell(ring_index, any_key, ready, wake_interval());
	if (channel != 0)
		notify_flag(channel);
}

void
gate_statistics(uint32 ring_index, GateStatistics *statistics)
{
	*statistics = {};
	if (!gates_there() || ring_index >= memory.head->rings)
		return;
	statistics->waiting = memory.gates[ring_index].waiting.load(std::memory_order_relaxed);
	statistics->wakes = memory.gates[ring_index].wakes.load(std::memory_order_relaxed);
}

void
gates_init()
{
	static constinit SharedPart part = {"queen gates", 0, lay_out, attach, nullptr, measure};

	shared_memory_join(&part);
}

} // namespace queen
