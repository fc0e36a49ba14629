/*
 * partition_lock.h: a partition's two heavyweight locks: who appends or deletes segments, one at a time; and who moves a
 * cursor back, against who deletes by where cursors stand.
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

/*
 * The seek lock, which no push waits for: while it is held, no cursor of the partition is moved back. Waits and ends as the
 * other one. Whoever takes both takes this one first.
 */
bool partition_seek_lock(int64 partition_id);
void partition_seek_unlock(int64 partition_id);

/* QN002: a lock of the partition was not to be had. */
[[noreturn]] void raise_partition_locked(const char *partition, const char *queue);

} // namespace queen

#endif
