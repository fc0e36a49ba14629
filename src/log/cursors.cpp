/*
 * cursors.cpp: a consumer group's position and lease in a partition. See cursors.h.
 *
 * Raises only for memory. No locks of its own (the era table's row locks). Runs in backends.
 */
#include "log/cursors.h"

#include "log/changes.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* Columns of queen.log_cursors, from 0. */
enum CursorColumn : int
{
	col_partition_id,
	col_group_id,
	col_era,
	col_changes,
	col_committed,
	col_batch_end,
	col_batch_count,
	col_lease,
	col_lease_until,
	col_last_lease,
	col_attempt_offset,
	col_attempts,
	col_delivered_to,
	col_blocked_until,
	col_last_error,
	cursor_cols,
};
static_assert(cursor_cols <= era_max_columns);

} // namespace

const EraTable cursor_table = {Table::log_consumers, Table::log_cursors, 2, cursor_cols};

static void
read_columns(const Datum *v, const bool *n, Cursor *cursor)
{
	*cursor = {};
	cursor->committed = DatumGetInt64(v[col_committed]);
	cursor->leased = !n[col_lease];
	if (cursor->leased)
	{
		cursor->batch_end = DatumGetInt64(v[col_batch_end]);
		cursor->batch_count = DatumGetInt32(v[col_batch_count]);
		cursor->lease = uuid_from_datum(v[col_lease]);
		cursor->lease_until = DatumGetTimestampTz(v[col_lease_until]);
	}
	cursor->has_last_lease = !n[col_last_lease];
	if (cursor->has_last_lease)
		cursor->last_lease = uuid_from_datum(v[col_last_lease]);
	cursor->attempt_offset = DatumGetInt64(v[col_attempt_offset]);
	cursor->attempts = DatumGetInt32(v[col_attempts]);
	cursor->delivered_to = DatumGetInt64(v[col_delivered_to]);
	cursor->blocked = !n[col_blocked_until];
	if (cursor->blocked)
		cursor->blocked_until = DatumGetTimestampTz(v[col_blocked_until]);
	if (!n[col_last_error])
		cursor->last_error = DatumGetTextPP(v[col_last_error]);
}

void
cursor_read(const EraHandle *handle, Cursor *cursor)
{
	read_columns(handle->values, handle->nulls, cursor);
}

void
cursor_read_slot(TupleTableSlot *slot, int64 *keys, Cursor *cursor)
{
	slot_getallattrs(slot);
	cursor_read_columns(slot->tts_values, slot->tts_isnull, keys, cursor);
}

void
cursor_read_columns(const Datum *values, const bool *nulls, int64 *keys, Cursor *cursor)
{
	keys[0] = DatumGetInt64(values[col_partition_id]);
	keys[1] = DatumGetInt64(values[col_group_id]);
	read_columns(values, nulls, cursor);
}

void
cursor_store(EraHandle *handle, const Cursor *cursor)
{
	Datum *v = handle->values;
	bool *n = handle->nulls;

	cursor_change_note();
	for (int i = col_committed; i < cursor_cols; i++)
		n[i] = false;
	v[col_committed] = Int64GetDatum(cursor->committed);
	n[col_batch_end] = n[col_batch_count] = n[col_lease] = n[col_lease_until] = !cursor->leased;
	if (cursor->leased)
	{
		v[col_batch_end] = Int64GetDatum(cursor->batch_end);
		v[col_batch_count] = Int32GetDatum(cursor->batch_count);
		v[col_lease] = uuid_to_datum(cursor->lease);
		v[col_lease_until] = TimestampTzGetDatum(cursor->lease_until);
	}
	n[col_last_lease] = !cursor->has_last_lease;
	if (cursor->has_last_lease)
		v[col_last_lease] = uuid_to_datum(cursor->last_lease);
	v[col_attempt_offset] = Int64GetDatum(cursor->attempt_offset);
	v[col_attempts] = Int32GetDatum(cursor->attempts);
	v[col_delivered_to] = Int64GetDatum(cursor->delivered_to);
	n[col_blocked_until] = !cursor->blocked;
	if (cursor->blocked)
		v[col_blocked_until] = TimestampTzGetDatum(cursor->blocked_until);
	n[col_last_error] = cursor->last_error == nullptr;
	if (cursor->last_error != nullptr)
		v[col_last_error] = PointerGetDatum(cursor->last_error);
}

