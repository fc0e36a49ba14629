/*
 * marks.cpp: a push has committed, work is pending again, a lease was acknowledged, work may be pending that nobody can name. Called at the
 * end of transactions: nothing waits but for locks of bounded holds.
 */
#include "core/hotlist/directory.h"
#include "core/hotlist/slots.h"

namespace queen::core::hotlist
{

namespace
{

struct Deferring
{
	Micros delay;
	Micros window;
};

Deferring
deferring(const Ring &ring) noexcept
{
	return {ring.delay.load(memory_order_relaxed), ring.window.load(memory_order_relaxed)};
}

std::uint32_t
saturating(std::uint32_t a, std::uint32_t b) noexcept
{
	std::uint32_t sum = 0;

	return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

void
wake(const Area &area, Lane &lane, std::uint32_t slot, Micros now, News *news) noexcept
{
	from_parked(area, lane, slot);
	to_ready(area, lane, slot, now);
	news_add(news, ring_index(lane.ring_id));
}

/* Does a mark end what a parked candidate waits for? */
bool
ends_wait(const Hotlist &hotlist, const Area &area, std::uint32_t slot, const Deferring &defer, Micros now) noexcept
{
	const Slot &parked = area.slots[slot];

	if (parked.behind_push)
		return true;
	if (defer.delay != 0)
		return false;
	if (defer.window != 0)
		return parked.messages >= hotlist.pool->window_batch && !parked.under_lease;
	return deadline_of(area, slot) <= later(now, pad);
}

/* One mark of one ring, under the shard's lock. */
void
mark_slot(const Hotlist &hotlist, const Area &area, Ring &ring, std::uint64_t ring_id, const Mark &mark,
		  std::uint64_t hash, Micros now, News *news, int *steps) noexcept
{
	Lane &lane = lane_at(hotlist, ring_index(ring_id), area.number);
	const SlotKey key = slot_key(area, ring_id, mark.partition_id, hash);
	const std::uint32_t messages = mark.messages != 0 ? mark.messages : 1;
	std::uint32_t index = slot_find(area, key);

	bump(lane.marks, std::uint64_t{1});
	if (index != 0)
	{
		Slot &slot = area.slots[index];

		slot.epoch = ++lane.last_epoch;
		slot.messages = saturating(slot.messages, messages);
		if (slot.state == State::parked && ends_wait(hotlist, area, index, deferring(ring), now))
			wake(area, lane, index, now, news);
		return;
	}

	index = slot_make(hotlist, area, lane, key, steps);
	if (index == 0)
		return;

	const Deferring defer = deferring(ring);
	area.slots[index].messages = messages;
	if (defer.delay != 0)
		to_parked(area, lane, index, later(now, defer.delay));
	else if (defer.window != 0 && messages < hotlist.pool->window_batch)
		to_parked(area, lane, index, later(now, defer.window));
	else
	{
		to_ready(area, lane, index, now);
		news_add(news, ring_index(ring_id));
	}
}

/* Marks that are applied together, in the order of their shards. */
struct Chunk
{
	std::span<const Mark> marks; /* steps_per_hold at most */
	std::uint64_t hash[steps_per_hold];
	std::uint8_t order[steps_per_hold];
	std::uint8_t shard[steps_per_hold]; /* of the mark that is at this place in the order */
};

void
sort_by_shard(const Hotlist &hotlist, Chunk *chunk) noexcept
{
	if (chunk->marks.size() == 1)
	{
		chunk->hash[0] = partition_hash(chunk->marks[0].partition_id);
		chunk->order[0] = 0;
		chunk->shard[0] = static_cast<std::uint8_t>(shard_of(hotlist, chunk->hash[0]));
		return;
	}

	std::uint8_t start[max_shards + 1] = {};
	std::uint8_t shard[steps_per_hold] = {};

	for (std::size_t i = 0; i < chunk->marks.size(); i++)
	{
		chunk->hash[i] = partition_hash(chunk->marks[i].partition_id);
		shard[i] = static_cast<std::uint8_t>(shard_of(hotlist, chunk->hash[i]));
		start[shard[i] + 1]++;
	}
	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
		start[s + 1] = static_cast<std::uint8_t>(start[s + 1] + start[s]);
	for (std::size_t i = 0; i < chunk->marks.size(); i++)
	{
		const std::uint8_t to = start[shard[i]]++;

		chunk->order[to] = static_cast<std::uint8_t>(i);
		chunk->shard[to] = shard[i];
	}
}

/* Another hold, when this one has no room for a mark that must look for a slot to take back. */
void
next_hold(const Hotlist &hotlist, const Area &area, int *steps, News *news) noexcept
{
	if (*steps + 1 + steps_to_reclaim <= steps_per_hold)
		return;
	unlock_shard(hotlist, area);
	news_make_room(hotlist, news);
	lock_shard(hotlist, area);
	*steps = 0;
}

/* Apply the marks from..to of the order, all of one shard, to every ring of the queue. Returns how many rings. */
std::uint32_t
mark_shard(const Hotlist &hotlist, const QueueKey &queue, std::uint32_t first_link, const Chunk &chunk,
		   std::size_t from, std::size_t to, Micros now, News *news) noexcept
{
	const Area area = area_of(hotlist, chunk.shard[from]);
	std::uint32_t rings = 0;
	int steps = 0;

	news_make_room(hotlist, news);
	lock_shard(hotlist, area);
	for (std::uint32_t link = first_link; link != 0; link = ring_at(hotlist, link - 1).queue_link)
	{
		Ring &ring = ring_at(hotlist, link - 1);

		/* another queue's: its chain may be long */
		next_hold(hotlist, area, &steps, news);
		steps++;
		if (!(ring.key.queue == queue))
			continue;
		rings++;
		for (std::size_t i = from; i < to; i++)
		{
			const std::uint8_t which = chunk.order[i];

			next_hold(hotlist, area, &steps, news);
			steps++;
			mark_slot(hotlist, area, ring, ring.id.load(memory_order_relaxed), chunk.marks[which], chunk.hash[which],
					  now, news, &steps);
		}
	}
	unlock_shard(hotlist, area);
	return rings;
}

/* The first ring of the queue in its chain. */
std::uint32_t
first_ring(const Hotlist &hotlist, const QueueKey &queue, std::uint32_t link) noexcept
{
	while (link != 0 && !(ring_at(hotlist, link - 1).key.queue == queue))
		link = ring_at(hotlist, link - 1).queue_link;
	return link;
}

/* Have the lines on their way while locks are taken. */
void
prefetch_chunk(const Hotlist &hotlist, std::uint32_t link, const Chunk &chunk) noexcept
{
	const std::uint64_t ring_id = ring_at(hotlist, link - 1).id.load(memory_order_relaxed);

	for (std::size_t i = 0; i < chunk.marks.size(); i++)
	{
		const std::uint8_t which = chunk.order[i];
		const Area area = area_of(hotlist, chunk.shard[i]);

		prefetch_bucket(area, slot_key(area, ring_id, chunk.marks[which].partition_id, chunk.hash[which]));
	}
}

/* The directory's lock is held for the marks of one chunk, and as many steps for each ring. */
std::uint32_t
mark_chunk(const Hotlist &hotlist, const QueueKey &queue, std::span<const Mark> marks, Micros now, News *news) noexcept
{
	const QueuePlace place = queue_place(queue);
	std::uint32_t rings = 0;
	Chunk chunk;

	chunk.marks = marks;
	sort_by_shard(hotlist, &chunk);
	hotlist.locks->shared(directory_lock(hotlist, place.directory));
	const std::uint32_t link = first_ring(hotlist, queue, queue_head(hotlist, place));
	if (link != 0)
	{
		prefetch_chunk(hotlist, link, chunk);
		for (std::size_t from = 0, to = 0; from < marks.size(); from = to)
		{
			while (to < marks.size() && chunk.shard[to] == chunk.shard[from])
				to++;
			rings = mark_shard(hotlist, queue, link, chunk, from, to, now, news);
		}
	}
	hotlist.locks->release(directory_lock(hotlist, place.directory));
	return rings;
}

std::uint32_t
count_rings(const Hotlist &hotlist, const QueueKey &queue) noexcept
{
	const QueuePlace place = queue_place(queue);
	std::uint32_t rings = 0;

	hotlist.locks->shared(directory_lock(hotlist, place.directory));
	for (std::uint32_t link = queue_head(hotlist, place); link != 0; link = ring_at(hotlist, link - 1).queue_link)
		if (ring_at(hotlist, link - 1).key.queue == queue)
			rings++;
	hotlist.locks->release(directory_lock(hotlist, place.directory));
	return rings;
}

} // namespace

std::uint32_t
mark(const Hotlist &hotlist, const QueueKey &queue, std::span<const Mark> marks, Micros now,
	 const Listener &listener) noexcept
{
	News news(listener);
	std::uint32_t rings = 0;

	if (marks.empty())
		return count_rings(hotlist, queue);
	while (!marks.empty())
	{
		const std::size_t some = marks.size() < steps_per_hold ? marks.size() : std::size_t{steps_per_hold};

		rings = mark_chunk(hotlist, queue, marks.first(some), now, &news);
		marks = marks.subspan(some);
	}
	news_tell(hotlist, &news);
	return rings;
}

namespace
{

/* A partition of one ring, under its shard's lock as long as it is open. */
struct OneSlot
{
	Area area;
	Lane *lane;
	SlotKey key;
	std::uint32_t index; /* of the slot, 0: none */
};

/* False, and not locked, when there is no such ring. */
bool
open_slot(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, OneSlot *one) noexcept
{
	const std::uint64_t hash = partition_hash(partition_id);
	RingRef ring;

	if (!ring_find(hotlist, key, &ring))
		return false;
	one->area = area_of(hotlist, shard_of(hotlist, hash));
	one->lane = &lane_at(hotlist, ring.index, one->area.number);
	one->key = slot_key(one->area, ring.id, partition_id, hash);
	prefetch_bucket(one->area, one->key);
	lock_shard(hotlist, one->area);
	if (one->lane->ring_id != ring.id)
	{
		unlock_shard(hotlist, one->area);
		return false;
	}
	one->index = slot_find(one->area, one->key);
	return true;
}

void
close_slot(const Hotlist &hotlist, const OneSlot &one, News *news) noexcept
{
	unlock_shard(hotlist, one.area);
	news_tell(hotlist, news);
}

/* Whoever meets it from now on looks again: what is parked is ready, what is checked out comes back ready. */
void
look_again(const OneSlot &one, Micros now, News *news) noexcept
{
	Slot &slot = one.area.slots[one.index];

	if (slot.state == State::checked_out)
	{
		slot.epoch = ++one.lane->last_epoch;
		slot.again = true;
	}
	else if (slot.state == State::parked)
		wake(one.area, *one.lane, one.index, now, news);
}

} // namespace

bool
mark_ring(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, Micros now,
		  const Listener &listener) noexcept
{
	News news(listener);
	OneSlot one{};
	int steps = 0;

	if (!open_slot(hotlist, key, partition_id, &one))
		return false;
	bump(one.lane->marks, std::uint64_t{1});
	if (one.index != 0)
		look_again(one, now, &news);
	else if ((one.index = slot_make(hotlist, one.area, *one.lane, one.key, &steps)) != 0)
	{
		to_ready(one.area, *one.lane, one.index, now);
		news_add(&news, ring_index(one.key.ring_id));
	}
	close_slot(hotlist, one, &news);
	return true;
}

void
unpark(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, Micros now,
	   const Listener &listener) noexcept
{
	News news(listener);
	OneSlot one{};

	if (!open_slot(hotlist, key, partition_id, &one))
		return;
	if (one.index != 0)
		look_again(one, now, &news);
	close_slot(hotlist, one, &news);
}

void
promote(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, std::uint64_t lease_number, Micros now,
		const Listener &listener) noexcept
{
	News news(listener);
	OneSlot one{};

	if (!open_slot(hotlist, key, partition_id, &one))
		return;
	if (one.index != 0)
	{
		const Slot &slot = one.area.slots[one.index];

		if (slot.state == State::parked && slot.under_lease && slot.token == lease_number && slot.drained &&
			slot.messages == 0)
		{
			from_parked(one.area, *one.lane, one.index);
			slot_free(one.area, one.index);
			bump(one.lane->clears, std::uint64_t{1});
		}
		else
			look_again(one, now, &news);
	}
	close_slot(hotlist, one, &news);
}

/* ---- debts ---- */

namespace
{

/* One who waits is told, so that somebody walks; what the walk finds is told at its end. */
void
owe(const Hotlist &hotlist, std::uint32_t index, News *news) noexcept
{
	ring_at(hotlist, index).owed.fetch_add(1, memory_order_release);
	news_add(news, index);
}

} // namespace

void
owe_ring(const Hotlist &hotlist, const RingKey &key, const Listener &listener) noexcept
{
	News news(listener);
	RingRef ring;

	if (ring_find(hotlist, key, &ring))
	{
		owe(hotlist, ring.index, &news);
		news_tell(hotlist, &news);
	}
}

void
owe_queue(const Hotlist &hotlist, const QueueKey &key, const Listener &listener) noexcept
{
	const QueuePlace place = queue_place(key);
	News news(listener);

	hotlist.locks->shared(directory_lock(hotlist, place.directory));
	for (std::uint32_t link = queue_head(hotlist, place); link != 0; link = ring_at(hotlist, link - 1).queue_link)
	{
		if (!(ring_at(hotlist, link - 1).key.queue == key))
			continue;
		news_make_room(hotlist, &news);
		owe(hotlist, link - 1, &news);
	}
	hotlist.locks->release(directory_lock(hotlist, place.directory));
	news_tell(hotlist, &news);
}

void
owe_tables(const Hotlist &hotlist, std::uint32_t database, std::uint32_t tables, const Listener &listener) noexcept
{
	const std::uint32_t places = hotlist.pool->rings_high.load(memory_order_acquire);
	News news(listener);

	for (std::uint32_t i = 0; i < places; i++)
	{
		RingKey key{};
		RingRef ring;

		if (!ring_key(hotlist, i, &key, &ring) || !is_of(key, database, tables))
			continue;
		news_make_room(hotlist, &news);
		owe(hotlist, i, &news);
	}
	news_tell(hotlist, &news);
}

} // namespace queen::core::hotlist
