/*
 * notify.cpp: the option notify. See notify.h.
 *
 * Raises. Locks: what a commit with notifications takes; queues for reading, where more have news than shared memory holds. notify_tick runs in
 * pulses, the rest in backends.
 */
#include "log/notify.h"

#include "hotlist/gates.h"
#include "hotlist/notify.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

constinit hot::Micros last_sent = 0;

char *
channel_name(uint64 channel)
{
	return psprintf("queen_%016llx", (unsigned long long) channel);
}

/* Nobody knows of which queues: of all that have the option. */
void
notify_all()
{
	Snapshot snapshot;
	QueueTable queues;
	IndexScan scan;
	QueueRow queue;

	lock_extension();
	snapshot = register_latest_snapshot();
	queue_table_open(&queues, AccessShareLock);
	index_scan_open(&scan, queues.table, queues.by_id, snapshot);
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		queue_row_from_slot(scan.slot, &queue);
		if (queue.options.notify)
			Async_Notify(channel_name(notify_channel(&queue.tenant, queue.name, (int) strlen(queue.name))), nullptr);
	}
	index_scan_close(&scan);
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
}

/* Inside of a transaction. */
void
notify_flagged()
{
	uint64 channels[notify_room];
	bool overrun;
	const uint32 count = notify_take(channels, &overrun);

	for (uint32 i = 0; i < count; i++)
		Async_Notify(channel_name(channels[i]), nullptr);
	if (overrun)
		notify_all();
}

} // namespace

hot::Micros
notify_tick()
{
	const hot::Micros now = hotlist_now();
	const hot::Micros due = last_sent + (hot::Micros) setting_wake_interval * 1000;

	if (!notify_pending())
		return hot::never;
	if (now < due)
		return due;
	StartTransactionCommand();
	notify_flagged();
	CommitTransactionCommand();
	last_sent = hotlist_now();
	return hot::never;
}

QUEEN_FUNCTION(queen_notify_channel)
QUEEN_FUNCTION(queen_attend)

/* queen.notify_channel(queue) returns text */
Datum
queen_notify_channel(PG_FUNCTION_ARGS)
{
	const Name queue = name_argument(fcinfo, 0, "queue");

	return CStringGetTextDatum(channel_name(notify_channel(setting_tenant(), queue.data, queue.size)));
}

/* For tests: be the pulse for so many milliseconds; what is to be notified is with the caller's commit. Returns how many ticks that took. */
Datum
queen_attend(PG_FUNCTION_ARGS)
{
	const hot::Micros end = hotlist_now() + (hot::Micros) PG_GETARG_INT32(0) * 1000;
	int32 ticks = 0;

	gates_attend();
	for (hot::Micros now = hotlist_now(); now < end; now = hotlist_now(), ticks++)
	{
		const hot::Micros next = Min(gates_tick(), end);

		if (notify_pending())
			notify_flagged();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) ((Max(next - now, (hot::Micros) 0) + 999) / 1000), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_INT32(ticks);
}

} // namespace queen
