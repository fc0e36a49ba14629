/*
 * fire.cpp: timers that are due enter their queues. See fire.h and README.md.
 *
 * Raises. Locks: the timers' rows, by deleting them, without waiting; what a flush locks. Each attempt is a sub-transaction of its own, so
 * that one that fails leaves the others. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/fire.h"

#include "hotlist/gates.h"
#include "hotlist/pool.h"
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
#include "timers/holds.h"
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
constexpr core::Micros most_lost = 300'000;
/* Timers of a step that fail by what is not theirs, before that is taken for everybody's trouble. */
constexpr int most_troubles = 3;

struct Firing
{
	FireStep *step;
	DueBatch batch;
	TimerTable timers;
	Snapshot snapshot;
	Oid tables;		 /* as lock_for_push says */
	Failure failure; /* of what is put off */
	const ErrorData *error;
	int wait;		   /* milliseconds, for each lock */
	core::Micros lost; /* in attempts that came to nothing for a lock */
	int troubles;
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
	/* who waits for a message is not to wait for a lock that the fire has waited for */
	if (error != nullptr && timer_news_attends())
		(void) gates_tick();
	/* not a timer's: the caller wants to end */
	if (error != nullptr && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error;
}

/* This transaction has the timer: who is not told by his own end tells the others by his. */
void
note_taken(const DueTimer *timer)
{
	if (!timer_news_attends())
		timer_news_note(timer->mark.at);
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

		if (!is_default_partition(timer->partition))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("queue \"%s\" is a work queue", timer->queue.data),
					 errdetail("The timer has a partition, so it was meant for a log queue.")));
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
					note_taken(timer);
					taken[--first_dropped] = *timer;
					break;
				case OccurrenceEnd::push:
					note_taken(timer);
					taken[count_taken++] = *timer;
					break;
			}
		}
		else if (table_tuple_fetch_row_version(firing->timers.table, &timer->tid, firing->snapshot, slot) &&
				 delete_row_unless_locked(firing->timers.table, &timer->tid, firing->snapshot))
		{
			note_taken(timer);
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

using Same = bool (*)(const DueTimer *left, const DueTimer *right);

/* Where to cut a part that failed in two: between two queues, or destinations, if it has several. */
int
cut(const Firing *firing, int first, int count, Same same)
{
	const DueTimer *timers = firing->batch.timers;
	const int middle = first + count / 2;

	for (int away = 0; away < count; away++)
		for (int at : {middle - away, middle + away})
			if (at > first && at < first + count && !same(&timers[at - 1], &timers[at]))
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

/* Somebody keeps the queues of a part locked, as an error says; or one of them, and nobody knows which: error is null then. */
void
hold_part(int first, int count, const DueTimer *timers, const ErrorData *error)
{
	int end;

	for (int i = first; i < first + count; i = end)
	{
		TimestampTz earliest = timers[i].mark.at;
		QueueKey key = queue_key(&timers[i].tenant, timers[i].queue);

		for (end = i + 1; end < first + count && same_queue(&timers[i], &timers[end]); end++)
			earliest = Min(earliest, timers[end].mark.at);
		if (hold(&key, earliest, error != nullptr, hotlist_now()) && error != nullptr)
			ereport(LOG, (errmsg("queen: timers of queue \"%s\" wait for a lock", key.name),
						  errdetail("%s: %s", unpack_sql_state(error->sqlerrcode), error->message)));
	}
}

void
fire_part(Firing *firing, int first, int count, int wait)
{
	const DueTimer *timers = firing->batch.timers;
	const core::Micros began = hotlist_now();
	ErrorData *error;
	Failure failure;
	Same same = nullptr; /* how to cut it */

	if (firing->step->paused)
	{
		for (int i = first; i < first + count; i++)
			due_lower(timers[i].mark.at);
		return;
	}
	firing->wait = wait;
	error = attempt(firing, first, count, fire);
	if (error == nullptr)
		return;
	failure = failure_of(error->sqlerrcode);
	if (failure == Failure::passing)
	{
		firing->lost += hotlist_now() - began;
		if (!same_queue(&timers[first], &timers[first + count - 1]) && firing->lost < most_lost)
			same = same_queue;
	}
	else if (count > 1 && (failure == Failure::its_own || firing->troubles < most_troubles))
		same = same_destination;

	if (same != nullptr)
	{
		const int at = cut(firing, first, count, same);

		fire_part(firing, first, at - first, later_wait);
		fire_part(firing, at, first + count - at, later_wait);
	}
	else if (failure == Failure::passing)
		hold_part(first, count, timers, same_queue(&timers[first], &timers[first + count - 1]) ? error : nullptr);
	else if (failure == Failure::its_own || (count == 1 && firing->troubles++ < most_troubles))
		put_off_all(firing, first, count, failure, error);
	else
		pause_at(firing, first, count, error);
	FreeErrorData(error);
}

/* A queue that was held: one timer first, so that it costs little if it still is. */
void
try_queue(Firing *firing, int first, int count)
{
	const DueTimer *timers = firing->batch.timers;

	fire_part(firing, first, 1, later_wait);
	if (count > 1 && hold_of(&timers[first].tenant, timers[first].queue, timers[first].mark.at) != Hold::held)
		fire_part(firing, first + 1, count - 1, later_wait);
	for (int i = first + 1; i < first + count; i++)
		(void) hold_of(&timers[i].tenant, timers[i].queue, timers[i].mark.at);
}

/* All of a batch, by rank. */
void
fire_batch(Firing *firing)
{
	const DueTimer *timers = firing->batch.timers;
	int end;

	for (int i = 0; i < firing->batch.count; i = end)
	{
		const DueRank rank = timers[i].rank;

		for (end = i + 1; end < firing->batch.count && timers[end].rank == rank &&
						  (rank != DueRank::trying || same_queue(&timers[i], &timers[end]));)
			end++;
		if (rank == DueRank::trying)
			try_queue(firing, i, end - i);
		else
			fire_part(firing, i, end - i, rank == DueRank::fresh ? first_wait : later_wait);
	}
}

/* Occurrences are asked when they are taken. */
bool
is_overdue(const DueTimer *timer, TimestampTz before)
{
	return timer->deliver_at < before && !is_occurrence(timer->key);
}

/* The queue of the first timer comes to be: a log queue, unless one of its timers has a priority. */
void
give_birth(Firing *firing, int first, int count)
{
	const DueTimer *timer = &firing->batch.timers[first];
	QueueKind kind = QueueKind::log;
	QueueTable queues;
	QueueRow queue;

	(void) count;
	for (int i = 0; i < firing->batch.count; i++)
		if (firing->batch.timers[i].priority != 0 && same_queue(&firing->batch.timers[i], timer))
			kind = QueueKind::work;
	queue_table_open(&queues, RowExclusiveLock);
	queue_ensure(&queues, &timer->tenant, timer->queue, setting_auto_create, &queue, kind);
	queue_table_close(&queues);
}

/* A queue that could not be made, by the first of its timers. */
struct Unborn
{
	int first;
	ErrorData *error;
};

int
compare_queues(const void *a, const void *b)
{
	const DueTimer *left = *(const DueTimer *const *) a;
	const DueTimer *right = *(const DueTimer *const *) b;
	const int order = memcmp(&left->tenant, &right->tenant, UUID_LEN);

	return order != 0 ? order : strcmp(left->queue.data, right->queue.data);
}

/* The timers of queues that could not be made: they fail, or wait with their queue, and are out of the batch. */
void
give_up_unborn(Firing *firing, const Unborn *unborn, int count)
{
	DueTimer *timers = firing->batch.timers;
	int left = 0;

	for (int i = 0; i < firing->batch.count; i++)
	{
		const Unborn *of = nullptr;

		for (int k = 0; k < count && of == nullptr; k++)
			if (same_queue(&timers[i], &timers[unborn[k].first]))
				of = &unborn[k];
		if (of == nullptr)
			continue;
		switch (failure_of(of->error->sqlerrcode))
		{
			case Failure::passing:
				hold_part(i, 1, timers, of->error);
				break;
			case Failure::its_own:
				put_off_all(firing, i, 1, Failure::its_own, of->error);
				break;
			case Failure::everybodys:
				pause_at(firing, i, 1, of->error);
				break;
		}
		timers[i].tid = {};
	}
	for (int i = 0; i < firing->batch.count; i++)
		if (ItemPointerIsValid(&timers[i].tid))
			timers[left++] = timers[i];
	firing->batch.count = left;
}

/*
 * Queues that are missing are made, in the order of their names, with no timer in hand; then nothing is fired in this transaction, and
 * this is true. What is overdue makes none.
 */
bool
make_queues(Firing *firing, TimestampTz overdue)
{
	DueTimer *timers = firing->batch.timers;
	const DueTimer **wanted = (const DueTimer **) palloc(sizeof(DueTimer *) * (Size) firing->batch.count);
	Unborn *unborn = (Unborn *) palloc(sizeof(Unborn) * (Size) firing->batch.count);
	int wanted_count = 0;
	int unborn_count = 0;
	QueueTable queues;
	QueueRow queue;

	for (int i = 0; i < firing->batch.count; i++)
		if ((i == 0 || !same_queue(&timers[i - 1], &timers[i])) && !is_overdue(&timers[i], overdue))
			wanted[wanted_count++] = &timers[i];
	qsort(wanted, (size_t) wanted_count, sizeof(DueTimer *), compare_queues);
	queue_table_open(&queues, AccessShareLock);
	for (int i = 0; i < wanted_count; i++)
	{
		const core::Micros began = hotlist_now();
		const int first = (int) (wanted[i] - timers);
		ErrorData *error;

		if ((i > 0 && compare_queues(&wanted[i - 1], &wanted[i]) == 0) ||
			queue_find(&queues, &wanted[i]->tenant, wanted[i]->queue, &queue))
			continue;
		if (firing->lost >= most_lost)
		{
			/* others keep what they make for long: these come by themselves */
			hold_part(first, 1, timers, nullptr);
			continue;
		}
		firing->wait = firing->lost == 0 ? first_wait : later_wait;
		error = attempt(firing, first, 1, give_birth);
		if (error == nullptr)
			firing->step->made++;
		else
		{
			if (failure_of(error->sqlerrcode) == Failure::passing)
				firing->lost += hotlist_now() - began;
			unborn[unborn_count++] = {first, error};
		}
	}
	queue_table_close(&queues);
	give_up_unborn(firing, unborn, unborn_count);
	if (firing->step->made == 0)
		return false;
	for (int i = 0; i < firing->batch.count; i++)
		due_lower(timers[i].mark.at);
	return true;
}

/* Timers that are overdue by more than is wanted go, with a line in the log each. */
void
drop_overdue(Firing *firing, TimestampTz before)
{
	int left = 0;

	for (int i = 0; i < firing->batch.count; i++)
	{
		DueTimer *timer = &firing->batch.timers[i];

		if (!is_overdue(timer, before))
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
	const TimestampTz overdue =
		setting_overdue_limit > 0 ? now - (int64) setting_overdue_limit * USECS_PER_SEC : DT_NOBEGIN;
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
	step->next = firing.batch.next;
	step->complete = firing.batch.complete;
	if (firing.batch.count > 0)
	{
		timer_fire_begin();
		if (make_queues(&firing, overdue))
			step->more = true;
		else
		{
			drop_overdue(&firing, overdue);
			fire_batch(&firing);
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
	MemoryContext per_step = AllocSetContextCreate(CurrentMemoryContext, "queen fire", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller;
	int64 left;
	int64 fired = 0;
	FireStep step;

	guard_write("queen.fire_timers()");
	left = count_argument(fcinfo, 0, "max_rows", 1, PG_INT32_MAX);
	due_from_bottom();
	caller = MemoryContextSwitchTo(per_step);
	do
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_step);
		fire_step(left, &step);
		fired += step.fired;
		left -= step.fired;
	} while (step.more && !step.paused && left > 0);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(per_step);
	return Int64GetDatum(fired);
}

} // namespace queen
