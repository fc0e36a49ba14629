/*
 * push.cpp: queen.push, push_batch, push_bytes.
 *
 * Raises. Takes no lock: everything is buffered until PRE_COMMIT. Runs in backends.
 */
#include "core/key_hash.h"
#include "core/uuid7.h"
#include "log/dedup.h"
#include "log/flush.h"
#include "log/known_names.h"
#include "log/push_buffer.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "server/xact.h"

namespace queen
{

namespace
{

constinit core::Uuid7Source message_ids{};

/* Unix time in milliseconds. */
uint64
now_ms()
{
	constexpr int64 epoch_difference_ms =
		((int64) POSTGRES_EPOCH_JDATE - (int64) UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000;

	return (uint64) (GetCurrentTimestamp() / 1000 + epoch_difference_ms);
}

core::Uuid
mint_message_id(uint64 ms)
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

/* The buffered partition that the arguments name. */
BufferedPartition *
target_of(FunctionCallInfo fcinfo, int queue_arg, int partition_arg)
{
	Name queue = name_argument(fcinfo, queue_arg, "queue");
	Name partition = name_argument(fcinfo, partition_arg, "partition");
	BufferedPartition *target;
	KnownName known;
	Oid tables;

	/*
	 * All that the flush will need, now: nobody else can drop the extension any more, so tables that the flush misses were
	 * dropped by this transaction, and a DROP EXTENSION that waits cannot close a circle.
	 */
	tables = lock_for_push();
	target = push_buffer_partition(tables, setting_tenant(), queue, partition);
	/* with auto_create off the error belongs to this call; the flush asks again, the queue may go meanwhile */
	if (!setting_auto_create && !known_name_find(target, &known))
	{
		QueueTable queues;
		QueueRow row;

		queue_table_open(&queues, AccessShareLock);
		if (!queue_find(&queues, setting_tenant(), queue, &row))
			raise_unknown_queue(queue);
		queue_table_close(&queues);
	}
	return target;
}

/* The headers argument: an object, or absent. */
Jsonb *
headers_argument(FunctionCallInfo fcinfo, int argno)
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

void
refuse_unsupported(FunctionCallInfo fcinfo, int delay_arg, int deliver_at_arg)
{
	if (!PG_ARGISNULL(delay_arg))
		raise_unsupported_argument("delay", "Push without a delay: the message is delivered at once.");
	if (!PG_ARGISNULL(deliver_at_arg))
		raise_unsupported_argument("deliver_at", "Push without a time: the message is delivered at once.");
}

core::Uuid
add_message(BufferedPartition *target, uint64 ms, bool raw, const Jsonb *headers, const void *payload, Size size,
			const core::Uuid *key_hash = nullptr)
{
	Size headers_size = headers != nullptr ? VARSIZE_ANY_EXHDR(headers) : 0;
	core::Uuid id;

	if (size + headers_size > core::frame_max_payload)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a message of %zu bytes is too large", size + headers_size),
						errdetail("A message has at most %zu bytes with its headers.", core::frame_max_payload),
						errhint("Store the content elsewhere and push where it is.")));
	id = mint_message_id(ms);
	push_buffer_add(target, &id, raw, headers, payload, size, key_hash);
	return id;
}

/*
 * Was a message with this key pushed before, in this transaction or by a committed one within the window? Then owner says
 * which; where the queue wants it, that is an error. No is not the last word: the commit takes the key, or finds it taken.
 */
bool
is_duplicate(DedupReader *reader, const BufferedPartition *target, Name key, const core::Uuid *key_hash,
			 KeyOwner *owner)
{
	const core::Uuid *own = push_buffer_find_key(target, key_hash);

	if (reader->window == 0)
		return false;
	if (own != nullptr)
		*owner = {*own, pushed_just_now};
	else if (!dedup_find(reader, key_hash, owner))
		return false;
	if (reader->is_error)
		raise_duplicate(name_to_cstring(target->queue->name), name_to_cstring(target->name),
						psprintf("dedup_key \"%s\"", name_to_cstring(key)), owner);
	return true;
}

core::Uuid
hash_of(Name key)
{
	return core::key_hash({(const uint8 *) key.data, (Size) key.size});
}

/* A single message, with or without a dedup_key. */
core::Uuid
add_single(FunctionCallInfo fcinfo, int key_arg, BufferedPartition *target, bool raw, const Jsonb *headers,
		   const void *payload, Size size)
{
	DedupReader reader;
	KeyOwner owner;
	core::Uuid key_hash;
	Name key;
	bool duplicate;

	if (PG_ARGISNULL(key_arg))
		return add_message(target, now_ms(), raw, headers, payload, size);
	key = name_argument(fcinfo, key_arg, "dedup_key");
	key_hash = hash_of(key);
	dedup_reader_open(&reader, &target->queue->tenant, target->queue->name, target->name);
	duplicate = is_duplicate(&reader, target, key, &key_hash, &owner);
	dedup_reader_close(&reader);
	if (duplicate)
		return owner.message_id;
	return add_message(target, now_ms(), raw, headers, payload, size, &key_hash);
}

/* What is pushed after the flush has begun is written at once: nothing would come after it. */
void
write_through()
{
	if (transaction_flushing())
		flush_pushes();
}

} // namespace

