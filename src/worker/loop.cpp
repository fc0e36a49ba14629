/*
 * loop.cpp: one task at a time, its errors, sleep to the next deadline. See loop.h; when what runs is core/schedule's matter.
 *
 * Raises nothing: errors of tasks are caught here. Locks: the registry's; the extension's first object, for a task that needs tables.
 * Runs in the launcher and in workers.
 */
#include "worker/loop.h"

#include "hotlist/pool.h"
#include "server/relations.h"
#include "server/settings.h"
#include "state/drifted.h"
#include "state/snapshot.h"

namespace queen
{

namespace
{

/* for how long to leave alone what somebody may be dropping; the end of it wakes */
constexpr core::Micros busy_retry = USECS_PER_SEC;

struct Loop
{
	WorkerKind kind;
	std::span<const Task> tasks;
	core::Schedule schedule;
	core::ScheduledTask scheduled[most_tasks];
	MemoryContext own;
	MemoryContext per_run;
	uint64 looks;
	uint64 rung;
	uint32 wait_event;
};

constinit Loop loop = {};

enum class Outcome
{
	done,
	deferred, /* somebody may be dropping the extension */
	gone,	  /* there is no extension */
	failed,
};

[[noreturn]] void
leave()
{
	/* what nobody will collect again is not shown; that, and what nobody will mend, makes room */
	if (loop.kind == WorkerKind::keeper)
	{
		snapshot_forget(MyDatabaseId);
		drifted_forget(MyDatabaseId);
	}
	registry_set_state(WorkerState::leaving);
	proc_exit(0);
}

[[noreturn]] void
leave_without_extension(uint64 looks)
{
	registry_say_no_extension(looks);
	leave();
}

core::Micros
until(core::Micros at, core::Micros now)
{
	return at == core::never ? core::never : Max(at - now, 0);
}

/* ---- a task ---- */

/* The transaction that a task asked for; false when it cannot be called now. */
bool
begin(TaskNeeds needs, Outcome *outcome)
{
	ExtensionLock locked;

	*outcome = Outcome::done;
	if (needs == TaskNeeds::nothing)
		return true;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	if (needs == TaskNeeds::transaction)
		return true;
	locked = try_lock_extension();
	if (locked == ExtensionLock::locked)
		return true;
	CommitTransactionCommand();
	*outcome = locked == ExtensionLock::missing ? Outcome::gone : Outcome::deferred;
	return false;
}

void
report(const char *what)
{
	char text[NAMEDATALEN * 2];

	if (what == nullptr)
	{
		pgstat_report_activity(STATE_IDLE, nullptr);
		return;
	}
	(void) snprintf(text, sizeof(text), "queen %s: %s", worker_name(loop.kind), what);
	pgstat_report_activity(STATE_RUNNING, text);
}

/* Behind an error: log it, and leave nothing of the task behind. */
void
clean_up(char *message, Size size, int *sqlstate)
{
	ErrorData *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(loop.own);
	error = CopyErrorData();
	*sqlstate = error->sqlerrcode;
	strlcpy(message, error->message != nullptr ? error->message : "", size);
	message[pg_mbcliplen(message, (int) strlen(message), (int) size - 2)] = '\0';
	FreeErrorData(error);
	EmitErrorReport();
	AbortCurrentTransaction();
	LWLockReleaseAll();
	(void) ConditionVariableCancelSleep();
	pgstat_report_wait_end();
	MemoryContextSwitchTo(loop.own);
	FlushErrorState();
	RESUME_INTERRUPTS();
}

/* CONTEXT of what a task logs. */
void
add_context(void *arg)
{
	errcontext("queen %s: %s", worker_name(loop.kind), (const char *) arg);
}

/* Run a task; next is when it wants to run again. */
Outcome
attempt(const Task *task, core::Micros *next, char *message, Size size, int *sqlstate)
{
	volatile Outcome outcome = Outcome::done;

	report(task->name);
	PG_TRY();
	{
		TaskRun run = {hotlist_now()};
		ErrorContextCallback context = {error_context_stack, add_context, const_cast<char *>(task->name)};
		Outcome begun;

		error_context_stack = &context;
		if (begin(task->needs, &begun))
		{
			MemoryContextSwitchTo(loop.per_run);
			*next = task->run(&run);
			if (task->needs != TaskNeeds::nothing)
				CommitTransactionCommand();
		}
		outcome = begun;
		error_context_stack = context.previous;
	}
	PG_CATCH();
	{
		clean_up(message, size, sqlstate);
		outcome = Outcome::failed;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(loop.own);
	MemoryContextReset(loop.per_run);
	report(nullptr);
	return outcome;
}

void
run_task(uint32 number)
{
	const TimestampTz began = GetCurrentTimestamp();
	const core::Micros began_at = hotlist_now();
	const uint64 looks = registry_looks();
	core::Micros next = core::never;
	core::Micros now;
	char message[sizeof(TaskRecord::last_message)];
	int sqlstate = 0;
	const Outcome outcome = attempt(&loop.tasks[number], &next, message, sizeof(message), &sqlstate);

	now = hotlist_now();
	switch (outcome)
	{
		case Outcome::done:
			core::schedule_ran(&loop.schedule, number, next, now);
			registry_task_ran((int) number, began, now - began_at, until(loop.scheduled[number].due, now));
			break;
		case Outcome::deferred:
			core::schedule_deferred(&loop.schedule, number, now + busy_retry);
			registry_task_next((int) number, busy_retry);
			break;
		case Outcome::gone:
			leave_without_extension(looks);
		case Outcome::failed:
			core::schedule_failed(&loop.schedule, number, now);
			registry_task_failed((int) number, began, now - began_at, until(loop.scheduled[number].due, now), sqlstate,
								 message);
			break;
	}
	pgstat_report_stat(false);
	if (outcome == Outcome::failed && loop.tasks[number].ends)
	{
		ereport(LOG, (errmsg("queen %s ends after an error of its task \"%s\"", worker_name(loop.kind),
							 loop.tasks[number].name),
					  errhint("The launcher starts a fresh one.")));
		proc_exit(1);
	}
	if (core::schedule_is_hopeless(loop.schedule))
	{
		ereport(LOG,
				(errmsg("queen %s ends after %u errors in a row", worker_name(loop.kind), loop.schedule.errors_in_row),
				 errhint("The launcher starts a fresh one.")));
		proc_exit(1);
	}
}

/* ---- between tasks ---- */

/* Somebody said that the extension may be gone. */
void
look_for_extension()
{
	Outcome outcome = Outcome::done;
	const uint64 looks = registry_looks();
	char message[sizeof(TaskRecord::last_message)];
	int sqlstate;
	const Task look = {"looking for the extension", TaskNeeds::tables, false, nullptr,
					   [](const TaskRun *) -> core::Micros { return core::never; }};
	core::Micros next;

	if (looks == loop.looks)
		return;
	outcome = attempt(&look, &next, message, sizeof(message), &sqlstate);
	if (outcome == Outcome::gone)
		leave_without_extension(looks);
	/* busy: whoever drops it now says so again */
	loop.looks = looks;
}

void
ring_tasks(bool all)
{
	const core::Micros now = hotlist_now();

	for (uint32 i = 0; i < loop.tasks.size(); i++)
		if (all || (loop.tasks[i].on_wake != nullptr && loop.tasks[i].on_wake()))
			core::schedule_ring(&loop.schedule, i, now);
}

void
see_to_messages()
{
	loop.rung = registry_rung();
	if (registry_must_leave())
		leave();
	look_for_extension();
	ring_tasks(false);
}

/* Sleep until something is due or happens, and see what has happened. */
void
sleep_and_look()
{
	/* what was said during a task may have set a latch that a wait for a lock has reset */
	const bool told = registry_rung() != loop.rung || ConfigReloadPending;
	const core::Micros in = told ? 0 : until(core::schedule_sleep_until(loop.schedule), hotlist_now());
	const int flags = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (in == core::never ? 0 : WL_TIMEOUT);
	/* rounded up: a timeout that is early by a fraction of a millisecond would be a turn for nothing */
	const long timeout = in == core::never ? -1L : (long) Min((in + 999) / 1000, (core::Micros) INT_MAX);
	int events;

	if (timeout != 0)
		pgstat_report_stat(true);
	events = WaitLatch(MyLatch, flags, timeout, loop.wait_event);
	if ((events & WL_LATCH_SET) != 0)
		ResetLatch(MyLatch);
	/* nothing is under way that could be cancelled; and who is told to end needs no line in the log */
	QueryCancelPending = false;
	if (ProcDiePending)
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		ring_tasks(true);
	}
	if ((events & WL_LATCH_SET) != 0 || told)
		see_to_messages();
}

} // namespace

void
loop_run(WorkerKind kind, std::span<const Task> tasks, uint64 looks)
{
	static constinit uint32 known_wait_event = 0;
	static const char *const wait_events[] = {"QueenKeeperMain", "QueenPulseMain", "QueenLauncherMain"};

	Assert(tasks.size() <= most_tasks);
	loop.kind = kind;
	loop.tasks = tasks;
	loop.own = AllocSetContextCreate(TopMemoryContext, "queen loop", ALLOCSET_DEFAULT_SIZES);
	loop.per_run = AllocSetContextCreate(loop.own, "queen task", ALLOCSET_DEFAULT_SIZES);
	loop.looks = looks;
	loop.wait_event = named_wait_event(wait_events[(int) kind], &known_wait_event);
	MemoryContextSwitchTo(loop.own);
	core::schedule_begin(&loop.schedule, {loop.scheduled, tasks.size()}, hotlist_now());
	for (size_t i = 0; i < tasks.size(); i++)
		registry_name_task((int) i, tasks[i].name);
	report(nullptr);
	see_to_messages();
	for (;;)
	{
		const uint32 task = core::schedule_next(loop.schedule, hotlist_now());

		if (task < tasks.size())
			run_task(task);
		sleep_and_look();
	}
}

void
loop_pin_settings()
{
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_SUSET, PGC_S_OVERRIDE);
	for (const char *timeout : timeout_settings)
		SetConfigOption(timeout, "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
	/* what a user was allowed to schedule is pushed */
	SetConfigOption("temp_file_limit", "-1", PGC_SUSET, PGC_S_OVERRIDE);
	/*
	 * What is cleaned up and forgotten in a crash is cleaned up again. A timer that was fired is there again, and its message is not; who has
	 * acknowledged that, or has committed anything else since, has made the fire's commit durable with his own.
	 */
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

} // namespace queen
