/*
 * schedule.cpp: queen.schedule, cancel and cancel_prefix.
 *
 * Raises. Locks: the timers' rows, to the end of the transaction; see README.md for who waits. Runs in backends.
 */
#include "log/push_later.h"
#include "log/push_message.h"
#include "log/timer_rows.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "timers/timers.h"
#include "workqueue/put.h"

namespace queen
{

namespace
{

/* What schedule does with a timer that is there. */
enum class Mode
{
	replace,
	keep,
};

Mode
mode_argument(FunctionCallInfo fcinfo, int argno)
{
	const char *mode;

	if (PG_ARGISNULL(argno))
		raise_null_argument("mode");
	mode = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(mode, "replace") == 0)
		return Mode::replace;
	if (strcmp(mode, "keep") != 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("mode \"%s\" is not known", mode),
			 errhint(
				 "replace puts the new timer in the place of one with the same key, keep leaves that one as it is.")));
	return Mode::keep;
}

/* The arguments priority and ttl, for work queues; the queue, if it is there, has to be of the kind that they and the partition say. */
void
work_arguments(FunctionCallInfo fcinfo, int priority_arg, int ttl_arg, Name name, TimerMessage *message)
{
	const bool partitioned = !is_default_partition(message->partition);
	QueueTable queues;
	QueueRow queue;

	message->ttl = ttl_argument(fcinfo, ttl_arg);
	if (!PG_ARGISNULL(priority_arg) || message->ttl != 0)
		message->priority = PG_ARGISNULL(priority_arg) ? priority_medium : priority_argument(fcinfo, priority_arg);
	if (message->priority != 0 && partitioned)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("partition cannot be combined with priority or ttl"),
				 errhint("Work queues have priorities, log queues have partitions.")));
	queue_table_open(&queues, AccessShareLock);
	if (queue_find(&queues, setting_tenant(), name, &queue))
	{
		if (message->priority != 0)
			queue_check_kind(&queue, QueueKind::work, "A log queue has no priorities: leave priority and ttl out.");
		else if (partitioned)
			queue_check_kind(&queue, QueueKind::log, "A work queue has no partitions: leave partition out.");
	}
	queue_table_close(&queues);
}

TimerVerdict
schedule(const TimerName *name, const TimerMessage *message, Mode mode, core::Uuid *id)
{
	TimerVerdict verdict = TimerVerdict::scheduled;
	bool done = false;
	TimerTable timers;
	TimerRow there;
	TimerRow row;

	*id = message->id;
	timer_row_fill(name, message, &row);
	timer_table_open(&timers, RowExclusiveLock);
	while (!done)
	{
		switch (timer_lock(&timers, name, &there))
		{
			case TimerLock::absent:
				done = timer_insert(&timers, &row);
				break;
			case TimerLock::held:
				verdict = TimerVerdict::too_late;
				done = true;
				break;
			case TimerLock::locked:
				done = true;
				if (mode == Mode::keep)
				{
					verdict = TimerVerdict::kept;
					*id = uuid_from_datum(there.values[timer_col_message_id]);
					break;
				}
				verdict = TimerVerdict::rescheduled;
				row.tid = there.tid;
				row.values[timer_col_created_at] = there.values[timer_col_created_at];
				timer_update(&timers, &row);
				break;
		}
	}
	timer_table_close(&timers);
	return verdict;
}

const char *
verdict_text(TimerVerdict verdict)
{
	switch (verdict)
	{
		case TimerVerdict::scheduled:
			return "scheduled";
		case TimerVerdict::rescheduled:
			return "rescheduled";
		case TimerVerdict::kept:
			return "kept";
		case TimerVerdict::too_late:
			break;
	}
	return "too_late";
}

} // namespace

