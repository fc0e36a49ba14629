/*
 * receipts.h: receipts of deliveries, and the message that one holds.
 */
#ifndef QUEEN_WORKQUEUE_RECEIPTS_H
#define QUEEN_WORKQUEUE_RECEIPTS_H

#include "log/queues.h"
#include "workqueue/message_rows.h"

namespace queen
{

/* A new receipt: random, of version 4. Raises when there is no randomness. */
void receipt_mint(pg_uuid_t *receipt);

/* A message under a receipt. */
struct HeldMessage
{
	QueueRow queue;
	MessageRow row;
	Snapshot snapshot;
	IndexScan scan;
};

/*
 * Find the message that a receipt of the session's tenant holds, and lock its row when lock is set; without, it may be locked by others. A
 * transaction that is at the row is waited for. False, and nothing open, when the receipt is stale, late or unknown. Raises; in any isolation
 * level the latest version counts.
 */
bool held_message_open(HeldMessage *held, MessageTable *messages, const pg_uuid_t *message_id, const pg_uuid_t *receipt,
					   bool lock);
void held_message_close(HeldMessage *held);

} // namespace queen

#endif
