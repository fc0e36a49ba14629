/*
 * fire.cpp: timers that are due enter their queues. See fire.h and README.md.
 *
 * Raises. Locks: the timers' rows, by deleting them, without waiting; what a flush locks. Each attempt is a sub-transaction of its own, so
 * that one that fails leaves the others. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/fire.h"

#include "log/flush.h"
#include "log/push_buffer.h"
#include "log/queues.h"
#include "log/timer_news.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/uuids.h"
#include "timers/counts.h"
#include "timers/due.h"
#include "timers/failures.h"
#include "timers/occurrences.h"
#include "workqueue/put.h"

namespace queen
{

namespace
{

constexpr Size most_bytes = 8 * 1024 * 1024;

/*
 * Milliseconds that a part waits for a lock, and one that is cut of a part which has failed: what somebody else holds must not keep the timers
 * of others. And the time that a step loses by that before it cuts no more.
 */
constexpr int first_wait = 100;
constexpr int later_wait = 10;
constexpr int64 most_lost = 300 * 1000;

struct Firing
{
	FireStep *step;
	DueBatch batch;
	TimerTable timers;
	Snapshot snapshot;
	Oid tables;		 /* as lock_for_push says */
	Failure failure; /* of what is put off */
	const ErrorData *error;
	int wait;				  /* milliseconds, for each lock */
	int64 lost;				  /* microseconds, in attempts that came to nothing for a lock */
	const DueTimer *queue_of; /* the last timer whose queue was looked at, in this attempt */
	QueueKind kind;			  /* of that */
	MemoryContext of_attempt;
	PutTarget target; /* if it is a work queue */
};

/* What is tried under a sub-transaction. */
using Attempt = void (*)(Firing *firing, int first, int count);

/* Null when all of it succeeded; otherwise nothing of it happened, and this is why. */
ErrorData *
attempt(Firing *firing, int first, int count, Attempt what)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData *volatile error = nullptr;
	const int flush_timeout = setting_flush_timeout;

	setting_flush_timeout = flush_timeout == 0 ? firing->wait : Min(firing->wait, flush_timeout);
	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		what(firing, first, count);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	setting_flush_timeout = flush_timeout;
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	/* not a timer's: the caller wants to end */
	if (error != nullptr && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error;
}

/* The message of a row. */
void
row_message(TupleTableSlot *slot, TimerMessage *message)
{
	bool isnull;
	bool bare;
	const Datum headers = slot_getattr(slot, timer_col_headers + 1, &bare);

	message->id = uuid_from_datum(slot_getattr(slot, timer_col_message_id + 1, &isnull));
	message->content = slot_getattr(slot, timer_col_message + 1, &message->raw);
	if (message->raw)
		message->content = slot_getattr(slot, timer_col_payload + 1, &isnull);
	if (message->raw && isnull)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("timer has no message")));
	message->priority = DatumGetInt16(slot_getattr(slot, timer_col_priority + 1, &isnull));
	if (isnull)
		message->priority = 0;
	message->ttl = DatumGetInt64(slot_getattr(slot, timer_col_ttl + 1, &isnull));
	if (isnull)
		message->ttl = 0;
	message->headers = bare ? nullptr : DatumGetJsonbP(headers);
}

void
leave_queue(Firing *firing)
{
	if (firing->queue_of != nullptr && firing->kind == QueueKind::work)
		put_close(&firing->target);
	firing->queue_of = nullptr;
}

/* The queue of a timer, which may have been dropped since it was looked for. */
void
enter_queue(Firing *firing, const DueTimer *timer)
{
	const MemoryContext caller = MemoryContextSwitchTo(firing->of_attempt);
	QueueTable queues;
	QueueRow queue;

	leave_queue(firing);
	queue_table_open(&queues, AccessShareLock);
	firing->kind = timer->priority != 0 ? QueueKind::work : QueueKind::log;
	if (queue_find(&queues, &timer->tenant, timer->queue, &queue))
		firing->kind = queue.kind;
	queue_table_close(&queues);
	if (firing->kind == QueueKind::work)
		put_open(&firing->target, &timer->tenant, timer->queue, setting_auto_create);
	firing->queue_of = timer;
	MemoryContextSwitchTo(caller);
}

