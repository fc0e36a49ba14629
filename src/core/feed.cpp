/*
 * feed.cpp: which partitions have changed. See feed.h.
 */
#include "core/feed.h"

namespace queen::core
{

namespace
{

constexpr std::size_t head_size = (sizeof(Feed) + alignof(Change) - 1) / alignof(Change) * alignof(Change);

const Change *
ring_of(const Feed &feed) noexcept
{
	return reinterpret_cast<const Change *>(reinterpret_cast<const std::uint8_t *>(&feed) + head_size);
}

Change *
ring_of(Feed &feed) noexcept
{
	return reinterpret_cast<Change *>(reinterpret_cast<std::uint8_t *>(&feed) + head_size);
}

} // namespace

std::size_t
feed_size(std::uint32_t capacity) noexcept
{
	return head_size + sizeof(Change) * capacity;
}

Feed *
feed_lay_out(void *memory, std::uint32_t capacity) noexcept
{
	Feed *feed = static_cast<Feed *>(memory);

	feed->end.store(0, std::memory_order_relaxed);
	feed->capacity = capacity;
	return feed;
}

void
feed_append(Feed &feed, std::span<const Change> changes) noexcept
{
	Change *ring = ring_of(feed);
	std::uint64_t end = feed.end.load(std::memory_order_relaxed);

	for (const Change &change : changes)
		ring[end++ & (feed.capacity - 1)] = change;
	feed.end.store(end, std::memory_order_release);
}

FeedRead
feed_read(const Feed &feed, std::uint32_t database, std::uint32_t tables, std::uint64_t &position,
		  std::span<Change> out) noexcept
{
	const Change *ring = ring_of(feed);
	const std::uint64_t end = feed_end(feed);
	FeedRead read = {0, false};

	/* beyond the end: it is of a feed that was there before */
	if (position > end || end - position > feed.capacity)
	{
		position = end;
		read.overrun = true;
		return read;
	}
	for (std::uint32_t looked_at = 0; position < end && looked_at < feed_most_looked_at && read.count < out.size();
		 looked_at++)
	{
		const Change &change = ring[position++ & (feed.capacity - 1)];

		if (change.database == database && change.tables == tables)
			out[read.count++] = change;
	}
	return read;
}

} // namespace queen::core