int64
cursors_furthest(const EraHandle *handle, int64 partition_id, Snapshot snapshot)
{
	int64 furthest = -1;
	int64 group_below = PG_INT64_MAX;
	IndexScan scan;

	index_scan_open(&scan, handle->state, handle->state_index, snapshot);
	for (;;)
	{
		bool isnull;

		/* the newest era of the next lower group: its dead versions lie behind it, and are not met */
		index_scan_reset_keys(&scan);
		index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
		index_scan_key_int8(&scan, 2, BTLessStrategyNumber, group_below);
		index_scan_start(&scan);
		if (!index_scan_next(&scan, BackwardScanDirection))
			break;
		group_below = DatumGetInt64(slot_getattr(scan.slot, col_group_id + 1, &isnull));
		furthest = Max(furthest, DatumGetInt64(slot_getattr(scan.slot, col_committed + 1, &isnull)));
	}
	index_scan_close(&scan);
	return furthest;
}

void
cursor_move(Cursor *cursor, int64 offset)
{
	const bool has_last_lease = cursor->has_last_lease;
	const core::Uuid last_lease = cursor->last_lease;

	*cursor = {};
	cursor->committed = offset;
	/* an ack that is repeated is still recognized */
	cursor->has_last_lease = has_last_lease;
	cursor->last_lease = last_lease;
}

int32
cursor_deliveries(const Cursor *cursor, int64 offset)
{
	if (cursor->attempt_offset == offset)
		return cursor->attempts;
	return offset <= cursor->delivered_to ? 1 : 0;
}

void
cursor_complete_lease(Cursor *cursor)
{
	cursor->leased = false;
	cursor->has_last_lease = true;
	cursor->last_lease = cursor->lease;
}

void
cursor_advance(Cursor *cursor, int64 offset)
{
	cursor->committed = offset;
	cursor->blocked = false;
	if (cursor->attempt_offset <= offset)
	{
		cursor->attempts = 0;
		cursor->last_error = nullptr;
	}
}

void
cursor_fail(Cursor *cursor, int64 offset)
{
	const int32 deliveries = cursor_deliveries(cursor, offset);

	/* delivered_to is the batch's end only where this batch made it so, and then counts nothing but this delivery */
	if (cursor->delivered_to == cursor->batch_end)
		cursor->delivered_to = offset;
	cursor_advance(cursor, offset - 1);
	cursor->attempt_offset = offset;
	cursor->attempts = deliveries;
}

void
cursor_uncount_delivery(Cursor *cursor)
{
	const bool head_is_left = cursor->attempt_offset > cursor->committed;

	if (head_is_left && cursor->attempts > 1)
	{
		cursor->attempts--;
		return;
	}
	/* a first delivery of all that is left */
	if (head_is_left)
		cursor->attempts = 0;
	cursor->delivered_to = cursor->committed;
}

static void
take_least(TupleTableSlot *slot, void *arg)
{
	int64 *least = (int64 *) arg;
	bool isnull;

	*least = Min(*least, DatumGetInt64(slot_getattr(slot, col_committed + 1, &isnull)));
}

bool
cursor_least(EraHandle *handle, int64 partition_id, int64 group_id, int64 *committed)
{
	int64 least = PG_INT64_MAX;

	/* none shown: what the seek saw was replaced and committed in between, so ask again */
	while (era_each_version(handle, {partition_id, group_id}, take_least, &least))
	{
		CHECK_FOR_INTERRUPTS();
		if (least != PG_INT64_MAX)
		{
			*committed = least;
			return true;
		}
	}
	return false;
}

} // namespace queen
