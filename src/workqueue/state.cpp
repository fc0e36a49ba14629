/*
 * state.cpp: the state of work queues, for the collector (src/state): what time has made of what is counted, and what is the oldest.
 *
 * Raises. No locks but the tables'. Runs in the keeper and in backends, also on a standby.
 */
#include "workqueue/state.h"

#include "workqueue/floors.h"
#include "workqueue/message_rows.h"

namespace queen
{

namespace
{

/* Reading the whole table, so many messages take as long as a seek; a page does, too. */
constexpr int64 messages_of_seek = 7;

/* A collection that takes longer than that is slow: microseconds, and for each message and seek. */
constexpr int64 explained_time = 10 * 1000;
constexpr int64 explained_of_one = 5;

/* Calls that run at the same time enqueue in another order than by time. */
constexpr int64 age_slack = USECS_PER_SEC;

/* Queues of a collection of which is looked at what is not counted. */
constexpr int most_probed = 32;
constinit int64 next_probed = 0; /* a log_id */

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
	Floors floors;
	int64 looks; /* messages met, and seeks */
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

/* A message that nobody has in hand, or whose visibility is over. */
void
count_free(StateGauges *gauges, TupleTableSlot *slot, int32 limit, TimestampTz now)
{
	if (int8_of(slot, message_col_expires_at) <= now)
		gauges->expired++;
	else if (attempts_of(slot) >= limit)
		gauges->exhausted++;
	else
	{
		gauges->ready++;
		gauges->oldest_ready = Min(gauges->oldest_ready, int8_of(slot, message_col_enqueued_at));
	}
}

/* ---- by the indexes ---- */

QueueFloors *
floors_of(const States *states, const WorkQueueState *queue)
{
	return &states->floors.queues[queue - states->queues];
}

/*
 * Messages that have expired and are not deleted yet, of all queues, because the index is: never delivered, or below where the scan of their queue's
 * elapsed ones begins.
 */
void
find_expired(States *states)
{
	TimestampTz floor = states->now;
	IndexScan scan;

	message_scan_open(&scan, &states->messages, MarkedIndex::expiry, states->snapshot);
	message_scan_start_until(&scan, MarkedIndex::expiry, 0, 0, states->floors.expiry, states->now);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		WorkQueueState *queue;
		MessageRow row;
		int i;

		message_row_read(scan.slot, &row);
		floor = Min(floor, row.expires_at);
		states->looks++;
		i = row.priority - priority_low;
		queue = queue_of(states, row.log_id);
		if (queue == nullptr || (row.in_flight && (row.visible_at > states->now ||
												   row.visible_at >= floors_of(states, queue)->in_flight[i])))
			continue;
		queue->met_ready[i] += !row.in_flight;
		queue->met_in_flight[i] += row.in_flight;
		queue->gauges[i].expired++;
	}
	index_scan_close(&scan);
	states->floors.expiry = floor;
}

/* Those whose visibility is over: delivered once at least, and in nobody's hands. oldest: of all that were met. */
void
find_elapsed(States *states, WorkQueueState *queue, int16 priority, TimestampTz *oldest)
{
	const int i = priority - priority_low;
	IndexScan *scan = &states->in_flight;

	message_scan_start_until(scan, MarkedIndex::in_flight, queue->log_id, priority,
							 floors_of(states, queue)->in_flight[i], states->now);
	while (index_scan_next(scan, ForwardScanDirection))
	{
		states->looks++;
		queue->met_in_flight[i]++;
		*oldest = Min(*oldest, int8_of(scan->slot, message_col_enqueued_at));
		count_free(&queue->gauges[i], scan->slot, queue->limit, states->now);
	}
}

/* The first that was never delivered and has not expired, also when somebody is taking it; false when there is none. */
bool
find_oldest_ready(States *states, const WorkQueueState *queue, int16 priority, TimestampTz *oldest)
{
	int64 *floor = &floors_of(states, queue)->ready[priority - priority_low];
	IndexScan *scan = &states->ready;

	message_scan_start(scan, MarkedIndex::ready, queue->log_id, priority, *floor);
	while (index_scan_next(scan, ForwardScanDirection))
	{
		states->looks++;
		if (int8_of(scan->slot, message_col_expires_at) <= states->now)
			continue;
		*floor = int8_of(scan->slot, message_col_order);
		*oldest = int8_of(scan->slot, message_col_enqueued_at);
		return true;
	}
	return false;
}

/* Beginning where the last collection has met the first one; false when there is none. oldest: of those that are not in flight any more, too. */
bool
find_oldest_in_flight(States *states, const WorkQueueState *queue, int16 priority, StateGauges *gauges,
					  TimestampTz *oldest)
{
	IndexScan *scan = &states->age;

	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, queue->log_id);
	index_scan_key_int2(scan, 2, priority);
	index_scan_key_time(scan, 3, BTGreaterEqualStrategyNumber, floors_of(states, queue)->age[priority - priority_low]);
	index_scan_start(scan);
	while (index_scan_next(scan, ForwardScanDirection))
	{
		const TimestampTz enqueued_at = int8_of(scan->slot, message_col_enqueued_at);

		states->looks++;
		*oldest = Min(*oldest, enqueued_at);
		if (int8_of(scan->slot, message_col_visible_at) > states->now)
		{
			gauges->oldest_in_flight = enqueued_at;
			return true;
		}
	}
	return false;
}

