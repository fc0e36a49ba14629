/*
 * receipts.cpp: receipts of deliveries. See receipts.h.
 *
 * Raises. Locks: the message's row, where asked, waiting for whoever is at it, to the end of the transaction. Runs in backends.
 */
#include "workqueue/receipts.h"

#include "server/settings.h"
#include "server/uuids.h"

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
find_queue(HeldMessage *held)
{
	QueueTable queues;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find_by_log(&queues, held->row.log_id, &held->queue);
	queue_table_close(&queues);
	return found && memcmp(&held->queue.tenant, setting_tenant(), UUID_LEN) == 0;
}

} // namespace

bool
held_message_open(HeldMessage *held, MessageTable *messages, const pg_uuid_t *message_id, const pg_uuid_t *receipt,
				  bool lock)
{
	const core::Uuid id = uuid_from_datum(UUIDPGetDatum(message_id));

	for (;;)
	{
		TM_Result result = TM_Ok;

		CHECK_FOR_INTERRUPTS();
		held->snapshot = register_latest_snapshot();
		message_scan_open_one(&held->scan, messages, id, held->snapshot);
		if (!index_scan_next(&held->scan, ForwardScanDirection))
			break;
		message_row_read(held->scan.slot, &held->row);
		if (!is_under(&held->row, receipt) || !find_queue(held))
			break;
		if (!lock)
			return true;
		result = lock_row(messages->table, &held->row.tid, held->snapshot, true);
		/* while it waited the time may have come */
		if (result == TM_Ok && is_under(&held->row, receipt))
			return true;
		held_message_close(held);
		if (result == TM_Ok)
			return false;
		/* this very command has changed it, by SQL: no snapshot would show that before the next one begins */
		if (result == TM_SelfModified || result == TM_Invisible)
			CommandCounterIncrement();
	}
	held_message_close(held);
	return false;
}

void
held_message_close(HeldMessage *held)
{
	index_scan_close(&held->scan);
	UnregisterSnapshot(held->snapshot);
}

} // namespace queen
