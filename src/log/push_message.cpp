/*
 * push_message.cpp: one message into the push buffer. See push_message.h.
 *
 * Raises. Locks the own tables, nothing else: everything is buffered until PRE_COMMIT. Runs in backends.
 */
#include "log/push_message.h"

#include "core/uuid7.h"
#include "log/flush.h"
#include "log/known_names.h"
#include "log/queues.h"
#include "server/relations.h"
#include "server/settings.h"
#include "server/xact.h"

namespace queen
{

namespace
{

constinit core::Uuid7Source message_ids{};

} // namespace

core::Uuid
push_mint_id(uint64 ms)
{
	static uint8 pool[64][core::Uuid7Source::random_bytes];
	static constinit int left = 0;

	if (!message_ids.needs_random(ms))
		return message_ids.mint(ms, pool[0]);
	/* the generator costs more by the call than by the byte */
	if (left == 0)
	{
		if (!pg_strong_random(pool, sizeof(pool)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes for a message id")));
		left = lengthof(pool);
	}
	return message_ids.mint(ms, pool[--left]);
}

Jsonb *
push_headers_argument(FunctionCallInfo fcinfo, int argno)
{
	Jsonb *headers;

	if (PG_ARGISNULL(argno))
		return nullptr;
	headers = PG_GETARG_JSONB_P(argno);
	if (!JB_ROOT_IS_OBJECT(headers))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers must be a JSON object"),
						errhint("For example: '{\"trace\": \"abc\"}'.")));
	return headers;
}

Jsonb *
push_messages_argument(FunctionCallInfo fcinfo, int argno, const char *single)
{
	Jsonb *messages;

	if (PG_ARGISNULL(argno))
		raise_null_argument("messages");
	messages = PG_GETARG_JSONB_P(argno);
	if (!JB_ROOT_IS_ARRAY(messages) || JB_ROOT_IS_SCALAR(messages))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("messages must be a JSON array"),
						errhint("Each of its elements is a message; %s takes a single one.", single)));
	return messages;
}

JsonbIterator *
elements_open(Jsonb *array)
{
	JsonbIterator *elements = JsonbIteratorInit(&array->root);
	JsonbValue value;

	(void) JsonbIteratorNext(&elements, &value, true);
	return elements;
}

JsonbValue
next_element(JsonbIterator **elements)
{
	JsonbValue value;

	(void) JsonbIteratorNext(elements, &value, true);
	return value;
}

void
push_check_size(Size size, const Jsonb *headers)
{
	const Size headers_size = headers != nullptr ? VARSIZE_ANY_EXHDR(headers) : 0;

	if (size + headers_size > core::frame_max_payload)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a message of %zu bytes is too large", size + headers_size),
						errdetail("A message has at most %zu bytes with its headers.", core::frame_max_payload),
						errhint("Store the content elsewhere and push where it is.")));
}

uint64
push_ms()
{
	constexpr int64 epoch_difference_ms =
		((int64) POSTGRES_EPOCH_JDATE - (int64) UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000;

	return (uint64) (GetCurrentTimestamp() / 1000 + epoch_difference_ms);
}

bool
push_check_kind(Name queue)
{
	QueueTable queues;
	QueueRow row;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find(&queues, setting_tenant(), queue, &row);
	if (found)
		queue_check_kind(&row, QueueKind::log, hint_for_push);
	queue_table_close(&queues);
	return found;
}

BufferedPartition *
push_target(Name queue, Name partition)
{
	BufferedPartition *target;
	KnownName known;
	Oid tables;

	/*
	 * All that the flush will need, now: nobody else can drop the extension any more, so tables that the flush misses were
	 * dropped by this transaction, and a DROP EXTENSION that waits cannot close a circle.
	 */
	tables = lock_for_push();
	target = push_buffer_partition(tables, setting_tenant(), queue, partition);
	/*
	 * A queue of the other kind, or with auto_create off none: the error belongs to this call. Looked for once a transaction; the flush asks again.
	 */
	if (!(target->queue->looked && setting_auto_create) && !known_name_find(target, &known))
	{
		if (!push_check_kind(queue) && !setting_auto_create)
			raise_unknown_queue(queue);
		target->queue->looked = true;
	}
	return target;
}

core::Uuid
push_message(BufferedPartition *target, uint64 ms, bool raw, const Jsonb *headers, const void *payload, Size size,
			 const core::Uuid *key_hash)
{
	core::Uuid id;

	push_check_size(size, headers);
	id = push_mint_id(ms);
	push_buffer_add(target, &id, raw, headers, payload, size, key_hash);
	return id;
}

void
push_write_through()
{
	if (transaction_flushing())
		flush_pushes();
}

} // namespace queen
