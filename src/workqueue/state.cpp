/*
 * state.cpp: the state of work queues, for the collector (src/state): what time has made of what is counted, and what is the oldest.
 *
 * Raises. No locks but the tables'. Runs in the keeper and in backends, also on a standby.
 */
#include "workqueue/state.h"

#include "workqueue/message_rows.h"

namespace queen
{

namespace
{

/* One collection. */
struct States
{
	Snapshot snapshot;
	TimestampTz now;
	WorkQueueState *queues;
	int count;
	MessageTable messages;
	Relation by_age; /* of those in flight */
	IndexScan ready;
	IndexScan in_flight;
	IndexScan age;
};

int64
int8_of(TupleTableSlot *slot, MessageColumn column)
{
	bool isnull;

	return DatumGetInt64(slot_getattr(slot, column + 1, &isnull));
}

int32
attempts_of(TupleTableSlot *slot)
{
	bool isnull;

	return DatumGetInt16(slot_getattr(slot, message_col_attempts + 1, &isnull));
}

/* By log_id; null: it is no queue's. */
WorkQueueState *
queue_of(const States *states, int64 log_id)
{
	int first = 0;
	int last = states->count;

	while (first < last)
	{
		const int middle = first + (last - first) / 2;

		if (states->queues[middle].log_id < log_id)
			first = middle + 1;
		else
			last = middle;
	}
	return first < states->count && states->queues[first].log_id == log_id ? &states->queues[first] : nullptr;
}

/* Messages that were never delivered, have expired and are not deleted yet: of all queues, because the index is. */
void
find_expired(States *states)
{
	IndexScan scan;

	message_scan_open(&scan, &states->messages, MarkedIndex::expiry, states->snapshot);
	message_scan_start(&scan, MarkedIndex::expiry, 0, 0, DT_NOBEGIN);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		WorkQueueState *queue;
		MessageRow row;

		message_row_read(scan.slot, &row);
		if (row.expires_at > states->now)
			break;
		queue = row.in_flight ? nullptr : queue_of(states, row.log_id);
		if (queue != nullptr)
			queue->gauges[row.priority - priority_low].expired++;
	}
	index_scan_close(&scan);
}

/* Those whose visibility is over: delivered once at least, and in nobody's hands. */
int64
find_elapsed(States *states, const WorkQueueState *queue, int16 priority, StateGauges *gauges)
{
	IndexScan *scan = &states->in_flight;
	int64 elapsed = 0;

	message_scan_start(scan, MarkedIndex::in_flight, queue->log_id, priority, DT_NOBEGIN);
	while (index_scan_next(scan, ForwardScanDirection) && int8_of(scan->slot, message_col_visible_at) <= states->now)
	{
		elapsed++;
		if (int8_of(scan->slot, message_col_expires_at) <= states->now)
			gauges->expired++;
		else if (attempts_of(scan->slot) >= queue->limit)
			gauges->exhausted++;
		else
		{
			gauges->ready++;
			gauges->oldest_ready = Min(gauges->oldest_ready, int8_of(scan->slot, message_col_enqueued_at));
		}
	}
	return elapsed;
}

/* The first that was never delivered and has not expired. */
void
find_oldest_ready(States *states, const WorkQueueState *queue, int16 priority, StateGauges *gauges)
{
	const MarkKey key = {states->messages.tables, queue->log_id, priority, MarkedIndex::ready};
	IndexScan *scan = &states->ready;
	int64 from = claim_mark(&key);
	bool found = false;

	for (;;)
	{
		message_scan_start(scan, MarkedIndex::ready, queue->log_id, priority, from);
		while (!found && index_scan_next(scan, ForwardScanDirection))
			found = int8_of(scan->slot, message_col_expires_at) > states->now;
		/* below the mark are those that somebody is taking */
		if (found || from == core::mark_bottom)
			break;
		from = core::mark_bottom;
	}
	if (found)
		gauges->oldest_ready = Min(gauges->oldest_ready, int8_of(scan->slot, message_col_enqueued_at));
}

void
find_oldest_in_flight(States *states, const WorkQueueState *queue, int16 priority, StateGauges *gauges)
{
	IndexScan *scan = &states->age;

	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, queue->log_id);
	index_scan_key_int2(scan, 2, priority);
	index_scan_start(scan);
	while (index_scan_next(scan, ForwardScanDirection))
		if (int8_of(scan->slot, message_col_visible_at) > states->now)
		{
			gauges->oldest_in_flight = int8_of(scan->slot, message_col_enqueued_at);
			return;
		}
}

/* Where nothing is counted nothing is looked for: ten thousand empty queues cost nothing but their rows of counts. */
void
find_of_priority(States *states, WorkQueueState *queue, int16 priority)
{
	const int i = priority - priority_low;
	StateGauges *gauges = &queue->gauges[i];
	/* so far those alone that were never delivered */
	const int64 unexpired = queue->stored_ready[i] - gauges->expired;
	int64 elapsed = 0;

	if (queue->stored_in_flight[i] != 0)
		elapsed = find_elapsed(states, queue, priority, gauges);
	gauges->in_flight = queue->stored_in_flight[i] - elapsed;
	if (unexpired > 0)
		find_oldest_ready(states, queue, priority, gauges);
	if (gauges->in_flight > 0)
		find_oldest_in_flight(states, queue, priority, gauges);
	/* never clamped: what can be taken again must not make up for a count that is wrong */
	gauges->ready = unexpired < 0 ? unexpired : unexpired + gauges->ready;
}

} // namespace

void
messages_states(Snapshot snapshot, TimestampTz now, WorkQueueState *queues, int count)
{
	States states = {};

	states.snapshot = snapshot;
	states.now = now;
	states.queues = queues;
	states.count = count;
	message_table_open(&states.messages, AccessShareLock);
	states.by_age = open_partial_index(
		states.messages.table, {message_col_log_id + 1, message_col_priority + 1, message_col_enqueued_at + 1},
		message_col_state + 1, "IN_FLIGHT", AccessShareLock);
	message_scan_open(&states.ready, &states.messages, MarkedIndex::ready, snapshot);
	message_scan_open(&states.in_flight, &states.messages, MarkedIndex::in_flight, snapshot);
	index_scan_open(&states.age, states.messages.table, states.by_age, snapshot);
	find_expired(&states);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int16 priority = priority_low; priority <= priority_high; priority++)
			find_of_priority(&states, &queues[i], priority);
	}
	index_scan_close(&states.age);
	index_scan_close(&states.in_flight);
	index_scan_close(&states.ready);
	index_close(states.by_age, NoLock);
	message_table_close(&states.messages);
}

} // namespace queen
