/*
 * list.cpp: queen.peek_timer, list_timers, count_timers, next_timer.
 *
 * Raises. No locks but the table's. Runs in backends, also on a standby.
 */
#include "server/settings.h"
#include "timers/timers.h"

namespace queen
{

namespace
{

constexpr int64 most_rows = 100000;

/* What the two functions show, in the order of their columns; the message only where it is asked for. */
constexpr TimerColumn shown[] = {
	timer_col_key,		  timer_col_partition, timer_col_deliver_at, timer_col_retry_at,
	timer_col_message_id, timer_col_attempts,  timer_col_last_error, timer_col_created_at,
	timer_col_updated_at, timer_col_message,   timer_col_payload,	 timer_col_headers,
};

bool
starts_with(Name name, Name prefix)
{
	return name.size >= prefix.size && memcmp(name.data, prefix.data, (Size) prefix.size) == 0;
}

void
put(ReturnSetInfo *set, TupleTableSlot *slot)
{
	Datum values[lengthof(shown)] = {};
	bool nulls[lengthof(shown)];

	for (int i = 0; i < set->setDesc->natts; i++)
		values[i] = slot_getattr(slot, shown[i] + 1, &nulls[i]);
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

} // namespace

QUEEN_FUNCTION(queen_peek_timer)
QUEEN_FUNCTION(queen_list_timers)
QUEEN_FUNCTION(queen_count_timers)
QUEEN_FUNCTION(queen_next_timer)

/* queen.peek_timer(queue, timer_key) returns setof record */
Datum
queen_peek_timer(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const TimerName name = timer_name_arguments(fcinfo);
	Snapshot snapshot;
	TimerTable timers;
	IndexScan scan;

	InitMaterializedSRF(fcinfo, 0);
	snapshot = register_latest_snapshot();
	timer_table_open(&timers, AccessShareLock);
	named_scan_start(&scan, &timers, snapshot, name.tenant, name.queue, name.key);
	if (index_scan_next(&scan, ForwardScanDirection))
	{
		const Name key = named_row_key(scan.slot);

		if (key.size == name.key.size && starts_with(key, name.key))
			put(set, scan.slot);
	}
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	return (Datum) 0;
}

/* queen.list_timers(queue, after_key, max_rows) returns setof record */
Datum
queen_list_timers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const Name queue = name_argument(fcinfo, 0, "queue");
	const bool has_after = !PG_ARGISNULL(1);
	const Name after = has_after ? name_argument(fcinfo, 1, "after_key") : first_timer_key;
	int64 left = count_argument(fcinfo, 2, "max_rows", 1, most_rows);
	Snapshot snapshot;
	TimerTable timers;
	IndexScan scan;

	InitMaterializedSRF(fcinfo, 0);
	snapshot = register_latest_snapshot();
	timer_table_open(&timers, AccessShareLock);
	named_scan_start(&scan, &timers, snapshot, setting_tenant(), queue, after);
	while (left > 0 && index_scan_next(&scan, ForwardScanDirection))
	{
		const Name key = named_row_key(scan.slot);

		if (has_after && key.size == after.size && starts_with(key, after))
			continue;
		put(set, scan.slot);
		left--;
	}
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	return (Datum) 0;
}

/* queen.count_timers(queue, prefix) returns bigint */
Datum
queen_count_timers(PG_FUNCTION_ARGS)
{
	const Name queue = name_argument(fcinfo, 0, "queue");
	const Name prefix = PG_ARGISNULL(1) ? first_timer_key : name_argument(fcinfo, 1, "prefix");
	const bool any = PG_ARGISNULL(1);
	Snapshot snapshot = register_latest_snapshot();
	TimerTable timers;
	IndexScan scan;
	int64 count = 0;

	timer_table_open(&timers, AccessShareLock);
	named_scan_start(&scan, &timers, snapshot, setting_tenant(), queue, prefix);
	while (index_scan_next(&scan, ForwardScanDirection) && (any || starts_with(named_row_key(scan.slot), prefix)))
		count++;
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	return Int64GetDatum(count);
}

/* queen.next_timer(queue) returns timestamptz */
Datum
queen_next_timer(PG_FUNCTION_ARGS)
{
	const Name queue = name_argument(fcinfo, 0, "queue");
	Snapshot snapshot = register_latest_snapshot();
	TimestampTz at = DT_NOEND;
	TimerTable timers;
	IndexScan scan;

	timer_table_open(&timers, AccessShareLock);
	index_scan_open(&scan, timers.table, timers.by_queue, snapshot);
	index_scan_key_uuid(&scan, 1, UUIDPGetDatum(setting_tenant()));
	index_scan_key_text(&scan, 2, PointerGetDatum(cstring_to_text_with_len(queue.data, queue.size)));
	index_scan_start(&scan);
	if (index_scan_next(&scan, ForwardScanDirection))
	{
		bool isnull;

		at = DatumGetTimestampTz(slot_getattr(scan.slot, timer_col_visible_at + 1, &isnull));
	}
	index_scan_close(&scan);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	if (at == DT_NOEND)
		PG_RETURN_NULL();
	return TimestampTzGetDatum(at);
}

} // namespace queen
