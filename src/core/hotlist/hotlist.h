/*
 * hotlist.h: which partitions may have work for a consumer group, answered from memory.
 *
 * The pool is one piece of memory of fixed size that several processes share; what is in it is found by offsets, so each
 * process may map it elsewhere. Locks and time are handed in. No call allocates, waits for anything but a lock that is held for a bounded
 * number of steps, or fails: what does not fit makes a ring owe a walk. README.md has states, invariants and the order of locks.
 *
 * The tables alone say what is pending. The list may name a partition that has nothing (stale in excess); that it lacks one that has
 * something, while its ring owes no walk, is a defect.
 */
#ifndef QUEEN_CORE_HOTLIST_H
#define QUEEN_CORE_HOTLIST_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/hotlist/verdict.h"

namespace queen::core::hotlist
{

/* Microseconds of a clock that never steps back and is the same for all processes. */
using Micros = std::int64_t;

inline constexpr Micros never = INT64_MAX;

/* No lease is trusted for longer: the acknowledgement that would end the wait may have come first (errata 3.7). */
inline constexpr Micros lease_park_cap = 1'000'000;
/* A locked cursor, or a push that has not ended: look again then, if nothing tells before. */
inline constexpr Micros locked_park = 250'000;
inline constexpr Micros behind_push_park = 250'000;
/* Clocks are one host's, so only rounding is padded. */
inline constexpr Micros pad = 10'000;

/* Steps that one hold of a shard's lock may take: marks applied, deadlines drained, slots looked at. */
inline constexpr int steps_per_hold = 64;

/* How the pool's locks are taken. shared may be exclusive. They never fail. */
struct LockCalls
{
	std::size_t size; /* of one lock, with whatever keeps it apart from its neighbour; a multiple of 8 */
	void (*init)(void *lock) noexcept;
	void (*exclusive)(void *lock) noexcept;
	void (*shared)(void *lock) noexcept;
	void (*release)(void *lock) noexcept;
};

struct Pool;

/* What a process knows of the pool. */
struct Hotlist
{
	Pool *pool = nullptr;
	const LockCalls *locks = nullptr;
};

struct PoolOptions
{
	std::uint32_t shards = 8;		  /* 1 to 64 */
	std::uint32_t window_batch = 100; /* marked messages that end a window early, at least 1 */
};

/* The databases' oids, the partitions table's oid: what is made again has other keys. */
struct QueueKey
{
	std::uint32_t database;
	std::uint32_t tables;
	std::int64_t queue_id;

	friend bool operator==(const QueueKey &, const QueueKey &) noexcept = default;
};

struct RingKey
{
	QueueKey queue;
	std::int64_t group_id;

