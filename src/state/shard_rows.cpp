/*
 * shard_rows.cpp: rows of counts. See shard_rows.h.
 *
 * Raises. Locks: the rows that are changed, to the end of the transaction; waits are bounded. Runs in backends and workers.
 */
#include "state/shard_rows.h"

#include "log/aborted.h"
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

/* So many are counted, and the transaction takes more. */
[[noreturn]] void
raise_drifted(Oid tables, const ShardCounts *change, bool of_ready, int64 counted, int64 taken)
{
	drifted_report(tables, change->log_id, DriftFinder::commit);
	aborted_excuse();
	ereport(ERROR, (errcode(errcode_counts_drifted),
					errmsg("the count of %s messages of %s would fall below zero", of_ready ? "ready" : "in-flight",
						   queue_of(change->log_id)),
					of_ready ? errdetail("Of priority %d %lld are counted, and the transaction takes %lld of them.",
										 change->priority, (long long) counted, (long long) taken)
							 : errdetail("In shard %d of priority %d %lld are counted, and the transaction takes "
										 "%lld of them.",
										 change->shard, change->priority, (long long) counted, (long long) taken),
					errhint("The counts do not agree with table queen.messages, which is right. A keeper mends them "
							"at once; where there is none, queen.rollup_rebuild() does. Then try again.")));
	pg_unreachable();
}

/* What all shards of a log's priority count as ready: of each the newest row, as seen now. */
int64
ready_of_all(const EraHandle *rows, int64 log_id, int16 priority)
{
	Snapshot snapshot = register_latest_snapshot();
	int64 shard = most_shards - 1;
	int64 sum = 0;
	IndexScan scan;

	index_scan_open(&scan, rows->state, rows->state_index, snapshot);
	while (shard >= 0)
	{
		index_scan_reset_keys(&scan);
		index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, log_id);
		index_scan_key_int8(&scan, 2, BTEqualStrategyNumber, priority);
		index_scan_key_int8(&scan, 3, BTLessEqualStrategyNumber, shard);
		index_scan_start(&scan);
		if (!index_scan_next(&scan, BackwardScanDirection))
			break;
		slot_getallattrs(scan.slot);
		sum += DatumGetInt64(scan.slot->tts_values[shard_col_ready]);
		shard = DatumGetInt64(scan.slot->tts_values[shard_col_shard]) - 1;
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return sum;
}

/*
 * So many more of a priority may this process take, for a second, before it looks at the sum again. A part of what there was: others take too, and the
 * less there is the more often is looked.
 */
struct Credit
{
	Oid tables;
	int16 priority;
	int64 log_id;
	int64 left;
	TimestampTz until;
};

constexpr uint32 credit_count = 16;
constexpr int64 credit_share = 2 * most_shards;
constinit Credit credits[credit_count] = {};

/*
 * Messages that are ready are taken in another shard than they came in, so that a transaction locks one row: a shard's count may be below zero, the
 * sum never. A row above zero is no reason to look. ready: of the shard, whose row is locked, or not there.
 */
void
check_ready(const ShardWriter *writer, const ShardCounts *change, int64 ready, int64 behind)
{
	Credit *credit = &credits[(uint64) (change->log_id * 4 + change->priority) % credit_count];
	TimestampTz now;
	int64 sum;

	if (change->ready >= 0 || ready + change->ready >= 0)
		return;
	now = GetCurrentTimestamp();
	if (credit->tables != writer->tables || credit->log_id != change->log_id || credit->priority != change->priority)
		*credit = {writer->tables, change->priority, change->log_id, 0, 0};
	if (credit->left < -change->ready || now >= credit->until || now < credit->until - USECS_PER_SEC)
	{
		sum = ready_of_all(&writer->rows, change->log_id, change->priority) + behind;
		if (sum + change->ready < 0)
			raise_drifted(writer->tables, change, true, sum, -change->ready);
		credit->left = (sum + change->ready) / credit_share;
		credit->until = now + USECS_PER_SEC;
		return;
	}
	credit->left += change->ready;
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
change_row(ShardWriter *writer, const ShardCounts *change, int64 behind)
{
	EraHandle *rows = &writer->rows;
	const int64 ready = DatumGetInt64(rows->values[shard_col_ready]);
	const int64 in_flight = DatumGetInt64(rows->values[shard_col_in_flight]);
	Wait wait = {rows, era_lock(rows, false)};

	if (wait.result == EraLock::locked)
		wait_bounded(writer, &wait, lock_waiting);
	if (wait.result != EraLock::ok)
		return false;
	if (in_flight + change->in_flight < 0)
		raise_drifted(writer->tables, change, false, in_flight, -change->in_flight);
	check_ready(writer, change, ready, behind);
	rows->values[shard_col_ready] = Int64GetDatum(ready + change->ready);
	rows->values[shard_col_in_flight] = Int64GetDatum(in_flight + change->in_flight);
	era_update(rows);
	return true;
}

/* It was sought and is not there. False: somebody else has begun to make it. */
bool
make_row(ShardWriter *writer, const ShardCounts *change, int64 behind)
{
	EraHandle *rows = &writer->rows;

	if (change->in_flight < 0)
		raise_drifted(writer->tables, change, false, 0, -change->in_flight);
	check_ready(writer, change, 0, behind);
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
apply(ShardWriter *writer, const ShardCounts *change, int64 behind, Snapshot snapshot, int *stale)
{
	Wait wait = {&writer->rows, EraLock::changed};

	switch (era_seek(&writer->rows, {change->log_id, change->priority, change->shard}, snapshot))
	{
		case EraSeek::found:
			return change_row(writer, change, behind);
		case EraSeek::running:
			wait_bounded(writer, &wait, wait_for_birth);
			return false;
		case EraSeek::stale:
			/* seen again by a newer snapshot: somebody has deleted what is counted. It begins at nothing, and is mended as any count that is wrong */
			if (++*stale > 1 && !era_forget_identity(&writer->rows))
				wait_bounded(writer, &wait, wait_for_birth);
			return false;
		case EraSeek::absent:
			return make_row(writer, change, behind);
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

EraSeek
look(EraHandle *rows, int64 log_id, int16 priority, int16 shard)
{
	Snapshot snapshot = register_latest_snapshot();
	const EraSeek found = era_seek(rows, {log_id, priority, shard}, snapshot);

	era_release_snapshot(rows);
	UnregisterSnapshot(snapshot);
	return found;
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
shard_writer_apply(ShardWriter *writer, const ShardCounts *change, int64 behind)
{
	bool done = false;
	int stale = 0;

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
		done = apply(writer, change, behind, snapshot, &stale);
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
shard_row_mend(int64 log_id, int16 priority, int16 shard, bool is_queues)
{
	EraHandle rows;
	EraSeek found;
	bool mended = false;

	era_open(&rows, &shard_table);
	found = look(&rows, log_id, priority, shard);
	/* of one that was born meanwhile a newer snapshot sees the counts */
	if (found == EraSeek::stale)
		found = look(&rows, log_id, priority, shard);
	if (found == EraSeek::stale)
		mended = era_forget_identity(&rows);
	else if (found == EraSeek::found)
		mended = is_queues ? era_birth(&rows) : delete_shard(&rows, log_id, priority, shard);
	era_close(&rows);
	CommandCounterIncrement();
	return mended;
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
