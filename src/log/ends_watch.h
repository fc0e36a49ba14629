/*
 * ends_watch.h: where each partition begins and ends, kept in the memory of the one process that tells of it again and again.
 *
 * The change feed says which partitions were pushed to; all are walked once, when the feed has lost something, and some at each refresh, because
 * nobody tells of what was deleted, or prepared. Without preload, and so without the feed, all are walked each time.
 */
#ifndef QUEEN_LOG_ENDS_WATCH_H
#define QUEEN_LOG_ENDS_WATCH_H

#include "server/pg.h"

namespace queen
{

struct WatchedEnds
{
	int64 partition_id; /* key */
	int64 log_id;
	int64 first;	 /* the first offset that is retained */
	int64 last;		 /* first - 1 where there is none */
	int64 last_base; /* where the last segment begins */
	TimestampTz first_at;
	TimestampTz last_at;
	double bytes_of_message; /* in the last segment, as it is stored */
	uint32 walk;			 /* that has met it */
	bool told;				 /* it was pushed to since it was looked at */
	/* for who sums them up: which of the queue's groups have a cursor there, in his pass of that number */
	uint32 pass;
	uint64 groups;
};

/*
 * Take note of what was told; before the snapshot with which it is looked at. Returns in how many microseconds to do so again, lest something is
 * lost. Raises.
 */
int64 ends_watch_read();

/* Go on with a walk that is owed, or under way, by some partitions. False when there is none. Raises. */
bool ends_watch_walk();

/* Look at what was told of, and at some others. Raises. */
void ends_watch_refresh(Snapshot snapshot);

/* Goes up when a partition is found to begin or end somewhere else than was known. Never raises. */
uint64 ends_watch_changes();

/* Null where nothing is known of a partition, because it is empty or younger than what was told. */
WatchedEnds *ends_watch_find(int64 partition_id);

/* Show fn all of them. */
void ends_watch_each(void (*fn)(WatchedEnds *ends, void *arg), void *arg);

/* Give the memory back: the next time begins anew. Never raises. */
void ends_watch_forget();

} // namespace queen

#endif
