/*
 * partition_walk.cpp: a queue's partitions in id order. See partition_walk.h.
 *
 * Raises. No locks but the table's. Runs in backends and on a standby.
 */
#include "log/partition_walk.h"

namespace queen
{

void
partition_walk_open(PartitionWalk *walk, int64 log_id, int64 first, Snapshot snapshot)
{
	partition_table_open(&walk->partitions, AccessShareLock);
	walk->snapshot = snapshot;
	walk->log_id = log_id;
	walk->next = first;
	walk->last = PG_INT64_MAX;
	walk->count = walk->at = 0;
	walk->page = AllocSetContextCreate(CurrentMemoryContext, "queen partitions", ALLOCSET_DEFAULT_SIZES);
}

void
partition_walk_open_one(PartitionWalk *walk, int64 log_id, Name partition, const char *queue, Snapshot snapshot)
{
	PartitionRow row;

	partition_walk_open(walk, log_id, 0, snapshot);
	if (!partition_find(&walk->partitions, log_id, partition, &row))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("queue \"%s\" has no partition \"%s\"", queue, name_to_cstring(partition)),
				 errhint("A partition is born by the first push to it; without a partition the call is for all.")));
	walk->rows[0] = row;
	walk->count = 1;
	walk->next = 1;
	walk->last = 0;
}

const PartitionRow *
partition_walk_next(PartitionWalk *walk)
{
	CHECK_FOR_INTERRUPTS();
	if (walk->at == walk->count && walk->next <= walk->last)
	{
		MemoryContext caller;

		MemoryContextReset(walk->page);
		caller = MemoryContextSwitchTo(walk->page);
		walk->count = partition_page(&walk->partitions, walk->log_id, walk->next, walk->last, walk->snapshot,
									 walk->rows, partition_walk_page_size);
		MemoryContextSwitchTo(caller);
		walk->at = 0;
		if (walk->count == partition_walk_page_size)
			walk->next = walk->rows[walk->count - 1].partition_id + 1;
		else
			walk->last = walk->next - 1;
	}
	return walk->at < walk->count ? &walk->rows[walk->at++] : nullptr;
}

void
partition_walk_close(PartitionWalk *walk)
{
	partition_table_close(&walk->partitions);
	MemoryContextDelete(walk->page);
}

} // namespace queen
