/*
 * slots.h: candidates in a shard: finding, making, freeing, and moving them from state to state; the wheel; and telling the
 * listener. Included by this folder's files only. Everything here is under the shard's lock, but for what says otherwise.
 */
#ifndef QUEEN_CORE_HOTLIST_SLOTS_H
#define QUEEN_CORE_HOTLIST_SLOTS_H

#include "core/hotlist/layout.h"

namespace queen::core::hotlist
{

/* Slots looked at for one to take back: half of a hold, so that the other half is left for what needs it. */
inline constexpr int steps_to_reclaim = steps_per_hold / 2;

/* A key of a slot, with its place in the hash. */
struct SlotKey
{
	std::uint64_t ring_id;
	std::int64_t partition_id;
	std::uint32_t bucket;
	std::uint32_t tag; /* in its place in a link; never 0, so that a link to nothing has none */
};

inline SlotKey
slot_key(const Area &area, std::uint64_t ring_id, std::int64_t partition_id, std::uint64_t hash) noexcept
{
	const std::uint64_t both = (hash ^ ring_id * 0xd1342543de82ef95) * 0x9e3779b97f4a7c15;

	const std::uint32_t tag = static_cast<std::uint32_t>(both >> 8) << tag_shift;

	return {ring_id, partition_id, scale(both, area.bucket_count), tag != 0 ? tag : max_slots};
}

/* Have lines on their way: a key's bucket, which may be done without the lock, and a slot. */
inline void
prefetch_bucket(const Area &area, const SlotKey &key) noexcept
{
	__builtin_prefetch(area.buckets + key.bucket, 1);
}

inline void
prefetch_slot(const Area &area, std::uint32_t slot) noexcept
{
	__builtin_prefetch(area.slots + slot, 1);
}

/*
 * A bit for each link of a bucket, but the chain's, that has the tag; 0: is none. Four at a time and without a branch: a guess would be made
 * while the line is under way, and a wrong one throws away what was fetched ahead.
 */
inline std::uint32_t
links_with(const Bucket &bucket, std::uint32_t tag) noexcept
{
	using Four [[gnu::vector_size(16)]] = std::uint32_t;
	Four found = {};

	for (std::uint32_t i = 0; i <= Bucket::size; i += 4)
	{
		Four links;

		__builtin_memcpy(&links, bucket.links + i, sizeof(links));
		found |= ((links & ~slot_bits) == tag) & (Four{1, 2, 4, 8} << i);
	}
	return (found[0] | found[1] | found[2] | found[3]) & ((1U << Bucket::size) - 1);
}

/* The slot of a key; 0: none. */
std::uint32_t slot_find(const Area &area, const SlotKey &key) noexcept;

/*
 * A new slot in its bucket, in no state yet, with the lane's next epoch; 0: the shard is full. Looks at no more than
 * steps_to_reclaim slots for one to take back, and adds what it looked at to steps.
 */
std::uint32_t slot_make(const Hotlist &hotlist, const Area &area, Lane &lane, const SlotKey &key, int *steps) noexcept;

/* Out of its bucket, and free. It is in no list and no heap. */
void slot_free(const Area &area, std::uint32_t slot) noexcept;

/* Take back what belongs to forgotten rings: looks at steps_to_reclaim slots at most. False: there is nothing left. */
bool slots_reclaim(const Hotlist &hotlist, const Area &area, int *steps) noexcept;

/* Into a state, from none. In front: before all that are ready for less long. */
void to_ready(const Area &area, Lane &lane, std::uint32_t slot, Micros since) noexcept;
void to_ready_in_front(const Area &area, Lane &lane, std::uint32_t slot, Micros since) noexcept;
void to_parked(const Area &area, Lane &lane, std::uint32_t slot, Micros deadline) noexcept;

/* Out of one, into none. The first of the ready ones: there is one. */
std::uint32_t from_ready(const Area &area, Lane &lane) noexcept;
void from_parked(const Area &area, Lane &lane, std::uint32_t slot) noexcept;
void from_checked_out(Lane &lane) noexcept;

inline Micros
deadline_of(const Area &area, std::uint32_t slot) noexcept
{
	return area.heap[area.links[slot].node].deadline;
}

/* ---- the wheel ---- */

void wheel_put(const Area &area, std::uint32_t slot, Micros deadline) noexcept;
void wheel_remove(const Area &area, std::uint32_t slot) noexcept;

/* ---- what the listener will be told, gathered with locks held, told without ---- */

struct News
{
	static constexpr std::uint32_t room = 2 * steps_per_hold;

	explicit News(const Listener &to) noexcept : listener(to)
	{
	}

	Listener listener;
	std::uint32_t count = 0;
	std::uint32_t ring[room]; /* the first `count` of both */
	std::uint32_t ready[room];
};

/* One more is ready. */
void news_add(News *news, std::uint32_t ring_index) noexcept;

/* Before a hold: makes sure that there is room for it. After the last: tells all. With no shard's lock held. */
void news_make_room(const Hotlist &hotlist, News *news) noexcept;
void news_tell(const Hotlist &hotlist, News *news) noexcept;

/* Make ready what is due in a shard, `most` and steps_per_hold at most. Returns how many steps it was. Takes the lock itself. */
std::uint32_t drain_shard(const Hotlist &hotlist, const Area &area, std::uint32_t most, Micros now,
						  News *news) noexcept;

} // namespace queen::core::hotlist

#endif
