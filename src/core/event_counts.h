/*
 * event_counts.h: how often what has happened to queues and consumer groups: counts by object, in a table of fixed size.
 *
 * The caller hands in the memory, which processes may share, and has a lock for each table: shared where that is said, exclusive otherwise.
 * Counting what has a place is the only thing that many do at a time.
 */
#ifndef QUEEN_CORE_EVENT_COUNTS_H
#define QUEEN_CORE_EVENT_COUNTS_H

#include <cstddef>
#include <cstdint>

namespace queen::core
{

enum class EventScope : std::uint32_t
{
	log,   /* a log queue; id 0 */
	group, /* a consumer group of one; id: the group's */
	work,  /* a work queue's messages of a priority; id: that */
};

/* Whose counts they are. */
struct EventObject
{
	std::uint32_t database; /* 0: nobody's */
	std::uint32_t tables;
	EventScope scope;
	std::int64_t queue_id;
	std::int64_t id;

	bool operator==(const EventObject &) const = default;
};

/* What is counted, of messages. */
enum class Event : std::uint32_t
{
	added, /* pushed, enqueued */
	bytes, /* of those */
	delivered,
	redelivered, /* of the delivered: not for the first time */
	completed,	 /* acknowledged */
	rejected,	 /* nacked */
	dead,
	expired,
	count,
};

inline constexpr std::uint32_t event_kinds = static_cast<std::uint32_t>(Event::count);

struct EventAmounts
{
	std::uint64_t of[event_kinds];
};

struct EventCounts
{
	EventObject object;
	std::int64_t since; /* of the caller's clock */
	EventAmounts amounts;
};

/* Places, and how to find them. */
struct EventTable;

std::size_t event_table_size(std::uint32_t places) noexcept;

/* Make a table in memory of event_table_size, aligned to 64. Nobody else may use it yet. */
EventTable *event_table_lay_out(void *memory, std::uint32_t places) noexcept;

/* For the choice among several tables. */
std::uint32_t event_hash(const EventObject &object) noexcept;

/* Add to the counts of an object that has a place; false, and nothing done, when it has none. Shared lock. */
bool event_add_there(EventTable &table, const EventObject &object, const EventAmounts &amounts,
					 std::int64_t now) noexcept;

/*
 * The same for any object. One without a place takes one that nobody has, or else, of the next few, that of the object that was added to
 * longest ago: those counts are given up. since: when the counting began, if it gets a place.
 */
void event_add(EventTable &table, const EventObject &object, const EventAmounts &amounts, std::int64_t now,
			   std::int64_t since) noexcept;

/* Free an object's place; false when it has none. taken, if not null, is what was counted there. */
bool event_take(EventTable &table, const EventObject &object, EventCounts *taken) noexcept;

/* Set the counts of a queue and its groups to 0, or for 0 those of all queues of a database's tables. */
void event_reset(EventTable &table, std::uint32_t database, std::uint32_t tables, std::int64_t queue_id,
				 std::int64_t now) noexcept;

/* Free all places of a database. */
void event_forget_database(EventTable &table, std::uint32_t database) noexcept;

/*
 * The next object of a database's tables from position *at, 0 at first, which moves on behind it; false when there is no more. Shared lock:
 * over several calls, none is met twice, and what comes or goes between them may be missed.
 */
bool event_read(const EventTable &table, std::uint32_t database, std::uint32_t tables, std::uint32_t *at,
				EventCounts *found) noexcept;

/* What was counted of an object; false when it has no place. Shared lock. */
bool event_find(const EventTable &table, const EventObject &object, EventCounts *found) noexcept;

struct EventTableState
{
	std::uint32_t places;
	std::uint32_t used;
	std::uint64_t evicted;	   /* objects whose counts were given up for others' */
	std::int64_t last_evicted; /* when; 0: never */
};

/* Shared lock. */
EventTableState event_table_state(const EventTable &table) noexcept;

} // namespace queen::core

#endif
