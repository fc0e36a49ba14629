/*
 * pause.cpp: queen.pause and resume.
 *
 * Raises. Locks: the row of the queue or group, waiting for whoever changes it, to the transaction's end. Runs in backends.
 */
#include "log/groups.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

static Datum
set_paused(FunctionCallInfo fcinfo, bool paused)
{
	Name queue_name = name_argument(fcinfo, 0, "queue");
	QueueTable queues;
	QueueRow queue;
	bool changed;

	if (PG_ARGISNULL(1))
	{
		queue_table_open(&queues, RowExclusiveLock);
		changed = queue_set_paused(&queues, setting_tenant(), queue_name, paused);
		queue_table_close(&queues);
	}
	else
	{
		Name group_name = name_argument(fcinfo, 1, "consumer_group");

		queue_get_log(setting_tenant(), queue_name, hint_for_groups, &queue);
		changed = group_set_paused(queue.name, queue.queue_id, group_name, paused);
	}
	return BoolGetDatum(changed);
}

QUEEN_FUNCTION(queen_pause)
QUEEN_FUNCTION(queen_resume)

/* queen.pause(queue, consumer_group) returns boolean */
Datum
queen_pause(PG_FUNCTION_ARGS)
{
	guard_write("queen.pause()");
	return set_paused(fcinfo, true);
}

/* queen.resume(queue, consumer_group) returns boolean */
Datum
queen_resume(PG_FUNCTION_ARGS)
{
	guard_write("queen.resume()");
	return set_paused(fcinfo, false);
}

} // namespace queen
