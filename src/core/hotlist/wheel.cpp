/*
 * wheel.cpp: what is parked, by its deadline: a heap of four children a node, whose keys lie beside each other in a line of the
 * cache. A slot knows its node, so it leaves when it likes and no node outlives its slot. And what the drain tells.
 */
#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

constexpr std::uint32_t
parent_of(std::uint32_t node) noexcept
{
	return (node + 2) / 4;
}

constexpr std::uint32_t
first_child_of(std::uint32_t node) noexcept
{
	return 4 * node - 2;
}

void
set(const Area &area, std::uint32_t node, const HeapNode &value) noexcept
{
	area.heap[node] = value;
	area.links[value.slot].node = node;
}

/* Put a value where there is a hole at a node, or above. */
void
sift_up(const Area &area, std::uint32_t node, const HeapNode &value) noexcept
{
	while (node > 1 && area.heap[parent_of(node)].deadline > value.deadline)
	{
		set(area, node, area.heap[parent_of(node)]);
		node = parent_of(node);
	}
	set(area, node, value);
}

/* Which of two nodes is due first. */
inline std::uint32_t
sooner(const Area &area, std::uint32_t a, std::uint32_t b) noexcept
{
	return a + (b - a) * static_cast<std::uint32_t>(area.heap[b].deadline < area.heap[a].deadline);
}

/* The child that is due first of a node that has some. */
inline std::uint32_t
soonest_child(const Area &area, std::uint32_t first, std::uint32_t size) noexcept
{
	std::uint32_t least = first;

	/* most nodes have four, and which is least cannot be guessed: no branch */
	if (first + 3 <= size)
		return sooner(area, sooner(area, first, first + 1), sooner(area, first + 2, first + 3));
	for (std::uint32_t child = first + 1; child <= size; child++)
		least = sooner(area, least, child);
	return least;
}

/* Or below. */
void
sift_down(const Area &area, std::uint32_t node, const HeapNode &value) noexcept
{
	const std::uint32_t size = area.shard->heap_size;

	for (std::uint32_t first = first_child_of(node); first <= size; first = first_child_of(node))
	{
		/* whichever child it is, its own are needed next; behind the end are the slots, so that does no harm */
		for (std::uint32_t child = first; child < first + 4; child++)
			__builtin_prefetch(area.heap + first_child_of(child), 1);

		const std::uint32_t least = soonest_child(area, first, size);
		if (area.heap[least].deadline >= value.deadline)
			break;
		set(area, node, area.heap[least]);
		node = least;
	}
	set(area, node, value);
}

/* The top may be another: tell those who look without the lock. */
void
tell_earliest(const Area &area) noexcept
{
	const Micros top = area.shard->heap_size == 0 ? never : area.heap[1].deadline;

	if (area.shard->earliest.load(memory_order_relaxed) != top)
		area.shard->earliest.store(top, memory_order_release);
}

} // namespace

void
wheel_put(const Area &area, std::uint32_t slot, Micros deadline) noexcept
{
	sift_up(area, ++area.shard->heap_size, {deadline, slot, 0});
	tell_earliest(area);
}

void
wheel_remove(const Area &area, std::uint32_t slot) noexcept
{
	const std::uint32_t node = area.links[slot].node;
	const HeapNode last = area.heap[area.shard->heap_size--];

	if (last.slot != slot)
	{
		if (node > 1 && area.heap[parent_of(node)].deadline > last.deadline)
			sift_up(area, node, last);
		else
			sift_down(area, node, last);
	}
	area.links[slot].node = 0;
	tell_earliest(area);
}

std::uint32_t
drain_shard(const Hotlist &hotlist, const Area &area, std::uint32_t most, Micros now, News *news) noexcept
{
	std::uint32_t steps = 0;

	news_make_room(hotlist, news);
	lock_shard(hotlist, area);
	while (steps < most && steps < steps_per_hold && area.shard->heap_size > 0 && area.heap[1].deadline <= now)
	{
		const std::uint32_t slot = area.heap[1].slot;
		const std::uint64_t ring_id = area.slots[slot].ring_id;
		Lane &lane = lane_at(hotlist, ring_index(ring_id), area.number);

		/* one of the top's children is next */
		for (std::uint32_t child = 2; child <= 5 && child <= area.shard->heap_size; child++)
			prefetch_slot(area, area.heap[child].slot);
		steps++;
		if (lane.ring_id != ring_id)
		{
			wheel_remove(area, slot);
			slot_free(area, slot);
			bump(area.shard->garbage, static_cast<std::uint32_t>(-1));
			continue;
		}
		from_parked(area, lane, slot);
		to_ready(area, lane, slot, now);
		news_add(news, ring_index(ring_id));
	}
	unlock_shard(hotlist, area);
	return steps;
}

Micros
next_deadline(const Hotlist &hotlist) noexcept
{
	Micros next = never;

	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Micros earliest = area_of(hotlist, s).shard->earliest.load(memory_order_acquire);

		next = earliest < next ? earliest : next;
	}
	return next;
}

Micros
drain(const Hotlist &hotlist, std::uint32_t most, Micros now, const Listener &listener) noexcept
{
	News news(listener);

	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);

		for (std::uint32_t done = 0; done < most && area.shard->earliest.load(memory_order_acquire) <= now;)
		{
			const std::uint32_t steps = drain_shard(hotlist, area, most - done, now, &news);

			if (steps == 0)
				break;
			done += steps;
		}
	}
	news_tell(hotlist, &news);
	return next_deadline(hotlist);
}

/* ---- news ---- */

void
news_add(News *news, std::uint32_t ring_index) noexcept
{
	/* The last one first: most often it is the same ring again. */
	for (std::uint32_t i = news->count; i > 0; i--)
		if (news->ring[i - 1] == ring_index)
		{
			news->ready[i - 1]++;
			return;
		}
	news->ring[news->count] = ring_index;
	news->ready[news->count] = 1;
	news->count++;
}

void
news_tell(const Hotlist &hotlist, News *news) noexcept
{
	for (std::uint32_t i = 0; i < news->count && news->listener.became_ready != nullptr; i++)
	{
		/* The partner of ready_count's: of the two, the later one sees what the earlier wrote before it. */
		ring_at(hotlist, news->ring[i]).gate.fetch_add(1, memory_order_acq_rel);
		news->listener.became_ready(news->listener.arg, news->ring[i], news->ready[i]);
	}
	news->count = 0;
}

void
news_make_room(const Hotlist &hotlist, News *news) noexcept
{
	if (news->count > News::room - steps_per_hold)
		news_tell(hotlist, news);
}

} // namespace queen::core::hotlist
