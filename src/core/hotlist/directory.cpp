/*
 * directory.cpp: rings by their key: looking up, making, giving up one for another. A directory's lock comes before a shard's.
 */
#include "core/hotlist/directory.h"

#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

/* ---- places that no ring is at: a stack, without a lock because every directory draws from it ---- */

constexpr std::uint64_t place_mask = UINT32_MAX;
constexpr std::uint64_t one_change = place_mask + 1;

/* A place; false when all are taken. */
bool
place_get(const Hotlist &hotlist, std::uint32_t *index) noexcept
{
	Pool *pool = hotlist.pool;
	std::uint64_t top = pool->free_rings.load(memory_order_acquire);
	std::uint32_t high = pool->rings_high.load(memory_order_relaxed);

	while ((top & place_mask) != 0)
	{
		*index = static_cast<std::uint32_t>(top & place_mask) - 1;

		const std::uint64_t below = ring_at(hotlist, *index).next_free.load(memory_order_relaxed);
		if (pool->free_rings.compare_exchange_weak(top, ((top & ~place_mask) + one_change) | below,
												   memory_order_acq_rel, memory_order_acquire))
			return true;
	}
	while (high < pool->rings)
		if (pool->rings_high.compare_exchange_weak(high, high + 1, memory_order_acq_rel, memory_order_relaxed))
		{
			*index = high;
			return true;
		}
	return false;
}

void
place_put(const Hotlist &hotlist, std::uint32_t index) noexcept
{
	Pool *pool = hotlist.pool;
	std::uint64_t top = pool->free_rings.load(memory_order_relaxed);

	do
		ring_at(hotlist, index).next_free.store(static_cast<std::uint32_t>(top & place_mask), memory_order_relaxed);
	while (!pool->free_rings.compare_exchange_weak(top, ((top & ~place_mask) + one_change) | (index + 1),
												   memory_order_acq_rel, memory_order_relaxed));
}

} // namespace

std::uint32_t &
ring_head(const Hotlist &hotlist, const QueuePlace &place, std::int64_t group_id) noexcept
{
	const Pool *pool = hotlist.pool;
	const std::uint64_t hash = mix(place.hash ^ static_cast<std::uint64_t>(group_id));

	return at<std::uint32_t>(
		pool, pool->ring_heads)[place.directory * pool->directory_buckets + (hash >> 32) % pool->directory_buckets];
}

bool
ring_look_up(const Hotlist &hotlist, const QueuePlace &place, const RingKey &key, RingRef *ring) noexcept
{
	for (std::uint32_t link = ring_head(hotlist, place, key.group_id); link != 0;
		 link = ring_at(hotlist, link - 1).ring_link)
		if (ring_at(hotlist, link - 1).key == key)
		{
			*ring = {link - 1, ring_at(hotlist, link - 1).id.load(memory_order_relaxed)};
			return true;
		}
	return false;
}

bool
ring_key(const Hotlist &hotlist, std::uint32_t index, RingKey *key, RingRef *ring) noexcept
{
	const Area area = area_of(hotlist, 0);
	bool there = false;

	/* A place that was never used has rubbish, so the id is looked at where the high-water mark covers it only. */
	if (index >= hotlist.pool->rings_high.load(memory_order_acquire))
		return false;
	lock_shard_shared(hotlist, area);
	if (const std::uint64_t id = lane_at(hotlist, index, 0).ring_id; id != 0)
	{
		*key = ring_at(hotlist, index).key;
		*ring = {index, id};
		there = true;
	}
	unlock_shard(hotlist, area);
	return there;
}

/* A ring is forgotten lane by lane, the first one first, and its place is nobody's until all of them are gone. */
Ring *
ring_pin(const Hotlist &hotlist, RingRef ring) noexcept
{
	const Area area = area_of(hotlist, 0);

	if (!names_a_place(hotlist, ring))
		return nullptr;
	lock_shard_shared(hotlist, area);
	if (lane_at(hotlist, ring.index, 0).ring_id == ring.id)
		return &ring_at(hotlist, ring.index);
	unlock_shard(hotlist, area);
	return nullptr;
}

void
ring_unpin(const Hotlist &hotlist) noexcept
{
	unlock_shard(hotlist, area_of(hotlist, 0));
}

