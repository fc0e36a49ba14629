/*
 * bury.cpp: messages of work queues that are given up. See bury.h.
 *
 * Raises. Locks: the message's row, by deleting it, without waiting. Runs in backends.
 */
#include "workqueue/bury.h"

#include "log/dead_letters.h"
#include "log/event_counts.h"

namespace queen
{

static void
insert_letter(const MessageTable *messages, const QueueRow *queue, const MessageRow *row, int32 attempts)
{
	constexpr struct
	{
		DeadColumn to;
		MessageColumn from;
	} kept[] = {
		{dead_col_message_id, message_col_id},	   {dead_col_message, message_col_message},
		{dead_col_payload, message_col_payload},   {dead_col_headers, message_col_headers},
		{dead_col_error, message_col_last_error},  {dead_col_enqueued_at, message_col_enqueued_at},
		{dead_col_priority, message_col_priority},
	};
	Datum values[dead_cols];
	bool nulls[dead_cols];
	auto put = [&values, &nulls](DeadColumn column, Datum value) {
		values[column] = value;
		nulls[column] = false;
	};

	memset(nulls, true, sizeof(nulls));
	for (auto [to, from] : kept)
	{
		values[to] = row->values[from];
		nulls[to] = row->nulls[from];
	}
	put(dead_col_tenant, UUIDPGetDatum(&queue->tenant));
	put(dead_col_queue_id, Int64GetDatum(queue->queue_id));
	put(dead_col_queue, CStringGetTextDatum(queue->name));
	put(dead_col_kind, CStringGetTextDatum("work"));
	put(dead_col_attempts, Int32GetDatum(attempts));
	dead_letter_insert(values, nulls);
	event_note_work(messages->tables, queue->queue_id, row->priority, Event::dead, 1);
}

bool
message_bury_unless_locked(MessageTable *messages, const QueueRow *queue, const MessageRow *row, int32 attempts,
						   Snapshot snapshot)
{
	if (!message_delete_unless_locked(messages, row, snapshot, queue->queue_id))
		return false;
	insert_letter(messages, queue, row, attempts);
	return true;
}

void
message_bury(MessageTable *messages, const QueueRow *queue, const MessageRow *row, int32 attempts)
{
	message_delete(messages, row, queue->queue_id);
	insert_letter(messages, queue, row, attempts);
}

} // namespace queen
