/*
 * workqueue.h: what this folder offers to src/log (log/work_calls.h).
 */
#ifndef QUEEN_WORKQUEUE_WORKQUEUE_H
#define QUEEN_WORKQUEUE_WORKQUEUE_H

#include "core/types.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

/* Called once by _PG_init. */
void workqueue_init();

/* WorkCalls' find. Raises. */
bool message_is_there(const QueueRow *queue, const core::Uuid &id, Snapshot snapshot, TimestampTz *enqueued_at);

} // namespace queen

#endif
