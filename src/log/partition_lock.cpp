/*
 * partition_lock.cpp: a partition's heavyweight locks. See partition_lock.h.
 *
 * Raises when a wait is cancelled. Runs in backends and workers.
 */
#include "log/partition_lock.h"

#include "log/tails.h"
#include "server/errors.h"
#include "server/relations.h"
#include "server/settings.h"
#include "server/timed_wait.h"

namespace queen
{

namespace
{

/*
 * The classes (field 4) of our advisory locks: the SQL functions use 1 and 2, Citus small numbers. Keyed by database and
 * partition id.
 */
constexpr uint16 append_lock_class = 0x5153;
constexpr uint16 seek_lock_class = 0x5154;

LOCKTAG
tag_of(int64 partition_id, uint16 lock_class)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (partition_id >> 32), (uint32) partition_id, lock_class);
	return tag;
}

void
acquire(void *arg)
{
	(void) LockAcquire((const LOCKTAG *) arg, ExclusiveLock, false, false);
}

bool
lock(int64 partition_id, uint16 lock_class)
{
	LOCKTAG tag = tag_of(partition_id, lock_class);

	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL ||
		   run_with_timeout(setting_flush_timeout, false, acquire, &tag);
}

void
unlock(int64 partition_id, uint16 lock_class)
{
	LOCKTAG tag = tag_of(partition_id, lock_class);

	LockRelease(&tag, ExclusiveLock, false);
}

} // namespace

bool
partition_lock_for_append(int64 partition_id)
{
	return lock(partition_id, append_lock_class);
}

bool
partition_lock(int64 partition_id)
{
	if (!partition_lock_for_append(partition_id))
		return false;
	tail_forget(own_tables(), partition_id);
	return true;
}

void
partition_unlock(int64 partition_id)
{
	unlock(partition_id, append_lock_class);
}

bool
partition_seek_lock(int64 partition_id)
{
	return lock(partition_id, seek_lock_class);
}

void
partition_seek_unlock(int64 partition_id)
{
	unlock(partition_id, seek_lock_class);
}

void
raise_partition_locked(const char *partition, const char *queue)
{
	ereport(ERROR,
			(errcode(errcode_flush_timeout), errmsg("partition \"%s\" of queue \"%s\" stayed locked", partition, queue),
			 errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout), errhint("Try again.")));
	pg_unreachable();
}

} // namespace queen
