/*
 * pool.h: the hot-list's pool in shared memory, and what the core is handed: time, owners, keys.
 *
 * There is a pool when the library is preloaded and queen.hotlist_size is not 0. Nothing here raises but pool_init.
 */
#ifndef QUEEN_HOTLIST_POOL_H
#define QUEEN_HOTLIST_POOL_H

#include "core/hotlist/hotlist.h"
#include "server/pg.h"

namespace queen
{

/* The pool; without one its pool is null. */
const core::hotlist::Hotlist &hotlist();

/* Is there a pool? */
inline bool
hotlist_there()
{
	return hotlist().pool != nullptr;
}

/* How many places for rings it has; also known before the memory is there. */
uint32 hotlist_rings();

/* The most candidates that one take may ask for. */
inline constexpr uint32 hotlist_most_taken = 64;

/* Who is told that candidates became ready. */
const core::hotlist::Listener &hotlist_listener();

/* Microseconds of the clock that the pool goes by. */
core::hotlist::Micros hotlist_now();

/* A time of the wall clock as one of the pool's. */
core::hotlist::Micros hotlist_time(TimestampTz at);

/* This transaction as the owner of check-outs, and whether an owner's transaction still runs. */
core::hotlist::Owner hotlist_owner();
bool hotlist_owner_alive(core::hotlist::Owner owner) noexcept;

/* The keys of this database. tables names their incarnation (own_tables). */
core::hotlist::QueueKey hotlist_queue_key(Oid tables, int64 queue_id);
core::hotlist::RingKey hotlist_ring_key(Oid tables, int64 queue_id, int64 group_id);

/* Why a pop of any partition asked the tables instead of a ring. */
enum class Fallback : int
{
	off,		 /* queen.hotlist */
	uncommitted, /* the queue or the group is this transaction's own */
	full,		 /* no place for the ring */
	cold,		 /* another session walks for it, and nothing is ready */
	count,
};
void count_fallback(Fallback fallback);
uint64 fallbacks(Fallback fallback);
void reset_fallbacks();

/* Is it this call's turn to do what is to be done once in that time, in all the server? */
bool hotlist_turn_to_log(core::hotlist::Micros interval);
bool hotlist_turn_to_sweep(core::hotlist::Micros interval);
/* When it will be somebody's turn. */
core::hotlist::Micros hotlist_next_log(core::hotlist::Micros interval);
core::hotlist::Micros hotlist_next_sweep(core::hotlist::Micros interval);

/* Called once by _PG_init, behind settings_init. */
void pool_init();

} // namespace queen

#endif
