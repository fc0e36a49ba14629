/*
 * views.cpp: queen.count_messages, and where a message is.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby.
 */
#include "log/queues.h"
#include "server/errors.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "workqueue/put.h"
#include "workqueue/workqueue.h"

namespace queen
{

namespace
{

/* Columns of queen.count_messages, from 0. */
enum CountColumn : int
{
	count_priority,
	count_ready,
	count_in_flight,
	count_exhausted,
	count_expired,
	count_oldest_at,
	count_cols,
};

struct Counts
{
	int64 ready;
	int64 in_flight;
	int64 exhausted;
	int64 expired;
	TimestampTz oldest_at; /* of those that are ready; DT_NOEND */
};

void
count_row(Counts *counts, const MessageRow *row, int32 limit, TimestampTz now)
{
	if (row->in_flight && row->visible_at > now)
		counts->in_flight++;
	else if (row->expires_at <= now)
		counts->expired++;
	else if (row->attempts >= limit)
		counts->exhausted++;
	else
	{
		counts->ready++;
		counts->oldest_at = Min(counts->oldest_at, DatumGetTimestampTz(row->values[message_col_enqueued_at]));
	}
}

Counts
count_priority_of(const MessageTable *messages, const QueueRow *queue, int16 priority, Snapshot snapshot,
				  TimestampTz now)
{
	Counts counts = {0, 0, 0, 0, DT_NOEND};

	for (MarkedIndex index : {MarkedIndex::ready, MarkedIndex::in_flight})
	{
		IndexScan scan;

		message_scan_open(&scan, messages, index, snapshot);
		message_scan_start(&scan, index, queue->log_id, priority, core::mark_bottom);
		while (index_scan_next(&scan, ForwardScanDirection))
		{
			MessageRow row;

			message_row_read(scan.slot, &row);
			count_row(&counts, &row, queue->options.max_delivery_attempts, now);
		}
		index_scan_close(&scan);
	}
	return counts;
}

} // namespace

bool
message_is_there(const QueueRow *queue, const core::Uuid &id, Snapshot snapshot, TimestampTz *enqueued_at)
{
	MessageTable messages;
	IndexScan scan;
	MessageRow row;
	bool found;

	message_table_open(&messages, AccessShareLock);
	message_scan_open(&scan, &messages, MarkedIndex::none, snapshot);
	message_scan_start_one(&scan, DatumGetUUIDP(uuid_to_datum(id)));
	found = index_scan_next(&scan, ForwardScanDirection);
	if (found)
	{
		message_row_read(scan.slot, &row);
		found = row.log_id == queue->log_id;
		*enqueued_at = DatumGetTimestampTz(row.values[message_col_enqueued_at]);
	}
	index_scan_close(&scan);
	message_table_close(&messages);
	return found;
}

QUEEN_FUNCTION(queen_count_messages)

/* queen.count_messages(queue) returns setof (priority, ready, in_flight, exhausted, expired, oldest_at) */
Datum
queen_count_messages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Name name = name_argument(fcinfo, 0, "queue");
	const TimestampTz now = GetCurrentTimestamp();
	MessageTable messages;
	Snapshot snapshot;
	QueueRow queue;

	queue_get(setting_tenant(), name, &queue);
	queue_check_kind(&queue, QueueKind::work,
					 "queen.list_groups() and queen.lag() say how the groups of a log queue stand.");
	InitMaterializedSRF(fcinfo, 0);
	message_table_open(&messages, AccessShareLock);
	snapshot = register_latest_snapshot();
	for (int16 priority = priority_high; priority >= priority_low; priority--)
	{
		const Counts counts = count_priority_of(&messages, &queue, priority, snapshot, now);
		Datum values[count_cols];
		bool nulls[count_cols] = {};

		values[count_priority] = CStringGetTextDatum(priority_text(priority));
		values[count_ready] = Int64GetDatum(counts.ready);
		values[count_in_flight] = Int64GetDatum(counts.in_flight);
		values[count_exhausted] = Int64GetDatum(counts.exhausted);
		values[count_expired] = Int64GetDatum(counts.expired);
		values[count_oldest_at] = TimestampTzGetDatum(counts.oldest_at);
		nulls[count_oldest_at] = counts.oldest_at == DT_NOEND;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	UnregisterSnapshot(snapshot);
	message_table_close(&messages);
	return (Datum) 0;
}

} // namespace queen
