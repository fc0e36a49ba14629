/*
 * take.h: taking messages from a work queue: the claim core.
 */
#ifndef QUEEN_WORKQUEUE_TAKE_H
#define QUEEN_WORKQUEUE_TAKE_H

#include "log/queues.h"
#include "workqueue/deliveries.h"

namespace queen
{

struct TakeRequest
{
	const QueueRow *queue;
	int64 most;
	int64 visibility; /* microseconds */
};

struct Taken
{
	int64 count;
	bool
		buried; /* messages went to the dead letters in the place of deliveries, be it before in the transaction: commit, and call again */
	TimestampTz until; /* when the next one that is in flight can be taken, as far as was seen; DT_NOEND */
};

/* Take up to so many messages, of the highest priority first; never waits. Raises. */
void take_messages(const TakeRequest *request, DeliverySink *sink, Taken *taken);

} // namespace queen

#endif