	friend bool operator==(const RingKey &, const RingKey &) noexcept = default;
};

/* A ring: its place, and an id that is never given again, so that a reference that outlives its ring does no harm. */
struct RingRef
{
	std::uint32_t index = 0;
	std::uint64_t id = 0; /* 0: none */
};

/* How the queue defers. */
struct Deferral
{
	Micros delay = 0;
	Micros window = 0;
};

/* Who holds a check-out: compared by the caller's Alive, else opaque. Alive is asked with a shard's lock held. */
struct Owner
{
	std::uint32_t process;
	std::uint32_t transaction;
};
using Alive = bool (*)(Owner owner) noexcept;

/* Called once for each ring that has `ready` candidates more than before, without a lock held but perhaps the directory's, shared. */
struct Listener
{
	void (*became_ready)(void *arg, std::uint32_t ring_index, std::uint32_t ready) noexcept = nullptr;
	void *arg = nullptr;
};

struct Mark
{
	std::int64_t partition_id;
	std::uint32_t messages;
};

/* A candidate that is checked out. */
struct Taken
{
	std::int64_t partition_id;
	std::uint64_t epoch; /* of the slot, when it was taken */
	std::uint64_t token; /* of this check-out */
	Micros ready_since;
	std::uint32_t slot; /* of take: where check_in looks for it */
};

/* What is to become of a checked-out candidate. */
struct Outcome
{
	Verdict verdict = Verdict::none;
	bool reached = false; /* none: the claim was tried and rolled back, so others go first; else it keeps its turn */
	bool may_clear =
		false; /* empty, took: the snapshot is newer than the take, and the transaction changed nothing of queue and group */
	bool lease = false;				/* took: the messages are under a lease; otherwise they are completed */
	bool drained = false;			/* took: nothing lay behind the batch */
	Micros until = 0;				/* took with lease, leased, deferred */
	std::uint64_t lease_number = 0; /* took with lease: which one, as promote will name it */
};

/* ---- the pool ---- */

/* The least bytes that lay_out takes. */
std::size_t least_size(const LockCalls *locks, const PoolOptions *options) noexcept;

/* Lay a pool out in memory of `size` bytes, aligned to 64. False when it is too small. Nobody else may use it yet. */
bool lay_out(void *memory, std::size_t size, const LockCalls *locks, const PoolOptions *options) noexcept;

/* How many places for rings lay_out makes of so many bytes; 0 when they are too few. */
std::uint32_t ring_places_of(std::size_t size, const LockCalls *locks, const PoolOptions *options) noexcept;

/* False when what is there was laid out by another version of this code, or for other locks. */
bool attach(void *memory, const LockCalls *locks, Hotlist *hotlist) noexcept;

/* ---- rings ---- */

enum class Registered : std::uint8_t
{
	found,
	created, /* cold: it owes a walk */
	full,	 /* no place, and no ring that could be given up: counted as a fallback */
};

/*
 * The ring of a group, made if there is none. For a committed group only. A full table gives up the ring that was not served for
 * longest, among some that it looks at, unless it has candidates checked out.
 */
Registered ring_register(const Hotlist &hotlist, const RingKey &key, Micros now, RingRef *ring) noexcept;

bool ring_find(const Hotlist &hotlist, const RingKey &key, RingRef *ring) noexcept;

/* Is it still that ring? */
bool ring_is(const Hotlist &hotlist, RingRef ring) noexcept;

/* How the queue defers now. When it defers less than before the ring owes a walk, and rows of a walk that is owed end waits. */
void ring_defer(const Hotlist &hotlist, RingRef ring, const Deferral &deferral) noexcept;

/* Forget rings; whoever holds a reference notices. Their slots are taken back by those who need one. */
void forget_ring(const Hotlist &hotlist, const RingKey &key) noexcept;
void forget_queue(const Hotlist &hotlist, const QueueKey &key) noexcept;
/* Of a database's tables; tables 0: of the whole database. Returns how many. */
std::uint32_t forget_tables(const Hotlist &hotlist, std::uint32_t database, std::uint32_t tables) noexcept;

/*
 * Forget the rings that nobody has touched, and that hold nothing, since the last sweep, and those that nobody has served since then,
 * whatever they hold but check-outs. Takes slots of forgotten rings back. Returns how many rings went.
 */
std::uint32_t sweep(const Hotlist &hotlist, Micros now) noexcept;

/* ---- marks: a push has committed, work is pending again ---- */

/*
 * These partitions of the queue just received messages, for every ring of the queue. Returns how many rings there are; with 0
 * the listener is not called, and whoever waits for a partition of the queue is to be woken all the same.
 */
std::uint32_t mark(const Hotlist &hotlist, const QueueKey &queue, std::span<const Mark> marks, Micros now,
				   const Listener &listener) noexcept;

/* A partition is pending again for one group: a nack, a release, a seek. Also wakes what was parked. False without a ring. */
bool mark_ring(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, Micros now,
			   const Listener &listener) noexcept;

/*
 * A lease's messages were all acknowledged: what is parked behind it is idle when nothing is left, otherwise ready at once. Behind another
 * lease it is ready, too: that one's claim knew what it left, this one's end does not.
 */
void promote(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, std::uint64_t lease_number,
			 Micros now, const Listener &listener) noexcept;

/*
 * A row that others may have met locked is free: what is parked is ready, what is checked out keeps whoever has it from clearing it. Makes
 * no slot.
 */
void unpark(const Hotlist &hotlist, const RingKey &key, std::int64_t partition_id, Micros now,
			const Listener &listener) noexcept;

/* Work may be pending that nobody can name: the rings owe a walk. */
void owe_ring(const Hotlist &hotlist, const RingKey &key, const Listener &listener) noexcept;
void owe_queue(const Hotlist &hotlist, const QueueKey &key, const Listener &listener) noexcept;
/* tables 0: all of the database's */
void owe_tables(const Hotlist &hotlist, std::uint32_t database, std::uint32_t tables,
				const Listener &listener) noexcept;

/* ---- serving ---- */

/*
 * Check out up to most candidates, the ones that are ready for longest first in each shard, shards in turn; deadlines that have passed
 * are drained first. out has room for most. want: stop when as many messages were marked (at least one candidate is given).
 */
std::uint32_t take(const Hotlist &hotlist, RingRef ring, std::uint32_t most, std::uint64_t want, Micros now,
				   Owner owner, Taken *out, const Listener &listener) noexcept;

/* What take would name, without taking it. */
std::uint32_t candidates(const Hotlist &hotlist, RingRef ring, std::uint32_t most, Taken *out) noexcept;

/* Give a candidate back. Does nothing when the check-out is no longer that one. True: it is ready (again). */
bool check_in(const Hotlist &hotlist, RingRef ring, const Taken &taken, const Outcome &outcome, Micros now,
			  const Listener &listener) noexcept;

/* Somebody waits at the ring: it is in use, though nobody takes anything. */
void ring_in_use(const Hotlist &hotlist, RingRef ring, Micros now) noexcept;

/* Candidates ready in the ring now, without a lock; a full fence comes before the read. */
std::uint32_t ready_count(const Hotlist &hotlist, RingRef ring) noexcept;

/*
 * Make ready what is due, of all rings; at most `most` of each shard. Returns the next deadline, `never` when nothing waits.
 */
Micros drain(const Hotlist &hotlist, std::uint32_t most, Micros now, const Listener &listener) noexcept;

/* When something is due next, of all rings, `never` when nothing waits. Without a lock. */
Micros next_deadline(const Hotlist &hotlist) noexcept;

/* ---- the reseed floor: a walk over the tables ---- */

enum class Owes : std::uint8_t
{
	nothing,
	floor,		/* the last walk is older than the interval */
	walk,		/* cold, or something happened that only a walk can find; what is ready may be served meanwhile */
	incomplete, /* candidates did not fit: a walk is worth while when the ring runs low */
	full,		/* a walk, or candidates did not fit; but there is no room, so ask the tables */
};

/* Does the ring owe a walk? interval 0: no floor. */
Owes owes(const Hotlist &hotlist, RingRef ring, Micros now, Micros interval) noexcept;

/* When the ring will owe the floor's walk, whatever else it owes; never without a floor, or when the ring is gone. */
Micros floor_due(const Hotlist &hotlist, RingRef ring, Micros interval) noexcept;

/* Is a walk so late that even a ring with ready candidates should be walked for? After twice the interval. */
bool overdue(const Hotlist &hotlist, RingRef ring, Micros now, Micros interval) noexcept;

/* A walk of one ring. */
struct Ticket
{
	RingRef ring;
	Owner owner;
	Micros began;
	std::uint64_t owed;		/* by the ring when the walk began: what is owed since is owed still */
	std::uint64_t dropped;	/* the same of candidates that did not fit */
	std::int64_t resume_at; /* the partition id at which the walk before stopped, 0: at the beginning */
	bool settled;			/* the ring owed nothing: what is found unheld was lost */
	bool ease;				/* something happened to the tables: rows end waits, whatever for */
	std::uint64_t rows;
};

/*
 * Begin a walk; its snapshot must be taken afterwards. False: another one walks (one whose owner is gone is taken over), or the ring is gone.
 */
bool reseed_begin(const Hotlist &hotlist, RingRef ring, Micros now, Owner owner, Alive alive, Ticket *ticket) noexcept;

/* Does the ring hold the partition, whatever its state? Also true when the ring is gone. */
bool holds(const Hotlist &hotlist, RingRef ring, std::int64_t partition_id) noexcept;

enum class Reseeded : std::uint8_t
{
	held,	   /* it was there; what was parked is ready now, but where the queue defers */
	added,	   /* it was not */
	reclaimed, /* checked out by somebody who is gone: ready */
	full,	   /* no slot: the ring is incomplete */
	gone,	   /* the ring */
};

/* The walk found the partition pending. */
Reseeded reseed_row(const Hotlist &hotlist, Ticket *ticket, std::int64_t partition_id, Micros now,
					Alive alive) noexcept;

/*
 * End a walk. whole: every pending partition was named to reseed_row, in a walk that began at resume_at and came around to it; otherwise stopped_at says where to go on.
 * repairs: partitions that were pending and unheld at two looks though the ring owed nothing.
 */
void reseed_end(const Hotlist &hotlist, const Ticket &ticket, bool whole, std::int64_t stopped_at,
				std::uint64_t repairs, Micros now, const Listener &listener) noexcept;

/* ---- looking ---- */

struct RingStatistics
{
	RingKey key;
	RingRef ring;
	std::uint64_t ready, parked, checked_out; /* candidates in each state, now */
	Micros oldest_ready;					  /* since when the ring's longest ready candidate is, 0 without one */
	std::uint64_t marks, takes, clears, requeues, conflicts, dropped;
	std::uint64_t verdicts[verdict_count];
	std::uint64_t reseeds, reseed_rows, reseed_repairs;
	Micros last_reseed, last_reseed_took; /* 0: never */
	Micros last_served;
	Owes owes;
};

struct PoolStatistics
{
	std::uint64_t bytes, slots, slots_used, rings, rings_used;
	std::uint64_t evicted_rings, refused_rings, refused_slots;
	std::uint32_t shards;
};

std::uint32_t ring_places(const Hotlist &hotlist) noexcept;

/* Which ring is at a place; false when there is none. Takes the lock of a shard, shared. */
bool ring_key(const Hotlist &hotlist, std::uint32_t index, RingKey *key, RingRef *ring) noexcept;

/* The same with what is known of it. oldest_ready costs a lock of each shard. */
bool ring_statistics(const Hotlist &hotlist, std::uint32_t index, RingStatistics *statistics) noexcept;
void pool_statistics(const Hotlist &hotlist, PoolStatistics *statistics) noexcept;
/* Counters of all rings of a database (0: of all), and of the pool, begin anew. */
void reset_statistics(const Hotlist &hotlist, std::uint32_t database) noexcept;

/* Does everything in the pool hold together? For tests: takes every lock. Null, or what does not. */
const char *inconsistency(const Hotlist &hotlist) noexcept;

} // namespace queen::core::hotlist

#endif
