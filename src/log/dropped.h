/*
 * dropped.h: what is gone for everybody and waits to be cleaned up: logs of dropped and purged queues, and partitions that
 * were deleted because nothing was in them for long. README.md of this folder says who may still know their ids.
 */
#ifndef QUEEN_LOG_DROPPED_H
#define QUEEN_LOG_DROPPED_H

#include "log/partitions.h"
#include "log/starts.h"
#include "server/pg.h"

namespace queen
{

/* File a log: nobody pushes to it any more. queue_id: also what belongs to the dropped queue; 0 for a purge. */
void dropped_file_log(int64 log_id, int64 queue_id);

/*
 * Delete a partition that has no segment, no key, and was last used before a time; false when it is not so. It holds the
 * partition's lock to the end of the transaction then. start: of the partition, as read without the lock.
 */
bool partition_expire(const PartitionRow *partition, const LogStart *start, TimestampTz unused);

/*
 * Repair: file a partition that has no row, or one of a log that is nobody's, and no segment. False, and nothing done, when
 * it has one, or its lock is not to be had. It holds the partition's lock to the end of the transaction then.
 */
bool partition_file_orphan(int64 partition_id);

/*
 * A bounded piece of the clean-up. False when there is nothing to do now: nothing is left, or what is left waits until
 * nobody can know its ids. Never waits. Commit after each call.
 *   dropped_id, next_partition: where the pass stands, 0 at its begin; moved
 */
bool dropped_step(int64 *dropped_id, int64 *next_partition);

} // namespace queen

#endif
