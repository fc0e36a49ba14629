/*
 * layout.h: what lies where in the pool, and the ways to it. Included by this folder's files only.
 *
 * Everything is found by index from the pool's first byte. Index 0 of slots and of heap nodes is never used: it says "none". Links to
 * rings are index + 1, because a ring's place is the caller's to number its waiters by.
 *
 * What is not atomic is under a lock: Slot, SlotLinks, HeapNode, the second half of Shard, and a Lane's ends under the
 * shard's; a Ring's key and links under its directory's. A ring's key may also be read under any shard's lock while that
 * shard's lane bears the ring's id: whoever forgets the ring takes the lanes away first.
 */
#ifndef QUEEN_CORE_HOTLIST_LAYOUT_H
#define QUEEN_CORE_HOTLIST_LAYOUT_H

#include <atomic>

#include "core/hotlist/hotlist.h"

namespace queen::core::hotlist
{

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

using Counter = std::atomic<std::uint64_t>;
using Count = std::atomic<std::uint32_t>;
using Time = std::atomic<Micros>;
static_assert(Counter::is_always_lock_free && Count::is_always_lock_free && Time::is_always_lock_free);
static_assert(sizeof(Counter) == 8 && sizeof(Count) == 4 && sizeof(Time) == 8);

inline constexpr std::size_t line = 64;
inline constexpr std::uint32_t max_shards = 64;
inline constexpr std::uint32_t directories = 16;

/* A ring's id is a counter above the bits of its place. */
inline constexpr int ring_index_bits = 20;
inline constexpr std::uint32_t max_rings = 1U << ring_index_bits;

/* A link to a slot: the low bits are the slot, the high ones of its hash, so that most strangers are passed unseen. */
inline constexpr int tag_shift = 24;
inline constexpr std::uint32_t max_slots = 1U << tag_shift;
inline constexpr std::uint32_t slot_bits = max_slots - 1;

enum class State : std::uint8_t
{
	free,
	ready,
	parked,
	checked_out,
};

/* A candidate. */
struct alignas(line) Slot
{
	std::uint64_t ring_id;
	std::int64_t partition_id;
	std::uint64_t epoch;
	std::uint32_t messages; /* marked, and not known to be consumed */
	State state;
	bool drained;		 /* the claim that leased it saw nothing behind its batch */
	bool under_lease;	 /* parked: because of one */
	bool behind_push;	 /* parked: because of one */
	bool again;			 /* checked out: since then a row was freed that the claim may have met locked or leased */
	std::uint32_t next;	 /* ready: the one behind it; free: the next free one */
	Micros ready_since;	 /* ready, and checked out: since when it is, or was */
	std::uint64_t token; /* checked out, as is the owner; under a lease: its number, 0: another's */
	Owner owner;
};
static_assert(sizeof(Slot) == line);

/*
 * A place of the hash: one line, so that one look says which slot it is, or that there is none. There are so many that a full shard has
 * slots_of_bucket in each, on average; what does not fit, a thirtieth then, is in a chain that begins at the last link.
 */
struct alignas(line) Bucket
{
	static constexpr std::uint32_t size = 15;

	std::uint32_t links[size + 1]; /* 0: none */
};
static_assert(sizeof(Bucket) == line);
inline constexpr std::uint32_t slots_of_bucket = 12;

/* Apart from the slots, because the heap touches many of them for one slot that it wants. */
struct SlotLinks
{
	std::uint32_t chain; /* of those that their bucket has no room for: tag and slot */
	std::uint32_t node;	 /* parked: of the heap */
};

struct HeapNode
{
	Micros deadline;
	std::uint32_t slot;
	std::uint32_t pad_;
};
static_assert(sizeof(HeapNode) == 16);

struct Shard
{
	alignas(line) Time earliest; /* the wheel's first deadline, read by those who pass */

