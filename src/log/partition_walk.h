/*
 * partition_walk.h: a queue's partitions in id order, or one of them, for calls that go over all of them.
 *
 * Raises. Takes no lock but the table's AccessShareLock. Works on a standby.
 */
#ifndef QUEEN_LOG_PARTITION_WALK_H
#define QUEEN_LOG_PARTITION_WALK_H

#include "log/partitions.h"

namespace queen
{

inline constexpr int partition_walk_page_size = 64;

struct PartitionWalk
{
	PartitionTable partitions;
	Snapshot snapshot;
	int64 log_id;
	int64 next; /* what is left to read: [next, last] */
	int64 last;
	int count; /* of the page */
	int at;
	PartitionRow rows[partition_walk_page_size];
	MemoryContext page; /* the names of rows */
};

/* Walk the partitions that a snapshot, registered or dirty, sees from an id on. */
void partition_walk_open(PartitionWalk *walk, int64 log_id, int64 first, Snapshot snapshot);

/* Walk the one that has this name. 42704 when the latest snapshot sees none; queue is the queue's name. */
void partition_walk_open_one(PartitionWalk *walk, int64 log_id, Name partition, const char *queue, Snapshot snapshot);

/* The next one, which holds until the next call; null at the end. */
const PartitionRow *partition_walk_next(PartitionWalk *walk);

void partition_walk_close(PartitionWalk *walk);

} // namespace queen

#endif
