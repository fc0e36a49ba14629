/*
 * tick.cpp: the databases that are waited in, and their pulse. See gates.h, and README.md for who rings whom.
 *
 * Never raises. Locks: the databases', to enter one and to leave; one of a gate at a time; the pool's, in the core. gates_attend and gates_tick run
 * in pulses, all else in every process.
 */
#include "hotlist/gates_memory.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

constinit GatesMemory &memory = gates_memory;
constinit uint32 my_place = 0; /* where this database was last, index + 1 */

/* Candidates of each shard that a tick makes ready. */
constexpr uint32 most_drained = 1024;

DatabasePlace *
place_of(uint32 place)
{
	return &memory.head->databases[place - 1];
}

bool
is_mine(uint32 place)
{
	return place != 0 && place_of(place)->database.load(std::memory_order_relaxed) == MyDatabaseId;
}

/* Under the databases' lock, exclusive: find the place, or take one that nobody needs. 0: there is none. */
uint32
place_make()
{
	uint32 unused = 0;

	for (uint32 i = 1; i <= places; i++)
	{
		const DatabasePlace *place = place_of(i);

		if (is_mine(i))
			return i;
		if (unused == 0 && place->waiting.load(std::memory_order_relaxed) == 0 &&
			place->pulse.load(std::memory_order_relaxed) == 0)
			unused = i;
	}
	if (unused != 0)
	{
		place_of(unused)->sleeps_until.store(hot::never, std::memory_order_relaxed);
		place_of(unused)->database.store(MyDatabaseId, std::memory_order_relaxed);
	}
	return unused;
}

/* Find or make this database's place and count somebody in it before it can go. */
template <typename Count>
uint32
with_place(Count count)
{
	LWLock *lock = &memory.head->databases_lock.lock;

	LWLockAcquire(lock, LW_SHARED);
	if (!is_mine(my_place))
	{
		LWLockRelease(lock);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		my_place = place_make();
	}
	if (my_place != 0)
		count(place_of(my_place));
	LWLockRelease(lock);
	return my_place;
}

} // namespace

DatabasePlace *
place_find()
{
	for (uint32 i = 1; i <= places && !is_mine(my_place); i++)
		if (is_mine(i))
			my_place = i;
	return is_mine(my_place) ? place_of(my_place) : nullptr;
}

uint32
place_enter(bool at_ring)
{
	if (at_ring)
		memory.head->ring_waiters.fetch_add(1);
	return with_place([at_ring](DatabasePlace *place) {
		place->waiting.fetch_add(1);
		if (at_ring)
			place->at_rings.fetch_add(1);
	});
}

void
place_leave(uint32 place, bool at_ring)
{
	if (at_ring)
		memory.head->ring_waiters.fetch_sub(1);
	if (place == 0)
		return;
	if (at_ring)
		place_of(place)->at_rings.fetch_sub(1);
	place_of(place)->waiting.fetch_sub(1);
}

namespace
{

/* Under the gate's lock: its place's list has it. */
void
push_flagged(DatabasePlace *place, uint32 number)
{
	SharedGate *gate = &memory.gates[number];

	gate->flagged = true;
	gate->next_flagged = place->flagged.load(std::memory_order_relaxed);
	while (!place->flagged.compare_exchange_weak(gate->next_flagged, number + 1))
	{
	}
}

} // namespace

int32
flag_gate(uint32 number)
{
	SharedGate *gate = &memory.gates[number];
	DatabasePlace *place;

	if (gate->counts.due == 0 || gate->place == 0 || gate->flagged)
		return 0;
	place = place_of(gate->place);
	/* nobody would take it from the list */
	if (place->pulse.load(std::memory_order_relaxed) == 0)
		return 0;
	push_flagged(place, number);
	place->flags.fetch_add(1);
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (place->sleeps_until.load(std::memory_order_relaxed) <= core::gate_tick_at(gate->counts, wake_interval()))
		return 0;
	return place->pulse.load(std::memory_order_relaxed);
}

void
gates_parked()
{
	const DatabasePlace *place;
	int32 pulse;

	if (!gates_there() || !hotlist_there())
		return;
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (memory.head->ring_waiters.load(std::memory_order_relaxed) == 0)
		return;
	place = place_find();
	if (place == nullptr || place->at_rings.load(std::memory_order_relaxed) == 0)
		return;
	pulse = place->pulse.load(std::memory_order_relaxed);
	if (pulse != 0 && hot::next_deadline(hotlist()) < place->sleeps_until.load(std::memory_order_relaxed))
		wake_process(pulse - 1);
}

namespace
{

/* Look at the gates that are flagged. Returns when the first of those that stay so wants to be looked at again. */
hot::Micros
tick_flagged(DatabasePlace *place, hot::Micros now)
{
	hot::Micros next = hot::never;

	for (uint32 link = place->flagged.exchange(0); link != 0;)
	{
		const uint32 number = link - 1;
		SharedGate *gate = &memory.gates[number];
		ToWake to_wake = {};

		LWLockAcquire(gate_lock(number), LW_EXCLUSIVE);
		link = gate->next_flagged;
		gate->flagged = false;
		take_due(gate, core::gate_tick(gate->counts, now, wake_interval()), &to_wake);
		if (gate->counts.due > 0)
		{
			push_flagged(place, number);
			next = Min(next, core::gate_tick_at(gate->counts, wake_interval()));
		}
		LWLockRelease(gate_lock(number));
		wake_all(&to_wake);
	}
	return next;
}

} // namespace

extern "C"
{
static void
stop_attending(int code, Datum place)
{
	int32 me = my_proc_number() + 1;

	(void) code;
	/* only if it is still this process */
	(void) place_of(DatumGetUInt32(place))->pulse.compare_exchange_strong(me, 0);
}
}

void
gates_attend()
{
	uint32 place;

	if (!gates_there())
		return;
	place = with_place([](DatabasePlace *mine) {
		mine->sleeps_until.store(hot::never, std::memory_order_relaxed);
		mine->pulse.store(my_proc_number() + 1);
	});
	if (place != 0)
		before_shmem_exit(stop_attending, UInt32GetDatum(place));
}

bool
gates_attended()
{
	const DatabasePlace *place = gates_there() ? place_find() : nullptr;

	return place != nullptr && place->pulse.load(std::memory_order_relaxed) != 0;
}

hot::Micros
gates_tick()
{
	constexpr int tries = 4;
	const hot::Micros least = Max(wake_interval(), (hot::Micros) 1000);
	hot::Micros next = hot::never;
	DatabasePlace *place;

	place = gates_there() ? place_find() : nullptr;
	if (place == nullptr)
		return hot::never;
	for (int i = 0; i < tries; i++)
	{
		const uint32 flags = place->flags.load();
		const hot::Micros now = hotlist_now();
		bool drains = false;

		next = tick_flagged(place, now);
		drains = hotlist_there() && place->at_rings.load() > 0;
		if (drains)
			next = Min(next, hot::drain(hotlist(), most_drained, now, hotlist_listener()));
		/* many deadlines that follow each other are met together */
		if (next != hot::never)
			next = Max(next, now + least);
		place->sleeps_until.store(next);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		/* who came before the store may not have rung */
		if (place->flags.load() == flags && drains == (hotlist_there() && place->at_rings.load() > 0) &&
			(!drains || hot::next_deadline(hotlist()) >= next || next <= now + least))
			break;
		next = now + least;
		place->sleeps_until.store(next);
	}
	return next;
}

} // namespace queen
