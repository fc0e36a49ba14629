/*
 * floors.h: where the collector's scans begin while somebody holds a snapshot, behind which the indexes keep the entries of all that was taken since.
 *
 * A collection that is slow says so, and remembers below which keys it has met nothing that lives; those that follow begin there, until what was dead then
 * can be taken out of the indexes. In the memory of the process that collects. What a transaction enqueued that stayed open longer than from one collection
 * to the next may come below, and so may what SQL writes: it is passed by until then, where the oldest are sought and what has expired, and nowhere else.
 */
#ifndef QUEEN_WORKQUEUE_FLOORS_H
#define QUEEN_WORKQUEUE_FLOORS_H

#include "log/work_calls.h"
#include "workqueue/message_rows.h"

namespace queen
{

/* Of a work queue, by priority. */
struct QueueFloors
{
	int64 log_id;
	int64 ready[priority_count];		   /* enqueue_order of those that are ready */
	TimestampTz in_flight[priority_count]; /* visible_at of those in flight */
	TimestampTz age[priority_count];	   /* their enqueued_at */
};

/* Of a collection: where it begins, and while it goes on where the next one may. */
struct Floors
{
	bool held;
	TimestampTz expiry;	 /* expires_at of all messages */
	QueueFloors *queues; /* in the order of what is collected */
	int count;
};

/* Behind the collection's snapshot. queues: by log_id. Raises for memory only. */
void floors_begin(Floors *floors, const MessageTable *messages, const WorkQueueState *queues, int count);

/* It has come to its end. Raises for memory only. */
void floors_end(const Floors *floors, Oid tables, bool slow);

} // namespace queen

#endif
