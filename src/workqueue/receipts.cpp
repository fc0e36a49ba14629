/*
 * receipts.cpp: receipts of deliveries. See receipts.h.
 *
 * Raises. Locks: the message's row, where asked, waiting for whoever is at it, to the end of the transaction. Runs in backends.
 */
#include "workqueue/receipts.h"

#include "server/settings.h"

namespace queen
{

void
receipt_mint(pg_uuid_t *receipt)
{
	/* the generator costs more by the call than by the byte */
	static pg_uuid_t pool[64];
	static constinit int left = 0;

	if (left == 0)
	{
		if (!pg_strong_random(pool, sizeof(pool)))
			ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes for a receipt")));
		left = lengthof(pool);
	}
	*receipt = pool[--left];
	receipt->data[6] = (unsigned char) ((receipt->data[6] & 0x0f) | 0x40);
	receipt->data[8] = (unsigned char) ((receipt->data[8] & 0x3f) | 0x80);
}

namespace
{

bool
is_under(const MessageRow *row, const pg_uuid_t *receipt)
{
	return row->in_flight && !row->nulls[message_col_receipt] &&
		   memcmp(DatumGetUUIDP(row->values[message_col_receipt]), receipt, UUID_LEN) == 0 &&
		   row->visible_at > GetCurrentTimestamp();
}

/* The queue that has the message; false when that is none, or another tenant's. */
bool
find_queue(ReceiptReader *reader)
{
	QueueTable queues;

	if (!reader->has_queue || reader->queue.log_id != reader->row.log_id)
	{
		queue_table_open(&queues, AccessShareLock);
		reader->has_queue = queue_find_by_log(&queues, reader->row.log_id, &reader->queue);
		queue_table_close(&queues);
	}
	return reader->has_queue && memcmp(&reader->queue.tenant, setting_tenant(), UUID_LEN) == 0;
}

} // namespace

void
receipt_reader_open(ReceiptReader *reader)
{
	message_table_open(&reader->messages, RowExclusiveLock);
	reader->snapshot = register_latest_snapshot();
	reader->has_queue = false;
	message_scan_open(&reader->scan, &reader->messages, MarkedIndex::none, reader->snapshot);
}

void
receipt_reader_close(ReceiptReader *reader)
{
	index_scan_close(&reader->scan);
	UnregisterSnapshot(reader->snapshot);
	message_table_close(&reader->messages);
}

bool
receipt_find(ReceiptReader *reader, const pg_uuid_t *message_id, const pg_uuid_t *receipt)
{
	message_scan_start_one(&reader->scan, message_id);
	if (!index_scan_next(&reader->scan, ForwardScanDirection))
		return false;
	message_row_read(reader->scan.slot, &reader->row);
	return is_under(&reader->row, receipt) && find_queue(reader);
}

bool
receipt_lock(ReceiptReader *reader, const pg_uuid_t *message_id, const pg_uuid_t *receipt)
{
	for (;;)
	{
		Snapshot old = reader->snapshot;

		CHECK_FOR_INTERRUPTS();
		/* what this command has changed, by SQL say, is to be seen as well */
		CommandCounterIncrement();
		reader->snapshot = register_latest_snapshot();
		index_scan_set_snapshot(&reader->scan, reader->snapshot);
		UnregisterSnapshot(old);
		if (!receipt_find(reader, message_id, receipt))
			return false;
		if (!message_lock(&reader->messages, &reader->row, reader->snapshot, reader->queue.queue_id))
			continue;
		/* while it waited the time may have come: then it keeps others from the row for nothing */
		if (is_under(&reader->row, receipt))
			return true;
		message_leave(&reader->messages, &reader->row, reader->queue.queue_id);
		return false;
	}
}

} // namespace queen
