/*
 * reseed.cpp: what rings owe, and walks that pay it. One who walks is the ring's walker until the end, or until it is gone.
 */
#include "core/hotlist/directory.h"
#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

/* A walk may take one part in so many of the time. */
constexpr Micros walk_share = 100;

std::uint64_t
pack(Owner owner) noexcept
{
	return std::uint64_t{owner.process} << 32 | owner.transaction;
}

Owner
unpack(std::uint64_t walker) noexcept
{
	return {static_cast<std::uint32_t>(walker >> 32), static_cast<std::uint32_t>(walker)};
}

/* Has some shard room that a walk would be worth while for? Racy, as is all that looks without a lock. */
bool
has_room(const Hotlist &hotlist) noexcept
{
	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);
		const std::uint32_t used = area.shard->used.load(memory_order_relaxed);
		const std::uint32_t garbage = area.shard->garbage.load(memory_order_relaxed);

		if (used - (garbage < used ? garbage : used) < area.slot_count - 1 - area.slot_count / 16)
			return true;
	}
	return false;
}

/* How long the ring's walks lie apart, each ring's a bit otherwise, so that those that began together do not stay so. */
Micros
interval_of(const Ring &ring, RingRef reference, Micros interval) noexcept
{
	const Micros took = ring.last_reseed_took.load(memory_order_relaxed);
	const Micros least = took < never / walk_share ? took * walk_share : never;
	const Micros base = interval > least ? interval : least;

	return later(base, static_cast<Micros>(mix(reference.id) % static_cast<std::uint64_t>(base / 5 + 1)));
}

/* Is nobody else the ring's walker, but one who is gone? Then the owner is. */
bool
become_walker(Ring &ring, Owner owner, Alive alive) noexcept
{
	std::uint64_t walker = ring.walker.load(memory_order_acquire);

	/* one's own walk that an error ended is one's own to begin again */
	if (walker != 0 && walker != pack(owner) && alive(unpack(walker)))
		return false;
	return ring.walker.compare_exchange_strong(walker, pack(owner), memory_order_acq_rel);
}

} // namespace

Owes
owes(const Hotlist &hotlist, RingRef reference, Micros now, Micros interval) noexcept
{
	const Ring *ring = ring_of(hotlist, reference);

	if (ring == nullptr)
		return Owes::nothing;

	const bool incomplete = ring->dropped.load(memory_order_acquire) > ring->restored.load(memory_order_acquire);
	const bool debts = ring->owed.load(memory_order_acquire) > ring->paid.load(memory_order_acquire);
	if ((incomplete || debts) && !has_room(hotlist))
		return Owes::full;
	if (debts)
		return Owes::walk;
	if (incomplete)
		return Owes::incomplete;
	return now >= floor_due(hotlist, reference, interval) ? Owes::floor : Owes::nothing;
}

Micros
floor_due(const Hotlist &hotlist, RingRef reference, Micros interval) noexcept
{
	const Ring *ring = ring_of(hotlist, reference);

	if (ring == nullptr || interval <= 0)
		return never;
	return later(ring->floor_from.load(memory_order_relaxed), interval_of(*ring, reference, interval));
}

bool
overdue(const Hotlist &hotlist, RingRef reference, Micros now, Micros interval) noexcept
{
	const Ring *ring = ring_of(hotlist, reference);

	return ring != nullptr && interval > 0 &&
		   (now - ring->floor_from.load(memory_order_relaxed)) / 2 >= interval_of(*ring, reference, interval) &&
		   owes(hotlist, reference, now, interval) != Owes::full;
}

bool
reseed_begin(const Hotlist &hotlist, RingRef reference, Micros now, Owner owner, Alive alive, Ticket *ticket) noexcept
{
	Ring *ring = ring_pin(hotlist, reference);

	if (ring == nullptr)
		return false;

	/* a ring that came to the place of one that went would have a walker who does not walk it */
	const bool begun = become_walker(*ring, owner, alive);
	if (begun)
	{
		const std::uint64_t paid = ring->paid.load(memory_order_acquire);

		*ticket = {};
		ticket->ring = reference;
		ticket->owner = owner;
		ticket->began = now;
		ticket->owed = ring->owed.load(memory_order_acquire);
		ticket->dropped = ring->dropped.load(memory_order_acquire);
		ticket->resume_at = ring->resume_at.load(memory_order_relaxed);
		ticket->settled = ticket->owed == paid && ticket->dropped == ring->restored.load(memory_order_acquire);
		ticket->ease = ticket->owed > paid;
	}
	ring_unpin(hotlist);
	return begun;
}