namespace
{

/* Take a link out of a chain. */
void
unlink(const Hotlist &hotlist, std::uint32_t *head, std::uint32_t link, std::uint32_t Ring::*next) noexcept
{
	while (*head != link)
		head = &(ring_at(hotlist, *head - 1).*next);
	*head = ring_at(hotlist, link - 1).*next;
}

/* Begin a ring at a place that is nobody's. Not yet in a chain, and without lanes. */
void
begin_ring(const Hotlist &hotlist, std::uint32_t index, const RingKey &key, Micros now) noexcept
{
	Ring &ring = ring_at(hotlist, index);

	ring.key = key;
	ring.delay.store(0, memory_order_relaxed);
	ring.window.store(0, memory_order_relaxed);
	/* Debts only rise, so a late walk of the ring that was here pays nothing of this one's. */
	ring.owed.fetch_add(1, memory_order_release);
	ring.restored.store(ring.dropped.load(memory_order_relaxed), memory_order_relaxed);
	ring.dropped_before.store(ring.dropped.load(memory_order_relaxed), memory_order_relaxed);
	ring.walker.store(0, memory_order_relaxed);
	ring.last_served.store(now, memory_order_relaxed);
	ring.asked.store(0, memory_order_relaxed);
	ring.resume_at.store(0, memory_order_relaxed);
	ring.floor_from.store(now, memory_order_relaxed);
	ring.last_reseed.store(0, memory_order_relaxed);
	ring.last_reseed_took.store(0, memory_order_relaxed);
	for (Counter *counter : {&ring.reseeds, &ring.reseed_rows, &ring.requeues, &ring.conflicts, &ring.reseed_repairs})
		counter->store(0, memory_order_relaxed);
	for (Counter &counter : ring.verdicts)
		counter.store(0, memory_order_relaxed);
}

/* Give the ring its lanes, shard by shard. Whoever marks holds the directory, so sees all of them or none. */
void
open_lanes(const Hotlist &hotlist, std::uint32_t index, std::uint64_t id) noexcept
{
	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);
		Lane &lane = lane_at(hotlist, index, s);

		lock_shard(hotlist, area);
		lane.ring_id = id;
		lane.head = lane.tail = 0;
		for (Count *count : {&lane.ready, &lane.parked, &lane.checked_out})
			count->store(0, memory_order_relaxed);
		for (Counter *counter : {&lane.marks, &lane.takes, &lane.clears})
			counter->store(0, memory_order_relaxed);
		unlock_shard(hotlist, area);
	}
}

/* Forget a ring that a reference means, if it is still there. */
bool
forget(const Hotlist &hotlist, const RingKey &key, RingRef ring) noexcept
{
	const QueuePlace place = queue_place(key.queue);
	RingRef there;
	bool gone = false;

	hotlist.locks->exclusive(directory_lock(hotlist, place.directory));
	if (ring_look_up(hotlist, place, key, &there) && there.id == ring.id)
	{
		ring_forget(hotlist, place, there);
		gone = true;
	}
	hotlist.locks->release(directory_lock(hotlist, place.directory));
	return gone;
}

/* Give up the ring that was served longest ago among some places. No lock is held. False: none of them can go. */
bool
evict(const Hotlist &hotlist) noexcept
{
	constexpr std::uint32_t most = 32;
	const std::uint32_t places = hotlist.pool->rings;
	const std::uint32_t from = hotlist.pool->eviction_hand.fetch_add(most, memory_order_relaxed);
	Micros oldest = never;
	RingKey victim_key{};
	RingRef victim;

	for (std::uint32_t i = 0; i < most && i < places; i++)
	{
		const std::uint32_t index = (from + i) % places;
		RingKey key{};
		RingRef ring;

		if (!ring_key(hotlist, index, &key, &ring) || ring_total(hotlist, index, &Lane::checked_out) > 0 ||
			ring_at(hotlist, index).last_served.load(memory_order_relaxed) >= oldest)
			continue;
		oldest = ring_at(hotlist, index).last_served.load(memory_order_relaxed);
		victim = ring;
		victim_key = key;
	}
	if (victim.id == 0 || !forget(hotlist, victim_key, victim))
		return false;
	add(hotlist.pool->evicted_rings, 1);
	return true;
}

} // namespace

void
ring_forget(const Hotlist &hotlist, const QueuePlace &place, RingRef ring) noexcept
{
	Ring &gone = ring_at(hotlist, ring.index);

	unlink(hotlist, &queue_head(hotlist, place), ring.index + 1, &Ring::queue_link);
	unlink(hotlist, &ring_head(hotlist, place, gone.key.group_id), ring.index + 1, &Ring::ring_link);
	gone.id.store(0, memory_order_release);
	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);
		Lane &lane = lane_at(hotlist, ring.index, s);

		lock_shard(hotlist, area);
		lane.ring_id = 0;
		lane.head = lane.tail = 0;
		/* nobody finds these slots any more; whoever needs one takes it back */
		bump(area.shard->garbage, lane.ready.load(memory_order_relaxed) + lane.parked.load(memory_order_relaxed) +
									  lane.checked_out.load(memory_order_relaxed));
		for (Count *count : {&lane.ready, &lane.parked, &lane.checked_out})
			count->store(0, memory_order_relaxed);
		unlock_shard(hotlist, area);
	}
	hotlist.pool->rings_used.fetch_sub(1, memory_order_relaxed);
	place_put(hotlist, ring.index);
}

