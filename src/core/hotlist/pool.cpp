/*
 * pool.cpp: divides the memory, and attaches to what was laid out. lay_out takes no lock: nobody else is there yet.
 */
#include <bit>
#include <cstring>

#include "core/hotlist/layout.h"

namespace queen::core::hotlist
{

namespace
{

/* Another one whenever the layout or its meaning changes. */
constexpr std::uint64_t magic = 0x71686f746c697302;

/* Fewer would be no pool, only trouble. */
constexpr std::uint32_t least_slots = 16;
constexpr std::uint32_t least_rings = 4;

/* Of the bytes, one in so many is for rings. */
constexpr std::uint64_t ring_part = 8;

constexpr std::uint64_t
up_to_line(std::uint64_t size) noexcept
{
	return (size + line - 1) / line * line;
}

bool
sensible(const LockCalls *locks, const PoolOptions *options) noexcept
{
	return options->shards >= 1 && options->shards <= max_shards && options->window_batch >= 1 &&
		   locks->size % 8 == 0 && locks->size > 0 && locks->size <= 4096;
}

/* Give `next` bytes a place. */
std::uint64_t
place(std::uint64_t *end, std::uint64_t next) noexcept
{
	const std::uint64_t offset = *end;

	*end = up_to_line(offset + next);
	return offset;
}

/* Say where everything lies. False: the memory is too small. */
bool
divide(std::uint64_t size, const LockCalls *locks, const PoolOptions *options, Pool *pool) noexcept
{
	constexpr std::uint64_t heads_of_ring = 4 * sizeof(std::uint32_t); /* at most: two chains, up to twice as many */
	const std::uint64_t bytes_of_ring = sizeof(Ring) + options->shards * sizeof(Lane) + heads_of_ring;
	const std::uint64_t rings = size / ring_part / bytes_of_ring;
	std::uint64_t end = up_to_line(sizeof(Pool));

	pool->magic = magic;
	pool->size = size;
	pool->lock_size = static_cast<std::uint32_t>(locks->size);
	pool->shards = options->shards;
	pool->window_batch = options->window_batch;
	pool->rings = static_cast<std::uint32_t>(rings < max_rings ? rings : max_rings);
	pool->directory_buckets = std::bit_ceil((pool->rings + directories - 1) / directories);

	pool->locks = place(&end, (directories + options->shards) * locks->size);
	pool->queue_heads = place(&end, std::uint64_t{directories} * pool->directory_buckets * sizeof(std::uint32_t));
	pool->ring_heads = place(&end, std::uint64_t{directories} * pool->directory_buckets * sizeof(std::uint32_t));
	pool->ring_places = place(&end, pool->rings * sizeof(Ring));
	pool->lanes = place(&end, std::uint64_t{pool->rings} * options->shards * sizeof(Lane));
	pool->first_shard = end;
	if (pool->rings < least_rings || end >= size)
		return false;

	constexpr std::uint64_t bytes_of_slots =
		slots_of_bucket * (sizeof(SlotLinks) + sizeof(HeapNode) + sizeof(Slot)) + sizeof(Bucket);
	const std::uint64_t shard = (size - end) / options->shards / line * line;
	const std::uint64_t fixed = sizeof(Shard) + 5 * line; /* and what rounding up may take */
	if (shard < fixed + least_slots * bytes_of_slots / slots_of_bucket)
		return false;
	const std::uint64_t slots = (shard - fixed) * slots_of_bucket / bytes_of_slots;

	pool->slots = static_cast<std::uint32_t>(slots < max_slots ? slots : max_slots);
	pool->shard_size = shard;
	std::uint64_t inside = sizeof(Shard);
	pool->buckets = place(&inside, (pool->slots + slots_of_bucket - 1) / slots_of_bucket * sizeof(Bucket));
	pool->links = place(&inside, pool->slots * sizeof(SlotLinks));
	/* The children of node i are 4i - 2 to 4i + 1: two nodes further on, they are one line. */
	pool->heap = place(&inside, (pool->slots + std::uint64_t{2}) * sizeof(HeapNode)) + 2 * sizeof(HeapNode);
	pool->slot_places = place(&inside, std::uint64_t{pool->slots} * sizeof(Slot));
	return inside <= shard;
}

} // namespace

std::size_t
least_size(const LockCalls *locks, const PoolOptions *options) noexcept
{
	std::size_t size = 4096;
	Pool pool{};

	if (!sensible(locks, options))
		return SIZE_MAX;
	while (!divide(size, locks, options, &pool))
		size += line;
	return size;
}

std::uint32_t
ring_places_of(std::size_t size, const LockCalls *locks, const PoolOptions *options) noexcept
{
	Pool pool{};

	return sensible(locks, options) && divide(size, locks, options, &pool) ? pool.rings : 0;
}

bool
lay_out(void *memory, std::size_t size, const LockCalls *locks, const PoolOptions *options) noexcept
{
	Pool *pool = static_cast<Pool *>(memory);
	const Hotlist hotlist{pool, locks};
	Pool parts{};

	if (!sensible(locks, options) || !divide(size, locks, options, &parts))
		return false;
	std::memset(memory, 0, sizeof(Pool));
	std::memcpy(memory, &parts, offsetof(Pool, last_ring));
	pool->last_sweep.store(INT64_MIN, memory_order_relaxed);

	std::memset(at<void>(pool, pool->ring_places), 0, pool->rings * sizeof(Ring));
	std::memset(at<void>(pool, pool->lanes), 0, std::size_t{pool->rings} * pool->shards * sizeof(Lane));

	const std::size_t heads = sizeof(std::uint32_t) * directories * pool->directory_buckets;
	std::memset(at<void>(pool, pool->queue_heads), 0, heads);
	std::memset(at<void>(pool, pool->ring_heads), 0, heads);
	for (std::uint32_t i = 0; i < directories + pool->shards; i++)
		locks->init(directory_lock(hotlist, i));
	for (std::uint32_t s = 0; s < pool->shards; s++)
	{
		const Area area = area_of(hotlist, s);

		std::memset(static_cast<void *>(area.shard), 0, sizeof(Shard));
		area.shard->earliest.store(never, memory_order_relaxed);
		area.shard->high = 1;
		area.shard->hand = 1;
		std::memset(area.buckets, 0, area.bucket_count * sizeof(Bucket));
	}
	return true;
}

bool
attach(void *memory, const LockCalls *locks, Hotlist *hotlist) noexcept
{
	Pool *pool = static_cast<Pool *>(memory);

	if (pool->magic != magic || pool->lock_size != locks->size)
		return false;
	*hotlist = {pool, locks};
	return true;
}

} // namespace queen::core::hotlist
