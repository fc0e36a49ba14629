/*
 * take.cpp: taking messages from a work queue. See take.h; README.md says what is taken in which order.
 *
 * Raises. Locks: the rows that are taken, without waiting, to the end of the transaction. Runs in backends.
 */
#include "workqueue/take.h"

#include "log/aborted.h"
#include "log/event_counts.h"
#include "state/spread.h"
#include "workqueue/bury.h"
#include "workqueue/receipts.h"

namespace queen
{

namespace
{

/* Messages that a call moves to the dead letters on its way; as many as it may deliver if that is more, so that they don't pile up. */
constexpr int64 most_burials = 100;

/*
 * Rows that a scan leaves before it gives up: what has been delivered often enough when no more burials may be, and what has to come alone. Only a queue whose
 * max_delivery_attempts was lowered has more in a row. Another index, and the next call, go on.
 */
constexpr int most_left = 1000;

/* A call under way. */
struct Take
{
	const TakeRequest *request;
	DeliverySink *sink;
	Taken *taken;
	MessageTable messages;
	TimestampTz now;
	int16 shard; /* where what this process has in flight is counted */
	int64 burials;
	bool alone; /* what was taken, or buried, is to be the only thing that its call does */
	PassedBy passed;
};

/* What has become of a row that a scan met. */
enum class Met
{
	gone, /* taken, buried, another's, or expired: it will not be found any more unless somebody tells */
	left, /* for a later call */
};

bool
is_over(const Take *take)
{
	return take->alone || take->taken->count == take->request->most;
}

/* It has to come alone, and something was taken: another call begins with it in the end. */
Met
pass_by(Take *take, const MessageRow *row)
{
	const TimestampTz enqueued_at = DatumGetTimestampTz(row->values[message_col_enqueued_at]);

	if (enqueued_at < take->passed.enqueued_at)
		take->passed = {message_mark(&take->messages, row), message_key(row), enqueued_at};
	return Met::left;
}

/* It has been delivered as often as may be. */
Met
bury(Take *take, const MessageRow *row, int32 deliveries, int32 aborted, Snapshot snapshot)
{
	if (aborted == 0)
	{
		if (take->burials == Max(most_burials, take->request->most))
			return Met::left;
		take->burials += message_bury_unless_locked(&take->messages, take->request->queue, row, deliveries, snapshot);
		return Met::gone;
	}
	/*
	 * That it has is known only here: what its call delivered beside would take the burial along if it failed, time and again.
	 */
	if (take->taken->count > 0)
		return pass_by(take, row);
	if (!message_bury_unless_locked(&take->messages, take->request->queue, row, deliveries, snapshot))
		return Met::gone;
	aborted_message_note(take->messages.tables, row->log_id, row->order, false, aborted);
	take->taken->buried = true;
	take->alone = true;
	return Met::gone;
}

Met
meet(Take *take, TupleTableSlot *slot, Snapshot snapshot)
{
	const int32 limit = take->request->queue->options.max_delivery_attempts;
	pg_uuid_t receipt;
	MessageRow before;
	MessageRow row;
	int32 deliveries;
	int32 aborted;
	bool alone;

	message_row_read(slot, &before);
	if (before.expires_at <= take->now)
		return Met::gone;
	aborted = aborted_message(take->messages.tables, before.log_id, before.order, row_is_own(slot));
	deliveries = before.attempts + aborted;
	if (deliveries >= limit)
		return bury(take, &before, deliveries, aborted, snapshot);
	/* whoever fails with it is to blame nobody else: when failing has been seen here only, and before it is given up */
	alone = deliveries > 0 && (aborted > 0 || deliveries + 1 >= limit);
	if (alone && take->taken->count > 0)
		return pass_by(take, &before);

	row = before;
	receipt_mint(&receipt);
	row.attempts = deliveries + 1;
	row.visible_at = take->now + take->request->visibility;
	row.values[message_col_receipt] = UUIDPGetDatum(&receipt);
	row.values[message_col_delivered_at] = TimestampTzGetDatum(take->now);
	/* a message that was in flight before stays where it is counted */
	if (!before.in_flight)
		row.values[message_col_shard] = Int16GetDatum(take->shard);
	row.nulls[message_col_receipt] = row.nulls[message_col_delivered_at] = false;
	if (!message_update_unless_locked(&take->messages, &before, &row, take->request->queue->queue_id))
		return Met::gone;
	aborted_message_note(take->messages.tables, row.log_id, row.order, true, aborted);
	event_note_work(take->messages.tables, take->request->queue->queue_id, row.priority, Event::delivered, 1);
	event_note_work(take->messages.tables, take->request->queue->queue_id, row.priority, Event::redelivered,
					deliveries > 0 ? 1 : 0);
	delivery_sink_put(take->sink, take->request->queue->name, &row);
	take->taken->count++;
	take->alone = alone;
	return Met::gone;
}

/* From the scan's mark on, to a key. Nothing of what is in flight is looked at before its time has come. */
void
scan(Take *take, MarkedScan *marked, int64 last, Snapshot snapshot)
{
	const bool in_flight = marked->key.index == MarkedIndex::in_flight;
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen take", ALLOCSET_DEFAULT_SIZES);
	int64 left = core::mark_nothing;
	int count_left = 0;
	IndexScan rows;

	message_scan_open(&rows, &take->messages, marked->key.index, snapshot);
	message_scan_start(&rows, marked->key.index, marked->key.log_id, marked->key.priority, marked->from);
	while (!is_over(take) && index_scan_next(&rows, ForwardScanDirection))
	{
		bool isnull;
		const int64 key = DatumGetInt64(
			slot_getattr(rows.slot, (in_flight ? message_col_visible_at : message_col_order) + 1, &isnull));
		MemoryContext caller;

		marked_scan_reached(marked);
		if (key > last)
			break;
		if (count_left == most_left)
		{
			left = Min(left, key);
			/* who waits gets the empty answer of this call, whose burials are to be committed */
			take->taken->buried = true;
			break;
		}
		if (in_flight && key > take->now)
		{
			left = Min(left, key);
			take->taken->until = Min(take->taken->until, key);
			break;
		}
		caller = MemoryContextSwitchTo(per_row);
		if (meet(take, rows.slot, snapshot) == Met::left)
		{
			left = Min(left, key);
			count_left++;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
		/* behind it nothing was looked at; others may have the same visible_at */
		if (is_over(take))
			left = Min(left, in_flight ? key : key + 1);
	}
	index_scan_close(&rows);
	marked_scan_end(marked, left);
	MemoryContextDelete(per_row);
}

/* Is there nothing to be taken from a key on? */
bool
is_idle(const Take *take, MarkedIndex index, int64 from)
{
	return from == core::mark_nothing || (index == MarkedIndex::in_flight && from > take->now);
}

/* What of one priority and state there is from its mark on. */
void
take_of_index(Take *take, int16 priority, MarkedIndex index)
{
	const MarkKey key = {take->messages.tables, take->request->queue->log_id, priority, index};
	MarkedScan marked;
	Snapshot snapshot;

	if (is_over(take))
		return;
	/* each its own: a turn from the bottom is not to be taken and left */
	marked_scan_begin(&marked, &key);
	if (is_idle(take, index, marked.from))
	{
		if (index == MarkedIndex::in_flight)
			take->taken->until = Min(take->taken->until, marked.from);
		return;
	}
	snapshot = register_latest_snapshot();
	scan(take, &marked, core::mark_nothing, snapshot);
	UnregisterSnapshot(snapshot);
}

/* Do the marks say that there is nothing? Then not even the table is opened. */
bool
is_empty(Take *take, Oid tables)
{
	TimestampTz until = DT_NOEND;

	for (int16 priority = priority_high; priority >= priority_low; priority--)
		for (MarkedIndex index : {MarkedIndex::in_flight, MarkedIndex::ready})
		{
			const MarkKey key = {tables, take->request->queue->log_id, priority, index};
			const int64 from = marked_scan_peek(&key);

			if (!is_idle(take, index, from))
				return false;
			if (index == MarkedIndex::in_flight)
				until = Min(until, from);
		}
	take->taken->until = until;
	return true;
}

/* Before all others, whatever its priority. It may be gone, or somewhere else. */
void
take_passed_by(Take *take, const PassedBy *passed)
{
	MarkedScan one = {};
	Snapshot snapshot = register_latest_snapshot();

	one.key = passed->key;
	one.from = passed->at;
	scan(take, &one, passed->at, snapshot);
	UnregisterSnapshot(snapshot);
}

} // namespace

void
take_messages(const TakeRequest *request, DeliverySink *sink, Taken *taken)
{
	Take take = {};
	PassedBy due;

	static_assert(core::mark_nothing == DT_NOEND && core::mark_bottom == DT_NOBEGIN);
	*taken = {};
	taken->until = DT_NOEND;
	take.request = request;
	take.sink = sink;
	take.taken = taken;
	take.now = GetCurrentTimestamp();
	take.shard = spread_draw(own_tables(), request->queue->log_id);
	take.passed = passed_none;
	/* what comes behind a burial that is not committed would take it along */
	taken->buried = aborted_message_buried();
	if (taken->buried || is_empty(&take, own_tables()))
		return;
	message_table_open(&take.messages, RowExclusiveLock);
	if (passed_by_due(take.messages.tables, request->queue->log_id, &due))
		take_passed_by(&take, &due);
	for (int16 priority = priority_high; priority >= priority_low; priority--)
	{
		take_of_index(&take, priority, MarkedIndex::in_flight);
		take_of_index(&take, priority, MarkedIndex::ready);
	}
	if (take.passed.enqueued_at != DT_NOEND)
		passed_by_note(&take.passed);
	message_table_close(&take.messages);
}

} // namespace queen
