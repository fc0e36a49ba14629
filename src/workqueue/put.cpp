/*
 * put.cpp: messages into a work queue. See put.h.
 *
 * Raises; the participant never does. Locks: the log against who drops or purges it, to the end of the transaction; a queue's birth. Runs in backends,
 * and in the process that fires timers.
 */
#include "workqueue/put.h"

#include "log/event_counts.h"
#include "log/log_lock.h"
#include "server/kept_array.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "state/spread.h"

namespace queen
{

namespace
{

/* A log that this transaction has locked, and the shard of what it puts there. */
struct Note
{
	int64 log_id;
	SubTransactionId sub;
	int16 shard;
};

/* Those beyond are locked, and a shard is drawn, at each call. */
constexpr uint32 most_notes = 1000;
constexpr uint32 kept_notes = 16;
constinit KeptArray<Note, kept_notes> notes = {};

const Note *
note_of(int64 log_id)
{
	for (uint32 i = notes.count; i > 0; i--)
		if (notes.items[i - 1].log_id == log_id)
			return &notes.items[i - 1];
	return nullptr;
}

void
ended(bool committed)
{
	(void) committed;
	kept_array_clear(&notes);
}

/* Find the queue and hold it; returns the shard. */
int16
hold(const pg_uuid_t *tenant, Name name, bool may_create, QueueRow *queue)
{
	QueueTable queues;
	const Note *note;
	int16 shard;

	queue_table_open(&queues, RowExclusiveLock);
	queue_ensure(&queues, tenant, name, may_create, queue, QueueKind::work);
	for (;;)
	{
		const int64 log_id = queue->log_id;

		CHECK_FOR_INTERRUPTS();
		queue_check_kind(queue, QueueKind::work,
						 "Put messages into a log queue with queen.push() or queen.push_batch().");
		note = note_of(log_id);
		if (note != nullptr)
			break;
		log_lock_to_put(log_id, queue->name);
		/* who dropped or purged it may have been waited for */
		queue_ensure(&queues, tenant, name, may_create, queue, QueueKind::work);
		if (queue->log_id == log_id)
			break;
	}
	queue_table_close(&queues);
	if (note != nullptr)
		return note->shard;
	shard = spread_draw(own_tables(), queue->log_id);
	if (notes.count < most_notes)
	{
		kept_array_reserve(&notes, 1);
		notes.items[notes.count++] = {queue->log_id, GetCurrentSubTransactionId(), shard};
	}
	return shard;
}

} // namespace

/* the locks that were taken since a savepoint go with it */
const TransactionParticipant put_participant = {
	nullptr, nullptr, ended, nullptr, kept_array_sub_committed<notes>, kept_array_sub_aborted<notes>};

void
put_open(PutTarget *target, const pg_uuid_t *tenant, Name queue, bool may_create)
{
	*target = {};
	target->shard = hold(tenant, queue, may_create, &target->queue);
	target->now = GetCurrentTimestamp();
	message_table_open(&target->messages, RowExclusiveLock);
}

void
put_message(PutTarget *target, const WorkMessage *message)
{
	const int64 ttl = message->ttl != 0 ? message->ttl : target->queue.options.message_ttl;
	pg_uuid_t id;
	MessageRow row = {};

	if (target->orders == 0)
	{
		target->next_order = next_id(Sequence::message_orders);
		target->orders = orders_of_draw;
	}
	target->orders--;
	row.log_id = target->queue.log_id;
	row.order = target->next_order++;
	row.priority = message->priority != 0 ? message->priority : priority_medium;
	row.expires_at = target->now + ttl;
	memset(row.nulls, true, sizeof(row.nulls));
	for (int column = message_col_id; column <= message_col_state; column++)
		row.nulls[column] = false;
	memcpy(id.data, message->id.bytes, UUID_LEN);
	row.values[message_col_id] = UUIDPGetDatum(&id);
	row.values[message_col_enqueued_at] = TimestampTzGetDatum(target->now);
	row.values[message_col_shard] = Int16GetDatum(target->shard);
	row.values[message->raw ? message_col_payload : message_col_message] = message->content;
	row.nulls[message->raw ? message_col_payload : message_col_message] = false;
	row.values[message_col_headers] = PointerGetDatum(message->headers);
	row.nulls[message_col_headers] = message->headers == nullptr;
	message_insert(&target->messages, &row, target->queue.queue_id);
	event_note_work(target->messages.tables, target->queue.queue_id, row.priority, Event::added, 1);
	event_note_work(target->messages.tables, target->queue.queue_id, row.priority, Event::bytes,
					toast_raw_datum_size(message->content) - VARHDRSZ +
						(message->headers != nullptr ? VARSIZE_ANY_EXHDR(message->headers) : 0));
}

void
put_close(PutTarget *target)
{
	message_table_close(&target->messages);
}

PutTarget *
put_open_existing(const pg_uuid_t *tenant, Name queue)
{
	PutTarget *target = (PutTarget *) palloc(sizeof(PutTarget));

	put_open(target, tenant, queue, false);
	return target;
}

int16
priority_argument(FunctionCallInfo fcinfo, int argno)
{
	const char *given;

	if (PG_ARGISNULL(argno))
		raise_null_argument("priority");
	given = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	for (int16 priority = priority_low; priority <= priority_high; priority++)
		if (strcmp(given, priority_text(priority)) == 0)
			return priority;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no priority \"%s\"", given),
					errhint("The priority is high, medium or low.")));
	pg_unreachable();
}

const char *
priority_text(int16 priority)
{
	return priority == priority_high ? "high" : priority == priority_medium ? "medium" : "low";
}

int64
ttl_argument(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		return 0;
	return interval_in_range(PG_GETARG_INTERVAL_P(argno), "ttl", ttl_least, ttl_most);
}

} // namespace queen