bool
holds(const Hotlist &hotlist, RingRef ring, std::int64_t partition_id) noexcept
{
	const std::uint64_t hash = partition_hash(partition_id);
	const Area area = area_of(hotlist, shard_of(hotlist, hash));
	bool there = true;

	if (!names_a_place(hotlist, ring))
		return true;
	lock_shard_shared(hotlist, area);
	if (lane_at(hotlist, ring.index, area.number).ring_id == ring.id)
		there = slot_find(area, slot_key(area, ring.id, partition_id, hash)) != 0;
	unlock_shard(hotlist, area);
	return there;
}

namespace
{

/* A slot that is there: under its shard's lock. */
Reseeded
meet(const Area &area, const Ring &ring, Lane &lane, std::uint32_t index, const Ticket &ticket, Micros now,
	 Alive alive) noexcept
{
	Slot &slot = area.slots[index];
	const bool defers = ring.delay.load(memory_order_relaxed) != 0 || ring.window.load(memory_order_relaxed) != 0;

	if (slot.state == State::checked_out && !alive(slot.owner))
	{
		from_checked_out(lane);
		to_ready(area, lane, index, now);
		return Reseeded::reclaimed;
	}
	/* pending in a snapshot that may be younger than the claim's, of a push that owed a walk instead of its mark */
	if (slot.state == State::checked_out)
		slot.epoch = ++lane.last_epoch;
	if (slot.state == State::parked && (!defers || slot.behind_push || ticket.ease))
	{
		from_parked(area, lane, index);
		to_ready(area, lane, index, now);
	}
	return Reseeded::held;
}

} // namespace

Reseeded
reseed_row(const Hotlist &hotlist, Ticket *ticket, std::int64_t partition_id, Micros now, Alive alive) noexcept
{
	const std::uint64_t hash = partition_hash(partition_id);
	const Area area = area_of(hotlist, shard_of(hotlist, hash));
	Reseeded result = Reseeded::gone;
	int steps = 0;

	if (!names_a_place(hotlist, ticket->ring))
		return result;

	Lane &lane = lane_at(hotlist, ticket->ring.index, area.number);
	lock_shard(hotlist, area);
	if (lane.ring_id == ticket->ring.id)
	{
		const SlotKey key = slot_key(area, ticket->ring.id, partition_id, hash);
		std::uint32_t index = slot_find(area, key);

		ticket->rows++;
		if (index != 0)
			result = meet(area, ring_at(hotlist, ticket->ring.index), lane, index, *ticket, now, alive);
		else if ((index = slot_make(hotlist, area, lane, key, &steps)) != 0)
		{
			to_ready(area, lane, index, now);
			result = Reseeded::added;
		}
		else
			result = Reseeded::full;
	}
	unlock_shard(hotlist, area);
	return result;
}

void
reseed_end(const Hotlist &hotlist, const Ticket &ticket, bool whole, std::int64_t stopped_at, std::uint64_t repairs,
		   Micros now, const Listener &listener) noexcept
{
	Ring *ring = ring_pin(hotlist, ticket.ring);
	std::uint64_t walker = pack(ticket.owner);

	if (ring == nullptr)
		return;
	if (whole)
	{
		/* candidates that did not fit before the walk are in it; those that did not fit since are still missing */
		raise_to(ring->restored, ticket.dropped);
		raise_to(ring->paid, ticket.owed);
	}
	ring->resume_at.store(whole ? 0 : stopped_at, memory_order_relaxed);
	/* also when it was cut short: no walk follows the other at once */
	ring->floor_from.store(now, memory_order_relaxed);
	ring->last_reseed.store(now, memory_order_relaxed);
	ring->last_reseed_took.store(now > ticket.began ? now - ticket.began : 0, memory_order_relaxed);
	add(ring->reseeds, 1);
	add(ring->reseed_rows, ticket.rows);
	add(ring->reseed_repairs, repairs);
	(void) ring->walker.compare_exchange_strong(walker, 0, memory_order_acq_rel);
	ring_unpin(hotlist);

	const std::uint32_t ready = ring_total(hotlist, ticket.ring.index, &Lane::ready);
	if (ready > 0 && listener.became_ready != nullptr)
	{
		(void) ring->gate.fetch_add(1, memory_order_acq_rel);
		listener.became_ready(listener.arg, ticket.ring.index, ready);
	}
}

} // namespace queen::core::hotlist
