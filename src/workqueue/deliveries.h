/*
 * deliveries.h: rows of type queen.delivery.
 */
#ifndef QUEEN_WORKQUEUE_DELIVERIES_H
#define QUEEN_WORKQUEUE_DELIVERIES_H

#include "workqueue/message_rows.h"

namespace queen
{

/* Collects the rows of a set-returning function, in the order in which they come. */
struct DeliverySink
{
	ReturnSetInfo *rsinfo;
	MemoryContext per_row;
};

/* Raises. */
void delivery_sink_open(DeliverySink *sink, FunctionCallInfo fcinfo);
void delivery_sink_put(DeliverySink *sink, const char *queue, const MessageRow *row);
void delivery_sink_close(DeliverySink *sink);

} // namespace queen

#endif
