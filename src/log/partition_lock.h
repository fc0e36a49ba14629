/*
 * partition_lock.h: a partition's heavyweight lock: who appends, deletes segments, or moves a cursor back, one at a time.
 */
#ifndef QUEEN_LOG_PARTITION_LOCK_H
#define QUEEN_LOG_PARTITION_LOCK_H

#include "server/pg.h"

namespace queen
{

/*
 * Take it, waiting at most queen.flush_timeout: false when that is over. The transaction's end releases it, if
 * partition_unlock does not before.
 *
 * Whoever takes it for anything but an append may delete segments or write log_start: shared memory forgets the partition's
 * tail then, and nobody can note another before the lock is released.
 */
bool partition_lock(int64 partition_id);
bool partition_lock_for_append(int64 partition_id);
void partition_unlock(int64 partition_id);

/* QN002: it was not to be had. */
[[noreturn]] void raise_partition_locked(const char *partition, const char *queue);

} // namespace queen

#endif
