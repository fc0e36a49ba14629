/*
 * subscriptions.cpp: queen.subscribe and unsubscribe.
 *
 * Raises. Locks: the group's unique key (subscribe) or row (unsubscribe), the keys of new cursors, to the transaction's end;
 * waits for running births of the queue and the group, and for whoever changes the group's row. Runs in backends.
 */
#include "hotlist/journal.h"
#include "log/groups.h"
#include "log/partition_walk.h"
#include "log/positions.h"
#include "log/queues.h"
#include "log/retired_groups.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* Where a subscription starts. */
struct Start
{
	bool latest;
	bool has_time;
	TimestampTz at;
};

void
add_start_hint(void *arg)
{
	(void) arg;
	errhint("start is earliest, latest, or a timestamp.");
}

Start
start_argument(FunctionCallInfo fcinfo, int argno)
{
	Start start = {};
	ErrorContextCallback context;
	char *given;

	if (PG_ARGISNULL(argno))
		raise_null_argument("start");
	given = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	start.latest = strcmp(given, "latest") == 0;
	if (start.latest || strcmp(given, "earliest") == 0)
		return start;

	context.callback = add_start_hint;
	context.arg = nullptr;
	context.previous = error_context_stack;
	error_context_stack = &context;
	start.at = DatumGetTimestampTz(
		DirectFunctionCall3(timestamptz_in, CStringGetDatum(given), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	error_context_stack = context.previous;
	start.has_time = true;
	if (start.at > GetCurrentTimestamp())
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("start \"%s\" lies in the future", given),
						errhint("With latest the group gets what is committed from now on.")));
	return start;
}

/*
 * Give a new group a cursor at the end of each partition, as one snapshot sees it: what that could not see, be it running
 * or prepared, is delivered later. A partition without a visible message needs none, nor do those that are born later:
 * their beginning is behind the snapshot.
 */
void
seed_at_end(const QueueRow *queue, const GroupRow *group)
{
	Snapshot snapshot = register_latest_snapshot();
	SegmentTable segments;
	EraHandle cursors;
	LogPositions positions;
	PartitionWalk walk;

	segment_table_open(&segments);
	era_open(&cursors, &cursor_table);
	log_positions_open(&positions, &segments, &cursors);
	partition_walk_open(&walk, queue->log_id, 0, snapshot);
	while (const PartitionRow *partition = partition_walk_next(&walk))
	{
		Cursor cursor;
		PartitionEnds ends;

		log_ends(&positions, partition->partition_id, snapshot, &ends);
		cursor.committed = log_settled(&positions, partition->partition_id, &ends, ends.last, snapshot);
		if (cursor.committed < ends.first)
			continue;
		/* nobody else knows the group */
		if (era_seek(&cursors, {partition->partition_id, group->group_id}, snapshot) != EraSeek::absent ||
			!era_birth(&cursors))
			ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
							errmsg("new consumer group \"%s\" has a cursor in partition \"%s\"", group->name,
								   partition->name)));
		cursor_store(&cursors, &cursor);
		era_insert_state(&cursors);
	}
	partition_walk_close(&walk);
	log_positions_close(&positions);
	era_close(&cursors);
	segment_table_close(&segments);
	UnregisterSnapshot(snapshot);
}

} // namespace

QUEEN_FUNCTION(queen_subscribe)
QUEEN_FUNCTION(queen_unsubscribe)

/* queen.subscribe(queue, consumer_group, start text) returns void */
Datum
queen_subscribe(PG_FUNCTION_ARGS)
{
	Name queue_name;
	Name group_name;
	Start start;
	QueueTable queues;
	QueueRow queue;
	GroupRow group;

	guard_write("queen.subscribe()");
	queue_name = name_argument(fcinfo, 0, "queue");
	group_name = name_argument(fcinfo, 1, "consumer_group");
	start = start_argument(fcinfo, 2);
	queue_table_open(&queues, RowExclusiveLock);
	do
	{
		queue_ensure(&queues, setting_tenant(), queue_name, setting_auto_create, &queue);
		queue_check_kind(&queue, QueueKind::log, hint_for_groups);
	}
	/* whoever drops the queue meanwhile would not see the new group, and it would go along */
	while (!queue_hold(&queues, setting_tenant(), queue_name, &queue));
	queue_table_close(&queues);
	journal_changes();
	/* a group that is there stays where it is: only a seek moves it */
	if (group_subscribe(setting_tenant(), queue.queue_id, group_name, start.has_time ? &start.at : nullptr, &group) &&
		start.latest)
		seed_at_end(&queue, &group);
	PG_RETURN_VOID();
}

/* queen.unsubscribe(queue, consumer_group) returns boolean */
Datum
queen_unsubscribe(PG_FUNCTION_ARGS)
{
	Name queue_name;
	Name group_name;
	QueueTable queues;
	QueueRow queue;
	GroupRow group;
	bool found;

	guard_write("queen.unsubscribe()");
	queue_name = name_argument(fcinfo, 0, "queue");
	group_name = name_argument(fcinfo, 1, "consumer_group");
	queue_get_log(setting_tenant(), queue_name, hint_for_groups, &queue);
	found = group_delete(queue.queue_id, group_name, &group);
	journal_changes();
	if (found)
		journal_forget_group(own_tables(), queue.queue_id, group.group_id);
	queue_table_open(&queues, AccessShareLock);
	/* a purge that was waited for has given the queue another log, and one that comes now waits for us */
	if (found && queue_find_by_id(&queues, queue.queue_id, &queue))
		(void) retired_group_file(queue.log_id, group.group_id);
	queue_table_close(&queues);
	return BoolGetDatum(found);
}

} // namespace queen
