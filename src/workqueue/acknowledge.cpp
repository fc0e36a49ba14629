/*
 * acknowledge.cpp: queen.acknowledge, acknowledge_batch, change_visibility, reject.
 *
 * Raises. Locks: the messages' rows, to the end of the transaction, waiting for whoever is at one; those of a batch in the order of their ids.
 * Runs in backends, in every isolation level.
 */
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

/* Delete the message, if the receipt holds it. */
bool
acknowledge(MessageTable *messages, const pg_uuid_t *message_id, const pg_uuid_t *receipt)
{
	HeldMessage held;
	bool done;

	if (!held_message_open(&held, messages, message_id, receipt, false))
		return false;
	done = message_delete_unless_locked(messages, &held.row, held.snapshot, held.queue.queue_id);
	held_message_close(&held);
	/* a heartbeat is at it, or somebody was: wait, and see */
	if (done || !held_message_open(&held, messages, message_id, receipt, true))
		return done;
	message_delete(messages, &held.row, held.queue.queue_id);
	held_message_close(&held);
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
	MessageTable messages;
	const pg_uuid_t *message_id;
	bool done;

	guard_write("queen.acknowledge()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	message_table_open(&messages, RowExclusiveLock);
	done = acknowledge(&messages, message_id, uuid_argument(fcinfo, 1, "receipt"));
	message_table_close(&messages);
	return BoolGetDatum(done);
}

/* queen.acknowledge_batch(message_ids uuid[], receipts uuid[]) returns setof boolean */
Datum
queen_acknowledge_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MessageTable messages;
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
	message_table_open(&messages, RowExclusiveLock);
	for (int i = 0; i < count; i++)
		done[pairs[i].at] = acknowledge(&messages, pairs[i].message_id, pairs[i].receipt);
	message_table_close(&messages);
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
	MessageTable messages;
	HeldMessage held;
	TimestampTz until = 0;
	int64 visibility;
	bool found;

	guard_write("queen.change_visibility()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	receipt = uuid_argument(fcinfo, 1, "receipt");
	if (PG_ARGISNULL(2))
		raise_null_argument("visibility");
	visibility = interval_in_range(PG_GETARG_INTERVAL_P(2), "visibility", 0, visibility_most);
	message_table_open(&messages, RowExclusiveLock);
	found = held_message_open(&held, &messages, message_id, receipt, true);
	if (found)
	{
		MessageRow row = held.row;

		until = Max(GetCurrentTimestamp() + visibility, DatumGetTimestampTz(row.values[message_col_delivered_at]));
		row.visible_at = until;
		message_update(&messages, &held.row, &row, held.queue.queue_id, visibility == 0);
		held_message_close(&held);
	}
	message_table_close(&messages);
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
	MessageTable messages;
	HeldMessage held;
	bool found;

	guard_write("queen.reject()");
	message_id = uuid_argument(fcinfo, 0, "message_id");
	receipt = uuid_argument(fcinfo, 1, "receipt");
	message_table_open(&messages, RowExclusiveLock);
	found = held_message_open(&held, &messages, message_id, receipt, true);
	if (found)
	{
		const QueueOptions *options = &held.queue.options;
		const int64 delay = retry_delay_of(options, held.row.attempts);
		MessageRow row = held.row;

		if (!PG_ARGISNULL(2))
		{
			row.values[message_col_last_error] = PG_GETARG_DATUM(2);
			row.nulls[message_col_last_error] = false;
		}
		if (row.attempts >= options->max_delivery_attempts)
			message_bury(&messages, &held.queue, &row, row.attempts);
		else
		{
			row.nulls[message_col_receipt] = true;
			row.visible_at =
				Max(GetCurrentTimestamp() + delay, DatumGetTimestampTz(row.values[message_col_delivered_at]));
			message_update(&messages, &held.row, &row, held.queue.queue_id, delay == 0);
		}
		held_message_close(&held);
	}
	message_table_close(&messages);
	return BoolGetDatum(found);
}

} // namespace queen
