/*
 * waiting.cpp: the loop of who waits for work. See waiting.h.
 *
 * Raises what the look raises, and when the session is cancelled; the gates are left then by waiting_participant. Runs in backends.
 */
#include "hotlist/waiting.h"

#include "hotlist/upkeep.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

/* A look by the tables takes at most one part in so many of the time. */
constexpr hot::Micros look_share = 10;
/* Parts of queen.wait_poll_interval with which a waiter begins. */
constexpr hot::Micros first_part = 10;

/* How long it waits for news before it looks itself. */
struct Patience
{
	hot::Micros first;
	hot::Micros most;
	hot::Micros now;
};

Patience
patience_begin()
{
	const hot::Micros most = (hot::Micros) setting_wait_poll_interval * 1000;

	return {most / first_part, most, most / first_part};
}

/* Look, and say until when to leave the tables alone afterwards. What the last look left in memory goes: a wait may be a day of looks. */
WaitLook
look_and_time(const WaitCalls *calls, MemoryContext per_look, hot::Micros *rest)
{
	const hot::Micros began = hotlist_now();
	MemoryContext caller;
	WaitLook found;
	hot::Micros now;

	MemoryContextReset(per_look);
	caller = MemoryContextSwitchTo(per_look);
	found = calls->look(calls->arg);
	MemoryContextSwitchTo(caller);
	now = hotlist_now();
	*rest = found.ring.id == 0 ? now + look_share * (now - began) : now;
	return found;
}

/* Nothing is ready in memory, or that is not enough. */
bool
needs_look(const WaitCalls *calls, WaitLook *found, uint64 generation, bool event)
{
	/* the news that the extension is gone, or a queue another one, come without being looked for only here */
	AcceptInvalidationMessages();
	if (event || found->ring.id == 0 || names_generation() != generation || hotlist_now() >= found->until)
		return true;
	switch (ring_news(found->ring))
	{
		case RingNews::nothing:
			return false;
		case RingNews::ready:
			found->ready = calls->ready_is_enough;
			return !calls->ready_is_enough;
		case RingNews::look:
			break;
	}
	return true;
}

} // namespace

RingNews
ring_news(hot::RingRef ring)
{
	const hot::Micros interval = hotlist_serving_floor();
	const hot::Micros now = hotlist_now();
	constexpr uint32 some = 64;

	if (!hot::ring_is(hotlist(), ring))
		return RingNews::look;
	/* or its place would be the first that is given to another */
	hot::ring_in_use(hotlist(), ring, now);
	if (!gates_attended() && hot::next_deadline(hotlist()) <= now)
		(void) hot::drain(hotlist(), some, now, hotlist_listener());
	if (hot::ready_count(hotlist(), ring) > 0)
		return RingNews::ready;
	return hot::owes(hotlist(), ring, now, interval) == hot::Owes::nothing ? RingNews::nothing : RingNews::look;
}

bool
wait_for_work(const WaitCalls *calls, int64 timeout)
{
	const hot::Micros deadline = hotlist_now() + timeout;
	MemoryContext per_look = AllocSetContextCreate(CurrentMemoryContext, "queen wait", ALLOCSET_DEFAULT_SIZES);
	Patience patience = patience_begin();
	hot::Micros rest;
	WaitLook found = look_and_time(calls, per_look, &rest);
	uint64 generation = names_generation();

	while (!found.ready && hotlist_now() < deadline)
	{
		const hot::Micros now = hotlist_now();
		const hot::Micros poll = Max(now + patience.now, rest);
		bool event;

		gates_answer();
		if (gates_sleep(Min(Min(poll, found.until), deadline), Min(rest, now + patience.most)))
			patience.now = patience.first;
		else
			patience.now = Min(2 * patience.now, patience.most);
		event = gates_told_event();
		gates_again();
		if (needs_look(calls, &found, generation, event))
		{
			found = look_and_time(calls, per_look, &rest);
			generation = names_generation();
		}
	}
	gates_leave(found.ready ? Leave::served : Leave::nothing);
	MemoryContextDelete(per_look);
	return found.ready;
}

} // namespace queen
