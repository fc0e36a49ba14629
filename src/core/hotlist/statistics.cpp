/*
 * statistics.cpp: what rings and pool hold and have done, and whether it all holds together.
 */
#include "core/hotlist/directory.h"
#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

std::uint64_t
sum(const Hotlist &hotlist, std::uint32_t index, Counter Lane::*counter) noexcept
{
	std::uint64_t total = 0;

	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
		total += (lane_at(hotlist, index, s).*counter).load(memory_order_relaxed);
	return total;
}

/* Since when the ring's longest waiting candidate is ready. The first of each list is its longest but for those that came back in front, which are longer. */
Micros
oldest_ready(const Hotlist &hotlist, RingRef ring) noexcept
{
	Micros oldest = 0;

	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);
		const Lane &lane = lane_at(hotlist, ring.index, s);

		if (lane.ready.load(memory_order_relaxed) == 0)
			continue;
		lock_shard_shared(hotlist, area);
		if (lane.ring_id == ring.id && lane.head != 0 && (oldest == 0 || area.slots[lane.head].ready_since < oldest))
			oldest = area.slots[lane.head].ready_since;
		unlock_shard(hotlist, area);
	}
	return oldest;
}

} // namespace

std::uint32_t
ring_places(const Hotlist &hotlist) noexcept
{
	return hotlist.pool->rings_high.load(memory_order_acquire);
}

bool
ring_statistics(const Hotlist &hotlist, std::uint32_t index, RingStatistics *statistics) noexcept
{
	const std::uint64_t before =
		index < hotlist.pool->rings ? ring_at(hotlist, index).dropped_before.load(memory_order_relaxed) : 0;

	*statistics = {};
	if (!ring_key(hotlist, index, &statistics->key, &statistics->ring))
		return false;

	const Ring &ring = ring_at(hotlist, index);
	statistics->ready = ring_total(hotlist, index, &Lane::ready);
	statistics->parked = ring_total(hotlist, index, &Lane::parked);
	statistics->checked_out = ring_total(hotlist, index, &Lane::checked_out);
	statistics->oldest_ready = oldest_ready(hotlist, statistics->ring);
	statistics->marks = sum(hotlist, index, &Lane::marks);
	statistics->takes = sum(hotlist, index, &Lane::takes);
	statistics->clears = sum(hotlist, index, &Lane::clears);
	statistics->requeues = ring.requeues.load(memory_order_relaxed);
	statistics->conflicts = ring.conflicts.load(memory_order_relaxed);
	statistics->dropped = ring.dropped.load(memory_order_relaxed) - before;
	for (int i = 0; i < verdict_count; i++)
		statistics->verdicts[i] = ring.verdicts[i].load(memory_order_relaxed);
	statistics->reseeds = ring.reseeds.load(memory_order_relaxed);
	statistics->reseed_rows = ring.reseed_rows.load(memory_order_relaxed);
	statistics->reseed_repairs = ring.reseed_repairs.load(memory_order_relaxed);
	statistics->last_reseed = ring.last_reseed.load(memory_order_relaxed);
	statistics->last_reseed_took = ring.last_reseed_took.load(memory_order_relaxed);
	statistics->last_served = ring.last_served.load(memory_order_relaxed);
	statistics->owes = owes(hotlist, statistics->ring, 0, 0);
	return true;
}

void
pool_statistics(const Hotlist &hotlist, PoolStatistics *statistics) noexcept
{
	const Pool *pool = hotlist.pool;

	*statistics = {};
	statistics->bytes = pool->size;
	statistics->shards = pool->shards;
	statistics->slots = std::uint64_t{pool->slots - 1} * pool->shards;
	for (std::uint32_t s = 0; s < pool->shards; s++)
		statistics->slots_used += area_of(hotlist, s).shard->used.load(memory_order_relaxed);
	statistics->rings = pool->rings;
	statistics->rings_used = pool->rings_used.load(memory_order_relaxed);
	statistics->evicted_rings = pool->evicted_rings.load(memory_order_relaxed);
	statistics->refused_rings = pool->refused_rings.load(memory_order_relaxed);
	statistics->refused_slots = pool->refused_slots.load(memory_order_relaxed);
}

void
reset_statistics(const Hotlist &hotlist, std::uint32_t database) noexcept
{
	const std::uint32_t places = ring_places(hotlist);

	for (std::uint32_t i = 0; i < places; i++)
	{
		RingKey key{};
		RingRef reference;

		if (!ring_key(hotlist, i, &key, &reference) || (database != 0 && key.queue.database != database))
			continue;

		Ring &ring = ring_at(hotlist, i);
		for (Counter *counter :
			 {&ring.reseeds, &ring.reseed_rows, &ring.requeues, &ring.conflicts, &ring.reseed_repairs})
			counter->store(0, memory_order_relaxed);
		for (Counter &counter : ring.verdicts)
			counter.store(0, memory_order_relaxed);
		ring.dropped_before.store(ring.dropped.load(memory_order_relaxed), memory_order_relaxed);
		for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
		{
			const Area area = area_of(hotlist, s);
			Lane &lane = lane_at(hotlist, i, s);

			lock_shard(hotlist, area);
			for (Counter *counter : {&lane.marks, &lane.takes, &lane.clears})
				counter->store(0, memory_order_relaxed);
			unlock_shard(hotlist, area);
		}
	}
	for (Counter *counter : {&hotlist.pool->evicted_rings, &hotlist.pool->refused_rings, &hotlist.pool->refused_slots})
		counter->store(0, memory_order_relaxed);
}

