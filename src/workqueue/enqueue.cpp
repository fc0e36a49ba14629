/*
 * enqueue.cpp: queen.enqueue and enqueue_batch.
 *
 * Raises. Locks: what put.h says. Runs in backends, in every isolation level.
 */
#include "log/push_later.h"
#include "log/push_message.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "workqueue/put.h"

namespace queen
{

namespace
{

/* A message that becomes a timer. */
void
enqueue_later(FunctionCallInfo fcinfo, Name name, const WorkMessage *message)
{
	TimerMessage later = {};
	QueueTable queues;
	QueueRow queue;

	/* a queue that is not there yet is born when the timer fires */
	queue_table_open(&queues, AccessShareLock);
	if (queue_find(&queues, setting_tenant(), name, &queue))
		queue_check_kind(&queue, QueueKind::work,
						 "Put messages into a log queue with queen.push() or queen.push_batch().");
	queue_table_close(&queues);
	later.id = message->id;
	later.partition = default_partition;
	later.deliver_at = deliver_at_argument(fcinfo, 6, 5);
	later.content = message->content;
	later.headers = message->headers;
	later.priority = message->priority;
	later.ttl = message->ttl;
	push_later(name, &later);
}

} // namespace

QUEEN_FUNCTION(queen_enqueue)
QUEEN_FUNCTION(queen_enqueue_batch)

/* queen.enqueue(queue, message jsonb, priority, ttl, headers, delay, deliver_at) returns uuid */
Datum
queen_enqueue(PG_FUNCTION_ARGS)
{
	WorkMessage message = {};
	PutTarget target;
	Jsonb *content;
	Name queue;

	guard_write("queen.enqueue()");
	queue = name_argument(fcinfo, 0, "queue");
	if (PG_ARGISNULL(1))
		raise_null_argument("message");
	message.priority = priority_argument(fcinfo, 2);
	message.ttl = ttl_argument(fcinfo, 3);
	message.headers = push_headers_argument(fcinfo, 4);
	content = PG_GETARG_JSONB_P(1);
	push_check_size(VARSIZE_ANY_EXHDR(content), message.headers);
	message.content = JsonbPGetDatum(content);
	message.id = push_mint_id(push_ms());
	if (!PG_ARGISNULL(5) || !PG_ARGISNULL(6))
		enqueue_later(fcinfo, queue, &message);
	else
	{
		put_open(&target, setting_tenant(), queue, setting_auto_create);
		put_message(&target, &message);
		put_close(&target);
	}
	return uuid_to_datum(message.id);
}

/* queen.enqueue_batch(queue, messages jsonb, priority, ttl) returns setof uuid */
Datum
queen_enqueue_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const uint64 ms = push_ms(); /* the clock is asked once for all of them */
	MemoryContext per_message;
	JsonbIterator *elements;
	WorkMessage message = {};
	PutTarget target;
	Jsonb *messages;
	uint32 count;
	Name queue;

	guard_write("queen.enqueue_batch()");
	queue = name_argument(fcinfo, 0, "queue");
	messages = push_messages_argument(fcinfo, 1, "queen.enqueue()");
	count = JB_ROOT_COUNT(messages);
	message.priority = priority_argument(fcinfo, 2);
	message.ttl = ttl_argument(fcinfo, 3);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	put_open(&target, setting_tenant(), queue, setting_auto_create);
	elements = elements_open(messages);
	per_message = AllocSetContextCreate(CurrentMemoryContext, "queen enqueue_batch", ALLOCSET_DEFAULT_SIZES);
	for (uint32 i = 0; i < count; i++)
	{
		JsonbValue value = next_element(&elements);
		MemoryContext caller = MemoryContextSwitchTo(per_message);
		Jsonb *content = JsonbValueToJsonb(&value);
		pg_uuid_t id;
		Datum values[1] = {UUIDPGetDatum(&id)};
		bool nulls[1] = {};

		push_check_size(VARSIZE_ANY_EXHDR(content), nullptr);
		message.content = JsonbPGetDatum(content);
		message.id = push_mint_id(ms);
		put_message(&target, &message);
		memcpy(id.data, message.id.bytes, UUID_LEN);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_message);
		CHECK_FOR_INTERRUPTS();
	}
	put_close(&target);
	return (Datum) 0;
}

} // namespace queen
