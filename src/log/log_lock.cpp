/*
 * log_lock.cpp: a heavyweight lock on the log of a work queue. See log_lock.h.
 *
 * Raises when a wait is over or cancelled. Runs in backends and workers.
 */
#include "log/log_lock.h"

#include "server/errors.h"
#include "server/settings.h"
#include "server/timed_wait.h"

namespace queen
{

namespace
{

/* Its class (field 4), see partition_lock.cpp. Keyed by database and log id. */
constexpr uint16 log_lock_class = 0x5159;

LOCKTAG
tag_of(int64 log_id)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (log_id >> 32), (uint32) log_id, log_lock_class);
	return tag;
}

void
acquire_to_put(void *arg)
{
	(void) LockAcquire((const LOCKTAG *) arg, RowExclusiveLock, false, false);
}

void
acquire_to_drop(void *arg)
{
	(void) LockAcquire((const LOCKTAG *) arg, ExclusiveLock, false, false);
}

} // namespace

bool
log_lock_try_to_put(int64 log_id)
{
	LOCKTAG tag = tag_of(log_id);

	return LockAcquire(&tag, RowExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
log_lock_to_put(int64 log_id, const char *queue)
{
	LOCKTAG tag = tag_of(log_id);

	if (!log_lock_try_to_put(log_id) && !run_with_timeout(setting_flush_timeout, false, acquire_to_put, &tag))
		ereport(ERROR, (errcode(errcode_flush_timeout), errmsg("queue \"%s\" stayed locked", queue),
						errdetail("Waited %d ms for a transaction that drops or purges it (queen.flush_timeout).",
								  setting_flush_timeout),
						errhint("Try again.")));
}

void
log_lock_to_drop(int64 log_id, const char *queue)
{
	LOCKTAG tag = tag_of(log_id);

	/* who wants to enqueue stands behind it: not for as long as somebody keeps his transaction open */
	if (!run_with_timeout(setting_flush_timeout, false, acquire_to_drop, &tag))
		ereport(ERROR, (errcode(errcode_flush_timeout), errmsg("queue \"%s\" stayed in use", queue),
						errdetail("Waited %d ms for a transaction that has enqueued into it (queen.flush_timeout).",
								  setting_flush_timeout),
						errhint("Try again when it has ended; pg_locks has its advisory lock.")));
}

} // namespace queen
