/*
 * collector.cpp: the state of all queues, collected. See collector.h; README.md says what is counted, what is looked up, and what is an estimate.
 *
 * Raises. Locks: the tables', as who reads; those of snapshot.cpp at the end. Runs in the keeper and where queen.collect() is called, also on a standby.
 */
#include "state/collector.h"

#include "log/log_states.h"
#include "log/queues.h"
#include "log/side_counts.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/relations.h"
#include "server/settings.h"
#include "state/drifted.h"
#include "state/shard_rows.h"
#include "state/snapshot.h"

namespace queen
{

namespace
{

/* The keeper's collections take one part in so many of a core at most: waiting for a lock or the disk is no work. */
constexpr int64 collect_share = 10;

/* What is asked about a queue. */
struct Asked
{
	int64 queue_id;
	int64 log_id;
	QueueKind kind;
	int32 limit;
	bool paused;
	pg_uuid_t tenant;
	const char *name;
	TimestampTz created_at;
};

struct Collection
{
	Snapshot snapshot;
	TimestampTz now;
	Asked *asked; /* by queue_id */
	int count;
	int room;
	QueueState *queues;	  /* in that order */
	WorkQueueState *work; /* of work queues, by log_id */
	int *work_of;		  /* which queue each of them is */
	int work_count;
	GroupState *groups;
	int group_count;
};

void *
allocate(Size size, Size count)
{
	return palloc_extended(size * Max(count, 1), MCXT_ALLOC_HUGE);
}

void
ask(const QueueRow *row, void *arg)
{
	Collection *c = (Collection *) arg;

	if (c->count == c->room)
	{
		c->room *= 2;
		c->asked = (Asked *) repalloc_huge(c->asked, sizeof(Asked) * (Size) c->room);
	}
	c->asked[c->count++] = {row->queue_id, row->log_id, row->kind, row->options.max_delivery_attempts,
							row->paused,   row->tenant, row->name, row->created_at};
}

int
compare_asked(const void *left, const void *right)
{
	const int64 a = ((const Asked *) left)->queue_id;
	const int64 b = ((const Asked *) right)->queue_id;

	return (a > b) - (a < b);
}

void
list_queues(Collection *c)
{
	c->room = 256;
	c->asked = (Asked *) allocate(sizeof(Asked), (Size) c->room);
	queues_each(c->snapshot, ask, c);
	qsort(c->asked, (size_t) c->count, sizeof(Asked), compare_asked);
	c->queues = (QueueState *) allocate(sizeof(QueueState), (Size) c->count);
	for (int i = 0; i < c->count; i++)
	{
		QueueState *state = &c->queues[i];

		*state = {};
		state->queue_id = c->asked[i].queue_id;
		state->tenant = c->asked[i].tenant;
		state->kind = c->asked[i].kind;
		state->paused = c->asked[i].paused;
		state->name_size = (uint8) strlen(c->asked[i].name);
		memcpy(state->name, c->asked[i].name, state->name_size);
	}
}

/* ---- work queues ---- */

/* By log_id, with the number of the queue. */
struct ByLog
{
	int64 log_id;
	int queue;
};

int
compare_by_log(const void *left, const void *right)
{
	const int64 a = ((const ByLog *) left)->log_id;
	const int64 b = ((const ByLog *) right)->log_id;

	return (a > b) - (a < b);
}

void
list_work_queues(Collection *c)
{
	ByLog *logs = (ByLog *) allocate(sizeof(ByLog), (Size) c->count);

	for (int i = 0; i < c->count; i++)
		if (c->asked[i].kind == QueueKind::work)
			logs[c->work_count++] = {c->asked[i].log_id, i};
	qsort(logs, (size_t) c->work_count, sizeof(ByLog), compare_by_log);
	c->work = (WorkQueueState *) allocate(sizeof(WorkQueueState), (Size) c->work_count);
	c->work_of = (int *) allocate(sizeof(int), (Size) c->work_count);
	for (int i = 0; i < c->work_count; i++)
	{
		c->work[i] = {};
		c->work[i].log_id = logs[i].log_id;
		c->work[i].limit = c->asked[logs[i].queue].limit;
		c->work_of[i] = logs[i].queue;
	}
	pfree(logs);
}

void
add_shard(const ShardCounts *counts, void *arg)
{
	const Collection *c = (const Collection *) arg;
	int first = 0;
	int last = c->work_count;

	while (first < last)
	{
		const int middle = first + (last - first) / 2;

		if (c->work[middle].log_id < counts->log_id)
			first = middle + 1;
		else
			last = middle;
	}
	/* a dropped queue's, or a purged one's, go later; and SQL may write any priority */
	if (first == c->work_count || c->work[first].log_id != counts->log_id || counts->priority < 1 ||
		counts->priority > priority_count)
		return;
	c->work[first].stored_ready[counts->priority - 1] += counts->ready;
	c->work[first].stored_in_flight[counts->priority - 1] += counts->in_flight;
}

/* Never clamped: a count that is wrong would be wrong in what is shown, and nobody would know. */
void
check_count(const WorkQueueState *work, const Asked *asked, int priority, bool of_ready)
{
	const int64 counted = of_ready ? work->stored_ready[priority] : work->stored_in_flight[priority];
	const int64 met = of_ready ? work->met_ready[priority] : work->met_in_flight[priority];

	const bool all = of_ready ? work->met_all_ready[priority] : work->met_all_in_flight[priority];

	if (all ? counted == met : counted >= met)
		return;
	drifted_report(own_tables(), work->log_id, DriftFinder::collection);
	ereport(ERROR, (errcode(errcode_state_drifted),
					errmsg("the state of queue \"%s\" is not known: its count of %s messages is wrong", asked->name,
						   of_ready ? "ready" : "in-flight"),
					errdetail("Of priority %s %lld are counted, and %s%lld are there.",
							  work_calls->priority_text((int16) (priority + 1)), (long long) counted,
							  all ? "" : "at least ", (long long) met),
					errhint("The counts do not agree with table queen.messages, which is right. A keeper mends them "
							"at once; where there is none, queen.rollup_rebuild() does.")));
}

void
collect_work_queues(Collection *c)
{
	list_work_queues(c);
	if (c->work_count == 0)
		return;
	shard_rows_each(c->snapshot, add_shard, c);
	work_calls->states(c->snapshot, c->now, c->work, c->work_count);
	for (int i = 0; i < c->work_count; i++)
	{
		const WorkQueueState *work = &c->work[i];
		QueueState *queue = &c->queues[c->work_of[i]];

		for (int p = 0; p < priority_count; p++)
		{
			check_count(work, &c->asked[c->work_of[i]], p, true);
			check_count(work, &c->asked[c->work_of[i]], p, false);
			queue->gauges[p] = work->gauges[p];
			queue->messages[p] = work->stored_ready[p] + work->stored_in_flight[p];
		}
	}
}

/* ---- logs ---- */

void
collect_logs(Collection *c)
{
	LogQueueState *logs = (LogQueueState *) allocate(sizeof(LogQueueState), (Size) c->count);
	const LogGroupState *groups;
	int count = 0;
	int at = 0;

	for (int i = 0; i < c->count; i++)
		if (c->asked[i].kind == QueueKind::log)
		{
			logs[count] = {};
			logs[count].queue_id = c->asked[i].queue_id;
			logs[count++].log_id = c->asked[i].log_id;
		}
	groups = log_states(c->snapshot, c->now, logs, count, &c->group_count);
	for (int i = 0, l = 0; i < c->count; i++)
		if (c->asked[i].kind == QueueKind::log)
		{
			c->queues[i].gauges[0] = logs[l].gauges;
			c->queues[i].messages[0] = logs[l].messages;
			c->queues[i].bytes = (int64) logs[l++].bytes;
		}
	c->groups = (GroupState *) allocate(sizeof(GroupState), (Size) c->group_count);
	for (int g = 0; g < c->group_count; g++)
	{
		GroupState *group = &c->groups[g];

		while (c->asked[at].queue_id != groups[g].queue_id)
			at++;
		*group = {};
		group->group_id = groups[g].group_id;
		group->queue = at;
		group->paused = groups[g].paused;
		group->name_size = (uint8) strlen(groups[g].name);
		memcpy(group->name, groups[g].name, group->name_size);
		group->gauges = groups[g].gauges;
	}
}

/* ---- beside both ---- */

void
collect_side(Collection *c, bool whole)
{
	side_counts_go_on(c->snapshot, whole);
	for (int i = 0; i < c->count; i++)
	{
		QueueState *queue = &c->queues[i];

		side_counts_of(queue->queue_id, &queue->tenant, {queue->name, queue->name_size}, queue->dead, queue->timers);
		if (queue->kind == QueueKind::work)
			continue;
		for (int p = 1; p < priority_count; p++)
		{
			queue->dead[0] += queue->dead[p];
			queue->timers[0] += queue->timers[p];
		}
	}
}

/* ---- the whole ---- */

/* Microseconds of a processor that this process has used. */
int64
processor_time()
{
	PGRUsage usage;

	pg_rusage_init(&usage);
	return (int64) (usage.ru.ru_utime.tv_sec + usage.ru.ru_stime.tv_sec) * USECS_PER_SEC + usage.ru.ru_utime.tv_usec +
		   usage.ru.ru_stime.tv_usec;
}

/* A collection that begins. */
struct Start
{
	core::hotlist::Micros at;
	int64 used; /* of the processor, before */
};

int64
rest_after(const Start *start)
{
	return (processor_time() - start->used) * (collect_share - 1);
}

/* whole: a session's, without what is spread over several collections (log/side_counts), and behind which the keeper need not rest. */
void
run(bool whole, const Start *start)
{
	StateSnapshot found = {};
	Collection c = {};

	/* before the snapshot, and to the end: a TRUNCATE takes away what is counted, and no snapshot sees what it has emptied */
	table_close(open_table(Table::messages, AccessShareLock), NoLock);
	/* what was told of is in sight of the snapshot */
	(void) log_states_read();
	while (log_states_step() || (!whole && side_counts_step()))
		CHECK_FOR_INTERRUPTS();
	c.snapshot = register_latest_snapshot();
	/* behind the snapshot: what it sees was written before */
	c.now = found.record.collected_at = GetCurrentTimestamp();
	found.record.collected = hotlist_now();
	list_queues(&c);
	collect_work_queues(&c);
	collect_logs(&c);
	collect_side(&c, whole);
	UnregisterSnapshot(c.snapshot);
	found.queues = c.queues;
	found.queue_count = c.count;
	found.groups = c.groups;
	found.group_count = c.group_count;
	snapshot_publish(own_tables(), &found, start->at, whole ? 0 : rest_after(start));
}

} // namespace

void
collect()
{
	const Start start = {hotlist_now(), processor_time()};
	const MemoryContext caller = CurrentMemoryContext;
	const Oid tables = own_tables();

	PG_TRY();
	{
		run(false, &start);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		snapshot_failed(tables, start.at, rest_after(&start), error->sqlerrcode,
						error->message != nullptr ? error->message : "");
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

int64
collect_ahead()
{
	const int64 again = log_states_read();

	return log_states_step() || side_counts_step() ? 0 : again;
}

int64
collect_due()
{
	const int64 interval = (int64) setting_collect_interval * USECS_PER_SEC;
	CollectorRecord record;
	Oid tables;

	if (interval == 0)
		return -1;
	tables = own_tables();
	/* until another database gives its place back nobody would see what is found */
	if (!snapshot_has_place())
		return interval;
	if (!snapshot_record(tables, &record) || record.attempted == 0)
		return 0;
	/* also behind a failure, and for the process that follows: it has other things to do, too */
	return Max(record.attempted + Max(interval, record.rest) - hotlist_now(), 0);
}

QUEEN_FUNCTION(queen_collect)

/* queen.collect() returns timestamptz */
Datum
queen_collect(PG_FUNCTION_ARGS)
{
	const Start start = {hotlist_now(), 0};
	CollectorRecord record;

	(void) fcinfo;
	PreventCommandIfParallelMode("queen.collect()");
	lock_extension();
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("queen.collect() cannot run in a transaction that has written something"),
						errdetail("Everybody would see what may be rolled back."),
						errhint("Call it in a transaction of its own.")));
	if (!snapshot_has_place())
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("there is no room for the state of another database"),
						errdetail("The state of %d databases is kept.", snapshot_most_databases),
						errhint("Drop the extension where it is not used, or leave such a database out of "
								"queen.databases.")));
	/* nobody keeps this session's memory up to date */
	log_states_forget();
	side_counts_forget();
	run(true, &start);
	log_states_forget();
	side_counts_forget();
	(void) snapshot_record(own_tables(), &record);
	PG_RETURN_TIMESTAMPTZ(record.collected_at);
}

} // namespace queen
