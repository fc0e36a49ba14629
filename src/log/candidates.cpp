/*
 * candidates.cpp: candidates by a walk over the tables. See candidates.h.
 *
 * Raises. No locks but the table's. Runs in backends.
 */
#include "log/candidates.h"

namespace queen
{

void
candidate_walk_open(CandidateWalk *walk, int64 log_id, const Name *partition, int64 first)
{
	walk->log_id = log_id;
	walk->next = walk->wrap_first = 1;
	walk->last = walk->wrap_last = 0;
	walk->page_context = AllocSetContextCreate(CurrentMemoryContext, "queen candidates", ALLOCSET_DEFAULT_SIZES);
	partition_table_open(&walk->partitions, AccessShareLock);
	if (partition != nullptr)
	{
		PartitionRow row;

		if (partition_find(&walk->partitions, log_id, *partition, &row))
			walk->next = walk->last = row.partition_id;
	}
	else
	{
		Snapshot snapshot = register_latest_snapshot();
		int64 least;
		int64 greatest;

		if (partition_id_range(&walk->partitions, log_id, snapshot, &least, &greatest))
		{
			walk->next = first >= least && first <= greatest
							 ? first
							 : (int64) pg_prng_uint64_range(&pg_global_prng_state, (uint64) least, (uint64) greatest);
			walk->last = greatest;
			walk->wrap_first = least;
			walk->wrap_last = walk->next - 1;
		}
		UnregisterSnapshot(snapshot);
	}
}

int
candidate_walk_page(CandidateWalk *walk)
{
	int count = 0;
	MemoryContext caller;

	MemoryContextReset(walk->page_context);
	caller = MemoryContextSwitchTo(walk->page_context);
	while (count == 0)
	{
		Snapshot snapshot;

		if (walk->next > walk->last)
		{
			if (walk->wrap_first > walk->wrap_last)
				break;
			walk->next = walk->wrap_first;
			walk->last = walk->wrap_last;
			walk->wrap_first = 1;
			walk->wrap_last = 0;
		}
		snapshot = register_latest_snapshot();
		count = partition_page(&walk->partitions, walk->log_id, walk->next, walk->last, snapshot, walk->rows,
							   candidate_page_size);
		UnregisterSnapshot(snapshot);
		walk->next = count == candidate_page_size ? walk->rows[count - 1].partition_id + 1 : walk->last + 1;
	}
	for (int i = 0; i < count; i++)
	{
		walk->page[i] = {};
		walk->page[i].partition_id = walk->rows[i].partition_id;
		walk->page[i].name = walk->rows[i].name;
	}
	MemoryContextSwitchTo(caller);
	return count;
}

void
candidate_walk_close(CandidateWalk *walk)
{
	partition_table_close(&walk->partitions);
	MemoryContextDelete(walk->page_context);
}

} // namespace queen
