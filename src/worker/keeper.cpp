/*
 * keeper.cpp: what a database's keeper does: slow work on tables, in bounded steps.
 *
 * Raises, in tasks. Locks: see the tasks' own files. Runs in keepers.
 */
#include "hotlist/upkeep.h"
#include "log/maintain.h"
#include "server/settings.h"
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

/* One step of a pass over everything that has to be cleaned up, as CALL queen.maintain() makes it. */
core::Micros
maintain(const TaskRun *run)
{
	static constinit MaintainPass pass = {};
	static constinit bool under_way = false;
	static constinit core::Micros began = 0; /* the last pass, or the process */
	const core::Micros interval = seconds(setting_maintain_interval);

	if (interval == 0)
	{
		under_way = false;
		return core::never;
	}
	if (began == 0)
		began = run->now;
	if (!under_way)
	{
		if (run->now < began + interval)
			return began + interval;
		began = run->now;
		maintain_begin(&pass);
		under_way = true;
	}
	under_way = maintain_step(&pass);
	return under_way ? 0 : began + interval;
}

constexpr Task tasks[] = {
	{"upkeep", TaskNeeds::nothing, false, upkeep},
	{"maintain", TaskNeeds::tables, false, maintain},
};

} // namespace

} // namespace queen

void
queen_keeper_main(Datum arg)
{
	(void) arg;
	queen::worker_main(queen::WorkerKind::keeper, queen::tasks, nullptr);
}
