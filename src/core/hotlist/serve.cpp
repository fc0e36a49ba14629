/*
 * serve.cpp: checking candidates out and giving them back. Called by pops, and at the end of their transactions.
 */
#include "core/hotlist/directory.h"
#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

/* Check out what is ready in a lane, `most` at most, until `want` messages. Under the shard's lock. */
std::uint32_t
take_from(const Area &area, Lane &lane, std::uint32_t most, std::uint64_t *want, Owner owner, Taken *out) noexcept
{
	std::uint32_t got = 0;

	while (got < most && *want != 0 && lane.head != 0)
	{
		const std::uint32_t index = from_ready(area, lane);
		Slot &slot = area.slots[index];
		const std::uint64_t messages = slot.messages != 0 ? slot.messages : 1;

		slot.state = State::checked_out;
		slot.token = ++lane.last_epoch;
		slot.owner = owner;
		/* only this check-out can say so (errata 3.6) */
		slot.drained = false;
		slot.again = false;
		out[got++] = {slot.partition_id, slot.epoch, slot.token, slot.ready_since, index};
		*want -= messages < *want ? messages : *want;
	}
	/* whoever comes next, in this shard's turn, finds it in the cache */
	prefetch_slot(area, lane.head);
	bump(lane.checked_out, got);
	bump(lane.takes, std::uint64_t{got});
	return got;
}

/*
 * Is what was taken still checked out so? The slot may be another's by now, and another check-out of it may be under way with the same
 * epoch: the token tells, which is never given again in a lane.
 */
bool
is_out(const Area &area, const Lane &lane, RingRef ring, const Taken &taken) noexcept
{
	if (lane.ring_id != ring.id || taken.slot == 0 || taken.slot >= area.shard->high)
		return false;

	const Slot &slot = area.slots[taken.slot];
	return slot.state == State::checked_out && slot.ring_id == ring.id && slot.token == taken.token;
}

/* A candidate that is given back, with what its ring says. */
struct Return
{
	Ring &ring;
	Lane &lane;
	std::uint32_t index;
	bool moved; /* its epoch is not the one that was taken */
	Micros now;
	Micros delay;
	Micros window;
};

bool
ready(const Area &area, const Return &given) noexcept
{
	to_ready(area, given.lane, given.index, given.now);
	add(given.ring.requeues, 1);
	return true;
}

bool
park(const Area &area, const Return &given, Micros deadline) noexcept
{
	to_parked(area, given.lane, given.index, deadline);
	return false;
}

bool
park_under_lease(const Area &area, const Return &given, Micros until, std::uint64_t number) noexcept
{
	const Micros end = later(until, pad);
	const Micros cap = later(given.now, lease_park_cap);

	(void) park(area, given, end < cap ? end : cap);
	area.slots[given.index].under_lease = true;
	area.slots[given.index].token = number;
	return false;
}

bool
idle(const Area &area, const Return &given) noexcept
{
	slot_free(area, given.index);
	bump(given.lane.clears, std::uint64_t{1});
	return false;
}

bool
give_back_took(const Area &area, const Return &given, const Outcome &outcome) noexcept
{
	Slot &slot = area.slots[given.index];
	const bool drained = outcome.drained && outcome.may_clear && !given.moved;

	if (!given.moved)
		slot.messages = 0;
	if (outcome.lease)
	{
		slot.drained = drained;
		if (slot.again)
			return ready(area, given);
		return park_under_lease(area, given, outcome.until, outcome.lease_number);
	}
	if (drained)
		return idle(area, given);
	/* what fired just now is held for another window, or each message would come alone */
	if (given.window != 0 && given.delay == 0)
		return park(area, given, later(given.now, given.window));
	return ready(area, given);
}

/* The table of the README; true: it is ready. */
bool
give_back(const Hotlist &hotlist, const Area &area, const Return &given, const Outcome &outcome) noexcept
{
	Slot &slot = area.slots[given.index];

	switch (outcome.verdict)
	{
		case Verdict::none:
			if (!given.moved)
				slot.messages = 0;
			if (outcome.reached)
				return ready(area, given);
			to_ready_in_front(area, given.lane, given.index, slot.ready_since);
			add(given.ring.requeues, 1);
			return true;
		case Verdict::took:
			return give_back_took(area, given, outcome);
		case Verdict::empty:
			if (given.moved)
				add(given.ring.conflicts, 1);
			return outcome.may_clear && !given.moved ? idle(area, given) : ready(area, given);
		case Verdict::leased:
			return slot.again ? ready(area, given) : park_under_lease(area, given, outcome.until, 0);
		case Verdict::deferred:
			if (slot.again ||
				(given.window != 0 && given.delay == 0 && given.moved && slot.messages >= hotlist.pool->window_batch))
				return ready(area, given);
			return park(area, given, later(outcome.until, pad));
		case Verdict::locked:
			return slot.again ? ready(area, given) : park(area, given, later(given.now, locked_park));
		case Verdict::behind_push:
			if (given.moved)
				return ready(area, given);
			(void) park(area, given, later(given.now, behind_push_park));
			slot.behind_push = true;
			return false;
	}
	return ready(area, given);
}

} // namespace

