/*
 * hotlist_admin.cpp: queen.hotlist_candidates and hotlist_reseed: a look into a group's ring, and a walk for it by hand.
 *
 * Raises. Locks: none but the tables'; the pool's in the core. Runs in backends.
 */
#include "log/groups.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "log/ring_walk.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

constexpr int64 most_candidates = 10000;

/* The arguments queue and consumer_group, and the group's ring if it has one. */
struct Asked
{
	QueueRow queue;
	GroupRow group;
	ServedRing served;
	bool has_ring;
};

void
ask(FunctionCallInfo fcinfo, Asked *asked)
{
	Name queue_name = name_argument(fcinfo, 0, "queue");
	Name group_name = name_argument(fcinfo, 1, "consumer_group");

	queue_get_log(setting_tenant(), queue_name, hint_for_groups, &asked->queue);
	if (!group_find(asked->queue.queue_id, group_name, &asked->group))
		raise_unknown_group(asked->queue.name, group_name);
	if (!hotlist_there())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("there is no hot-list"),
						errhint("Put queen into shared_preload_libraries, set queen.hotlist_size above 0, and restart "
								"the server.")));
	asked->served.key = hotlist_ring_key(own_tables(), asked->queue.queue_id, asked->group.group_id);
	asked->has_ring = hot::ring_find(hotlist(), asked->served.key, &asked->served.ring);
}

} // namespace

QUEEN_FUNCTION(queen_hotlist_candidates)
QUEEN_FUNCTION(queen_hotlist_reseed)

/* queen.hotlist_candidates(queue, consumer_group, k) returns setof record */
Datum
queen_hotlist_candidates(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const uint32 k = (uint32) count_argument(fcinfo, 2, "k", 1, most_candidates);
	Asked asked = {};
	PartitionTable partitions;
	hot::Taken *taken;
	uint32 count;

	ask(fcinfo, &asked);
	InitMaterializedSRF(fcinfo, 0);
	if (!asked.has_ring)
		return (Datum) 0;
	taken = (hot::Taken *) palloc(sizeof(hot::Taken) * k);
	count = hot::candidates(hotlist(), asked.served.ring, k, taken);
	partition_table_open(&partitions, AccessShareLock);
	for (uint32 i = 0; i < count; i++)
	{
		PartitionRow partition;
		Datum values[3] = {};
		bool nulls[3] = {};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int64GetDatum(taken[i].partition_id);
		nulls[1] = !partition_find_by_id(&partitions, taken[i].partition_id, &partition);
		if (!nulls[1])
			values[1] = CStringGetTextDatum(partition.name);
		values[2] = Float8GetDatum((double) Max(hotlist_now() - taken[i].ready_since, 0) / (double) USECS_PER_SEC);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	partition_table_close(&partitions);
	return (Datum) 0;
}

/* queen.hotlist_reseed(queue, consumer_group) returns boolean */
Datum
queen_hotlist_reseed(PG_FUNCTION_ARGS)
{
	Asked asked = {};

	guard_take("queen.hotlist_reseed()");
	ask(fcinfo, &asked);
	if (!asked.has_ring &&
		(asked.group.own || asked.queue.own ||
		 hot::ring_register(hotlist(), asked.served.key, hotlist_now(), &asked.served.ring) == hot::Registered::full))
		return BoolGetDatum(false);
	return BoolGetDatum(ring_walk(&asked.queue, &asked.group, &asked.served));
}

} // namespace queen
