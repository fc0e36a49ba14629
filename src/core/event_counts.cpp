/*
 * event_counts.cpp: counts of events by object. See event_counts.h.
 */
#include "core/event_counts.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <initializer_list>

namespace queen::core
{

namespace
{

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free);

/* A place's number and 1; 0: none. */
using Link = std::uint32_t;

struct alignas(64) Place
{
	EventObject object;
	std::int64_t since;
	std::atomic<std::int64_t> used; /* when it was added to last */
	Link next;						/* in its bucket, or among those that are free */
	Counter counts[event_kinds];
};

/* So many are looked at for the one to be given up. */
constexpr std::uint32_t looked_at = 16;

} // namespace

struct alignas(64) EventTable
{
	std::uint32_t place_count;
	std::uint32_t bucket_mask;
	std::uint32_t touched; /* places from there on were never used */
	Link free;			   /* of those before it */
	std::uint32_t used;
	std::uint32_t hand; /* where the next one is looked for that is given up */
	std::uint64_t evicted;
	std::int64_t last_evicted;
	Place *places; /* processes that share it are forked from one, which has it where they have it */
	Link *buckets;
};

namespace
{

Link *
bucket_of(const EventTable &table, const EventObject &object) noexcept
{
	return &table.buckets[(event_hash(object) >> 8) & table.bucket_mask];
}

/* Null when it has none. */
Place *
find(const EventTable &table, const EventObject &object) noexcept
{
	for (Link at = *bucket_of(table, object); at != 0; at = table.places[at - 1].next)
		if (table.places[at - 1].object == object)
			return &table.places[at - 1];
	return nullptr;
}

void
add(Place *place, const EventAmounts &amounts, std::int64_t now) noexcept
{
	for (std::uint32_t i = 0; i < event_kinds; i++)
		if (amounts.of[i] != 0)
			place->counts[i].fetch_add(amounts.of[i], std::memory_order_relaxed);
	place->used.store(now, std::memory_order_relaxed);
}

EventCounts
counts_of(const Place &place) noexcept
{
	EventCounts counts = {place.object, place.since, {}};

	for (std::uint32_t i = 0; i < event_kinds; i++)
		counts.amounts.of[i] = place.counts[i].load(std::memory_order_relaxed);
	return counts;
}

void
clear(Place *place) noexcept
{
	for (Counter &count : place->counts)
		count.store(0, std::memory_order_relaxed);
}

/* Take a place out of its bucket and make it free. */
void
give_up(EventTable &table, Place *place) noexcept
{
	const Link self = static_cast<Link>(place - table.places) + 1;
	Link *link = bucket_of(table, place->object);

	while (*link != self)
		link = &table.places[*link - 1].next;
	*link = place->next;
	place->object = {};
	place->next = table.free;
	table.free = self;
	table.used--;
}

/* Every place is used. */
void
evict(EventTable &table, std::int64_t now) noexcept
{
	Place *victim = nullptr;

	for (std::uint32_t i = 0; i < looked_at && i < table.place_count; i++)
	{
		Place *place = &table.places[table.hand];

		if (victim == nullptr ||
			place->used.load(std::memory_order_relaxed) < victim->used.load(std::memory_order_relaxed))
			victim = place;
		table.hand = (table.hand + 1) % table.place_count;
	}
	give_up(table, victim);
	table.evicted++;
	table.last_evicted = now;
}

Place *
get_place(EventTable &table, const EventObject &object, std::int64_t now) noexcept
{
	Link *bucket = bucket_of(table, object);
	Place *place;
	Link self;

	if (table.free == 0 && table.touched == table.place_count)
		evict(table, now);
	if (table.free != 0)
	{
		self = table.free;
		table.free = table.places[self - 1].next;
	}
	else
		self = ++table.touched;
	place = &table.places[self - 1];
	clear(place);
	place->object = object;
	place->next = *bucket;
	*bucket = self;
	table.used++;
	return place;
}

std::uint32_t
bucket_count(std::uint32_t places) noexcept
{
	return std::bit_ceil(places);
}

} // namespace

std::size_t
event_table_size(std::uint32_t places) noexcept
{
	const std::size_t size = sizeof(EventTable) + sizeof(Place) * places + sizeof(Link) * bucket_count(places);

	return (size + alignof(EventTable) - 1) / alignof(EventTable) * alignof(EventTable);
}

EventTable *
event_table_lay_out(void *memory, std::uint32_t places) noexcept
{
	EventTable *table = static_cast<EventTable *>(memory);

	std::memset(memory, 0, event_table_size(places));
	table->place_count = places;
	table->bucket_mask = bucket_count(places) - 1;
	table->places = reinterpret_cast<Place *>(table + 1);
	table->buckets = reinterpret_cast<Link *>(table->places + places);
	return table;
}

std::uint32_t
event_hash(const EventObject &object) noexcept
{
	std::uint64_t hash = (std::uint64_t{object.database} << 32) ^ object.tables;

	for (const std::uint64_t part : {static_cast<std::uint64_t>(object.queue_id), static_cast<std::uint64_t>(object.id),
									 static_cast<std::uint64_t>(object.scope)})
	{
		hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
		hash ^= hash >> 29;
	}
	return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

bool
event_add_there(EventTable &table, const EventObject &object, const EventAmounts &amounts, std::int64_t now) noexcept
{
	Place *place = find(table, object);

	if (place == nullptr)
		return false;
	add(place, amounts, now);
	return true;
}

void
event_add(EventTable &table, const EventObject &object, const EventAmounts &amounts, std::int64_t now,
		  std::int64_t since) noexcept
{
	Place *place = find(table, object);

	if (place == nullptr)
	{
		place = get_place(table, object, now);
		place->since = since;
	}
	add(place, amounts, now);
}

bool
event_take(EventTable &table, const EventObject &object, EventCounts *taken) noexcept
{
	Place *place = find(table, object);

	if (place == nullptr)
		return false;
	if (taken != nullptr)
		*taken = counts_of(*place);
	give_up(table, place);
	return true;
}

void
event_reset(EventTable &table, std::uint32_t database, std::uint32_t tables, std::int64_t queue_id,
			std::int64_t now) noexcept
{
	for (std::uint32_t i = 0; i < table.touched; i++)
	{
		Place *place = &table.places[i];

		if (place->object.database != database || place->object.tables != tables ||
			(queue_id != 0 && place->object.queue_id != queue_id))
			continue;
		clear(place);
		place->since = now;
	}
}

void
event_forget_database(EventTable &table, std::uint32_t database) noexcept
{
	for (std::uint32_t i = 0; i < table.touched; i++)
		if (table.places[i].object.database == database)
			give_up(table, &table.places[i]);
}

bool
event_read(const EventTable &table, std::uint32_t database, std::uint32_t tables, std::uint32_t *at,
		   EventCounts *found) noexcept
{
	while (*at < table.touched)
	{
		const Place *place = &table.places[(*at)++];

		if (place->object.database != database || place->object.tables != tables)
			continue;
		*found = counts_of(*place);
		return true;
	}
	return false;
}

bool
event_find(const EventTable &table, const EventObject &object, EventCounts *found) noexcept
{
	const Place *place = find(table, object);

	if (place == nullptr)
		return false;
	*found = counts_of(*place);
	return true;
}

EventTableState
event_table_state(const EventTable &table) noexcept
{
	return {table.place_count, table.used, table.evicted, table.last_evicted};
}

} // namespace queen::core