QUEEN_FUNCTION(queen_push)
QUEEN_FUNCTION(queen_push_bytes)
QUEEN_FUNCTION(queen_push_batch)

/* queen.push(queue, message jsonb, partition, headers, dedup_key, delay, deliver_at) returns uuid */
Datum
queen_push(PG_FUNCTION_ARGS)
{
	BufferedPartition *target;
	Jsonb *headers;
	Jsonb *message;
	core::Uuid id;

	guard_push("queen.push()");
	if (PG_ARGISNULL(1))
		raise_null_argument("message");
	refuse_unsupported(fcinfo, 5, 6);
	headers = headers_argument(fcinfo, 3);
	target = target_of(fcinfo, 0, 2);
	message = PG_GETARG_JSONB_P(1);
	id = add_single(fcinfo, 4, target, false, headers, VARDATA_ANY(message), VARSIZE_ANY_EXHDR(message));
	write_through();
	return uuid_to_datum(id);
}

/* queen.push_bytes(queue, payload bytea, partition, headers, dedup_key, delay, deliver_at) returns uuid */
Datum
queen_push_bytes(PG_FUNCTION_ARGS)
{
	BufferedPartition *target;
	Jsonb *headers;
	bytea *payload;
	core::Uuid id;

	guard_push("queen.push_bytes()");
	if (PG_ARGISNULL(1))
		raise_null_argument("payload");
	refuse_unsupported(fcinfo, 5, 6);
	headers = headers_argument(fcinfo, 3);
	target = target_of(fcinfo, 0, 2);
	payload = PG_GETARG_BYTEA_PP(1);
	id = add_single(fcinfo, 4, target, true, headers, VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload));
	write_through();
	return uuid_to_datum(id);
}

namespace
{

/* Walk the elements of a JSON array. */
JsonbIterator *
elements_open(Jsonb *array)
{
	JsonbIterator *elements = JsonbIteratorInit(&array->root);
	JsonbValue value;

	(void) JsonbIteratorNext(&elements, &value, true);
	return elements;
}

/* The next element; the caller knows that it is there. */
JsonbValue
next_element(JsonbIterator **elements)
{
	JsonbValue value;

	(void) JsonbIteratorNext(elements, &value, true);
	return value;
}

/* What a jsonb of this value would hold. Inside an array an object stands as it would alone: it is not copied. */
core::ByteView
jsonb_content(JsonbValue *value)
{
	const Jsonb *made;

	if (value->type == jbvBinary)
		return {(const uint8 *) value->val.binary.data, (Size) value->val.binary.len};
	made = JsonbValueToJsonb(value);
	return {(const uint8 *) VARDATA_ANY(made), VARSIZE_ANY_EXHDR(made)};
}

/* Batch headers: one object for all, or an array with an object or null for each. */
Jsonb *
batch_headers_argument(FunctionCallInfo fcinfo, int argno, uint32 messages, bool *one_each)
{
	Jsonb *headers;

	*one_each = false;
	if (PG_ARGISNULL(argno))
		return nullptr;
	headers = PG_GETARG_JSONB_P(argno);
	if (!JB_ROOT_IS_ARRAY(headers) || JB_ROOT_IS_SCALAR(headers))
		return headers_argument(fcinfo, argno);
	if (JB_ROOT_COUNT(headers) != messages)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("headers has %u elements for %u messages", JB_ROOT_COUNT(headers), messages),
						errhint("Give one object for all messages, or an array with an object or null for each.")));
	*one_each = true;
	return headers;
}