/* Into the push buffer, or the work queue. How large it is. */
Size
push_timer(Firing *firing, const DueTimer *timer, const TimerMessage *message)
{
	const varlena *plain;

	if (firing->queue_of == nullptr || !same_queue(firing->queue_of, timer))
		enter_queue(firing, timer);
	if (firing->kind == QueueKind::work)
	{
		const WorkMessage work = {message->id,	message->priority, message->ttl,
								  message->raw, message->content,  message->headers};

		put_message(&firing->target, &work);
		return toast_raw_datum_size(message->content);
	}
	if (message->priority != 0)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("queue \"%s\" is a log queue", timer->queue.data),
						errdetail("The timer has a priority, so it was meant for a work queue.")));
	plain = PG_DETOAST_DATUM_PACKED(message->content);
	push_buffer_add(push_buffer_partition(firing->tables, &timer->tenant, timer->queue, timer->partition), &message->id,
					message->raw, message->headers, VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), nullptr);
	return VARSIZE_ANY_EXHDR(plain);
}

/*
 * A rule's occurrence. The batch was collected without a look at the rules, so that the bound on its bytes is kept here: what comes behind it is
 * left for the next step.
 */
OccurrenceEnd
fire_occurrence(Firing *firing, const DueTimer *timer, Size *bytes, FireStep *done)
{
	TimestampTz next = DT_NOEND;
	TimerMessage message;
	OccurrenceEnd end;

	if (*bytes >= most_bytes)
	{
		due_lower(timer->mark.at);
		done->more = true;
		return OccurrenceEnd::held;
	}
	end = occurrence_take(&firing->timers, timer, firing->snapshot, &message, &next);
	if (end == OccurrenceEnd::push)
		*bytes += push_timer(firing, timer, &message);
	done->next = Min(done->next, next);
	return end;
}