/* Where nothing is counted nothing is looked for: ten thousand empty queues cost nothing but their rows of counts. */
void
find_of_priority(States *states, WorkQueueState *queue, int16 priority)
{
	const int i = priority - priority_low;
	const int64 unexpired = queue->stored_ready[i] - queue->met_ready[i];
	StateGauges *gauges = &queue->gauges[i];
	/* of what is in flight, or may be one day: enqueued before now, and not expired when it was not delivered yet */
	TimestampTz oldest = states->now;
	TimestampTz oldest_ready = DT_NOEND;
	bool known = true;

	if (queue->stored_in_flight[i] != 0)
		find_elapsed(states, queue, priority, &oldest);
	gauges->in_flight = queue->stored_in_flight[i] - queue->met_in_flight[i];
	/* from the bottom on, it is met when there is one: counts that say so otherwise are wrong */
	if (gauges->in_flight > 0 && !find_oldest_in_flight(states, queue, priority, gauges, &oldest))
		queue->met_all_in_flight[i] = !states->floors.held;
	if (unexpired > 0)
	{
		known = find_oldest_ready(states, queue, priority, &oldest_ready);
		queue->met_all_ready[i] = !known && !states->floors.held;
	}
	gauges->oldest_ready = Min(gauges->oldest_ready, oldest_ready);
	gauges->ready += unexpired;
	if (known)
		floors_of(states, queue)->age[i] = Min(oldest, oldest_ready) - age_slack;
	states->looks += (queue->stored_in_flight[i] != 0) + (gauges->in_flight > 0) + (unexpired > 0);
}

bool
is_there(IndexScan *scan, MarkedIndex index, const WorkQueueState *queue, int16 priority)
{
	message_scan_start(scan, index, queue->log_id, priority, core::mark_bottom);
	return index_scan_next(scan, ForwardScanDirection);
}

/*
 * Where nothing is counted there may be something nevertheless, when somebody has written it with triggers off: some queues are looked at in each
 * collection, in turn.
 */
void
probe(States *states)
{
	int at = 0;

	while (at < states->count && states->queues[at].log_id < next_probed)
		at++;
	at = at < states->count ? at : 0;
	for (int n = Min(states->count, most_probed); n > 0; n--)
	{
		WorkQueueState *queue = &states->queues[at];

		for (int i = 0; i < priority_count; i++)
		{
			const int16 priority = (int16) (i + priority_low);

			if (queue->stored_ready[i] == 0 && queue->met_ready[i] == 0)
				queue->met_ready[i] = is_there(&states->ready, MarkedIndex::ready, queue, priority);
			if (queue->stored_in_flight[i] == 0 && queue->met_in_flight[i] == 0)
				queue->met_in_flight[i] = is_there(&states->in_flight, MarkedIndex::in_flight, queue, priority);
		}
		states->looks += 2 * priority_count;
		at = (at + 1) % states->count;
	}
	next_probed = states->count > 0 ? states->queues[at].log_id : 0;
}

