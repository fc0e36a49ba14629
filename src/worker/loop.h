/*
 * loop.h: what a background process does all its life: one task at a time, and sleep until the next is due.
 *
 * A task that raises is logged, counted, and rests; the others go on. Runs in the launcher and in workers.
 */
#ifndef QUEEN_WORKER_LOOP_H
#define QUEEN_WORKER_LOOP_H

#include "worker/registry.h"

namespace queen
{

/* What a task finds when it is called. */
enum class TaskNeeds
{
	nothing,	 /* no transaction; it may make one */
	transaction, /* a transaction, committed behind it */
	tables,		 /* and the extension's tables: they are there and stay until the commit. Otherwise it is not called */
};

struct TaskRun
{
	core::Micros now; /* of the loop's clock, hotlist_now() */
};

/*
 * run does one bounded step, with at most one transaction, in a memory context that is reset behind it, and answers when it
 * wants to run next: a time of the loop's clock, core::never, or 0 for at once (after the others that are due).
 */
struct Task
{
	const char *name; /* in the views, and in pg_stat_activity while it runs */
	TaskNeeds needs;
	bool ends;		   /* an error of it ends the process: a fresh one takes its place */
	bool (*on_wake)(); /* the process was woken: is it due, though its own time has not come? null: no */
	core::Micros (*run)(const TaskRun *run);
};

/*
 * Never returns: ends the process, with status 0 when it was told to leave or has nothing to work for.
 *   looks   registry_looks() from before the extension was found
 */
[[noreturn]] void loop_run(WorkerKind kind, std::span<const Task> tasks, uint64 looks);

/* The settings that a background process must not take from the database or the role. */
void loop_pin_settings();

} // namespace queen

#endif
