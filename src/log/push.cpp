/*
 * push.cpp: queen.push, push_batch, push_bytes.
 *
 * Raises. Takes no lock: everything is buffered until PRE_COMMIT; but for a message that becomes a timer. Runs in backends.
 */
#include "core/key_hash.h"
#include "log/dedup.h"
#include "log/push_later.h"
#include "log/push_message.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* Where the arguments queue, the first one, and partition, the third, say. */
BufferedPartition *
target_argument(FunctionCallInfo fcinfo)
{
	Name queue = name_argument(fcinfo, 0, "queue");

	return push_target(queue, name_argument(fcinfo, 2, "partition"));
}

/* Is the message to be delivered later: is deliver_at or delay given? Not together with a key. */
bool
is_for_later(FunctionCallInfo fcinfo, int key_arg, int delay_arg, int deliver_at_arg)
{
	if (PG_ARGISNULL(delay_arg) && PG_ARGISNULL(deliver_at_arg))
		return false;
	if (!PG_ARGISNULL(key_arg))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("dedup_key cannot be combined with %s", PG_ARGISNULL(delay_arg) ? "deliver_at" : "delay"),
				 errhint("queen.schedule() takes a timer_key: a second timer with the same key replaces the first.")));
	return true;
}

/* A message that becomes a timer: function schedules. */
core::Uuid
add_later(FunctionCallInfo fcinfo, const char *function, bool raw, Datum content, Size size, Jsonb *headers)
{
	TimerMessage message = {};
	Name queue;

	guard_write(function);
	queue = name_argument(fcinfo, 0, "queue");
	message.partition = name_argument(fcinfo, 2, "partition");
	(void) push_check_kind(queue);
	message.deliver_at = deliver_at_argument(fcinfo, 6, 5);
	message.raw = raw;
	message.content = content;
	message.headers = headers;
	push_check_size(size, headers);
	message.id = push_mint_id(push_ms());
	push_later(queue, &message);
	return message.id;
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
		return push_message(target, push_ms(), raw, headers, payload, size, nullptr);
	key = name_argument(fcinfo, key_arg, "dedup_key");
	key_hash = hash_of(key);
	dedup_reader_open(&reader, &target->queue->tenant, target->queue->name, target->name);
	duplicate = is_duplicate(&reader, target, key, &key_hash, &owner);
	dedup_reader_close(&reader);
	if (duplicate)
		return owner.message_id;
	return push_message(target, push_ms(), raw, headers, payload, size, &key_hash);
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
	headers = push_headers_argument(fcinfo, 3);
	message = PG_GETARG_JSONB_P(1);
	if (is_for_later(fcinfo, 4, 5, 6))
		return uuid_to_datum(
			add_later(fcinfo, "queen.push()", false, JsonbPGetDatum(message), VARSIZE_ANY_EXHDR(message), headers));
	target = target_argument(fcinfo);
	id = add_single(fcinfo, 4, target, false, headers, VARDATA_ANY(message), VARSIZE_ANY_EXHDR(message));
	push_write_through();
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
	headers = push_headers_argument(fcinfo, 3);
	payload = PG_GETARG_BYTEA_PP(1);
	if (is_for_later(fcinfo, 4, 5, 6))
		return uuid_to_datum(add_later(fcinfo, "queen.push_bytes()", true, PointerGetDatum(payload),
									   VARSIZE_ANY_EXHDR(payload), headers));
	target = target_argument(fcinfo);
	id = add_single(fcinfo, 4, target, true, headers, VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload));
	push_write_through();
	return uuid_to_datum(id);
}

namespace
{

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
		return push_headers_argument(fcinfo, argno);
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
	const uint64 ms = push_ms(); /* the clock is asked once for all of them */

	guard_push("queen.push_batch()");
	messages = push_messages_argument(fcinfo, 1, "queen.push()");
	count = JB_ROOT_COUNT(messages);
	headers = batch_headers_argument(fcinfo, 3, count, &one_each);
	keys = batch_keys_argument(fcinfo, 4, count);
	target = target_argument(fcinfo);
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
			owner.message_id = push_message(target, ms, false, message_headers, message.data(), message.size(),
											keyed ? &key_hash : nullptr);
		values[0] = UUIDPGetDatum((const pg_uuid_t *) owner.message_id.bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_message);
		CHECK_FOR_INTERRUPTS();
	}
	if (keys != nullptr)
		dedup_reader_close(&reader);
	push_write_through();
	return (Datum) 0;
}

} // namespace queen