/* Take timers and push their messages. What somebody else is at is left: he tells when he is done with it (log/timer_news). */
void
fire(Firing *firing, int first, int count)
{
	TupleTableSlot *slot = table_slot_create(firing->timers.table, nullptr);
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen timer", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(per_row);
	DueTimer *taken = (DueTimer *) MemoryContextAlloc(caller, sizeof(DueTimer) * (Size) count);
	int count_taken = 0;
	int first_dropped = count; /* those are behind the others */
	FireStep done = {};
	Size bytes = 0;

	done.next = DT_NOEND;
	firing->tables = lock_for_push();
	firing->queue_of = nullptr;
	firing->of_attempt = caller;
	for (int i = first; i < first + count; i++)
	{
		DueTimer *timer = &firing->batch.timers[i];
		TimerMessage message;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_row);
		if (is_occurrence(timer->key))
		{
			switch (fire_occurrence(firing, timer, &bytes, &done))
			{
				case OccurrenceEnd::held:
					break;
				case OccurrenceEnd::drop:
					taken[--first_dropped] = *timer;
					break;
				case OccurrenceEnd::push:
					taken[count_taken++] = *timer;
					break;
			}
		}
		else if (table_tuple_fetch_row_version(firing->timers.table, &timer->tid, firing->snapshot, slot) &&
				 delete_row_unless_locked(firing->timers.table, &timer->tid, firing->snapshot))
		{
			row_message(slot, &message);
			(void) push_timer(firing, timer, &message);
			taken[count_taken++] = *timer;
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(per_row);
	ExecDropSingleTupleTableSlot(slot);
	leave_queue(firing);
	flush_pushes();
	timer_counts_note(taken, count_taken, TimerEnd::fired);
	timer_counts_note(taken + first_dropped, count - first_dropped, TimerEnd::dropped);
	pfree(taken);
	/* now all of it is done, or none */
	firing->step->fired += count_taken;
	firing->step->dropped += count - first_dropped;
	firing->step->more |= done.more;
	firing->step->next = Min(firing->step->next, done.next);
}

/* Where to cut a part that failed in two: between two destinations if it has several. */
int
cut(const Firing *firing, int first, int count)
{
	const DueTimer *timers = firing->batch.timers;
	const int middle = first + count / 2;

	for (int away = 0; away < count; away++)
		for (int at : {middle - away, middle + away})
			if (at > first && at < first + count && !same_destination(&timers[at - 1], &timers[at]))
				return at;
	return middle;
}

void
put_off(Firing *firing, int first, int count)
{
	const DueTimer *timer = &firing->batch.timers[first];
	bool dead;

	dead = timer_failed(&firing->timers, timer, firing->failure, firing->error);
	timer_counts_note(timer, count, TimerEnd::failed);
	if (dead)
		timer_counts_note(timer, count, TimerEnd::dead);
}

/* Put timers off; what cannot even be put off comes again soon. */
void
put_off_all(Firing *firing, int first, int count, Failure failure, const ErrorData *error)
{
	for (int i = first; i < first + count; i++)
	{
		const ErrorData *again;

		firing->failure = failure;
		firing->error = error;
		again = attempt(firing, i, 1, put_off);
		firing->step->failed++;
		if (again != nullptr)
		{
			firing->step->paused = true;
			due_lower(firing->batch.timers[i].mark.at);
			ereport(WARNING, (errmsg("queen: timer \"%s\" of queue \"%s\" could not be put off",
									 shown_key(&firing->batch.timers[i]), firing->batch.timers[i].queue.data),
							  errdetail("%s: %s", unpack_sql_state(again->sqlerrcode), again->message)));
		}
	}
}

/* Everything from there on is left for a later step. */
void
pause_at(Firing *firing, int first, int count, const ErrorData *error)
{
	for (int i = first; i < first + count; i++)
		due_lower(firing->batch.timers[i].mark.at);
	if (!firing->step->paused)
		ereport(WARNING, (errmsg("queen: timers could not be fired, and are tried again"),
						  errdetail("%s: %s", unpack_sql_state(error->sqlerrcode), error->message)));
	firing->step->paused = true;
}

void
fire_part(Firing *firing, int first, int count, int wait)
{
	const TimestampTz began = GetCurrentTimestamp();
	ErrorData *error;
	Failure failure;

	if (firing->step->paused)
	{
		for (int i = first; i < first + count; i++)
			due_lower(firing->batch.timers[i].mark.at);
		return;
	}
	firing->wait = wait;
	error = attempt(firing, first, count, fire);
	if (error == nullptr)
		return;
	failure = failure_of(error->sqlerrcode);
	if (failure == Failure::passing)
		firing->lost += GetCurrentTimestamp() - began;
	if (failure == Failure::everybodys)
		pause_at(firing, first, count, error);
	else if (count > 1 && (failure == Failure::its_own ||
						   (!same_destination(&firing->batch.timers[first], &firing->batch.timers[first + count - 1]) &&
							firing->lost < most_lost)))
	{
		const int at = cut(firing, first, count);

		fire_part(firing, first, at - first, later_wait);
		fire_part(firing, at, first + count - at, later_wait);
	}
	else
		put_off_all(firing, first, count, failure, error);
	FreeErrorData(error);
}

/* The queue of the timers comes to be: a log queue, unless a priority was given. */
void
give_birth(Firing *firing, int first, int count)
{
	const DueTimer *timer = &firing->batch.timers[first];
	QueueKind kind = QueueKind::log;
	QueueTable queues;
	QueueRow queue;

	for (int i = first; i < first + count; i++)
		if (firing->batch.timers[i].priority != 0)
			kind = QueueKind::work;
	queue_table_open(&queues, RowExclusiveLock);
	queue_ensure(&queues, &timer->tenant, timer->queue, setting_auto_create, &queue, kind);
	queue_table_close(&queues);
}

/*
 * Queues that are missing: those are made, and nothing else is done in this transaction. False when there was none; what cannot
 * be made fails its timers.
 */
bool
make_queues(Firing *firing)
{
	const DueTimer *timers = firing->batch.timers;
	QueueTable queues;
	QueueRow queue;
	bool made = false;
	int end;

	queue_table_open(&queues, AccessShareLock);
	for (int i = 0; i < firing->batch.count; i = end)
	{
		ErrorData *error;

		for (end = i + 1; end < firing->batch.count && same_queue(&timers[i], &timers[end]);)
			end++;
		if (queue_find(&queues, &timers[i].tenant, timers[i].queue, &queue))
			continue;
		made = true;
		firing->wait = first_wait;
		error = attempt(firing, i, end - i, give_birth);
		if (error == nullptr)
		{
			firing->step->made++;
			continue;
		}
		if (failure_of(error->sqlerrcode) == Failure::everybodys)
			pause_at(firing, i, end - i, error);
		else
			put_off_all(firing, i, end - i, failure_of(error->sqlerrcode), error);
	}
	queue_table_close(&queues);
	if (made)
		/* nothing of the batch was fired */
		for (int i = 0; i < firing->batch.count; i++)
			due_lower(timers[i].mark.at);
	return made;
}

/* Timers that are overdue by more than is wanted go, with a line in the log each. Occurrences are asked when they are taken. */
void
drop_overdue(Firing *firing, TimestampTz before)
{
	int left = 0;

	for (int i = 0; i < firing->batch.count; i++)
	{
		DueTimer *timer = &firing->batch.timers[i];

		if (timer->deliver_at >= before || is_occurrence(timer->key))
			firing->batch.timers[left++] = *timer;
		else if (delete_row_unless_locked(firing->timers.table, &timer->tid, firing->snapshot))
		{
			firing->step->dropped++;
			timer_counts_note(timer, 1, TimerEnd::dropped);
			ereport(LOG, (errmsg("queen: timer \"%s\" of queue \"%s\" was due at %s and is dropped", timer->key.data,
								 timer->queue.data, timestamptz_to_str(timer->deliver_at)),
						  errdetail("queen.overdue_limit is %d s.", setting_overdue_limit)));
		}
	}
	firing->batch.count = left;
	CommandCounterIncrement();
}

} // namespace

