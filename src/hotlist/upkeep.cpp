/*
 * upkeep.cpp: what is to be done for the hot-list now and then. See upkeep.h.
 *
 * Raises only what logging raises. Locks: the pool's, in the core. Runs in keepers, and where there is none in whatever process serves pops.
 */
#include "hotlist/upkeep.h"

#include "server/attended.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

constexpr int most_logged = 10;
constexpr hot::Micros log_interval = 30 * USECS_PER_SEC;

uint64
load_of(const hot::RingStatistics *ring)
{
	return ring->ready + ring->parked;
}

void
log_busiest()
{
	hot::RingStatistics busiest[most_logged];
	hot::RingStatistics ring;
	hot::PoolStatistics pool;
	int count = 0;

	for (uint32 i = 0; i < hot::ring_places(hotlist()); i++)
	{
		int place = count;

		if (!hot::ring_statistics(hotlist(), i, &ring) || load_of(&ring) == 0)
			continue;
		while (place > 0 && load_of(&busiest[place - 1]) < load_of(&ring))
			place--;
		if (place == most_logged)
			continue;
		count = Min(count + 1, most_logged);
		memmove(&busiest[place + 1], &busiest[place], sizeof(ring) * (size_t) (count - place - 1));
		busiest[place] = ring;
	}
	hot::pool_statistics(hotlist(), &pool);
	ereport(LOG, (errmsg("queen: hot-list: %llu of %llu candidates, %llu of %llu rings in use",
						 (unsigned long long) pool.slots_used, (unsigned long long) pool.slots,
						 (unsigned long long) pool.rings_used, (unsigned long long) pool.rings)));
	for (int i = 0; i < count; i++)
		ereport(LOG, (errmsg("queen: hot-list: database %u, queue %lld, group %lld: %llu ready, %llu parked, %llu "
							 "checked out, %llu marks, %llu takes",
							 busiest[i].key.queue.database, (long long) busiest[i].key.queue.queue_id,
							 (long long) busiest[i].key.group_id, (unsigned long long) busiest[i].ready,
							 (unsigned long long) busiest[i].parked, (unsigned long long) busiest[i].checked_out,
							 (unsigned long long) busiest[i].marks, (unsigned long long) busiest[i].takes)));
}

} // namespace

hot::Micros
hotlist_upkeep()
{
	const hot::Micros sweep_interval = (hot::Micros) setting_hotlist_idle_sweep_interval * USECS_PER_SEC;
	hot::Micros next = hot::never;

	if (!hotlist_there())
		return next;
	if (sweep_interval > 0)
	{
		if (hotlist_turn_to_sweep(sweep_interval))
			(void) hot::sweep(hotlist(), hotlist_now());
		next = hotlist_next_sweep(sweep_interval);
	}
	if (setting_log_hotlist)
	{
		if (hotlist_turn_to_log(log_interval))
			log_busiest();
		next = Min(next, hotlist_next_log(log_interval));
	}
	return next;
}

hot::Micros
hotlist_floor()
{
	return (hot::Micros) setting_hotlist_reseed_interval * USECS_PER_SEC;
}

hot::Micros
hotlist_serving_floor()
{
	return keeper_attends() ? 0 : hotlist_floor();
}

} // namespace queen
