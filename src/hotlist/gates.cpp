/*
 * gates.cpp: who waits for what. See gates.h.
 *
 * Raises in gates_sleep, by cancellation, and at the server's start. Locks: one LWLock of a gate at a time, for as many steps as processes wait
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

/* What this process waits for. */
struct Side
{
	uint32 gate; /* index + 1; 0: nothing */
	uint64 key;
	uint32 in_hand; /* wakes that it took note of and has not answered */
	uint32 place;
};
constinit Side sides[wait_sides] = {};
constinit uint32 sleep_event = 0;

constinit GatesMemory &memory = gates_memory;

Waiter *
my_waiter(int side)
{
	return &memory.waiters[my_proc_number() * wait_sides + side];
}

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

/* Tell, with the gate's lock held; the gate may have to be flagged, which returns the pulse to be woken. */
int32
tell_locked(uint32 number, uint64 key, uint32 ready, hot::Micros interval, ToWake *to_wake)
{
	SharedGate *gate = &memory.gates[number];
	const hot::Micros now = hotlist_now();

	take_due(gate, core::gate_promise(gate->counts, choose(gate, key, ready), now, interval), to_wake);
	return flag_gate(number);
}

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

uint32
bucket_of(int side, uint64 key)
{
	return memory.head->rings + (uint32) side * buckets + (uint32) (key % buckets);
}

/* ---- entering and leaving ---- */

/* The count that those look at who tell in buckets; null for a ring. */
std::atomic<uint32> *
counter_of(int side, uint32 number)
{
	if (number < memory.head->rings)
		return nullptr;
	return side == side_work ? &memory.head->bucket_waiters : &memory.head->event_waiters;
}

void
enter(int side, uint32 number, uint64 key)
{
	const bool at_ring = number < memory.head->rings;
	std::atomic<uint32> *counter = counter_of(side, number);
	SharedGate *gate = &memory.gates[number];
	Waiter *waiter = my_waiter(side);

	sides[side] = {number + 1, key, 0, side == side_work ? place_enter(at_ring) : 0};
	if (counter != nullptr)
		counter->fetch_add(1);
	waiter->key = key;
	waiter->told.store(0, std::memory_order_relaxed);
	LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
	core::gate_enter(gate->counts);
	if (sides[side].place != 0)
		gate->place = sides[side].place;
	list_add(gate, (uint32) (waiter - memory.waiters) + 1);
	publish(gate);
	LWLockRelease(gate_lock(number));
	/* the partner of those who look who waits when what they tell is in sight */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (at_ring)
		gates_parked();
}

void
leave(int side, Leave why)
{
	const Side mine = sides[side];
	const uint32 number = mine.gate - 1;
	SharedGate *gate = &memory.gates[number];
	Waiter *waiter = my_waiter(side);
	std::atomic<uint32> *counter;
	ToWake to_wake = {};
	int32 pulse = 0;
	uint32 wakes;
	uint32 promises = 0;

	if (mine.gate == 0)
		return;
	sides[side] = {};
	LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
	wakes = mine.in_hand + waiter->told.load(std::memory_order_relaxed);
	waiter->told.store(0, std::memory_order_relaxed);
	if (waiter->listed)
	{
		promises = waiter->due ? 1 : 0;
		list_remove(gate, waiter);
		core::gate_leave(gate->counts, waiter->due);
		waiter->listed = false;
	}
	promises += wakes;
	for (; wakes > 0; wakes--)
		take_due(gate, core::gate_answer(gate->counts, hotlist_now()), &to_wake);
	if (why == Leave::served && promises > 0)
		promises--;
	/* what this one was told of is somebody else's now */
	if (why != Leave::nothing && promises > 0)
		pulse = tell_locked(number, mine.key, promises, wake_interval(), &to_wake);
	publish(gate);
	LWLockRelease(gate_lock(number));
	wake_all(&to_wake);
	if (pulse != 0)
		wake_process(pulse - 1);
	if (side == side_work)
		place_leave(mine.place, number < memory.head->rings);
	counter = counter_of(side, number);
	if (counter != nullptr)
		counter->fetch_sub(1);
}

/* Wait at a gate on one side, or nowhere (0); true when that is new. */
bool
move_to(int side, uint32 gate, uint64 key)
{
	if (sides[side].gate == gate && sides[side].key == key)
		return false;
	/* whoever waits there still looks for itself what has become of it */
	leave(side, Leave::broken);
	if (gate != 0)
		enter(side, gate - 1, key);
	return true;
}

void
ended(bool committed)
{
	if (!committed)
		gates_leave(Leave::broken);
}

void
sub_aborted(SubTransactionId self)
{
	(void) self;
	gates_leave(Leave::broken);
}

/* ---- memory ---- */

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

const TransactionParticipant waiting_participant = {.ended = ended, .sub_aborted = sub_aborted};

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
gates_enter(const WaitFor *what)
{
	bool moved = false;

	if (!gates_there())
		return false;
	if (what->ring.id != 0)
		moved |= move_to(side_work, what->ring.index + 1, what->ring.id);
	else
		moved |= move_to(side_work, what->work != 0 ? bucket_of(side_work, what->work) + 1 : 0, what->work);
	moved |= move_to(side_event, what->event != 0 ? bucket_of(side_event, what->event) + 1 : 0, what->event);
	return moved;
}

bool
gates_told_work()
{
	return sides[side_work].gate != 0 && my_waiter(side_work)->told.load(std::memory_order_acquire) != 0;
}

bool
gates_told_event()
{
	return sides[side_event].gate != 0 && my_waiter(side_event)->told.load(std::memory_order_acquire) != 0;
}

void
gates_again()
{
	for (int side = 0; side < wait_sides; side++)
	{
		const uint32 number = sides[side].gate - 1;
		Waiter *waiter = my_waiter(side);
		SharedGate *gate;

		if (sides[side].gate == 0 || waiter->told.load(std::memory_order_acquire) == 0)
			continue;
		gate = &memory.gates[number];
		LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
		waiter->told.store(0, std::memory_order_relaxed);
		sides[side].in_hand++;
		core::gate_enter(gate->counts);
		list_add(gate, (uint32) (waiter - memory.waiters) + 1);
		publish(gate);
		LWLockRelease(gate_lock(number));
	}
	std::atomic_thread_fence(std::memory_order_seq_cst);
}

void
gates_answer()
{
	for (int side = 0; side < wait_sides; side++)
	{
		const uint32 number = sides[side].gate - 1;
		ToWake to_wake = {};

		if (sides[side].gate == 0 || sides[side].in_hand == 0)
			continue;
		LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
		for (; sides[side].in_hand > 0; sides[side].in_hand--)
			take_due(&memory.gates[number], core::gate_answer(memory.gates[number].counts, hotlist_now()), &to_wake);
		LWLockRelease(gate_lock(number));
		wake_all(&to_wake);
	}
}

void
gates_leave(Leave why)
{
	leave(side_work, why);
	/* events tell everybody */
	leave(side_event, Leave::nothing);
}

bool
gates_sleep(hot::Micros until, hot::Micros rest)
{
	constexpr hot::Micros longest = USECS_PER_DAY;

	for (hot::Micros now = hotlist_now(); now < until; now = hotlist_now())
	{
		const bool told = gates_told_work() || gates_told_event();
		const hot::Micros end = Min(told ? Min(rest, until) : until, now + longest);

		if (told && now >= rest)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) ((end - now + 999) / 1000),
						 named_wait_event("QueenWait", &sleep_event));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return gates_told_work() || gates_told_event();
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
