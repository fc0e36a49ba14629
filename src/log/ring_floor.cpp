/*
 * ring_floor.cpp: the reseed floor of a database's rings. See ring_floor.h.
 *
 * Raises: what the ring owes it owes still. Locks: see ring_walk.cpp. Runs in the keeper, and in sessions of the tests.
 */
#include "log/ring_floor.h"

#include "hotlist/upkeep.h"
#include "log/groups.h"
#include "log/queues.h"
#include "log/ring_walk.h"
#include "server/guards.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

/* Walks may take one part in so many of the time. */
constexpr int64 walk_share = 100;

/* When the pool is full a walk pays nothing, and when another session walks it does what is to be done. */
constexpr int64 look_again = USECS_PER_SEC;

/* The ring of these tables whose floor is due first; false without any. */
bool
first_due(Oid tables, hot::Micros interval, ServedRing *first, hot::Micros *due)
{
	bool any = false;

	*due = hot::never;
	for (uint32 i = 0; i < hot::ring_places(hotlist()); i++)
	{
		ServedRing served;
		hot::Micros at;

		if (!hot::ring_key(hotlist(), i, &served.key, &served.ring) || served.key.queue.database != MyDatabaseId ||
			served.key.queue.tables != tables)
			continue;
		at = hot::floor_due(hotlist(), served.ring, interval);
		/* full: pops ask the tables, and tell when there is room again */
		if (at >= *due || hot::owes(hotlist(), served.ring, at, interval) == hot::Owes::full)
			continue;
		any = true;
		*due = at;
		*first = served;
	}
	return any;
}

/* Walk for the ring; false when another session does. The ring of what is not there any more goes. */
bool
walk_for(const ServedRing *served)
{
	QueueTable queues;
	QueueRow queue;
	GroupRow group;
	bool known;

	queue_table_open(&queues, AccessShareLock);
	known = queue_find_by_id(&queues, served->key.queue.queue_id, &queue);
	queue_table_close(&queues);
	if (known && group_find_by_id(served->key.group_id, &group) && group.queue_id == queue.queue_id)
		return ring_walk(&queue, &group, served);
	hot::forget_ring(hotlist(), served->key);
	return true;
}

} // namespace

int64
ring_floor_step()
{
	const hot::Micros interval = hotlist_floor();
	const hot::Micros began = hotlist_there() ? hotlist_now() : 0;
	ServedRing first = {};
	hot::Micros due;
	bool any;

	if (!hotlist_there() || !setting_hotlist || interval == 0)
		return USECS_PER_MINUTE;
	any = first_due(own_tables(), interval, &first, &due);
	/* a ring that is made from now on is due later than that */
	if (!any || due > began)
		return any ? Min(due - began, interval) : interval;
	if (!walk_for(&first))
		return look_again;
	return (hotlist_now() - began) * walk_share;
}

QUEEN_FUNCTION(queen_ring_floor_step)
QUEEN_FUNCTION(queen_false_clear)

/* For the tests (test/modules/queen_test declares it): a step of the floor in this session. */
Datum
queen_ring_floor_step(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	guard_take("queen_test_ring_floor_step()");
	return Int64GetDatum(ring_floor_step());
}

/*
 * For the tests: the fault that the floor is there for. The ring forgets a partition that is ready, as if a pop had found it empty. False
 * when it is not ready.
 */
Datum
queen_false_clear(PG_FUNCTION_ARGS)
{
	const int64 partition_id = PG_GETARG_INT64(2);
	ServedRing served;
	hot::Taken taken[hotlist_most_taken];
	uint32 count;
	bool cleared = false;

	served.key = hotlist_ring_key(own_tables(), PG_GETARG_INT64(0), PG_GETARG_INT64(1));
	if (!hotlist_there() || !hot::ring_find(hotlist(), served.key, &served.ring))
		return BoolGetDatum(false);
	count = hot::take(hotlist(), served.ring, hotlist_most_taken, PG_UINT32_MAX, hotlist_now(), hotlist_owner(), taken,
					  hotlist_listener());
	for (uint32 i = 0; i < count; i++)
	{
		hot::Outcome outcome;

		if (taken[i].partition_id == partition_id)
		{
			outcome.verdict = core::Verdict::empty;
			outcome.may_clear = true;
			cleared = true;
		}
		(void) hot::check_in(hotlist(), served.ring, taken[i], outcome, hotlist_now(), hotlist_listener());
	}
	return BoolGetDatum(cleared);
}

} // namespace queen
