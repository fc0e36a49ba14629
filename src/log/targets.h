/*
 * targets.h: the partitions that a flush writes, from names to ids.
 */
#ifndef QUEEN_LOG_TARGETS_H
#define QUEEN_LOG_TARGETS_H

#include "log/known_names.h"
#include "log/push_buffer.h"
#include "server/pg.h"

namespace queen
{

/* A partition that is being written. */
struct FlushTarget
{
	const BufferedPartition *buffered;
	KnownName known; /* its partition_id is 0 until the name is resolved */
	bool keyed;		 /* dedup_keys were taken in this partition */
};

/*
 * Make sure of all queues, then of all partitions, in name order. targets[i] is for sorted[i]; those whose count is 0
 * (everything pushed to them was rolled back) are left alone. A transaction that is being prepared brings nothing to life:
 * a name would stay taken, and everybody who pushes to it would wait, until somebody ends it. Palloc'ed; raises.
 */
FlushTarget *targets_resolve(BufferedPartition **sorted, const uint64 *counts, int count, bool preparing);

/*
 * The partition that a target's id stood for is gone, or its queue: the names may be born again. Raises, also (40001) where
 * keys were taken in what is gone.
 */
void target_resolve_again(FlushTarget *target, bool preparing);

} // namespace queen

#endif
