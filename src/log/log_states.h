/*
 * log_states.h: the state of log queues and their consumer groups, for the collector (src/state).
 */
#ifndef QUEEN_LOG_LOG_STATES_H
#define QUEEN_LOG_LOG_STATES_H

#include "log/groups.h"
#include "log/state_gauges.h"
#include "server/pg.h"

namespace queen
{

/* A log queue whose state is asked for. */
struct LogQueueState
{
	int64 queue_id;
	int64 log_id;
	int64 messages; /* offsets that are retained */
	double bytes;
	StateGauges gauges;
};

struct LogGroupState
{
	int64 queue_id;
	int64 group_id;
	bool paused;
	const char *name;
	StateGauges gauges;
};

/*
 * Take note of what has changed; before the snapshot. Returns in how many microseconds to do so again at the latest. Raises.
 */
int64 log_states_read();

/* One bounded step of getting to know partitions; false when all that is owed is done. Raises. */
bool log_states_step();

/*
 * The state of log queues, which are sorted by queue_id, and of all their groups, by queue_id too, as a snapshot sees them at a time; palloc'ed. Reads
 * all cursors, what has changed since the last time, and for a group that has none in a partition where it begins there. Raises.
 */
LogGroupState *log_states(Snapshot snapshot, TimestampTz now, LogQueueState *queues, int count, int *group_count);

/* What is remembered for the next time is not needed. Never raises. */
void log_states_forget();

} // namespace queen

#endif
