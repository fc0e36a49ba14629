/*
 * side_counts.h: how many messages of each queue lie beside it: its dead letters, and timers that will go to it. For the collector (src/state).
 */
#ifndef QUEEN_LOG_SIDE_COUNTS_H
#define QUEEN_LOG_SIDE_COUNTS_H

#include "log/queues.h"
#include "log/work_calls.h"
#include "server/pg.h"

namespace queen
{

/*
 * Go on with the first pass over what was not counted yet, by as many as may be in one collection; false when all of it was. Before, nothing is known of
 * it. Raises.
 */
bool side_counts_step();

/*
 * Count them as a snapshot sees them. whole: all of them; otherwise as many as may be in one collection, so that a small table is counted each time,
 * and a large one in as many as it takes: until it has been gone through what was counted last holds. Raises.
 */
void side_counts_go_on(Snapshot snapshot, bool whole);

/* What is counted of a queue, by priority, the lowest first; what has none is medium. */
void side_counts_of(int64 queue_id, const pg_uuid_t *tenant, Name name, int64 *dead, int64 *timers);

/* Give the memory back. Never raises. */
void side_counts_forget();

} // namespace queen

#endif
