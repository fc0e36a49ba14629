/*
 * evict.cpp: keeps workers out of a database that has to be empty. See evict.h.
 *
 * Raises when it is cancelled. Locks: a heavyweight lock of its own class, to the end of the transaction; the registry's. Runs in
 * backends and the launcher.
 */
#include "worker/evict.h"

#include "hotlist/pool.h"
#include "worker/registry.h"

namespace queen
{

namespace
{

/* Classes of our advisory locks: see log/partition_lock.cpp. Of no database, because databases are what it is about. */
constexpr uint16 launch_lock_class = 0x5157;

/* workers are told; then signalled; then left to the server, which says who is still there */
constexpr core::Micros told_for = USECS_PER_SEC;
constexpr core::Micros at_most = 10 * USECS_PER_SEC;
constexpr long look_again = 100; /* ms */

LOCKTAG
tag_of(Oid database)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, InvalidOid, database, 0, launch_lock_class);
	return tag;
}

} // namespace

void
evict_workers(Oid database)
{
	static constinit uint32 known_wait_event = 0;
	const LOCKTAG tag = tag_of(database);
	const core::Micros began = hotlist_now();
	core::Micros waited = 0;

	/* several may copy one database */
	(void) LockAcquire(&tag, ShareLock, false, false);
	ConditionVariablePrepareToSleep(registry_gone());
	while (registry_evict(database) > 0 && waited < at_most)
	{
		if (waited >= told_for)
			registry_terminate(database);
		(void) ConditionVariableTimedSleep(registry_gone(), look_again,
										   named_wait_event("QueenWorkersLeave", &known_wait_event));
		waited = hotlist_now() - began;
	}
	(void) ConditionVariableCancelSleep();
}

bool
may_launch(Oid database)
{
	const LOCKTAG tag = tag_of(database);

	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
end_launching(Oid database)
{
	const LOCKTAG tag = tag_of(database);

	(void) LockRelease(&tag, ExclusiveLock, false);
}

} // namespace queen