void
fire_step(int64 most, FireStep *step)
{
	const int rows = (int) Min(most, (int64) setting_timer_batch);
	const TimestampTz now = GetCurrentTimestamp();
	TimestampTz told;
	Firing firing = {};

	*step = {};
	if (push_buffer_count() > 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_STATE),
						errmsg("timers cannot be fired behind a push of the same transaction"),
						errhint("Fire them in a transaction of their own.")));
	/* before the snapshot */
	told = timer_news_heard();
	if (told != DT_NOEND)
		due_lower(told);
	firing.step = step;
	timer_table_open(&firing.timers, RowExclusiveLock);
	firing.snapshot = register_latest_snapshot();
	due_collect(&firing.timers, firing.snapshot, now, rows, most_bytes, &firing.batch);
	step->more = firing.batch.more;
	step->full = firing.batch.full;
	step->next = firing.batch.next;
	step->complete = firing.batch.complete;
	if (firing.batch.count > 0)
		timer_fire_begin();
	if (firing.batch.count > 0 && setting_overdue_limit > 0)
		drop_overdue(&firing, now - (int64) setting_overdue_limit * USECS_PER_SEC);
	if (firing.batch.count > 0)
	{
		if (make_queues(&firing))
			step->more = true;
		else
		{
			int fresh = 0;

			while (fresh < firing.batch.count && !firing.batch.timers[fresh].again)
				fresh++;
			if (fresh > 0)
				fire_part(&firing, 0, fresh, first_wait);
			if (fresh < firing.batch.count)
				fire_part(&firing, fresh, firing.batch.count - fresh, later_wait);
		}
	}
	UnregisterSnapshot(firing.snapshot);
	timer_table_close(&firing.timers);
}

QUEEN_FUNCTION(queen_fire_timers)

/* queen.fire_timers(max_rows) returns bigint */
Datum
queen_fire_timers(PG_FUNCTION_ARGS)
{
	int64 left;
	int64 fired = 0;
	FireStep step;

	guard_write("queen.fire_timers()");
	left = count_argument(fcinfo, 0, "max_rows", 1, PG_INT32_MAX);
	due_from_bottom();
	do
	{
		CHECK_FOR_INTERRUPTS();
		fire_step(left, &step);
		fired += step.fired;
		left -= step.fired;
		/* a step that has come around and could do nothing: the rest is held by others */
		if (!step.full && step.fired + step.failed + step.dropped + step.made == 0)
			break;
	} while (step.more && !step.paused && left > 0);
	return Int64GetDatum(fired);
}

} // namespace queen
