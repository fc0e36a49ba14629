/*
 * receipts.h: receipts of deliveries, and the messages that they hold.
 */
#ifndef QUEEN_WORKQUEUE_RECEIPTS_H
#define QUEEN_WORKQUEUE_RECEIPTS_H

#include "log/queues.h"
#include "workqueue/message_rows.h"

namespace queen
{

/* A new receipt: random, of version 4. Raises when there is no randomness. */
void receipt_mint(pg_uuid_t *receipt);

/* The message that is looked at, and what it takes to look at several, one after the other. */
struct ReceiptReader
{
	MessageTable messages;
	Snapshot snapshot;
	IndexScan scan;
	bool has_queue;
	QueueRow queue; /* of the message; and of the one before, mostly */
	MessageRow row; /* its datums live until the next look */
};

/* All of these raise. In any isolation level the latest version counts. */
void receipt_reader_open(ReceiptReader *reader);
void receipt_reader_close(ReceiptReader *reader);

/* Does a receipt of the session's tenant hold the message, as far as the reader's snapshot sees? Then reader->row and queue are its. */
bool receipt_find(ReceiptReader *reader, const pg_uuid_t *message_id, const pg_uuid_t *receipt);

/* The same, and its row is locked; whoever is at it is waited for. */
bool receipt_lock(ReceiptReader *reader, const pg_uuid_t *message_id, const pg_uuid_t *receipt);

} // namespace queen

#endif
