/*
 * keeper.cpp: what a database's keeper does: slow work on tables, in bounded steps.
 *
 * Raises, in tasks. Locks: see the tasks' own files. Runs in keepers.
 */
#include "hotlist/upkeep.h"
#include "log/maintain.h"
#include "log/retention_watch.h"
#include "log/ring_floor.h"
#include "log/work_calls.h"
#include "server/settings.h"
#include "state/collector.h"
#include "state/drifted.h"
#include "worker/process.h"

namespace queen
{

namespace
{

core::Micros
seconds(int count)
{
	return (core::Micros) count * USECS_PER_SEC;
}

/* What nobody has used for long is forgotten, the busiest rings are logged. */
core::Micros
upkeep(const TaskRun *run)
{
	(void) run;
	return hotlist_upkeep();
}

/* In how many microseconds, as an answer to the loop. */
core::Micros
in(int64 delay)
{
	return delay == 0 ? 0 : hotlist_now() + delay;
}

/* A walk for the ring that has waited longest for one. */
core::Micros
floor(const TaskRun *run)
{
	(void) run;
	return in(ring_floor_step());
}

/* What retention has to do in partitions, as it falls due. */
core::Micros
retention(const TaskRun *run)
{
	(void) run;
	return setting_maintain_interval == 0 ? core::never : in(retention_watch_step());
}

/* A pass over some phases of CALL queen.maintain(), a step a run. */
struct Passes
{
	uint32 phases;
	int share; /* a pass takes at most one part in so many of the time */
	MaintainPass pass;
	bool under_way;
	core::Micros took; /* the pass so far */
	core::Micros due;
};

core::Micros
step(Passes *passes, core::Micros now)
{
	const core::Micros interval = seconds(setting_maintain_interval);

	if (interval == 0)
	{
		passes->under_way = false;
		return core::never;
	}
	if (!passes->under_way)
	{
		/* also when an error has cut the last one short */
		if (now < passes->due)
			return passes->due;
		maintain_begin(&passes->pass, passes->phases);
		passes->under_way = true;
		passes->took = 0;
		passes->due = now + interval;
	}
	passes->under_way = maintain_step(&passes->pass);
	passes->took += hotlist_now() - now;
	if (passes->under_way)
		return 0;
	passes->due = Max(passes->due, now + passes->took * passes->share);
	return passes->due;
}

/* What was dropped, purged and unsubscribed, and dead letters. */
core::Micros
clean_up(const TaskRun *run)
{
	static constinit Passes passes = {maintain_phase(MaintainPhase::dropped) |
										  maintain_phase(MaintainPhase::retired_groups) |
										  maintain_phase(MaintainPhase::dead_letters),
									  0};

	return step(&passes, run->now);
}

/* dedup_keys beyond their window: a scan of all of them, and nobody waits for it. */
core::Micros
expire_keys(const TaskRun *run)
{
	static constinit Passes passes = {maintain_phase(MaintainPhase::keys), 50};

	return step(&passes, run->now);
}

/* Messages of work queues that have expired: when the next one is due, as far as the last pass has seen, but not all the time. */
core::Micros
expire_messages(const TaskRun *run)
{
	static constinit bool under_way = false;
	const core::Micros interval = seconds(setting_maintain_interval);
	const bool first = !under_way;
	TimestampTz next;

	/* an error cuts the pass short */
	under_way = false;
	if (interval == 0)
		return core::never;
	under_way = work_calls->expire_step(first, &next);
	if (under_way)
		return 0;
	return run->now + Min(Max(next - GetCurrentTimestamp(), (int64) USECS_PER_SEC), interval);
}

/* Counts of queues that a transaction has failed on. */
core::Micros
mend_counts(const TaskRun *run)
{
	const bool mended = drifted_mend_step();

	if (!drifted_waits())
		return core::never;
	/* what others are at: until they end */
	return mended ? 0 : run->now + seconds(1);
}

/* The state of queues. */
core::Micros
collect_state(const TaskRun *run)
{
	int64 ahead;

	(void) run;
	if (collect_due() < 0)
		return core::never;
	ahead = collect_ahead();
	if (ahead == 0)
		return 0;
	if (collect_due() == 0)
		collect();
	return in(Min(ahead, collect_due()));
}

constexpr Task tasks[] = {
	{"upkeep", TaskNeeds::nothing, false, nullptr, upkeep},
	{"floor", TaskNeeds::tables, false, nullptr, floor},
	{"retention", TaskNeeds::tables, false, nullptr, retention},
	{"clean-up", TaskNeeds::tables, false, nullptr, clean_up},
	{"keys", TaskNeeds::tables, false, nullptr, expire_keys},
	{"messages", TaskNeeds::tables, false, nullptr, expire_messages},
	/* before the state, which fails on wrong counts */
	{"counts", TaskNeeds::tables, false, drifted_waits, mend_counts},
	{"state", TaskNeeds::tables, true, nullptr, collect_state},
};

} // namespace

} // namespace queen

void
queen_keeper_main(Datum arg)
{
	(void) arg;
	queen::worker_main(queen::WorkerKind::keeper, queen::tasks, nullptr);
}
