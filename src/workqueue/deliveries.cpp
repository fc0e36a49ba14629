/*
 * deliveries.cpp: rows of type queen.delivery. See deliveries.h.
 *
 * Raises. No locks. Runs in backends.
 */
#include "workqueue/deliveries.h"

#include "workqueue/put.h"

namespace queen
{

namespace
{

/* Columns of type queen.delivery, from 0. */
enum DeliveryColumn : int
{
	col_queue,
	col_message_id,
	col_receipt,
	col_message,
	col_payload,
	col_headers,
	col_priority,
	col_attempt,
	col_enqueued_at,
	col_expires_at,
	col_visible_until,
	delivery_cols,
};

} // namespace

void
delivery_sink_open(DeliverySink *sink, FunctionCallInfo fcinfo)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	sink->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	if (sink->rsinfo->setDesc->natts != delivery_cols)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("type queen.delivery has %d attributes, the library expects %d",
							   sink->rsinfo->setDesc->natts, (int) delivery_cols)));
	sink->per_row = AllocSetContextCreate(CurrentMemoryContext, "queen delivery", ALLOCSET_DEFAULT_SIZES);
}

void
delivery_sink_put(DeliverySink *sink, const char *queue, const MessageRow *row)
{
	constexpr struct
	{
		DeliveryColumn to;
		MessageColumn from;
	} copied[] = {
		{col_message_id, message_col_id},		  {col_receipt, message_col_receipt},
		{col_message, message_col_message},		  {col_payload, message_col_payload},
		{col_headers, message_col_headers},		  {col_enqueued_at, message_col_enqueued_at},
		{col_expires_at, message_col_expires_at}, {col_visible_until, message_col_visible_at},
	};
	MemoryContext caller = MemoryContextSwitchTo(sink->per_row);
	Datum values[delivery_cols];
	bool nulls[delivery_cols] = {};

	for (auto [to, from] : copied)
	{
		values[to] = row->values[from];
		nulls[to] = row->nulls[from];
	}
	values[col_queue] = CStringGetTextDatum(queue);
	values[col_priority] = CStringGetTextDatum(priority_text(row->priority));
	values[col_attempt] = Int32GetDatum(row->attempts);
	tuplestore_putvalues(sink->rsinfo->setResult, sink->rsinfo->setDesc, values, nulls);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(sink->per_row);
}

void
delivery_sink_close(DeliverySink *sink)
{
	MemoryContextDelete(sink->per_row);
}

} // namespace queen
