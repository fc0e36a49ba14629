/*
 * bury.h: messages of work queues that are given up.
 */
#ifndef QUEEN_WORKQUEUE_BURY_H
#define QUEEN_WORKQUEUE_BURY_H

#include "log/queues.h"
#include "workqueue/message_rows.h"

namespace queen
{

/*
 * Move a message to the dead letters; attempts: its deliveries. unless_locked, found with the snapshot: false, at once, when somebody is or was at it.
 * Without, this transaction has locked it. Raise.
 */
bool message_bury_unless_locked(MessageTable *messages, const QueueRow *queue, const MessageRow *row, int32 attempts,
								Snapshot snapshot);
void message_bury(MessageTable *messages, const QueueRow *queue, const MessageRow *row, int32 attempts);

} // namespace queen

#endif
