/*
 * failures.cpp: what becomes of a timer that could not be pushed. See failures.h.
 *
 * Raises. Locks: the timer's row, without waiting. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/failures.h"

#include "log/dead_letters.h"
#include "log/queues.h"

namespace queen
{

namespace
{

constexpr int most_attempts = 5;
constexpr int64 passing_delay = USECS_PER_SEC;
constexpr int64 most_delay = 60 * USECS_PER_SEC;

/* The queue's id, 0 when there is none: a dead letter must not need what could not be made. */
int64
queue_id_of(const DueTimer *timer)
{
	QueueTable queues;
	QueueRow queue;
	int64 id = 0;

	queue_table_open(&queues, AccessShareLock);
	if (queue_find(&queues, &timer->tenant, timer->queue, &queue))
		id = queue.queue_id;
	queue_table_close(&queues);
	return id;
}

void
bury(TimerTable *timers, const DueTimer *timer, TimerRow *row)
{
	constexpr struct
	{
		DeadColumn to;
		TimerColumn from;
	} kept[] = {
		{dead_col_tenant, timer_col_tenant},	   {dead_col_queue, timer_col_queue},
		{dead_col_partition, timer_col_partition}, {dead_col_message_id, timer_col_message_id},
		{dead_col_message, timer_col_message},	   {dead_col_payload, timer_col_payload},
		{dead_col_headers, timer_col_headers},	   {dead_col_attempts, timer_col_attempts},
		{dead_col_error, timer_col_last_error},	   {dead_col_enqueued_at, timer_col_created_at},
		{dead_col_timer_key, timer_col_key},
	};
	Datum values[dead_cols];
	bool nulls[dead_cols];

	memset(nulls, true, sizeof(nulls));
	for (auto [to, from] : kept)
	{
		values[to] = row->values[from];
		nulls[to] = row->nulls[from];
	}
	values[dead_col_queue_id] = Int64GetDatum(queue_id_of(timer));
	nulls[dead_col_queue_id] = false;
	values[dead_col_kind] = CStringGetTextDatum("log");
	nulls[dead_col_kind] = false;
	dead_letter_insert(values, nulls);
	timer_delete(timers, row);
}

} // namespace

Failure
failure_of(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_CONNECTION_EXCEPTION:
			return Failure::everybodys;
		case ERRCODE_TRANSACTION_ROLLBACK:
			return Failure::passing;
		default:
			return sqlerrcode == errcode_flush_timeout || sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? Failure::passing
																								   : Failure::its_own;
	}
}

bool
timer_failed(TimerTable *timers, const DueTimer *timer, Failure failure, const ErrorData *error)
{
	const TimerName name = {&timer->tenant, timer->queue, timer->key};
	const char *sqlstate = unpack_sql_state(error->sqlerrcode);
	TimestampTz now = GetCurrentTimestamp();
	TimerRow row;
	int attempts;

	if (timer_lock(timers, &name, &row, false) != TimerLock::locked)
		return false;
	attempts = DatumGetInt32(row.values[timer_col_attempts]) + (failure == Failure::its_own);
	row.values[timer_col_attempts] = Int32GetDatum(attempts);
	row.values[timer_col_last_error] = CStringGetTextDatum(psprintf("%s: %s", sqlstate, error->message));
	row.nulls[timer_col_last_error] = false;
	if (attempts >= most_attempts)
	{
		ereport(WARNING, (errmsg("queen: timer \"%s\" of queue \"%s\" could not be pushed and is a dead letter now",
								 timer->key.data, timer->queue.data),
						  errdetail("%s: %s", sqlstate, error->message),
						  errhint("queen.redrive() pushes it once the cause is mended.")));
		bury(timers, timer, &row);
		return true;
	}
	row.values[timer_col_retry_at] = TimestampTzGetDatum(
		now + (failure == Failure::its_own ? Min(USECS_PER_SEC << (attempts - 1), most_delay) : passing_delay));
	row.nulls[timer_col_retry_at] = false;
	timer_update(timers, &row);
	return false;
}

} // namespace queen