void
find_by_indexes(States *states)
{
	const TimestampTz began = GetCurrentTimestamp();
	Relation table = states->messages.table;

	states->by_age =
		open_partial_index(table, {message_col_log_id + 1, message_col_priority + 1, message_col_enqueued_at + 1},
						   message_col_state + 1, "IN_FLIGHT", AccessShareLock);
	message_scan_open(&states->ready, &states->messages, MarkedIndex::ready, states->snapshot);
	message_scan_open(&states->in_flight, &states->messages, MarkedIndex::in_flight, states->snapshot);
	index_scan_open(&states->age, table, states->by_age, states->snapshot);
	floors_begin(&states->floors, &states->messages, states->queues, states->count);
	find_expired(states);
	for (int i = 0; i < states->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int16 priority = priority_low; priority <= priority_high; priority++)
			find_of_priority(states, &states->queues[i], priority);
	}
	if (!states->floors.held)
		probe(states);
	index_scan_close(&states->age);
	index_scan_close(&states->in_flight);
	index_scan_close(&states->ready);
	index_close(states->by_age, NoLock);
	floors_end(&states->floors, states->messages.tables,
			   GetCurrentTimestamp() - began > explained_time + explained_of_one * states->looks);
}

/* ---- by the table ---- */

void
meet(WorkQueueState *queue, TupleTableSlot *slot, TimestampTz now)
{
	const int i = DatumGetInt16(slot->tts_values[message_col_priority]) - priority_low;
	const bool in_flight = !slot->tts_isnull[message_col_visible_at];
	StateGauges *gauges = &queue->gauges[i];

	queue->met_ready[i] += !in_flight;
	queue->met_in_flight[i] += in_flight;
	if (!in_flight || DatumGetTimestampTz(slot->tts_values[message_col_visible_at]) <= now)
	{
		count_free(gauges, slot, queue->limit, now);
		return;
	}
	gauges->in_flight++;
	gauges->oldest_in_flight =
		Min(gauges->oldest_in_flight, DatumGetTimestampTz(slot->tts_values[message_col_enqueued_at]));
}

void
find_by_table(States *states)
{
	TupleTableSlot *slot = table_slot_create(states->messages.table, nullptr);
	TableScanDesc scan = table_beginscan(states->messages.table, states->snapshot, 0, nullptr);
	WorkQueueState *queue = nullptr;

	for (int i = 0; i < states->count; i++)
		for (int p = 0; p < priority_count; p++)
			states->queues[i].met_all_ready[p] = states->queues[i].met_all_in_flight[p] = true;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		int64 log_id;

		CHECK_FOR_INTERRUPTS();
		slot_getsomeattrs(slot, message_col_attempts + 1);
		log_id = DatumGetInt64(slot->tts_values[message_col_log_id]);
		if (queue == nullptr || queue->log_id != log_id)
			queue = queue_of(states, log_id);
		if (queue != nullptr)
			meet(queue, slot, states->now);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* Of shallow queues there would be as many seeks as there are messages. */
bool
is_shallow(const States *states)
{
	int64 messages = 0;
	int64 seeks = 0;

	for (int i = 0; i < states->count; i++)
	{
		const WorkQueueState *queue = &states->queues[i];

		for (int p = 0; p < priority_count; p++)
		{
			messages += queue->stored_ready[p] + queue->stored_in_flight[p];
			seeks += (queue->stored_ready[p] != 0) + 2 * (queue->stored_in_flight[p] != 0);
		}
	}
	return (int64) RelationGetNumberOfBlocks(states->messages.table) + messages / messages_of_seek < seeks;
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
	if (is_shallow(&states))
		find_by_table(&states);
	else
		find_by_indexes(&states);
	message_table_close(&states.messages);
}

} // namespace queen
