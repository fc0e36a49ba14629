/*
 * acknowledge.cpp: queen.acknowledge, acknowledge_batch, change_visibility, reject.
 *
 * Raises. Locks: the messages' rows, to the end of the transaction, waiting for whoever is at one; those of a batch in the order of their ids.
 * Runs in backends, in every isolation level.
 */
#include "log/event_counts.h"
#include "server/errors.h"
#include "server/guards.h"
#include "workqueue/bury.h"
#include "workqueue/receipts.h"

namespace queen
{

namespace
{

const pg_uuid_t *
uuid_argument(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		raise_null_argument(what);
	return PG_GETARG_UUID_P(argno);
}

void
note_event(const ReceiptReader *reader, Event event)
{
	event_note_work(reader->messages.tables, reader->queue.queue_id, reader->row.priority, event, 1);
}

/* Delete the message, if the receipt holds it. */
bool
acknowledge(ReceiptReader *reader, const pg_uuid_t *message_id, const pg_uuid_t *receipt)
{
	MessageTable *messages = &reader->messages;

	if (!receipt_find(reader, message_id, receipt))
		return false;
	if (!message_delete_unless_locked(messages, &reader->row, reader->snapshot, reader->queue.queue_id))
	{
		/* a heartbeat is at it, or somebody was: wait, and see */
		if (!receipt_lock(reader, message_id, receipt))
			return false;
		message_delete(messages, &reader->row, reader->queue.queue_id);
	}
	note_event(reader, Event::completed);
	return true;
}

/* A pair of a batch. */
struct Pair
{
	const pg_uuid_t *message_id;
	const pg_uuid_t *receipt;
	int at; /* in the arguments */
};

int
compare_pairs(const void *a, const void *b)
{
	const Pair *left = (const Pair *) a;
	const Pair *right = (const Pair *) b;
	const int order = memcmp(left->message_id, right->message_id, UUID_LEN);

	return order != 0 ? order : left->at - right->at;
}

int
uuids_argument(FunctionCallInfo fcinfo, int argno, const char *what, Datum **elements)
{
	bool *nulls;
	int count;

	if (PG_ARGISNULL(argno))
		raise_null_argument(what);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, elements, &nulls, &count);
	for (int i = 0; i < count; i++)
		if (nulls[i])
			raise_null_argument(psprintf("an element of %s", what));
	return count;
}

} // namespace

QUEEN_FUNCTION(queen_acknowledge)
QUEEN_FUNCTION(queen_acknowledge_batch)
QUEEN_FUNCTION(queen_change_visibility)
QUEEN_FUNCTION(queen_reject)

/* queen.acknowledge(message_id uuid, receipt uuid) returns boolean */
Datum
queen_acknowledge(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *message_id;
	const pg_uuid_t *receipt;
	ReceiptReader reader;
	bool done;

	guard_write("queen.acknowledge()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	receipt = uuid_argument(fcinfo, 1, "receipt");
	receipt_reader_open(&reader);
	done = acknowledge(&reader, message_id, receipt);
	receipt_reader_close(&reader);
	return BoolGetDatum(done);
}

/* queen.acknowledge_batch(message_ids uuid[], receipts uuid[]) returns setof boolean */
Datum
queen_acknowledge_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const pg_uuid_t *gone = nullptr;
	ReceiptReader reader;
	Datum *message_ids;
	Datum *receipts;
	Pair *pairs;
	bool *done;
	int count;

	guard_write("queen.acknowledge_batch()");
	count = uuids_argument(fcinfo, 0, "message_ids", &message_ids);
	if (uuids_argument(fcinfo, 1, "receipts", &receipts) != count)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("message_ids and receipts have different numbers of elements"),
						errhint("Give the receipt of each message, in the same order.")));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pairs = (Pair *) palloc_extended(sizeof(Pair) * (Size) Max(count, 1), MCXT_ALLOC_HUGE);
	done = (bool *) palloc((Size) Max(count, 1));
	for (int i = 0; i < count; i++)
		pairs[i] = {DatumGetUUIDP(message_ids[i]), DatumGetUUIDP(receipts[i]), i};
	/* one order for all: two batches that share messages cannot deadlock */
	qsort(pairs, (Size) count, sizeof(Pair), compare_pairs);
	receipt_reader_open(&reader);
	for (int i = 0; i < count; i++)
	{
		/* not once more what this call has deleted: its snapshot may be older than that */
		const bool again = gone != nullptr && memcmp(gone, pairs[i].message_id, UUID_LEN) == 0;

		done[pairs[i].at] = !again && acknowledge(&reader, pairs[i].message_id, pairs[i].receipt);
		if (done[pairs[i].at])
			gone = pairs[i].message_id;
	}
	receipt_reader_close(&reader);
	for (int i = 0; i < count; i++)
	{
		Datum values[1] = {BoolGetDatum(done[i])};
		bool nulls[1] = {};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* queen.change_visibility(message_id uuid, receipt uuid, visibility interval) returns timestamptz */
Datum
queen_change_visibility(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *message_id;
	const pg_uuid_t *receipt;
	ReceiptReader reader;
	TimestampTz until = 0;
	int64 visibility;
	bool found;

	guard_write("queen.change_visibility()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	receipt = uuid_argument(fcinfo, 1, "receipt");
	if (PG_ARGISNULL(2))
		raise_null_argument("visibility");
	visibility = interval_in_range(PG_GETARG_INTERVAL_P(2), "visibility", 0, visibility_most);
	receipt_reader_open(&reader);
	found = receipt_lock(&reader, message_id, receipt);
	if (found)
	{
		MessageRow row = reader.row;

		until = Max(GetCurrentTimestamp() + visibility, DatumGetTimestampTz(row.values[message_col_delivered_at]));
		row.visible_at = until;
		message_update(&reader.messages, &reader.row, &row, reader.queue.queue_id, visibility == 0);
	}
	receipt_reader_close(&reader);
	if (!found)
		PG_RETURN_NULL();
	return TimestampTzGetDatum(until);
}

/* queen.reject(message_id uuid, receipt uuid, error text) returns boolean */
Datum
queen_reject(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *message_id;
	const pg_uuid_t *receipt;
	ReceiptReader reader;
	bool found;

	guard_write("queen.reject()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	receipt = uuid_argument(fcinfo, 1, "receipt");
	receipt_reader_open(&reader);
	found = receipt_lock(&reader, message_id, receipt);
	if (found)
	{
		const QueueOptions *options = &reader.queue.options;
		const int64 delay = retry_delay_of(options, reader.row.attempts);
		MessageRow row = reader.row;

		note_event(&reader, Event::rejected);
		if (!PG_ARGISNULL(2))
		{
			row.values[message_col_last_error] = PG_GETARG_DATUM(2);
			row.nulls[message_col_last_error] = false;
		}
		if (row.attempts >= options->max_delivery_attempts)
			message_bury(&reader.messages, &reader.queue, &row, row.attempts);
		else
		{
			row.nulls[message_col_receipt] = true;
			row.visible_at =
				Max(GetCurrentTimestamp() + delay, DatumGetTimestampTz(row.values[message_col_delivered_at]));
			message_update(&reader.messages, &reader.row, &row, reader.queue.queue_id, delay == 0);
		}
	}
	receipt_reader_close(&reader);
	return BoolGetDatum(found);
}

} // namespace queen
