/*
 * slots.cpp: candidates of a shard: their hash, those that are free, and their states. All under the shard's lock.
 */
#include "core/hotlist/slots.h"

#include <bit>

namespace queen::core::hotlist
{

namespace
{

/* Does it belong to a ring that is gone? */
bool
is_garbage(const Hotlist &hotlist, const Area &area, const Slot &slot) noexcept
{
	return slot.state != State::free && lane_at(hotlist, ring_index(slot.ring_id), area.number).ring_id != slot.ring_id;
}

/* Take back a slot of a forgotten ring; the lists of that ring are gone already. */
void
free_garbage(const Area &area, std::uint32_t slot) noexcept
{
	if (area.slots[slot].state == State::parked)
		wheel_remove(area, slot);
	slot_free(area, slot);
	bump(area.shard->garbage, static_cast<std::uint32_t>(-1));
}

/* A slot that may be used: one that is free, or was never used, or is garbage. */
std::uint32_t
slot_get(const Hotlist &hotlist, const Area &area, int *steps) noexcept
{
	Shard &shard = *area.shard;

	if (shard.free_slots == 0 && shard.high == area.slot_count)
		(void) slots_reclaim(hotlist, area, steps);
	if (shard.free_slots != 0)
	{
		const std::uint32_t slot = shard.free_slots;

		shard.free_slots = area.slots[slot].next;
		return slot;
	}
	return shard.high < area.slot_count ? shard.high++ : 0;
}

bool
is_slot_of(const Area &area, std::uint32_t slot, const SlotKey &key) noexcept
{
	return area.slots[slot].ring_id == key.ring_id && area.slots[slot].partition_id == key.partition_id;
}

void
hash_add(const Area &area, const SlotKey &key, std::uint32_t slot) noexcept
{
	Bucket &bucket = area.buckets[key.bucket];
	const std::uint32_t room = links_with(bucket, 0);
	std::uint32_t &link = bucket.links[room != 0 ? static_cast<std::uint32_t>(std::countr_zero(room)) : Bucket::size];

	area.links[slot].chain = link;
	link = key.tag | slot;
}

void
hash_remove(const Area &area, const SlotKey &key, std::uint32_t slot) noexcept
{
	Bucket &bucket = area.buckets[key.bucket];
	std::uint32_t *link = bucket.links;

	/* once past the bucket's own, along the chain */
	while (link < bucket.links + Bucket::size && (*link & slot_bits) != slot)
		link++;
	while ((*link & slot_bits) != slot)
		link = &area.links[*link & slot_bits].chain;
	*link = area.links[slot].chain;
}

} // namespace

std::uint32_t
slot_find(const Area &area, const SlotKey &key) noexcept
{
	const Bucket &bucket = area.buckets[key.bucket];

	for (std::uint32_t left = links_with(bucket, key.tag); left != 0; left &= left - 1)
	{
		const std::uint32_t slot = bucket.links[std::countr_zero(left)] & slot_bits;

		if (is_slot_of(area, slot, key))
			return slot;
	}
	for (std::uint32_t link = bucket.links[Bucket::size]; link != 0; link = area.links[link & slot_bits].chain)
		if ((link & ~slot_bits) == key.tag && is_slot_of(area, link & slot_bits, key))
			return link & slot_bits;
	return 0;
}

std::uint32_t
slot_make(const Hotlist &hotlist, const Area &area, Lane &lane, const SlotKey &key, int *steps) noexcept
{
	const std::uint32_t index = slot_get(hotlist, area, steps);

	if (index == 0)
	{
		/* Release: whoever sees that the ring lacks something sees what came before. */
		ring_at(hotlist, ring_index(key.ring_id)).dropped.fetch_add(1, memory_order_release);
		add(hotlist.pool->refused_slots, 1);
		return 0;
	}

	Slot &slot = area.slots[index];
	slot.ring_id = key.ring_id;
	slot.partition_id = key.partition_id;
	slot.epoch = ++lane.last_epoch;
	slot.messages = 0;
	slot.drained = false;
	slot.under_lease = false;
	slot.behind_push = false;
	slot.again = false;
	hash_add(area, key, index);
	bump(area.shard->used, 1U);
	return index;
}

void
slot_free(const Area &area, std::uint32_t slot) noexcept
{
	Slot &freed = area.slots[slot];
	const SlotKey key = slot_key(area, freed.ring_id, freed.partition_id, partition_hash(freed.partition_id));

	hash_remove(area, key, slot);

	freed.ring_id = 0;
	freed.state = State::free;
	freed.next = area.shard->free_slots;
	area.shard->free_slots = slot;
	bump(area.shard->used, static_cast<std::uint32_t>(-1));
}

bool
slots_reclaim(const Hotlist &hotlist, const Area &area, int *steps) noexcept
{
	Shard &shard = *area.shard;

	for (int looked = 0; looked < steps_to_reclaim && shard.garbage.load(memory_order_relaxed) > 0;
		 looked++, (*steps)++)
	{
		if (shard.hand >= shard.high)
			shard.hand = 1;
		if (is_garbage(hotlist, area, area.slots[shard.hand]))
			free_garbage(area, shard.hand);
		shard.hand++;
	}
	return shard.garbage.load(memory_order_relaxed) > 0;
}

void
to_ready(const Area &area, Lane &lane, std::uint32_t slot, Micros since) noexcept
{
	Slot &added = area.slots[slot];

	added.state = State::ready;
	added.ready_since = since;
	added.next = 0;
	if (lane.head == 0)
		lane.head = slot;
	else
		area.slots[lane.tail].next = slot;
	lane.tail = slot;
	bump(lane.ready, 1U);
}

void
to_ready_in_front(const Area &area, Lane &lane, std::uint32_t slot, Micros since) noexcept
{
	Slot &added = area.slots[slot];
	std::uint32_t before = 0;
	std::uint32_t after = lane.head;

	/* Those that were taken with it, were ready before and came back first; so a few. */
	for (int i = 1; i < steps_per_hold && after != 0 && area.slots[after].ready_since < since; i++)
	{
		before = after;
		after = area.slots[after].next;
	}
	added.state = State::ready;
	added.ready_since = since;
	added.next = after;
	if (before == 0)
		lane.head = slot;
	else
		area.slots[before].next = slot;
	if (after == 0)
		lane.tail = slot;
	bump(lane.ready, 1U);
}

std::uint32_t
from_ready(const Area &area, Lane &lane) noexcept
{
	const std::uint32_t slot = lane.head;

	lane.head = area.slots[slot].next;
	if (lane.head == 0)
		lane.tail = 0;
	bump(lane.ready, static_cast<std::uint32_t>(-1));
	return slot;
}

void
to_parked(const Area &area, Lane &lane, std::uint32_t slot, Micros deadline) noexcept
{
	area.slots[slot].state = State::parked;
	area.slots[slot].under_lease = false;
	area.slots[slot].behind_push = false;
	bump(lane.parked, 1U);
	wheel_put(area, slot, deadline);
}

void
from_parked(const Area &area, Lane &lane, std::uint32_t slot) noexcept
{
	bump(lane.parked, static_cast<std::uint32_t>(-1));
	wheel_remove(area, slot);
}

void
from_checked_out(Lane &lane) noexcept
{
	bump(lane.checked_out, static_cast<std::uint32_t>(-1));
}

} // namespace queen::core::hotlist