/* Headers of message i, which are the next element of theirs. */
Jsonb *
own_headers(JsonbIterator **elements, uint32 i)
{
	JsonbValue value = next_element(elements);
	Jsonb *own;

	if (value.type == jbvNull)
		return nullptr;
	own = JsonbValueToJsonb(&value);
	if (!JB_ROOT_IS_OBJECT(own))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers element %u must be a JSON object", i),
						errhint("Give one object for all messages, or an array with an object or null for each.")));
	return own;
}

/* Batch dedup_keys: an array with a string or null for each message; null when there are none. */
Jsonb *
batch_keys_argument(FunctionCallInfo fcinfo, int argno, uint32 messages)
{
	Jsonb *keys;

	if (PG_ARGISNULL(argno))
		return nullptr;
	keys = PG_GETARG_JSONB_P(argno);
	if (!JB_ROOT_IS_ARRAY(keys) || JB_ROOT_IS_SCALAR(keys))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("dedup_keys must be a JSON array"),
						errhint("Give a string or null for each message.")));
	if (JB_ROOT_COUNT(keys) != messages)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("dedup_keys has %u elements for %u messages", JB_ROOT_COUNT(keys), messages),
						errhint("Give a string or null for each message.")));
	return keys;
}

/* The key of message i, which is the next element of theirs, or false. */
bool
own_key(JsonbIterator **elements, uint32 i, Name *key)
{
	JsonbValue value = next_element(elements);

	if (value.type == jbvNull)
		return false;
	if (value.type != jbvString)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("dedup_keys element %u must be a string", i),
						errhint("Give a string or null for each message.")));
	*key = name_from_text(cstring_to_text_with_len(value.val.string.val, value.val.string.len), "dedup_key");
	return true;
}

} // namespace

/* queen.push_batch(queue, messages jsonb, partition, headers, dedup_keys) returns setof uuid */
Datum
queen_push_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	BufferedPartition *target;
	MemoryContext per_message;
	JsonbIterator *elements;
	JsonbIterator *headers_elements;
	JsonbIterator *keys_elements;
	Jsonb *messages;
	Jsonb *headers;
	Jsonb *keys;
	DedupReader reader;
	bool one_each;
	uint32 count;
	const uint64 ms = now_ms(); /* the clock is asked once for all of them */

	guard_push("queen.push_batch()");
	if (PG_ARGISNULL(1))
		raise_null_argument("messages");
	messages = PG_GETARG_JSONB_P(1);
	if (!JB_ROOT_IS_ARRAY(messages) || JB_ROOT_IS_SCALAR(messages))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("messages must be a JSON array"),
						errhint("Each of its elements is a message; queen.push() takes a single one.")));
	count = JB_ROOT_COUNT(messages);
	headers = batch_headers_argument(fcinfo, 3, count, &one_each);
	keys = batch_keys_argument(fcinfo, 4, count);
	target = target_of(fcinfo, 0, 2);
	if (keys != nullptr)
		dedup_reader_open(&reader, &target->queue->tenant, target->queue->name, target->name);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	elements = elements_open(messages);
	headers_elements = one_each ? elements_open(headers) : nullptr;
	keys_elements = keys != nullptr ? elements_open(keys) : nullptr;
	per_message = AllocSetContextCreate(CurrentMemoryContext, "queen push_batch", ALLOCSET_DEFAULT_SIZES);
	for (uint32 i = 0; i < count; i++)
	{
		JsonbValue value = next_element(&elements);
		MemoryContext caller = MemoryContextSwitchTo(per_message);
		core::ByteView message = jsonb_content(&value);
		const Jsonb *message_headers = one_each ? own_headers(&headers_elements, i) : headers;
		Datum values[1];
		bool nulls[1] = {};
		core::Uuid key_hash;
		KeyOwner owner;
		Name key;
		bool keyed = keys != nullptr && own_key(&keys_elements, i, &key);

		if (keyed)
			key_hash = hash_of(key);
		if (!keyed || !is_duplicate(&reader, target, key, &key_hash, &owner))
			owner.message_id = add_message(target, ms, false, message_headers, message.data(), message.size(),
										   keyed ? &key_hash : nullptr);
		values[0] = UUIDPGetDatum((const pg_uuid_t *) owner.message_id.bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_message);
		CHECK_FOR_INTERRUPTS();
	}
	if (keys != nullptr)
		dedup_reader_close(&reader);
	write_through();
	return (Datum) 0;
}

} // namespace queen
