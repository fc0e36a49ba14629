/*
 * feed.h: which partitions have changed: a ring of fixed size that many write and many read, each reader from a position of its own.
 *
 * Positions count all changes since the feed was laid out and never wrap. A change that was not read before as many others came as
 * the feed holds is overwritten; its reader is told, and has to look at everything. Memory is handed in and shared by
 * processes; whoever appends holds a lock exclusively, whoever reads holds it at least shared. Nothing here waits.
 */
#ifndef QUEEN_CORE_FEED_H
#define QUEEN_CORE_FEED_H

#include <atomic>

#include "core/types.h"

namespace queen::core
{

struct Change
{
	/* the databases' oids, an oid of theirs that says which incarnation of the tables */
	std::uint32_t database;
	std::uint32_t tables;
	std::int64_t queue_id;
	std::int64_t partition_id; /* 0: many, or nobody knows which */

	bool operator==(const Change &) const = default;
};

struct Feed
{
	std::atomic<std::uint64_t> end; /* the position behind the newest change */
	std::uint32_t capacity;			/* a power of two */
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/* Bytes of a feed of that many changes, a power of two. */
std::size_t feed_size(std::uint32_t capacity) noexcept;

/* Make a feed in memory of feed_size, aligned to 8. Nobody else may use it yet. */
Feed *feed_lay_out(void *memory, std::uint32_t capacity) noexcept;

/* Where a reader begins that is about to look at everything. Needs no lock: what comes later is behind it. */
inline std::uint64_t
feed_end(const Feed &feed) noexcept
{
	return feed.end.load(std::memory_order_acquire);
}

/* The lock is held for as many steps as there are changes. */
void feed_append(Feed &feed, std::span<const Change> changes) noexcept;

struct FeedRead
{
	std::uint32_t count; /* changes in out */
	bool overrun;		 /* some are lost: the reader is at the end now and has to look at everything */
};

/* A read looks at no more changes than that, whosoever they are: position says how far it came. */
inline constexpr std::uint32_t feed_most_looked_at = 1024;

/* The changes of one database's tables from position on, which moves on behind what was looked at. */
FeedRead feed_read(const Feed &feed, std::uint32_t database, std::uint32_t tables, std::uint64_t &position,
				   std::span<Change> out) noexcept;

} // namespace queen::core

#endif
