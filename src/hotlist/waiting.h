/*
 * waiting.h: the loop of who waits for work: look, sleep until told or until it is time, look again.
 *
 * Raises what the look raises, and when the session is cancelled. Takes no lock and no snapshot of its own, starts and ends no transaction.
 */
#ifndef QUEEN_HOTLIST_WAITING_H
#define QUEEN_HOTLIST_WAITING_H

#include "hotlist/gates.h"
#include "server/pg.h"

namespace queen
{

/* What a look has found. */
struct WaitLook
{
	bool ready;
	core::hotlist::Micros until; /* nothing, and then there may be something: look again; `never` where nobody knows */
	core::hotlist::RingRef ring; /* where memory says whether another look is worth while; id 0: only a look does */
};

struct WaitCalls
{
	/*
	 * Enters the gates (gates_enter) and then looks, at what was found after it had entered. May end its transaction. Its memory context lasts to the
	 * next look.
	 */
	WaitLook (*look)(void *arg);
	void *arg;
	bool ready_is_enough; /* a ring with candidates needs no look */
};

/* The longest wait. */
inline constexpr int64 wait_most = USECS_PER_DAY;

/* Wait until a look is ready, for so many microseconds; false when the time is over. */
bool wait_for_work(const WaitCalls *calls, int64 timeout);

/* What memory says of a ring that somebody waits at. */
enum class RingNews
{
	nothing,
	ready,
	look, /* it owes a walk, or is gone */
};
RingNews ring_news(core::hotlist::RingRef ring);

} // namespace queen

#endif
