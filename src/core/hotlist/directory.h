/*
 * directory.h: what the other files need of the directory. Included by this folder's files only.
 */
#ifndef QUEEN_CORE_HOTLIST_DIRECTORY_H
#define QUEEN_CORE_HOTLIST_DIRECTORY_H

#include "core/hotlist/layout.h"

namespace queen::core::hotlist
{

/* Is the key of that database and of those tables (0: of any)? */
inline bool
is_of(const RingKey &key, std::uint32_t database, std::uint32_t tables) noexcept
{
	return key.queue.database == database && (tables == 0 || key.queue.tables == tables);
}

/* The ring that a reference means; null when it is another by now. Whatever is done with it must bear that it goes meanwhile. */
inline Ring *
ring_of(const Hotlist &hotlist, RingRef ring) noexcept
{
	if (!names_a_place(hotlist, ring))
		return nullptr;

	Ring &there = ring_at(hotlist, ring.index);
	return there.id.load(memory_order_acquire) == ring.id ? &there : nullptr;
}

/*
 * The same, and it stays as long as it is pinned: whoever forgets it waits. What is written to a ring's atomics that another ring at its place
 * must not find is written so. Null, and nothing is pinned, when it is gone. Takes the lock of a shard, shared.
 */
Ring *ring_pin(const Hotlist &hotlist, RingRef ring) noexcept;
void ring_unpin(const Hotlist &hotlist) noexcept;

/* Candidates of a ring in a state, over all shards, without a lock. */
inline std::uint32_t
ring_total(const Hotlist &hotlist, std::uint32_t index, Count Lane::*count) noexcept
{
	std::uint32_t total = 0;

	for (std::uint32_t s = 0; s < hotlist.pool->shards; s++)
		total += (lane_at(hotlist, index, s).*count).load(memory_order_relaxed);
	return total;
}

/* Somebody who has a clock serves the ring. */
inline void
served(Ring &ring, Micros now) noexcept
{
	ring.last_served.store(now, memory_order_relaxed);
}

/* The chain of a ring, under the lock of its queue's directory. */
std::uint32_t &ring_head(const Hotlist &hotlist, const QueuePlace &place, std::int64_t group_id) noexcept;

/* The ring of a key, under the lock of its directory, at least shared. */
bool ring_look_up(const Hotlist &hotlist, const QueuePlace &place, const RingKey &key, RingRef *ring) noexcept;

/* Forget a ring that is there, under its directory's exclusive lock. */
void ring_forget(const Hotlist &hotlist, const QueuePlace &place, RingRef ring) noexcept;

} // namespace queen::core::hotlist

#endif
