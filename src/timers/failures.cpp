/*
 * failures.cpp: what becomes of a timer that could not be pushed. See failures.h.
 *
 * Raises. Locks: the timer's row, without waiting. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/failures.h"

#include "log/dead_letters.h"
#include "log/queues.h"
#include "server/uuids.h"
#include "timers/occurrences.h"

namespace queen
{

namespace
{

constexpr int most_attempts = 5;
constexpr int64 passing_delay = USECS_PER_SEC;
constexpr int64 most_delay = 60 * USECS_PER_SEC;

/* The queue's id, 0 when there is none: a dead letter must not need what could not be made. And its kind, or that which it would have. */
int64
queue_id_of(const DueTimer *timer, QueueKind *kind)
{
	QueueTable queues;
	QueueRow queue;
	int64 id = 0;

	*kind = timer->priority != 0 ? QueueKind::work : QueueKind::log;
	queue_table_open(&queues, AccessShareLock);
	if (queue_find(&queues, &timer->tenant, timer->queue, &queue))
	{
		id = queue.queue_id;
		*kind = queue.kind;
	}
	queue_table_close(&queues);
	return id;
}

/* What a timer's row has, or an occurrence's rule. */
void
insert_letter(const DueTimer *timer, const TimerRow *row, const TimerMessage *of_rule)
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
		{dead_col_timer_key, timer_col_key},	   {dead_col_priority, timer_col_priority},
	};
	QueueKind kind;
	Datum values[dead_cols];
	bool nulls[dead_cols];

	memset(nulls, true, sizeof(nulls));
	for (auto [to, from] : kept)
	{
		values[to] = row->values[from];
		nulls[to] = row->nulls[from];
	}
	values[dead_col_queue_id] = Int64GetDatum(queue_id_of(timer, &kind));
	nulls[dead_col_queue_id] = false;
	values[dead_col_kind] = CStringGetTextDatum(kind == QueueKind::work ? "work" : "log");
	nulls[dead_col_kind] = false;
	if (of_rule != nullptr)
	{
		values[dead_col_message] = of_rule->content;
		nulls[dead_col_message] = false;
		values[dead_col_headers] = JsonbPGetDatum(of_rule->headers);
		nulls[dead_col_headers] = false;
		values[dead_col_timer_key] = CStringGetTextDatum(shown_key(timer));
	}
	dead_letter_insert(values, nulls);
	ereport(WARNING, (errmsg("queen: timer \"%s\" of queue \"%s\" could not be pushed and is a dead letter now",
							 shown_key(timer), timer->queue.data),
					  errdetail("%s", TextDatumGetCString(row->values[timer_col_last_error])),
					  errhint("queen.redrive() pushes it once the cause is mended.")));
}

/* The rule goes on. False, and nothing done, when somebody is at it, or when nobody can tell when it would go on. */
bool
bury_occurrence(TimerTable *timers, const DueTimer *timer, TimerRow *row)
{
	Occurrence occurrence;
	TimerMessage message;

	switch (occurrence_open(&occurrence, timer))
	{
		case RuleState::held:
		case RuleState::unreadable:
			return false;
		case RuleState::gone:
			timer_delete(timers, row);
			return true;
		case RuleState::ready:
			break;
	}
	occurrence_message(&occurrence, uuid_from_datum(row->values[timer_col_message_id]), &message);
	insert_letter(timer, row, &message);
	timer_delete(timers, row);
	occurrence_renew(timers, &occurrence, false);
	occurrence_close(&occurrence);
	return true;
}

bool
bury(TimerTable *timers, const DueTimer *timer, TimerRow *row)
{
	if (is_occurrence(timer->key))
		return bury_occurrence(timers, timer, row);
	insert_letter(timer, row, nullptr);
	timer_delete(timers, row);
	return true;
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

	if (timer_lock(timers, &name, &row, RowWait::nobody) != TimerLock::locked)
		return false;
	/* scheduled anew meanwhile: this is not what failed */
	if (memcmp(DatumGetUUIDP(row.values[timer_col_message_id]), &timer->mark.id, UUID_LEN) != 0)
		return false;
	attempts = DatumGetInt32(row.values[timer_col_attempts]) + (failure == Failure::its_own);
	row.values[timer_col_attempts] = Int32GetDatum(attempts);
	row.values[timer_col_last_error] = CStringGetTextDatum(psprintf("%s: %s", sqlstate, error->message));
	row.nulls[timer_col_last_error] = false;
	if (attempts >= most_attempts && bury(timers, timer, &row))
		return true;
	if (attempts == most_attempts && failure == Failure::its_own)
		ereport(WARNING, (errmsg("queen: an occurrence of rule \"%s\" of queue \"%s\" could not be pushed",
								 shown_key(timer), timer->queue.data),
						  errdetail("%s: %s", sqlstate, error->message),
						  errhint("It is tried again; queen.schedule_cron() replaces the rule.")));
	row.values[timer_col_retry_at] = TimestampTzGetDatum(
		now + (failure == Failure::its_own ? Min(USECS_PER_SEC << Min(attempts - 1, 6), most_delay) : passing_delay));
	row.nulls[timer_col_retry_at] = false;
	timer_update(timers, &row);
	return false;
}

} // namespace queen
