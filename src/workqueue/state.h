/*
 * state.h: the state of work queues. WorkCalls says what it does.
 */
#ifndef QUEEN_WORKQUEUE_STATE_H
#define QUEEN_WORKQUEUE_STATE_H

#include "log/work_calls.h"
#include "server/pg.h"

namespace queen
{

void messages_states(Snapshot snapshot, TimestampTz now, WorkQueueState *queues, int count);

} // namespace queen

#endif