	alignas(line) std::uint32_t free_slots; /* list */
	std::uint32_t high;						/* slots below were handed out at least once */
	std::uint32_t hand;						/* where the last search for garbage ended */
	std::uint32_t heap_size;
	Count garbage; /* slots of forgotten rings */
	Count used;	   /* slots that are not free, garbage too */
};

/* What a ring has in a shard. Counts are written under the shard's lock and read without. */
struct alignas(line) Lane
{
	std::uint64_t ring_id;	  /* 0: none */
	std::uint64_t last_epoch; /* or token; goes on when the place has another ring */
	std::uint32_t head;		  /* of the ready ones */
	std::uint32_t tail;
	Count ready;
	Count parked;
	Count checked_out;
	std::uint32_t pad_;
	Counter marks;
	Counter takes;
	Counter clears;
};
static_assert(sizeof(Lane) == line);

/*
 * Debts are counters that only rise, over all rings that the place ever had: `owed` counts what came, `paid` is what it
 * stood at when the last whole walk began. So a walk that ends late, even of a ring that is gone, pays nothing that it did not see.
 */
struct Ring
{
	/* hardly ever written */
	alignas(line) Counter id; /* 0: none */
	RingKey key;
	Time delay;
	Time window;
	std::uint32_t queue_link; /* chains of the directory: index + 1 */
	std::uint32_t ring_link;

	alignas(line) Counter owed;
	Counter paid;
	Counter walker; /* its owner, 0: nobody walks */
	Time last_served;
	Count asked; /* served since the last sweep, by somebody who had no clock */
	Count cursor;
	Counter gate; /* see ready_count */

	alignas(line) Counter dropped; /* candidates that did not fit */
	Counter restored;			   /* what it stood at when the last whole walk began */
	Time resume_at;
	Time floor_from; /* the reseed interval runs from here */
	Time last_reseed;
	Time last_reseed_took;
	Counter reseeds;
	Counter reseed_rows;

	alignas(line) Counter verdicts[verdict_count];
	Counter requeues;
	Counter conflicts;
	Counter reseed_repairs;
	Counter dropped_before; /* the statistics began */
	Count next_free;		/* place, index + 1 */
};

struct Pool
{
	std::uint64_t magic;
	std::uint64_t size;
	std::uint32_t lock_size;
	std::uint32_t shards;
	std::uint32_t window_batch;
	std::uint32_t rings;
	std::uint32_t directory_buckets; /* of each directory; a power of two */
	std::uint32_t slots;			 /* of each shard, with the one that is never used */
	/* offsets from the pool */
	std::uint64_t locks, queue_heads, ring_heads, ring_places, lanes, first_shard;
	/* from a shard */
	std::uint64_t shard_size, buckets, links, heap, slot_places; /* buckets end where links begin */

	alignas(line) Counter last_ring; /* number given */
	Counter free_rings;				 /* a stack: a count that makes each change different, above index + 1 */
	Count rings_high;				 /* places below were used at least once */
	Count rings_used;
	Count eviction_hand;
	Time last_sweep;
	Counter evicted_rings;
	Counter refused_rings;
	Counter refused_slots;
};

template <typename T>
inline T *
at(const Pool *pool, std::uint64_t offset) noexcept
{
	return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(pool) + offset);
}

inline Ring &
ring_at(const Hotlist &hotlist, std::uint32_t index) noexcept
{
	return at<Ring>(hotlist.pool, hotlist.pool->ring_places)[index];
}

inline Lane &
lane_at(const Hotlist &hotlist, std::uint32_t ring_index, std::uint32_t shard) noexcept
{
	const Pool *pool = hotlist.pool;

	return at<Lane>(pool, pool->lanes)[std::size_t{ring_index} * pool->shards + shard];
}

inline std::uint32_t
ring_index(std::uint64_t ring_id) noexcept
{
	return static_cast<std::uint32_t>(ring_id) & (max_rings - 1);
}

/* Does the pool have such a place? A reference may be rubbish. */
inline bool
names_a_place(const Hotlist &hotlist, RingRef ring) noexcept
{
	return ring.id != 0 && ring.index == ring_index(ring.id) && ring.index < hotlist.pool->rings;
}

/* A shard's parts. */
struct Area
{
	Shard *shard;
	Bucket *buckets;
	SlotLinks *links;
	HeapNode *heap; /* 1 is the top */
	Slot *slots;
	std::uint32_t slot_count;
	std::uint32_t bucket_count;
	std::uint32_t number;
};

