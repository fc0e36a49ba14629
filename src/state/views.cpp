/*
 * views.cpp: what the views of queues' state show: queen.stat_queues, stat_groups, stat_collector, and the reset of what the last one counts.
 *
 * Raises. Locks: those of snapshot.cpp and log/event_counts, for copies. Runs in backends, also on a standby.
 */
#include "log/event_counts.h"
#include "log/work_calls.h"
#include "server/relations.h"
#include "server/uuids.h"
#include "state/snapshot.h"

namespace queen
{

namespace
{

enum QueueStateColumn : int
{
	queue_state_tenant,
	queue_state_queue,
	queue_state_queue_id,
	queue_state_kind,
	queue_state_paused,
	queue_state_priority,
	queue_state_ready,
	queue_state_in_flight,
	queue_state_blocked,
	queue_state_exhausted,
	queue_state_expired,
	queue_state_oldest_ready_age,
	queue_state_oldest_in_flight_age,
	queue_state_messages,
	queue_state_dead,
	queue_state_timers,
	queue_state_bytes,
	queue_state_collected_at,
	queue_state_first_event, /* of all, in the order of core::Event */
	queue_state_stats_reset = queue_state_first_event + (int) core::event_kinds,
	queue_state_cols,
};

enum GroupStateColumn : int
{
	group_state_tenant,
	group_state_queue,
	group_state_consumer_group,
	group_state_queue_id,
	group_state_group_id,
	group_state_paused,
	group_state_ready,
	group_state_in_flight,
	group_state_blocked,
	group_state_oldest_ready_age,
	group_state_oldest_in_flight_age,
	group_state_collected_at,
	group_state_first_event, /* those from delivered to dead */
	group_state_stats_reset = group_state_first_event + (int) Event::dead - (int) Event::delivered + 1,
	group_state_cols,
};

enum CollectorColumn : int
{
	collector_attempts,
	collector_failures,
	collector_last_attempt,
	collector_collected_at,
	collector_snapshot_age,
	collector_last_time,
	collector_longest_time,
	collector_total_time,
	collector_queues,
	collector_left_out_queues,
	collector_left_out_groups,
	collector_last_failure,
	collector_last_sqlstate,
	collector_last_error,
	collector_stats_reset,
	collector_cols,
};

Datum
name_datum(const char *name, int size)
{
	return PointerGetDatum(cstring_to_text_with_len(name, size));
}

/* Seconds between two times; 0 where there is nothing whose age it would be. */
Datum
age(TimestampTz since, TimestampTz until)
{
	return Float8GetDatum(since == DT_NOEND ? 0 : (double) Max(until - since, 0) / (double) USECS_PER_SEC);
}

Datum
milliseconds(int64 microseconds)
{
	return Float8GetDatum((double) microseconds / 1000.0);
}

/* Null for 0. */
void
put_time(Datum *values, bool *nulls, int column, TimestampTz at)
{
	nulls[column] = at == 0;
	values[column] = TimestampTzGetDatum(at);
}

/* How what has happened is counted while a view is read. */
struct Counting
{
	Oid tables;
	bool known; /* there is memory for it */
	TimestampTz
		since; /* what has no counts has had none since then: since the server's start, or since something was given up, which that may have been */
};

Counting
counting_now(Oid tables)
{
	EventCountsState state;
	const bool known = event_counts_state(&state);

	return {tables, known, Max(state.since, state.last_evicted)};
}

/* The counts of an object in columns from the first on, and behind them since when; null without shared memory. */
void
put_events(const Counting *counting, EventScope scope, int64 queue_id, int64 id, Event first, Event last, Datum *values,
		   bool *nulls)
{
	const int count = (int) last - (int) first + 1;
	core::EventCounts counts = {};

	if (!event_counts_find(counting->tables, scope, queue_id, id, &counts))
		counts.since = counting->since;
	for (int i = 0; i < count; i++)
		values[i] = event_count_datum(counts.amounts.of[(int) first + i]);
	values[count] = TimestampTzGetDatum(counts.since);
	for (int i = 0; i <= count; i++)
		nulls[i] = !counting->known;
}

/* A queue, of the priority at i of its arrays. */
void
put_queue(ReturnSetInfo *set, const Counting *counting, const QueueState *queue, int i, TimestampTz collected_at)
{
	const bool is_work = queue->kind == QueueKind::work;
	const StateGauges *gauges = &queue->gauges[i];
	Datum values[queue_state_cols] = {};
	bool nulls[queue_state_cols] = {};

	values[queue_state_tenant] = UUIDPGetDatum(&queue->tenant);
	values[queue_state_queue] = name_datum(queue->name, queue->name_size);
	values[queue_state_queue_id] = Int64GetDatum(queue->queue_id);
	values[queue_state_kind] = CStringGetTextDatum(is_work ? "work" : "log");
	values[queue_state_paused] = BoolGetDatum(queue->paused);
	nulls[queue_state_priority] = !is_work;
	if (is_work)
		values[queue_state_priority] = CStringGetTextDatum(work_calls->priority_text((int16) (i + 1)));
	values[queue_state_ready] = Int64GetDatum(gauges->ready);
	values[queue_state_in_flight] = Int64GetDatum(gauges->in_flight);
	values[queue_state_blocked] = Int64GetDatum(gauges->blocked);
	values[queue_state_exhausted] = Int64GetDatum(gauges->exhausted);
	values[queue_state_expired] = Int64GetDatum(gauges->expired);
	values[queue_state_oldest_ready_age] = age(gauges->oldest_ready, collected_at);
	values[queue_state_oldest_in_flight_age] = age(gauges->oldest_in_flight, collected_at);
	values[queue_state_messages] = Int64GetDatum(queue->messages[i]);
	values[queue_state_dead] = Int64GetDatum(queue->dead[i]);
	values[queue_state_timers] = Int64GetDatum(queue->timers[i]);
	nulls[queue_state_bytes] = is_work;
	values[queue_state_bytes] = Int64GetDatum(queue->bytes);
	values[queue_state_collected_at] = TimestampTzGetDatum(collected_at);
	put_events(counting, is_work ? EventScope::work : EventScope::log, queue->queue_id, is_work ? i + 1 : 0,
			   Event::added, Event::expired, values + queue_state_first_event, nulls + queue_state_first_event);
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

} // namespace

QUEEN_FUNCTION(queen_stat_queues)
QUEEN_FUNCTION(queen_stat_groups)
QUEEN_FUNCTION(queen_stat_collector)
QUEEN_FUNCTION(queen_reset_collector)

/* queen.stat_queues() returns setof record */
Datum
queen_stat_queues(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const Counting counting = counting_now(own_tables());
	StateSnapshot state;

	InitMaterializedSRF(fcinfo, 0);
	snapshot_read(counting.tables, &state);
	for (int q = 0; q < state.queue_count; q++)
	{
		const QueueState *queue = &state.queues[q];

		CHECK_FOR_INTERRUPTS();
		for (int i = queue->kind == QueueKind::work ? priority_count - 1 : 0; i >= 0; i--)
			put_queue(set, &counting, queue, i, state.record.collected_at);
	}
	return (Datum) 0;
}

/* queen.stat_groups() returns setof record */
Datum
queen_stat_groups(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const Counting counting = counting_now(own_tables());
	StateSnapshot state;

	InitMaterializedSRF(fcinfo, 0);
	snapshot_read(counting.tables, &state);
	for (int g = 0; g < state.group_count; g++)
	{
		const GroupState *group = &state.groups[g];
		const QueueState *queue = &state.queues[group->queue];
		Datum values[group_state_cols] = {};
		bool nulls[group_state_cols] = {};

		CHECK_FOR_INTERRUPTS();
		values[group_state_tenant] = UUIDPGetDatum(&queue->tenant);
		values[group_state_queue] = name_datum(queue->name, queue->name_size);
		values[group_state_consumer_group] = name_datum(group->name, group->name_size);
		values[group_state_queue_id] = Int64GetDatum(queue->queue_id);
		values[group_state_group_id] = Int64GetDatum(group->group_id);
		values[group_state_paused] = BoolGetDatum(queue->paused || group->paused);
		values[group_state_ready] = Int64GetDatum(group->gauges.ready);
		values[group_state_in_flight] = Int64GetDatum(group->gauges.in_flight);
		values[group_state_blocked] = Int64GetDatum(group->gauges.blocked);
		values[group_state_oldest_ready_age] = age(group->gauges.oldest_ready, state.record.collected_at);
		values[group_state_oldest_in_flight_age] = age(group->gauges.oldest_in_flight, state.record.collected_at);
		values[group_state_collected_at] = TimestampTzGetDatum(state.record.collected_at);
		put_events(&counting, EventScope::group, queue->queue_id, group->group_id, Event::delivered, Event::dead,
				   values + group_state_first_event, nulls + group_state_first_event);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* queen.stat_collector() returns record */
Datum
queen_stat_collector(PG_FUNCTION_ARGS)
{
	const Oid tables = own_tables();
	Datum values[collector_cols] = {};
	bool nulls[collector_cols] = {};
	CollectorRecord record;
	TupleDesc desc;

	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	(void) snapshot_record(tables, &record);
	values[collector_attempts] = Int64GetDatum((int64) record.attempts);
	values[collector_failures] = Int64GetDatum((int64) record.failures);
	put_time(values, nulls, collector_last_attempt, record.last_attempt);
	put_time(values, nulls, collector_collected_at, record.collected_at);
	nulls[collector_snapshot_age] = record.collected_at == 0;
	values[collector_snapshot_age] = age(record.collected, hotlist_now());
	nulls[collector_last_time] = record.last_attempt == 0;
	values[collector_last_time] = milliseconds(record.last_took);
	values[collector_longest_time] = milliseconds(record.longest);
	values[collector_total_time] = milliseconds(record.total);
	values[collector_queues] = Int64GetDatum(record.queues);
	values[collector_left_out_queues] = Int64GetDatum(record.left_out_queues);
	values[collector_left_out_groups] = Int64GetDatum(record.left_out_groups);
	put_time(values, nulls, collector_last_failure, record.last_failure);
	nulls[collector_last_sqlstate] = nulls[collector_last_error] = record.last_failure == 0;
	if (record.last_failure != 0)
	{
		values[collector_last_sqlstate] = CStringGetTextDatum(unpack_sql_state(record.last_sqlstate));
		values[collector_last_error] = CStringGetTextDatum(record.last_message);
	}
	put_time(values, nulls, collector_stats_reset, record.stats_reset);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* queen.reset_collector_stats() returns void */
Datum
queen_reset_collector(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	snapshot_reset_counts();
	PG_RETURN_VOID();
}

} // namespace queen