Datum
timer_verdict_record(FunctionCallInfo fcinfo, TimerVerdict verdict, Datum value)
{
	bool nulls[2] = {false, verdict == TimerVerdict::too_late};
	Datum values[2] = {CStringGetTextDatum(verdict_text(verdict)), nulls[1] ? (Datum) 0 : value};
	TupleDesc desc;

	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

TimerName
timer_name_arguments(FunctionCallInfo fcinfo)
{
	TimerName name = {setting_tenant(), name_argument(fcinfo, 0, "queue"), {}};

	name.key = name_argument(fcinfo, 1, "timer_key");
	return name;
}

QUEEN_FUNCTION(queen_schedule)
QUEEN_FUNCTION(queen_cancel)
QUEEN_FUNCTION(queen_cancel_prefix)

/*
 * queen.schedule(queue, timer_key, message jsonb, deliver_at, delay, partition, priority, ttl, headers, mode) returns (verdict, message_id)
 */
Datum
queen_schedule(PG_FUNCTION_ARGS)
{
	TimerName name;
	TimerMessage message = {};
	core::Uuid id;
	TimerVerdict verdict;
	Mode mode;

	guard_write("queen.schedule()");
	name = timer_name_arguments(fcinfo);
	if (PG_ARGISNULL(2))
		raise_null_argument("message");
	message.deliver_at = deliver_at_argument(fcinfo, 3, 4);
	message.partition = name_argument(fcinfo, 5, "partition");
	work_arguments(fcinfo, 6, 7, name.queue, &message);
	message.headers = push_headers_argument(fcinfo, 8);
	mode = mode_argument(fcinfo, 9);
	push_check_size(VARSIZE_ANY_EXHDR(PG_GETARG_JSONB_P(2)), message.headers);
	message.content = JsonbPGetDatum(PG_GETARG_JSONB_P(2));
	message.id = push_mint_id(push_ms());
	verdict = schedule(&name, &message, mode, &id);
	return timer_verdict_record(fcinfo, verdict, uuid_to_datum(id));
}

/* queen.cancel(queue, timer_key) returns text */
Datum
queen_cancel(PG_FUNCTION_ARGS)
{
	const char *verdict = "absent";
	TimerTable timers;
	TimerName name;
	TimerRow row;

	guard_write("queen.cancel()");
	name = timer_name_arguments(fcinfo);
	timer_table_open(&timers, RowExclusiveLock);
	switch (timer_lock(&timers, &name, &row))
	{
		case TimerLock::absent:
			break;
		case TimerLock::held:
			verdict = "too_late";
			break;
		case TimerLock::locked:
			timer_delete(&timers, &row);
			verdict = "cancelled";
			break;
	}
	timer_table_close(&timers);
	PG_RETURN_TEXT_P(cstring_to_text(verdict));
}

/* queen.cancel_prefix(queue, prefix) returns bigint */
Datum
queen_cancel_prefix(PG_FUNCTION_ARGS)
{
	MemoryContext per_row;
	Snapshot snapshot;
	TimerTable timers;
	IndexScan scan;
	Name prefix;
	Name queue;
	int64 count = 0;

	guard_write("queen.cancel_prefix()");
	queue = name_argument(fcinfo, 0, "queue");
	prefix = name_argument(fcinfo, 1, "prefix");
	per_row = AllocSetContextCreate(CurrentMemoryContext, "queen timer", ALLOCSET_DEFAULT_SIZES);
	timer_table_open(&timers, RowExclusiveLock);
	snapshot = register_latest_snapshot();
	named_scan_start(&scan, &timers, snapshot, setting_tenant(), queue, prefix);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		const TimerName found = {setting_tenant(), queue, named_row_key(scan.slot)};
		const bool is_chosen =
			found.key.size >= prefix.size && memcmp(found.key.data, prefix.data, (Size) prefix.size) == 0;
		TimerRow row;

		/* what a fire holds is as good as gone; a timer that was moved meanwhile is still one of these */
		if (is_chosen && timer_lock(&timers, &found, &row) == TimerLock::locked)
		{
			timer_delete(&timers, &row);
			count++;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
		if (!is_chosen)
			break;
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	timer_table_close(&timers);
	MemoryContextDelete(per_row);
	return Int64GetDatum(count);
}

} // namespace queen
