/*
 * statistics.cpp: queen.stat_workers(), what pg_stat_queen_workers shows.
 *
 * Raises. Locks: the registry's, shared, for copies. Runs in backends, also on a standby.
 */
#include "hotlist/pool.h"
#include "worker/registry.h"

namespace queen
{

namespace
{

enum Column : int
{
	col_database,
	col_worker,
	col_pid,
	col_state,
	col_since,
	col_failures,
	col_next_start,
	col_task,
	col_runs,
	col_errors,
	col_last_run,
	col_last_time,
	col_longest_time,
	col_total_time,
	col_next_run,
	col_last_error_at,
	col_last_sqlstate,
	col_last_error,
	cols,
};

/* A time of the wall clock; null for 0. */
void
put_time(Datum *values, bool *nulls, int column, TimestampTz at)
{
	nulls[column] = at == 0;
	values[column] = TimestampTzGetDatum(at);
}

/* Microseconds as milliseconds. */
Datum
milliseconds(int64 microseconds)
{
	return Float8GetDatum((double) microseconds / 1000.0);
}

/* A message of a process whose database may be of another encoding. */
Datum
message_datum(const char *message)
{
	const int size = (int) strlen(message);
	char *copy = pstrdup(message);

	if (!pg_verifymbstr(copy, size, true))
		for (int i = 0; i < size; i++)
			if (IS_HIGHBIT_SET(copy[i]))
				copy[i] = '?';
	return CStringGetTextDatum(copy);
}

void
put_task(const TaskRecord *task, Datum *values, bool *nulls)
{
	if (task == nullptr)
	{
		for (int i = col_task; i < cols; i++)
			nulls[i] = true;
		return;
	}
	values[col_task] = CStringGetTextDatum(task->name);
	values[col_runs] = Int64GetDatum((int64) task->runs);
	values[col_errors] = Int64GetDatum((int64) task->errors);
	put_time(values, nulls, col_last_run, task->last_run);
	values[col_last_time] = milliseconds(task->last_took);
	nulls[col_last_time] = task->runs == 0;
	values[col_longest_time] = milliseconds(task->longest);
	nulls[col_longest_time] = task->runs == 0;
	values[col_total_time] = milliseconds(task->total);
	put_time(values, nulls, col_next_run, task->next_run);
	put_time(values, nulls, col_last_error_at, task->last_error);
	nulls[col_last_sqlstate] = nulls[col_last_error] = task->errors == 0;
	if (task->errors == 0)
		return;
	values[col_last_sqlstate] = CStringGetTextDatum(unpack_sql_state(task->last_sqlstate));
	values[col_last_error] = message_datum(task->last_message);
}

/* A process, with a row for each of its tasks or one without. */
void
put_process(ReturnSetInfo *rsinfo, WorkerKind kind, const RegistryEntry *entry, const ProcessRecord *process)
{
	const core::Micros rest = process->rest_until - hotlist_now();

	for (int i = 0; i < Max(process->task_count, 1); i++)
	{
		Datum values[cols] = {};
		bool nulls[cols] = {};

		nulls[col_database] = entry == nullptr;
		values[col_database] = ObjectIdGetDatum(entry == nullptr ? InvalidOid : entry->database);
		values[col_worker] = CStringGetTextDatum(worker_name(kind));
		nulls[col_pid] = process->pid == 0;
		values[col_pid] = Int32GetDatum(process->pid);
		values[col_state] = CStringGetTextDatum(process_state(entry, process));
		put_time(values, nulls, col_since, process->since);
		values[col_failures] = Int64GetDatum((int64) process->failures);
		nulls[col_next_start] = process->state != WorkerState::absent || rest <= 0;
		values[col_next_start] = TimestampTzGetDatum(GetCurrentTimestamp() + rest);
		put_task(i < process->task_count ? &process->tasks[i] : nullptr, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

} // namespace

QUEEN_FUNCTION(queen_stat_workers)

/* queen.stat_workers() returns setof record */
Datum
queen_stat_workers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ProcessRecord launcher;
	RegistryEntry entry;

	InitMaterializedSRF(fcinfo, 0);
	if (!registry_there())
		return (Datum) 0;
	registry_launcher(&launcher);
	put_process(rsinfo, WorkerKind::launcher, nullptr, &launcher);
	for (int place = 0; place < registry_places(); place++)
		if (registry_entry(place, &entry))
			for (int kind = 0; kind < kinds_of_database; kind++)
				put_process(rsinfo, (WorkerKind) kind, &entry, &entry.processes[kind]);
	return (Datum) 0;
}

} // namespace queen