inline Area
area_of(const Hotlist &hotlist, std::uint32_t shard) noexcept
{
	const Pool *pool = hotlist.pool;
	const std::uint64_t base = pool->first_shard + shard * pool->shard_size;

	return {at<Shard>(pool, base),
			at<Bucket>(pool, base + pool->buckets),
			at<SlotLinks>(pool, base + pool->links),
			at<HeapNode>(pool, base + pool->heap),
			at<Slot>(pool, base + pool->slot_places),
			pool->slots,
			static_cast<std::uint32_t>((pool->links - pool->buckets) / sizeof(Bucket)),
			shard};
}

/* ---- locks: the directories' come first, then the shards' ---- */

inline void *
directory_lock(const Hotlist &hotlist, std::uint32_t directory) noexcept
{
	return at<void>(hotlist.pool, hotlist.pool->locks + std::uint64_t{directory} * hotlist.pool->lock_size);
}

inline void *
shard_lock(const Hotlist &hotlist, std::uint32_t shard) noexcept
{
	return directory_lock(hotlist, directories + shard);
}

inline void
lock_shard(const Hotlist &hotlist, const Area &area) noexcept
{
	hotlist.locks->exclusive(shard_lock(hotlist, area.number));
}

inline void
lock_shard_shared(const Hotlist &hotlist, const Area &area) noexcept
{
	hotlist.locks->shared(shard_lock(hotlist, area.number));
}

inline void
unlock_shard(const Hotlist &hotlist, const Area &area) noexcept
{
	hotlist.locks->release(shard_lock(hotlist, area.number));
}

/* ---- small things ---- */

inline std::uint64_t
mix(std::uint64_t value) noexcept
{
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93;
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93;
	return value ^ value >> 32;
}

/* 0 to range - 1, by the high half of a hash */
inline std::uint32_t
scale(std::uint64_t hash, std::uint32_t range) noexcept
{
	return static_cast<std::uint32_t>((hash >> 32) * range >> 32);
}

/* A partition's hash: it says the shard, and with a ring's id the place in it. */
inline std::uint64_t
partition_hash(std::int64_t partition_id) noexcept
{
	return mix(static_cast<std::uint64_t>(partition_id) + 0x9e3779b97f4a7c15);
}

inline std::uint32_t
shard_of(const Hotlist &hotlist, std::uint64_t hash) noexcept
{
	return scale(hash, hotlist.pool->shards);
}

inline Micros
later(Micros now, Micros by) noexcept
{
	Micros sum = 0;

	return __builtin_add_overflow(now, by, &sum) ? (by > 0 ? never - 1 : INT64_MIN) : sum == never ? never - 1 : sum;
}

/* Add to what only the holder of a lock writes. */
template <typename T>
inline void
bump(std::atomic<T> &counter, T by) noexcept
{
	counter.store(static_cast<T>(counter.load(memory_order_relaxed) + by), memory_order_relaxed);
}

/* Add to a statistic that anybody writes. */
inline void
add(Counter &counter, std::uint64_t by) noexcept
{
	counter.fetch_add(by, memory_order_relaxed);
}

inline void
raise_to(Counter &counter, std::uint64_t value) noexcept
{
	std::uint64_t now = counter.load(memory_order_relaxed);

	while (now < value && !counter.compare_exchange_weak(now, value, memory_order_acq_rel, memory_order_relaxed))
	{
	}
}

/* The queue's directory, and its chain there. */
struct QueuePlace
{
	std::uint32_t directory;
	std::uint64_t hash;
};

inline QueuePlace
queue_place(const QueueKey &key) noexcept
{
	const std::uint64_t hash =
		mix(mix(std::uint64_t{key.database} << 32 | key.tables) ^ static_cast<std::uint64_t>(key.queue_id));

	return {static_cast<std::uint32_t>(hash) % directories, hash};
}

/* The first link of a queue's chain, and of a ring's; under the directory's lock. */
inline std::uint32_t &
queue_head(const Hotlist &hotlist, const QueuePlace &place) noexcept
{
	const Pool *pool = hotlist.pool;

	return at<std::uint32_t>(
		pool,
		pool->queue_heads)[place.directory * pool->directory_buckets + (place.hash >> 32) % pool->directory_buckets];
}

} // namespace queen::core::hotlist

#endif
