/*
 * messages.cpp: rows of type queen.message, from frames. See messages.h.
 *
 * Raises. No locks. Runs in backends.
 */
#include "log/messages.h"

#include "server/uuids.h"

namespace queen
{

namespace
{

/* Columns of type queen.message, from 0. */
enum MessageColumn : int
{
	col_queue,
	col_partition,
	col_msg_offset,
	col_message_id,
	col_message,
	col_payload,
	col_headers,
	col_enqueued_at,
	col_attempt,
	col_consumer_group,
	col_lease,
	col_lease_until,
	message_cols,
};

Datum
varlena_datum(core::ByteView bytes)
{
	Size size = VARHDRSZ + bytes.size();
	struct varlena *value = (struct varlena *) palloc(size);

	SET_VARSIZE(value, size);
	if (!bytes.empty())
		memcpy(VARDATA(value), bytes.data(), bytes.size());
	return PointerGetDatum(value);
}

} // namespace

void
frame_datums(const core::Frame *frame, FrameDatums *out)
{
	*out = {};
	out->message_id = uuid_to_datum(frame->message_id);
	out->message_null = frame->raw;
	out->payload_null = !frame->raw;
	out->headers_null = !frame->has_headers;
	if (frame->raw)
		out->payload = varlena_datum(frame->payload);
	else
		out->message = varlena_datum(frame->payload);
	if (frame->has_headers)
		out->headers = varlena_datum(frame->headers);
}

void
message_sink_open(MessageSink *sink, FunctionCallInfo fcinfo, bool sorted)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	*sink = {};
	sink->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	if (sink->rsinfo->setDesc->natts != message_cols)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("type queen.message has %d attributes, the library expects %d",
							   sink->rsinfo->setDesc->natts, (int) message_cols)));
	sink->per_row = AllocSetContextCreate(CurrentMemoryContext, "queen message", ALLOCSET_DEFAULT_SIZES);
	if (sorted)
	{
		AttrNumber columns[] = {col_partition + 1, col_msg_offset + 1};
		Oid operators[] = {TextLessOperator, Int8LessOperator};
		Oid collations[] = {C_COLLATION_OID, InvalidOid};
		bool nulls_first[] = {false, false};

		sink->sort = tuplesort_begin_heap(sink->rsinfo->setDesc, 2, columns, operators, collations, nulls_first,
										  work_mem, nullptr, TUPLESORT_NONE);
		sink->slot = MakeSingleTupleTableSlot(sink->rsinfo->setDesc, &TTSOpsVirtual);
	}
}

void
message_sink_put(MessageSink *sink, const MessageOrigin *origin, int64 offset, TimestampTz enqueued_at,
				 const core::Frame *frame)
{
	MemoryContext caller = MemoryContextSwitchTo(sink->per_row);
	Datum values[message_cols] = {};
	bool nulls[message_cols] = {};
	FrameDatums parts;

	frame_datums(frame, &parts);
	values[col_queue] = CStringGetTextDatum(origin->queue);
	values[col_partition] = CStringGetTextDatum(origin->partition);
	values[col_msg_offset] = Int64GetDatum(offset);
	values[col_message_id] = parts.message_id;
	values[col_message] = parts.message;
	nulls[col_message] = parts.message_null;
	values[col_payload] = parts.payload;
	nulls[col_payload] = parts.payload_null;
	values[col_headers] = parts.headers;
	nulls[col_headers] = parts.headers_null;
	values[col_enqueued_at] = TimestampTzGetDatum(enqueued_at);
	nulls[col_attempt] = origin->attempt == 0;
	values[col_attempt] = Int32GetDatum(origin->attempt);
	nulls[col_consumer_group] = origin->consumer_group == nullptr;
	if (origin->consumer_group != nullptr)
		values[col_consumer_group] = CStringGetTextDatum(origin->consumer_group);
	nulls[col_lease] = nulls[col_lease_until] = origin->lease == nullptr;
	if (origin->lease != nullptr)
	{
		values[col_lease] = uuid_to_datum(*origin->lease);
		values[col_lease_until] = TimestampTzGetDatum(origin->lease_until);
	}

	if (sink->sort == nullptr)
		tuplestore_putvalues(sink->rsinfo->setResult, sink->rsinfo->setDesc, values, nulls);
	else
	{
		ExecClearTuple(sink->slot);
		memcpy(sink->slot->tts_values, values, sizeof(values));
		memcpy(sink->slot->tts_isnull, nulls, sizeof(nulls));
		ExecStoreVirtualTuple(sink->slot);
		tuplesort_puttupleslot(sink->sort, sink->slot);
		ExecClearTuple(sink->slot);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(sink->per_row);
}

void
message_sink_close(MessageSink *sink)
{
	if (sink->sort != nullptr)
	{
		TupleTableSlot *slot = MakeSingleTupleTableSlot(sink->rsinfo->setDesc, &TTSOpsMinimalTuple);

		tuplesort_performsort(sink->sort);
		while (tuplesort_gettupleslot(sink->sort, true, false, slot, nullptr))
			tuplestore_puttupleslot(sink->rsinfo->setResult, slot);
		ExecDropSingleTupleTableSlot(slot);
		tuplesort_end(sink->sort);
		ExecDropSingleTupleTableSlot(sink->slot);
	}
	MemoryContextDelete(sink->per_row);
}

} // namespace queen
