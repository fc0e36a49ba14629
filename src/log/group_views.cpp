/*
 * group_views.cpp: queen.list_groups and lag.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby. All of an answer is read with one latest snapshot;
 * per partition and group it takes one probe for the cursor and, where that lags, two for a time.
 */
#include "log/groups.h"
#include "log/partition_walk.h"
#include "log/positions.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/settings.h"

namespace queen
{

namespace
{

enum class State
{
	idle,
	ready,
	leased,
	blocked,
};

/* How a group stands in a partition. */
struct Standing
{
	bool has_cursor;
	int64 committed;
	int64 lag;
	bool lagging;
	TimestampTz oldest_at; /* of the first message that is not completed, when lagging */
	State state;
};

/* What an answer is read from. */
struct View
{
	QueueRow queue;
	Snapshot snapshot;
	TimestampTz now;
	SegmentTable segments;
	EraHandle cursors;
	LogPositions positions;
	PartitionWalk walk;
};

void
view_open(View *view, Name queue_name)
{
	queue_get_log(setting_tenant(), queue_name, hint_for_groups, &view->queue);
	view->snapshot = register_latest_snapshot();
	view->now = GetCurrentTimestamp();
	segment_table_open(&view->segments);
	era_open_to_read(&view->cursors, &cursor_table);
	log_positions_open(&view->positions, &view->segments, &view->cursors);
	partition_walk_open(&view->walk, view->queue.log_id, 0, view->snapshot);
}

void
view_close(View *view)
{
	partition_walk_close(&view->walk);
	log_positions_close(&view->positions);
	era_close(&view->cursors);
	segment_table_close(&view->segments);
	UnregisterSnapshot(view->snapshot);
}

Standing
stand(View *view, int64 partition_id, const PartitionEnds *ends, const GroupRow *group)
{
	Standing standing = {};
	Cursor cursor;

	standing.has_cursor = era_seek(&view->cursors, {partition_id, group->group_id}, view->snapshot) == EraSeek::found;
	if (standing.has_cursor)
		cursor_read(&view->cursors, &cursor);
	else
		cursor.committed = group_start_in(&view->positions, partition_id, group, ends, view->snapshot, false);
	era_release_snapshot(&view->cursors);

	/* what retention deleted before the group came to it is no lag */
	standing.committed = Max(cursor.committed, ends->first - 1);
	standing.lag = Max(ends->last - standing.committed, 0);
	standing.lagging = standing.lag > 0 && log_time_behind(&view->positions, partition_id, standing.committed,
														   view->snapshot, &standing.oldest_at);
	if (cursor.leased && cursor.lease_until > view->now)
		standing.state = State::leased;
	else if (cursor.blocked && cursor.blocked_until > view->now)
		standing.state = State::blocked;
	else
		standing.state = standing.lagging ? State::ready : State::idle;
	return standing;
}

const char *
state_name(State state)
{
	switch (state)
	{
		case State::idle:
			return "idle";
		case State::ready:
			return "ready";
		case State::leased:
			return "leased";
		case State::blocked:
			return "blocked";
	}
	return "unknown";
}

/* A group's sums over the partitions. */
struct GroupSums
{
	int64 partitions;
	int64 lag;
	int64 leased;
	int64 blocked;
	bool lagging;
	TimestampTz oldest_at;
};

void
add_standing(GroupSums *sums, const Standing *standing)
{
	sums->partitions += standing->has_cursor ? 1 : 0;
	sums->lag += standing->lag;
	sums->leased += standing->state == State::leased ? 1 : 0;
	sums->blocked += standing->state == State::blocked ? 1 : 0;
	if (standing->lagging && (!sums->lagging || standing->oldest_at < sums->oldest_at))
		sums->oldest_at = standing->oldest_at;
	sums->lagging = sums->lagging || standing->lagging;
}

enum ListColumn : int
{
	list_consumer_group,
	list_start_at,
	list_paused,
	list_created_at,
	list_active_at,
	list_partitions,
	list_lag,
	list_leased,
	list_blocked,
	list_oldest_at,
	list_cols,
};

enum LagColumn : int
{
	lag_partition,
	lag_committed,
	lag_end_offset,
	lag_lag,
	lag_oldest_at,
	lag_state,
	lag_cols,
};

} // namespace

QUEEN_FUNCTION(queen_list_groups)
QUEEN_FUNCTION(queen_lag)

/*
 * queen.list_groups(queue) returns setof (consumer_group, start_at, paused, created_at, active_at, partitions, lag, leased,
 * blocked, oldest_at)
 */
Datum
queen_list_groups(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Name queue_name = name_argument(fcinfo, 0, "queue");
	View view;
	GroupRow *groups;
	GroupSums *sums;
	int count;

	InitMaterializedSRF(fcinfo, 0);
	view_open(&view, queue_name);
	groups = group_list(view.queue.queue_id, view.snapshot, &count);
	sums = (GroupSums *) palloc0(sizeof(GroupSums) * (Size) Max(count, 1));
	while (const PartitionRow *partition = partition_walk_next(&view.walk))
	{
		PartitionEnds ends;

		log_ends(&view.positions, partition->partition_id, view.snapshot, &ends);
		for (int i = 0; i < count; i++)
		{
			Standing standing = stand(&view, partition->partition_id, &ends, &groups[i]);

			add_standing(&sums[i], &standing);
		}
	}
	view_close(&view);
	for (int i = 0; i < count; i++)
	{
		const GroupRow *group = &groups[i];
		Datum values[list_cols] = {};
		bool nulls[list_cols] = {};

		values[list_consumer_group] = CStringGetTextDatum(group->name);
		values[list_start_at] = TimestampTzGetDatum(group->start_at);
		nulls[list_start_at] = !group->has_start;
		values[list_paused] = BoolGetDatum(group->paused);
		values[list_created_at] = TimestampTzGetDatum(group->created_at);
		values[list_active_at] = TimestampTzGetDatum(group->active_at);
		values[list_partitions] = Int64GetDatum(sums[i].partitions);
		values[list_lag] = Int64GetDatum(sums[i].lag);
		values[list_leased] = Int64GetDatum(sums[i].leased);
		values[list_blocked] = Int64GetDatum(sums[i].blocked);
		values[list_oldest_at] = TimestampTzGetDatum(sums[i].oldest_at);
		nulls[list_oldest_at] = !sums[i].lagging;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* queen.lag(queue, consumer_group) returns setof (partition, committed, end_offset, lag, oldest_at, state) */
Datum
queen_lag(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Name queue_name = name_argument(fcinfo, 0, "queue");
	Name group_name = name_argument(fcinfo, 1, "consumer_group");
	MemoryContext per_row;
	View view;
	GroupRow group;

	InitMaterializedSRF(fcinfo, 0);
	per_row = AllocSetContextCreate(CurrentMemoryContext, "queen lag", ALLOCSET_DEFAULT_SIZES);
	view_open(&view, queue_name);
	if (!group_find(view.queue.queue_id, group_name, &group))
		raise_unknown_group(view.queue.name, group_name);
	while (const PartitionRow *partition = partition_walk_next(&view.walk))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		PartitionEnds ends;
		Standing standing;
		Datum values[lag_cols] = {};
		bool nulls[lag_cols] = {};

		MemoryContextReset(per_row);
		log_ends(&view.positions, partition->partition_id, view.snapshot, &ends);
		standing = stand(&view, partition->partition_id, &ends, &group);
		values[lag_partition] = CStringGetTextDatum(partition->name);
		values[lag_committed] = Int64GetDatum(standing.committed);
		values[lag_end_offset] = Int64GetDatum(ends.last);
		values[lag_lag] = Int64GetDatum(standing.lag);
		values[lag_oldest_at] = TimestampTzGetDatum(standing.oldest_at);
		nulls[lag_oldest_at] = !standing.lagging;
		values[lag_state] = CStringGetTextDatum(state_name(standing.state));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
	}
	view_close(&view);
	return (Datum) 0;
}

} // namespace queen
