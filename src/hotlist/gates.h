/*
 * gates.h: who waits for what, in shared memory, so that whoever has news for them wakes as many as there is work. README.md has the
 * protocol.
 *
 * There are gates when the library is preloaded; without, entering does nothing, nobody is told, and who sleeps looks when its time is over.
 * gates_sleep raises when the session is cancelled. All else never raises, allocates or waits, but for an LWLock of bounded holds; what tells
 * may be called where a transaction has ended.
 */
#ifndef QUEEN_HOTLIST_GATES_H
#define QUEEN_HOTLIST_GATES_H

#include "hotlist/pool.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

/* Called once by _PG_init, behind pool_init. */
void gates_init();

bool gates_there();

/* Who waits passes its wakes on when an error ends its transaction, or the savepoint that it has waited in. */
extern const TransactionParticipant waiting_participant;

/* ---- what is waited for ---- */

/* What news in a bucket are about. */
enum class News : uint32
{
	partition,	 /* there may be something in a partition of a queue */
	queue,		 /* … in any of a queue: for who has no ring */
	births,		 /* partitions of a log were born */
	queue_event, /* a queue's row or groups changed */
	queue_birth, /* a queue of that name was born */
};

/* A key of news of this database; never 0. tables names their incarnation (own_tables). */
uint64 gate_key(News news, Oid tables, int64 id, int64 partition_id = 0);
uint64 gate_key_of_name(Oid tables, const pg_uuid_t *tenant, const char *name, int size);

/* Where work is waited for: at a ring's place, or, without one (id 0), for news of a key; 0: nowhere. */
struct WaitFor
{
	core::hotlist::RingRef ring;
	uint64 work;
	uint64 event;
};

/* ---- waiting ---- */

/*
 * Wait for these from now on, in place of what was waited for before. True: it was something else, so what was looked at before may be old.
 */
bool gates_enter(const WaitFor *what);

/* Has somebody told? Of work, of events. */
bool gates_told_work();
bool gates_told_event();

/* Stand in line again after having been told. The wakes stay in hand until gates_answer or gates_leave. */
void gates_again();

/* The look that the wakes in hand have led to has found nothing. */
void gates_answer();

/* Why somebody goes. */
enum class Leave
{
	served,	 /* there is work, and that is one wake */
	nothing, /* its last look found none */
	broken,	 /* it does not look any more: its wakes go to others */
};
void gates_leave(Leave why);

/* Sleep until told, but not shorter than until rest, or until a time of the pool's clock; true when told. */
bool gates_sleep(core::hotlist::Micros until, core::hotlist::Micros rest);

/* ---- telling: at once nothing when nobody waits ---- */

/* Somebody waits in buckets, for work of any key; a full fence comes before the look. */
bool gates_bucket_waiters();

/* Of a key: as many as there are candidates, or everybody. */
void gates_tell(uint64 work, uint32 ready);
void gates_tell_all(uint64 work);
void gates_tell_event(uint64 event);

/* Something happened to the tables: everybody who waits in buckets, of all databases. */
void gates_tell_everybody();

/* What the core is given: candidates of a ring became ready. */
void gates_ring_ready(void *arg, uint32 ring_index, uint32 ready) noexcept;

/* Something may have been parked: the pulse must not sleep beyond it while somebody waits at a ring. */
void gates_parked();

/* ---- the pulse ---- */

/* This process is the pulse of its database, until it exits. */
void gates_attend();

/* Does the database have a pulse? */
bool gates_attended();

/* Wake who is due, drain what is; returns when to come again: `never` is until rung. To be called whenever the latch was set. */
core::hotlist::Micros gates_tick();

/* ---- looking ---- */

struct GateStatistics
{
	uint32 waiting;
	uint64 wakes; /* given */
};
void gate_statistics(uint32 ring_index, GateStatistics *statistics);

} // namespace queen

#endif
