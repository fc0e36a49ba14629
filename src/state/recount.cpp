/*
 * recount.cpp: do the counts agree with the messages, and what mends them. queen.rollup_drift(), rollup_rebuild(), rollup_mend().
 *
 * A message and its count are changed by one commit. So what the two differ by in one snapshot is what is wrong, whatever is going on beside: it is
 * counted beside whoever writes either, and added like any other change.
 *
 * Raises. Locks: who mends holds off others who mend the same queue, or all, and drop and purge of what it mends, to the end of the transaction. Runs in backends
 * and workers; without mending also on a standby.
 */
#include "state/recount.h"

#include "log/log_lock.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/timed_wait.h"
#include "state/rollup.h"
#include "state/shard_rows.h"

namespace queen
{

namespace
{

/* Of advisory locks (field 4), see log/partition_lock.cpp: who mends. Keyed by database and log id; that of all_logs is shared by who mends one. */
constexpr uint16 mend_lock_class = 0x515A;

struct CellKey
{
	int64 log_id;
	int64 place; /* priority and shard */
};

/* What the messages of a shard come to, without what is counted. */
struct Cell
{
	CellKey key;
	ShardCounts drift;
};

struct Recount
{
	int64 log_id;
	Oid tables;
	HTAB *cells;
};

ShardCounts *
cell_of(const Recount *recount, const ShardCounts *counts, int16 shard)
{
	const CellKey key = {counts->log_id, (int64) counts->priority << 16 | (uint16) shard};
	bool found;
	Cell *cell = (Cell *) hash_search(recount->cells, &key, HASH_ENTER, &found);

	if (!found)
		cell->drift = {counts->log_id, counts->priority, shard, 0, 0};
	return &cell->drift;
}

void
add(const Recount *recount, const ShardCounts *counts, int sign)
{
	if (recount->log_id != all_logs && recount->log_id != counts->log_id)
		return;
	/* what is ready is right or wrong as a sum: it is mended in the first shard */
	if (counts->ready != 0)
		cell_of(recount, counts, 0)->ready += sign * counts->ready;
	if (counts->in_flight != 0)
		cell_of(recount, counts, counts->shard)->in_flight += sign * counts->in_flight;
}

void
subtract(const ShardCounts *counts, void *arg)
{
	add((const Recount *) arg, counts, -1);
}

void
add_message(const Recount *recount, TupleTableSlot *slot)
{
	ShardCounts one;

	slot_getsomeattrs(slot, counted_col_shard + 1);
	one = {DatumGetInt64(slot->tts_values[counted_col_log_id]), DatumGetInt16(slot->tts_values[counted_col_priority]),
		   DatumGetInt16(slot->tts_values[counted_col_shard]), slot->tts_isnull[counted_col_visible_at],
		   !slot->tts_isnull[counted_col_visible_at]};
	add(recount, &one, 1);
}

void
add_all_messages(const Recount *recount, Relation messages, Snapshot snapshot)
{
	TupleTableSlot *slot = table_slot_create(messages, nullptr);
	TableScanDesc scan = table_beginscan(messages, snapshot, 0, nullptr);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		add_message(recount, slot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* Of one log, and one state: a part of the table. */
void
add_messages(const Recount *recount, Relation messages, AttrNumber order, const char *state, Snapshot snapshot)
{
	Relation index = open_partial_index(messages, {counted_col_log_id + 1, counted_col_priority + 1, order},
										counted_col_state + 1, state, AccessShareLock);
	IndexScan scan;

	index_scan_open(&scan, messages, index, snapshot);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, recount->log_id);
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
		add_message(recount, scan.slot);
	index_scan_close(&scan);
	index_close(index, NoLock);
}

/* What is wrong, in the order in which shards are locked; palloc'ed. */
ShardCounts *
measure(int64 log_id, Relation messages, Snapshot snapshot, int *count)
{
	HASHCTL control = {};
	Recount recount = {log_id, own_tables(), nullptr};
	HASH_SEQ_STATUS each;
	ShardCounts *drifts;
	const Cell *cell;

	control.keysize = sizeof(CellKey);
	control.entrysize = sizeof(Cell);
	control.hcxt = CurrentMemoryContext;
	recount.cells = hash_create("queen recount", 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (log_id == all_logs)
		add_all_messages(&recount, messages, snapshot);
	else
	{
		add_messages(&recount, messages, counted_col_order + 1, "READY", snapshot);
		add_messages(&recount, messages, counted_col_visible_at + 1, "IN_FLIGHT", snapshot);
	}
	shard_rows_each(snapshot, subtract, &recount);
	/* the snapshot sees what this transaction has done, and its counts are still to be written */
	drifts = rollup_pending(recount.tables, count);
	for (int i = 0; i < *count; i++)
		add(&recount, &drifts[i], -1);
	pfree(drifts);

	drifts = (ShardCounts *) palloc_extended(sizeof(ShardCounts) * (Size) Max(hash_get_num_entries(recount.cells), 1),
											 MCXT_ALLOC_HUGE);
	*count = 0;
	hash_seq_init(&each, recount.cells);
	while ((cell = (const Cell *) hash_seq_search(&each)) != nullptr)
		if (cell->drift.ready != 0 || cell->drift.in_flight != 0)
			drifts[(*count)++] = cell->drift;
	hash_destroy(recount.cells);
	qsort(drifts, (size_t) *count, sizeof(ShardCounts), [](const void *left, const void *right) {
		return shard_order((const ShardCounts *) left, (const ShardCounts *) right);
	});
	return drifts;
}

struct Acquire
{
	LOCKTAG tag;
	LOCKMODE mode;
};

void
acquire(void *arg)
{
	const Acquire *a = (const Acquire *) arg;

	(void) LockAcquire(&a->tag, a->mode, false, false);
}

bool
lock_mending(int64 log_id, LOCKMODE mode, bool wait)
{
	Acquire a = {{}, mode};

	SET_LOCKTAG_ADVISORY(a.tag, MyDatabaseId, (uint32) (log_id >> 32), (uint32) log_id, mend_lock_class);
	if (LockAcquire(&a.tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	if (!wait)
		return false;
	if (!run_with_timeout(setting_flush_timeout, true, acquire, &a))
		ereport(ERROR,
				(errcode(errcode_flush_timeout), errmsg("somebody else is mending the counts"),
				 errdetail("Waited %d ms (queen.flush_timeout).", setting_flush_timeout), errhint("Try again.")));
	return true;
}

/* What two measure in turn, both would add. False: somebody mends, and was not to be waited for. */
bool
hold_off_others(int64 log_id, bool wait)
{
	if (log_id == all_logs)
		return lock_mending(all_logs, ExclusiveLock, wait);
	return lock_mending(all_logs, ShareLock, wait) && lock_mending(log_id, ExclusiveLock, wait);
}

enum class Hold
{
	held,
	gone, /* it is nobody's any more */
	busy, /* somebody drops or purges it, and was not to be waited for */
};

/* Keep a log from being dropped. */
Hold
hold_log(int64 log_id, bool wait)
{
	QueueTable queues;
	QueueRow queue;
	Hold hold = Hold::gone;

	queue_table_open(&queues, AccessShareLock);
	if (queue_find_by_log(&queues, log_id, &queue))
	{
		if (wait)
			log_lock_to_put(log_id, queue.name);
		else if (!log_lock_try_to_put(log_id))
			hold = Hold::busy;
		/* who dropped it may have been waited for */
		if (hold != Hold::busy && queue_find_by_log(&queues, log_id, &queue))
			hold = Hold::held;
	}
	queue_table_close(&queues);
	return hold;
}

bool
mend(int64 log_id, bool wait, int64 *mended)
{
	Relation messages;
	Snapshot snapshot;
	ShardCounts *drifts;
	int64 last = 0;
	Hold hold = Hold::gone;
	int count;

	*mended = 0;
	if (!hold_off_others(log_id, wait))
		return false;
	/* before the snapshot, and to the end: a TRUNCATE takes away what is counted, and no snapshot sees what it has emptied */
	messages = open_table(Table::messages, AccessShareLock);
	snapshot = register_latest_snapshot();
	drifts = measure(log_id, messages, snapshot, &count);
	UnregisterSnapshot(snapshot);
	table_close(messages, NoLock);
	for (int i = 0; i < count && hold != Hold::busy; i++)
	{
		if (drifts[i].log_id != last)
			hold = hold_log(drifts[i].log_id, wait);
		last = drifts[i].log_id;
		if (hold != Hold::held)
			continue;
		rollup_note(own_tables(), drifts[i]);
		(*mended)++;
	}
	pfree(drifts);
	rollup_settle();
	return hold != Hold::busy;
}

} // namespace

int64
recount_mend(int64 log_id)
{
	int64 mended;

	(void) mend(log_id, true, &mended);
	return mended;
}

bool
recount_try_mend(int64 log_id, int64 *mended)
{
	return mend(log_id, false, mended);
}

QUEEN_FUNCTION(queen_rollup_drift)
QUEEN_FUNCTION(queen_rollup_rebuild)
QUEEN_FUNCTION(queen_rollup_mend)
QUEEN_FUNCTION(queen_rollup_mend_row)

/* queen.rollup_drift() returns setof (log_id, priority, shard, ready, in_flight): in a snapshot of its own, behind the lock, as recount_mend */
Datum
queen_rollup_drift(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation messages;
	Snapshot snapshot;
	ShardCounts *drifts;
	int count;

	InitMaterializedSRF(fcinfo, 0);
	messages = open_table(Table::messages, AccessShareLock);
	snapshot = register_latest_snapshot();
	drifts = measure(all_logs, messages, snapshot, &count);
	UnregisterSnapshot(snapshot);
	table_close(messages, NoLock);
	for (int i = 0; i < count; i++)
	{
		Datum values[] = {Int64GetDatum(drifts[i].log_id), Int16GetDatum(drifts[i].priority),
						  Int16GetDatum(drifts[i].shard), Int64GetDatum(drifts[i].ready),
						  Int64GetDatum(drifts[i].in_flight)};
		bool nulls[lengthof(values)] = {};

		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	pfree(drifts);
	return (Datum) 0;
}

/* queen.rollup_rebuild(queue text) returns bigint */
Datum
queen_rollup_rebuild(PG_FUNCTION_ARGS)
{
	int64 log_id = all_logs;

	guard_write("queen.rollup_rebuild()");
	if (!PG_ARGISNULL(0))
	{
		const Name name = name_argument(fcinfo, 0, "queue");
		QueueRow queue;

		queue_get(setting_tenant(), name, &queue);
		queue_check_kind(&queue, QueueKind::work, "Only the messages of work queues are counted when they change.");
		log_id = queue.log_id;
	}
	PG_RETURN_INT64(recount_mend(log_id));
}

/* queen.rollup_mend(log_id bigint) returns boolean: part of queen.verify(); false when the log is nobody's */
Datum
queen_rollup_mend(PG_FUNCTION_ARGS)
{
	/*
	 * All is mended by the first call of a query: one for each row would count each queue as often as it has rows, and all rows of counts beside. What
	 * remembers it ends with the query's execution; PL/pgSQL keeps that of an expression for a transaction, in which more may be damaged, and a
	 * savepoint may take the notes with it.
	 */
	struct Mended
	{
		SubTransactionId sub;
		CommandId command;
	};
	FmgrInfo *call = fcinfo->flinfo;
	const Mended now = {GetCurrentSubTransactionId(), GetActiveSnapshot()->curcid};
	Mended *mended = (Mended *) call->fn_extra;

	guard_write("queen.verify(repair => true)");
	if (PG_ARGISNULL(0))
		raise_null_argument("log_id");
	if (mended == nullptr || mended->sub != now.sub || mended->command != now.command)
	{
		(void) recount_mend(all_logs);
		if (mended == nullptr)
			call->fn_extra = mended = (Mended *) MemoryContextAlloc(call->fn_mcxt, sizeof(Mended));
		*mended = now;
	}
	PG_RETURN_BOOL(hold_log(PG_GETARG_INT64(0), true) == Hold::held);
}

/* queen.rollup_mend_row(log_id bigint, priority bigint, shard bigint) returns boolean: part of queen.verify() */
Datum
queen_rollup_mend_row(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"log_id", "priority", "shard"};
	int64 log_id;

	guard_write("queen.verify(repair => true)");
	for (int i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			raise_null_argument(names[i]);
	if (PG_GETARG_INT64(1) < 1 || PG_GETARG_INT64(1) > 3 || PG_GETARG_INT64(2) < 0 || PG_GETARG_INT64(2) >= most_shards)
		PG_RETURN_BOOL(false);
	log_id = PG_GETARG_INT64(0);
	PG_RETURN_BOOL(shard_row_mend(log_id, (int16) PG_GETARG_INT64(1), (int16) PG_GETARG_INT64(2),
								  hold_log(log_id, true) == Hold::held));
}

} // namespace queen
