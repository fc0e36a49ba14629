/*
 * floors.cpp: where the collector's scans begin while somebody holds a snapshot. See floors.h.
 *
 * Raises for memory only. No locks but the list of processes, shared, for the horizon. Runs in the keeper and in backends, also on a standby.
 */
#include "workqueue/floors.h"

namespace queen
{

namespace
{

struct Remembered
{
	MemoryContext context; /* null: nothing is */
	Oid tables;
	TransactionId
		until; /* what a transaction before this one has deleted was met dead: it is taken out when the horizon has come there */
	Floors floors;
};

constinit Remembered remembered = {};

void
forget()
{
	if (remembered.context != nullptr)
		MemoryContextDelete(remembered.context);
	remembered = {};
}

/* Null where nothing is remembered of a log. */
const QueueFloors *
find(int64 log_id)
{
	int first = 0;
	int last = remembered.floors.count;

	while (first < last)
	{
		const int middle = first + (last - first) / 2;

		if (remembered.floors.queues[middle].log_id < log_id)
			first = middle + 1;
		else
			last = middle;
	}
	return first < remembered.floors.count && remembered.floors.queues[first].log_id == log_id
			   ? &remembered.floors.queues[first]
			   : nullptr;
}

void
begin_of_queue(const Floors *floors, QueueFloors *queue, Oid tables)
{
	const QueueFloors *before = floors->held ? find(queue->log_id) : nullptr;

	for (int i = 0; i < priority_count; i++)
	{
		const MarkKey key = {tables, queue->log_id, (int16) (i + priority_low), MarkedIndex::in_flight};

		queue->in_flight[i] = floors->held ? claim_mark(&key) : core::mark_bottom;
		queue->ready[i] = before != nullptr ? before->ready[i] : core::mark_bottom;
		queue->age[i] = before != nullptr ? before->age[i] : DT_NOBEGIN;
	}
}

} // namespace

void
floors_begin(Floors *floors, const MessageTable *messages, const WorkQueueState *queues, int count)
{
	if (remembered.context != nullptr &&
		(remembered.tables != messages->tables ||
		 TransactionIdFollowsOrEquals(GetOldestNonRemovableTransactionId(messages->table), remembered.until)))
		forget();
	floors->held = remembered.context != nullptr;
	floors->expiry = floors->held ? remembered.floors.expiry : DT_NOBEGIN;
	floors->count = count;
	floors->queues = (QueueFloors *) palloc_extended(sizeof(QueueFloors) * (Size) Max(count, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		floors->queues[i].log_id = queues[i].log_id;
		begin_of_queue(floors, &floors->queues[i], messages->tables);
	}
}

void
floors_end(const Floors *floors, Oid tables, bool slow)
{
	const Size size = sizeof(QueueFloors) * (Size) Max(floors->count, 1);
	Remembered next = {};

	if (!floors->held && !slow)
		return;
	next.context = AllocSetContextCreate(TopMemoryContext, "queen floors", ALLOCSET_DEFAULT_SIZES);
	next.tables = tables;
	next.until = floors->held ? remembered.until : XidFromFullTransactionId(ReadNextFullTransactionId());
	next.floors = *floors;
	next.floors.queues = (QueueFloors *) MemoryContextAllocHuge(next.context, size);
	memcpy(next.floors.queues, floors->queues, size);
	forget();
	remembered = next;
}

} // namespace queen
