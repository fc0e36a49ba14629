/*
 * waiter.cpp: what this process waits for: entering gates, sleeping, leaving them. See gates.h.
 *
 * Raises in gates_sleep, by cancellation. Locks: one LWLock of a gate at a time, for as many steps as processes wait there. Runs in backends.
 */
#include "hotlist/gates_memory.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

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

} // namespace

const TransactionParticipant waiting_participant = {.ended = ended, .sub_aborted = sub_aborted};

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

} // namespace queen