Registered
ring_register(const Hotlist &hotlist, const RingKey &key, Micros now, RingRef *ring) noexcept
{
	const QueuePlace place = queue_place(key.queue);
	constexpr int tries = 4;

	for (int i = 0; i < tries; i++)
	{
		std::uint32_t index = 0;
		bool found = false;
		bool made = false;

		hotlist.locks->exclusive(directory_lock(hotlist, place.directory));
		found = ring_look_up(hotlist, place, key, ring);
		made = !found && place_get(hotlist, &index);
		if (made)
		{
			const std::uint64_t number = hotlist.pool->last_ring.fetch_add(1, memory_order_relaxed) + 1;
			Ring &added = ring_at(hotlist, index);

			*ring = {index, number << ring_index_bits | index};
			begin_ring(hotlist, index, key, now);
			added.queue_link = queue_head(hotlist, place);
			queue_head(hotlist, place) = index + 1;
			added.ring_link = ring_head(hotlist, place, key.group_id);
			ring_head(hotlist, place, key.group_id) = index + 1;
			added.id.store(ring->id, memory_order_release);
			open_lanes(hotlist, index, ring->id);
			hotlist.pool->rings_used.fetch_add(1, memory_order_relaxed);
		}
		hotlist.locks->release(directory_lock(hotlist, place.directory));
		if (found || made)
			return found ? Registered::found : Registered::created;
		if (!evict(hotlist))
			break;
	}
	add(hotlist.pool->refused_rings, 1);
	return Registered::full;
}

bool
ring_find(const Hotlist &hotlist, const RingKey &key, RingRef *ring) noexcept
{
	const QueuePlace place = queue_place(key.queue);
	bool found = false;

	hotlist.locks->shared(directory_lock(hotlist, place.directory));
	found = ring_look_up(hotlist, place, key, ring);
	hotlist.locks->release(directory_lock(hotlist, place.directory));
	return found;
}

bool
ring_is(const Hotlist &hotlist, RingRef ring) noexcept
{
	return ring_of(hotlist, ring) != nullptr;
}

void
ring_defer(const Hotlist &hotlist, RingRef reference, const Deferral &deferral) noexcept
{
	Ring *ring = ring_of(hotlist, reference);

	if (ring == nullptr)
		return;

	const Micros delay = ring->delay.load(memory_order_relaxed);
	const Micros window = ring->window.load(memory_order_relaxed);
	if ((delay == deferral.delay && window == deferral.window) || ring_pin(hotlist, reference) == nullptr)
		return;
	ring->delay.store(deferral.delay, memory_order_relaxed);
	ring->window.store(deferral.window, memory_order_relaxed);
	if (deferral.delay < delay || deferral.window < window)
		ring->owed.fetch_add(1, memory_order_release);
	ring_unpin(hotlist);
}

void
forget_ring(const Hotlist &hotlist, const RingKey &key) noexcept
{
	const QueuePlace place = queue_place(key.queue);
	RingRef ring;

	hotlist.locks->exclusive(directory_lock(hotlist, place.directory));
	if (ring_look_up(hotlist, place, key, &ring))
		ring_forget(hotlist, place, ring);
	hotlist.locks->release(directory_lock(hotlist, place.directory));
}

void
forget_queue(const Hotlist &hotlist, const QueueKey &key) noexcept
{
	const QueuePlace place = queue_place(key);

	hotlist.locks->exclusive(directory_lock(hotlist, place.directory));
	for (std::uint32_t link = queue_head(hotlist, place); link != 0;)
	{
		const Ring &ring = ring_at(hotlist, link - 1);
		const std::uint32_t next = ring.queue_link;

		if (ring.key.queue == key)
			ring_forget(hotlist, place, {link - 1, ring.id.load(memory_order_relaxed)});
		link = next;
	}
	hotlist.locks->release(directory_lock(hotlist, place.directory));
}

std::uint32_t
forget_tables(const Hotlist &hotlist, std::uint32_t database, std::uint32_t tables) noexcept
{
	const std::uint32_t places = hotlist.pool->rings_high.load(memory_order_acquire);
	std::uint32_t count = 0;

	for (std::uint32_t i = 0; i < places; i++)
	{
		RingKey key{};
		RingRef ring;

		if (ring_key(hotlist, i, &key, &ring) && is_of(key, database, tables) && forget(hotlist, key, ring))
			count++;
	}
	return count;
}

std::uint32_t
sweep(const Hotlist &hotlist, Micros now) noexcept
{
	const Micros last = hotlist.pool->last_sweep.exchange(now, memory_order_acq_rel);
	const std::uint32_t places = hotlist.pool->rings_high.load(memory_order_acquire);
	std::uint32_t count = 0;

	for (std::uint32_t i = 0; i < places; i++)
	{
		RingKey key{};
		RingRef ring;

		if (!ring_key(hotlist, i, &key, &ring))
			continue;
		/* whatever it holds: a ring that nobody serves from costs every mark, and its next pop walks */
		if (ring_at(hotlist, i).asked.exchange(0, memory_order_relaxed) == 0 &&
			ring_at(hotlist, i).last_served.load(memory_order_relaxed) < last &&
			ring_total(hotlist, i, &Lane::checked_out) == 0 && forget(hotlist, key, ring))
			count++;
	}
	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);
		bool more = area.shard->garbage.load(memory_order_relaxed) > 0;

		/* once around */
		for (std::uint32_t looked = 0; more && looked < area.slot_count; looked += steps_to_reclaim)
		{
			int steps = 0;

			lock_shard(hotlist, area);
			more = slots_reclaim(hotlist, area, &steps);
			unlock_shard(hotlist, area);
		}
	}
	return count;
}

} // namespace queen::core::hotlist
