/*
 * retention_watch.h: when each partition is to be looked at by retention, kept in the memory of the one process that cleans up.
 *
 * README.md ("The watch") has the states. Only with preload: without the change feed nobody would tell what was pushed.
 */
#ifndef QUEEN_LOG_RETENTION_WATCH_H
#define QUEEN_LOG_RETENTION_WATCH_H

#include "server/pg.h"

namespace queen
{

/*
 * One bounded step: read what has changed, go on with a walk that is under way, or do what retention has to do in one partition. Commit
 * after it: it may hold a partition's locks. Raises; what was due is then looked at again later. Returns in how many microseconds to come
 * again, 0: at once.
 */
int64 retention_watch_step();

/* What the watch knows, for the views. */
struct RetentionWatchState
{
	int64 partitions; /* that it knows */
	int64 queued;	  /* of these: to be looked at some time */
	int64 walks;	  /* over all partitions, begun since the process started */
	bool walking;
};
void retention_watch_state(RetentionWatchState *state);

} // namespace queen

#endif
