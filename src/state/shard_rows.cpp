/*
 * shard_rows.cpp: rows of counts. See shard_rows.h.
 *
 * Raises. Locks: the rows that are changed, to the end of the transaction; waits are bounded. Runs in backends and workers.
 */
#include "state/shard_rows.h"

#include "log/queues.h"
#include "server/errors.h"
#include "server/settings.h"
#include "server/timed_wait.h"
#include "state/drifted.h"

namespace queen
{

namespace
{

const EraTable shard_table = {Table::queue_priority_shards, Table::queue_priority_state_shard, 3, shard_cols};

struct Wait
{
	EraHandle *rows;
	EraLock result;
};

void
lock_waiting(void *arg)
{
	Wait *wait = (Wait *) arg;

	wait->result = era_lock(wait->rows, true);
}

void
wait_for_birth(void *arg)
{
	era_wait_for_birth(((Wait *) arg)->rows);
}

/* The queue of a log, for a message; palloc'ed. */
const char *
queue_of(int64 log_id)
{
	QueueTable queues;
	QueueRow queue;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find_by_log(&queues, log_id, &queue);
	queue_table_close(&queues);
	return found ? psprintf("queue \"%s\"", queue.name) : psprintf("log %lld", (long long) log_id);
}

[[noreturn]] void
raise_drifted(Oid tables, const ShardCounts *change, int64 ready, int64 in_flight)
{
	const bool of_ready = ready + change->ready < 0;

	drifted_report(tables, change->log_id);

	ereport(ERROR, (errcode(errcode_counts_drifted),
					errmsg("the count of %s messages of %s would fall below zero", of_ready ? "ready" : "in-flight",
						   queue_of(change->log_id)),
					errdetail("In shard %d of priority %d %lld are counted, and the transaction takes %lld of them.",
							  change->shard, change->priority, (long long) (of_ready ? ready : in_flight),
							  (long long) -(of_ready ? change->ready : change->in_flight)),
					errhint("The counts do not agree with table queen.messages, which is right. A keeper mends them "
							"at once; where there is none, queen.rollup_rebuild() does. Then try again.")));
	pg_unreachable();
}

/* Wait for what was found locked, or being born, and take note of it. */
void
wait_bounded(ShardWriter *writer, Wait *wait, void (*fn)(void *))
{
	const int64 log_id = writer->rows.keys[0];

	spread_widen(writer->tables, log_id, writer->spread);
	if (!run_with_timeout(setting_flush_timeout, false, fn, wait))
		ereport(ERROR,
				(errcode(errcode_flush_timeout), errmsg("the counts of %s stayed locked", queue_of(log_id)),
				 errdetail("Waited %d ms for a transaction that commits (queen.flush_timeout).", setting_flush_timeout),
				 errhint("Try again.")));
}

/* The row was sought and found. False: it has changed meanwhile. */
bool
change_row(ShardWriter *writer, const ShardCounts *change)
{
	EraHandle *rows = &writer->rows;
	const int64 ready = DatumGetInt64(rows->values[shard_col_ready]);
	const int64 in_flight = DatumGetInt64(rows->values[shard_col_in_flight]);
	Wait wait = {rows, era_lock(rows, false)};

	if (wait.result == EraLock::locked)
		wait_bounded(writer, &wait, lock_waiting);
	if (wait.result != EraLock::ok)
		return false;
	if (ready + change->ready < 0 || in_flight + change->in_flight < 0)
		raise_drifted(writer->tables, change, ready, in_flight);
	rows->values[shard_col_ready] = Int64GetDatum(ready + change->ready);
	rows->values[shard_col_in_flight] = Int64GetDatum(in_flight + change->in_flight);
	era_update(rows);
	return true;
}

/* It was sought and is not there. False: somebody else has begun to make it. */
bool
make_row(ShardWriter *writer, const ShardCounts *change)
{
	EraHandle *rows = &writer->rows;

	if (change->ready < 0 || change->in_flight < 0)
		raise_drifted(writer->tables, change, 0, 0);
	if (!era_birth(rows))
		return false;
	rows->values[shard_col_ready] = Int64GetDatum(change->ready);
	rows->values[shard_col_in_flight] = Int64GetDatum(change->in_flight);
	rows->nulls[shard_col_ready] = rows->nulls[shard_col_in_flight] = false;
	era_insert_state(rows);
	return true;
}

/* False when it has to be sought again. */
bool
apply(ShardWriter *writer, const ShardCounts *change, Snapshot snapshot)
{
	Wait wait = {&writer->rows, EraLock::changed};

	switch (era_seek(&writer->rows, {change->log_id, change->priority, change->shard}, snapshot))
	{
		case EraSeek::found:
			return change_row(writer, change);
		case EraSeek::running:
			wait_bounded(writer, &wait, wait_for_birth);
			return false;
		case EraSeek::stale:
			return false;
		case EraSeek::absent:
			return make_row(writer, change);
	}
	pg_unreachable();
}

ShardCounts
counts_of(const Datum *values)
{
	return {DatumGetInt64(values[shard_col_log_id]), (int16) DatumGetInt64(values[shard_col_priority]),
			(int16) DatumGetInt64(values[shard_col_shard]), DatumGetInt64(values[shard_col_ready]),
			DatumGetInt64(values[shard_col_in_flight])};
}

struct Show
{
	void (*fn)(const ShardCounts *counts, void *arg);
	void *arg;
};

void
show(const Datum *values, const bool *nulls, void *arg)
{
	const Show *to = (const Show *) arg;
	const ShardCounts counts = counts_of(values);

	(void) nulls;
	to->fn(&counts, to->arg);
}

/* Without a wait; false when somebody is at it. */
bool
delete_shard(EraHandle *rows, int64 log_id, int16 priority, int16 shard)
{
	Snapshot snapshot = register_latest_snapshot();
	const EraSeek found = era_seek(rows, {log_id, priority, shard}, snapshot);
	bool done = found == EraSeek::absent;

	if (found == EraSeek::found && era_lock(rows, false) == EraLock::ok)
	{
		era_delete(rows);
		done = true;
	}
	era_release_snapshot(rows);
	UnregisterSnapshot(snapshot);
	return done;
}

} // namespace

void
shard_writer_open(ShardWriter *writer, Oid tables)
{
	era_open(&writer->rows, &shard_table);
	writer->tables = tables;
	writer->spread = 0;
}

void
shard_writer_close(ShardWriter *writer)
{
	era_close(&writer->rows);
}

void
shard_writer_apply(ShardWriter *writer, const ShardCounts *change)
{
	bool done = false;

	/* before the first wait: who waited beside us has widened the same one */
	if (writer->spread == 0 || writer->spread_log != change->log_id)
	{
		writer->spread = spread_of(writer->tables, change->log_id);
		writer->spread_log = change->log_id;
	}
	while (!done)
	{
		Snapshot snapshot;

		CHECK_FOR_INTERRUPTS();
		snapshot = register_latest_snapshot();
		done = apply(writer, change, snapshot);
		era_release_snapshot(&writer->rows);
		UnregisterSnapshot(snapshot);
	}
}

void
shard_rows_each(Snapshot snapshot, void (*fn)(const ShardCounts *counts, void *arg), void *arg)
{
	Show to = {fn, arg};
	EraHandle rows;

	era_open_to_read(&rows, &shard_table);
	era_each(&rows, snapshot, show, &to);
	era_close(&rows);
}

bool
shard_rows_delete(int64 log_id)
{
	EraHandle rows;
	bool done = true;

	era_open(&rows, &shard_table);
	for (int16 priority = 1; done && priority <= 3; priority++)
		for (int16 shard = 0; done && shard < most_shards; shard++)
			done = delete_shard(&rows, log_id, priority, shard);
	era_close(&rows);
	return done;
}

} // namespace queen