std::uint32_t
take(const Hotlist &hotlist, RingRef reference, std::uint32_t most, std::uint64_t want, Micros now, Owner owner,
	 Taken *out, const Listener &listener) noexcept
{
	const std::uint32_t shards = hotlist.pool->shards;
	Ring *ring = ring_of(hotlist, reference);
	News news(listener);
	std::uint32_t got = 0;

	if (ring == nullptr || shards == 0)
		return 0;
	served(*ring, now);
	for (std::uint32_t s = 0; s < shards; s++)
	{
		const Area area = area_of(hotlist, s);

		if (area.shard->earliest.load(memory_order_acquire) <= now)
			(void) drain_shard(hotlist, area, steps_per_hold, now, &news);
	}

	/* so many of a shard at a time that one turn may do, if that is one hold */
	const std::uint32_t share = most / shards < steps_per_hold ? (most + shards - 1) / shards : steps_per_hold;
	const std::uint32_t from = ring->cursor.fetch_add(1, memory_order_relaxed);
	std::uint32_t passed = 0;

	want = want != 0 ? want : 1;
	for (std::uint32_t turn = 0; got < most && want > 0 && passed < shards; turn++)
	{
		const Area area = area_of(hotlist, (from + turn) % shards);
		Lane &lane = lane_at(hotlist, reference.index, area.number);
		std::uint32_t some = 0;

		if (lane.ready.load(memory_order_acquire) > 0)
		{
			lock_shard(hotlist, area);
			if (lane.ring_id == reference.id)
				some = take_from(area, lane, share < most - got ? share : most - got, &want, owner, out + got);
			unlock_shard(hotlist, area);
		}
		got += some;
		passed = some > 0 ? 0 : passed + 1;
	}
	news_tell(hotlist, &news);
	return got;
}

std::uint32_t
candidates(const Hotlist &hotlist, RingRef ring, std::uint32_t most, Taken *out) noexcept
{
	std::uint32_t got = 0;

	if (ring_of(hotlist, ring) == nullptr)
		return 0;
	for (std::uint32_t s = 0; s < hotlist.pool->shards && got < most; s++)
	{
		const Area area = area_of(hotlist, s);
		const Lane &lane = lane_at(hotlist, ring.index, s);
		int steps = 0;

		lock_shard_shared(hotlist, area);
		for (std::uint32_t i = lane.ring_id == ring.id ? lane.head : 0; i != 0 && got < most && steps < steps_per_hold;
			 i = area.slots[i].next, steps++)
			out[got++] = {area.slots[i].partition_id, area.slots[i].epoch, 0, area.slots[i].ready_since, 0};
		unlock_shard(hotlist, area);
	}
	return got;
}

bool
check_in(const Hotlist &hotlist, RingRef reference, const Taken &taken, const Outcome &outcome, Micros now,
		 const Listener &listener) noexcept
{
	const Area area = area_of(hotlist, shard_of(hotlist, partition_hash(taken.partition_id)));
	const std::uint32_t index = taken.slot;
	News news(listener);
	bool is_ready = false;

	if (!names_a_place(hotlist, reference))
		return false;

	Ring &ring = ring_at(hotlist, reference.index);
	Lane &lane = lane_at(hotlist, reference.index, area.number);
	lock_shard(hotlist, area);
	if (is_out(area, lane, reference, taken))
	{
		const Return given = {ring,
							  lane,
							  index,
							  area.slots[index].epoch != taken.epoch,
							  now,
							  ring.delay.load(memory_order_relaxed),
							  ring.window.load(memory_order_relaxed)};

		from_checked_out(lane);
		add(ring.verdicts[static_cast<int>(outcome.verdict)], 1);
		is_ready = give_back(hotlist, area, given, outcome);
		if (is_ready)
			news_add(&news, reference.index);
	}
	unlock_shard(hotlist, area);
	news_tell(hotlist, &news);
	return is_ready;
}

void
ring_in_use(const Hotlist &hotlist, RingRef reference, Micros now) noexcept
{
	if (Ring *ring = ring_of(hotlist, reference); ring != nullptr)
		served(*ring, now);
}

std::uint32_t
ready_count(const Hotlist &hotlist, RingRef reference) noexcept
{
	Ring *ring = ring_of(hotlist, reference);

	if (ring == nullptr)
		return 0;
	ring->asked.store(1, memory_order_relaxed);
	/* the partner of news_tell's */
	(void) ring->gate.fetch_add(1, memory_order_acq_rel);
	return ring_total(hotlist, reference.index, &Lane::ready);
}

} // namespace queen::core::hotlist
