/*
 * pushed_partitions.h: to which partitions this transaction has appended segments, for those who are told when it ends.
 */
#ifndef QUEEN_LOG_PUSHED_PARTITIONS_H
#define QUEEN_LOG_PUSHED_PARTITIONS_H

#include "server/pg.h"

namespace queen
{

/* A segment is about to be appended; makes room for the note of it, so that noting cannot fail. Raises for memory. */
void pushed_partitions_reserve();

/* It was. tables: own_tables(); channel: the queue's, if it is to be notified, else 0. Never raises. */
void pushed_partitions_note(Oid tables, int64 queue_id, int64 partition_id, uint32 messages, uint64 channel);

/*
 * The transaction has ended, or is prepared: tell whoever keeps candidates in memory, and forget. Also of what was rolled back: who waits behind
 * it goes on. stays: it is committed or prepared; then the change feed is told too. Never raises or allocates.
 */
void pushed_partitions_tell(bool stays);

} // namespace queen

#endif