/* ---- for tests ---- */

namespace
{

const char *
check_heap(const Area &area) noexcept
{
	const std::uint32_t size = area.shard->heap_size;
	const Micros top = size > 0 ? area.heap[1].deadline : never;

	if (area.shard->earliest.load(memory_order_relaxed) != top)
		return "a shard's earliest deadline is not the top of its wheel";
	for (std::uint32_t node = 1; node <= size; node++)
	{
		const HeapNode &here = area.heap[node];

		if (node > 1 && area.heap[(node + 2) / 4].deadline > here.deadline)
			return "the wheel is no heap";
		if (area.slots[here.slot].state != State::parked || area.links[here.slot].node != node)
			return "a node of the wheel and its slot do not know each other";
	}
	return nullptr;
}

/* The slots in the hash: all that are not free, each once. */
const char *
check_hash(const Area &area) noexcept
{
	std::uint32_t used = 0;

	for (std::uint32_t i = 0; i < area.bucket_count * (Bucket::size + 1); i++)
		for (std::uint32_t link = area.buckets[i / (Bucket::size + 1)].links[i % (Bucket::size + 1)]; link != 0;)
		{
			const std::uint32_t index = link & slot_bits;
			const Slot &slot = area.slots[index];
			const SlotKey key = slot_key(area, slot.ring_id, slot.partition_id, partition_hash(slot.partition_id));

			if (index >= area.shard->high || slot.state == State::free || ++used > area.slot_count)
				return "a bucket has a slot that is free";
			if (key.bucket != i / (Bucket::size + 1) || key.tag != (link & ~slot_bits) || slot_find(area, key) != index)
				return "a slot is in another's bucket, or a partition has two";
			link = area.links[index].chain;
		}
	if (used != area.shard->used.load(memory_order_relaxed))
		return "a shard's slots in use are not those in its hash";
	return nullptr;
}

const char *
check_free(const Area &area) noexcept
{
	std::uint32_t left = area.shard->high - 1 - area.shard->used.load(memory_order_relaxed);

	for (std::uint32_t index = area.shard->free_slots; index != 0; index = area.slots[index].next, left--)
		if (left == 0 || index >= area.shard->high || area.slots[index].state != State::free)
			return "the list of free slots has one that is not";
	return left == 0 ? nullptr : "a free slot is not in the list";
}

struct Tally
{
	std::uint32_t ready, parked, checked_out;
};

/* Lists of a lane, and what its counts say; adds to the tally. */
const char *
check_lane(const Area &area, const Lane &lane, Tally *tally) noexcept
{
	std::uint32_t ready = 0;
	std::uint32_t last = 0;

	for (std::uint32_t index = lane.head; index != 0; index = area.slots[index].next)
	{
		const Slot &slot = area.slots[index];

		if (slot.state != State::ready || slot.ring_id != lane.ring_id || ++ready > area.slot_count)
			return "a list of ready slots has one that is not";
		last = index;
	}
	if (lane.tail != last || lane.ready.load(memory_order_relaxed) != ready)
		return "a list of ready slots does not end where it says";
	tally->ready += ready;
	tally->parked += lane.parked.load(memory_order_relaxed);
	tally->checked_out += lane.checked_out.load(memory_order_relaxed);
	return nullptr;
}

const char *
check_shard(const Hotlist &hotlist, const Area &area) noexcept
{
	const std::uint32_t places = ring_places(hotlist);
	const char *wrong = check_heap(area);
	std::uint32_t garbage = 0;
	Tally lanes{};
	Tally slots{};

	if (wrong == nullptr)
		wrong = check_hash(area);
	if (wrong == nullptr)
		wrong = check_free(area);
	for (std::uint32_t i = 0; i < places && wrong == nullptr; i++)
		if (lane_at(hotlist, i, area.number).ring_id != 0)
			wrong = check_lane(area, lane_at(hotlist, i, area.number), &lanes);
	for (std::uint32_t index = 1; index < area.shard->high; index++)
	{
		const Slot &slot = area.slots[index];

		if (slot.state == State::free)
			continue;
		if (lane_at(hotlist, ring_index(slot.ring_id), area.number).ring_id != slot.ring_id)
			garbage++;
		else
			(slot.state == State::ready	   ? slots.ready
			 : slot.state == State::parked ? slots.parked
										   : slots.checked_out)++;
	}
	if (wrong == nullptr &&
		(lanes.ready != slots.ready || lanes.parked != slots.parked || lanes.checked_out != slots.checked_out))
		wrong = "the rings' counts are not those of their slots";
	if (wrong == nullptr && garbage != area.shard->garbage.load(memory_order_relaxed))
		wrong = "a shard's count of garbage is wrong";
	return wrong;
}

} // namespace

const char *
inconsistency(const Hotlist &hotlist) noexcept
{
	const char *wrong = nullptr;

	for (std::uint32_t s = 0; s < hotlist.pool->shards && wrong == nullptr; s++)
	{
		const Area area = area_of(hotlist, s);

		lock_shard(hotlist, area);
		wrong = check_shard(hotlist, area);
		unlock_shard(hotlist, area);
	}
	return wrong;
}

} // namespace queen::core::hotlist
