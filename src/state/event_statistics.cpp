/*
 * event_statistics.cpp: queen.stat_events, stat_events_memory, reset_state_stats: what log/event_counts has counted.
 *
 * Raises. Locks: those of the counts, for a bounded number of steps each. Runs in backends, also on a standby.
 */
#include "log/event_counts.h"
#include "log/queues.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* Columns of queen.stat_events, from 0. */
enum EventColumn : int
{
	event_col_queue_id,
	event_col_group_id,
	event_col_priority,
	event_col_first_count, /* of all, in the order of core::Event */
	event_col_since = event_col_first_count + (int) core::event_kinds,
	event_cols,
};

} // namespace

QUEEN_FUNCTION(queen_stat_events)
QUEEN_FUNCTION(queen_stat_events_memory)
QUEEN_FUNCTION(queen_reset_state_stats)

/* queen.stat_events() returns setof record */
Datum
queen_stat_events(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const core::EventCounts *all;
	uint32 count;

	InitMaterializedSRF(fcinfo, 0);
	all = event_counts_read(own_tables(), &count);
	for (uint32 i = 0; i < count; i++)
	{
		const core::EventObject *object = &all[i].object;
		Datum values[event_cols] = {};
		bool nulls[event_cols] = {};

		values[event_col_queue_id] = Int64GetDatum(object->queue_id);
		nulls[event_col_group_id] = object->scope != EventScope::group;
		values[event_col_group_id] = Int64GetDatum(object->id);
		nulls[event_col_priority] = object->scope != EventScope::work;
		if (!nulls[event_col_priority])
			values[event_col_priority] = CStringGetTextDatum(work_calls->priority_text((int16) object->id));
		for (int kind = 0; kind < (int) core::event_kinds; kind++)
			values[event_col_first_count + kind] = event_count_datum(all[i].amounts.of[kind]);
		values[event_col_since] = TimestampTzGetDatum(all[i].since);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* queen.stat_events_memory() returns record; null without shared memory */
Datum
queen_stat_events_memory(PG_FUNCTION_ARGS)
{
	constexpr int columns = 6;
	EventCountsState state;
	Datum values[columns];
	bool nulls[columns] = {};
	TupleDesc desc;

	if (!event_counts_state(&state))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	values[0] = Int64GetDatum(state.places);
	values[1] = Int64GetDatum(state.used);
	values[2] = Int64GetDatum(state.evicted);
	values[3] = TimestampTzGetDatum(state.last_evicted);
	nulls[3] = state.last_evicted == 0;
	values[4] = Int64GetDatum(state.lost);
	values[5] = TimestampTzGetDatum(state.since);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* queen.reset_state_stats(queue text) returns timestamptz */
Datum
queen_reset_state_stats(PG_FUNCTION_ARGS)
{
	const TimestampTz now = GetCurrentTimestamp();
	int64 queue_id = 0;
	QueueRow queue;

	if (!PG_ARGISNULL(0))
	{
		queue_get(setting_tenant(), name_argument(fcinfo, 0, "queue"), &queue);
		queue_id = queue.queue_id;
	}
	if (!event_counts_reset(own_tables(), queue_id, now))
		PG_RETURN_NULL();
	return TimestampTzGetDatum(now);
}

} // namespace queen
