/*
 * drifted.cpp: queues whose counts are wrong. See drifted.h.
 *
 * Raises in the keeper's task and in calls, nothing else. Locks: one LWLock, for some instructions. Laid out in the postmaster; reported by
 * backends, mended by keepers.
 */
#include "state/drifted.h"

#include "log/queues.h"
#include "server/attended.h"
#include "server/relations.h"
#include "server/shared_memory.h"
#include "state/recount.h"

namespace queen
{

namespace
{

/* Reports that wait, of all databases. One that finds no room is lost: the next transaction that fails reports again. */
constexpr int most_reports = 64;

struct Report
{
	Oid database; /* InvalidOid: free */
	Oid tables;
	int64 log_id;
	DriftFinder finder;
};

struct Memory
{
	LWLockPadded lock;
	int tranche;
	Report reports[most_reports];
	/* since the server started, of all databases */
	uint64 failures; /* of transactions: QN003 */
	uint64 rebuilds;
	uint64 mended; /* shards */
	TimestampTz last_failure;
	TimestampTz last_rebuild;
};

constinit Memory *shared = nullptr;

/* What the keeper is at, and how many counts its last try has mended: that they are is known when another one finds none. */
constinit Report under_way = {};
constinit int64 tried = 0;

void
lay_out(void *memory)
{
	Memory *m = (Memory *) memory;

	memset(memory, 0, sizeof(Memory));
	m->tranche = LWLockNewTrancheId();
	LWLockInitialize(&m->lock.lock, m->tranche);
}

void
attach(void *memory)
{
	shared = (Memory *) memory;
	LWLockRegisterTranche(shared->tranche, "queen_drifted");
}

void
forget_database(Oid database)
{
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (Report &report : shared->reports)
		if (report.database == database)
			report = {};
	LWLockRelease(&shared->lock.lock);
}

/* Take a report of this database; false when there is none. */
bool
take(Report *taken)
{
	bool found = false;

	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (Report &report : shared->reports)
		if (!found && report.database == MyDatabaseId)
		{
			*taken = report;
			report = {};
			found = true;
		}
	LWLockRelease(&shared->lock.lock);
	return found;
}

} // namespace

void
drifted_init()
{
	static constinit SharedPart part = {"queen drifted", sizeof(Memory), lay_out, attach, forget_database, nullptr};

	shared_memory_join(&part);
}

void
drifted_report(Oid tables, int64 log_id, DriftFinder finder)
{
	const TimestampTz now = GetCurrentTimestamp();
	Report *place = nullptr;

	if (shared == nullptr)
		return;
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	if (finder == DriftFinder::commit)
	{
		shared->failures++;
		shared->last_failure = now;
	}
	for (Report &report : shared->reports)
	{
		if (report.database == MyDatabaseId && report.tables == tables && report.log_id == log_id)
		{
			place = &report;
			break;
		}
		if (report.database == InvalidOid && place == nullptr)
			place = &report;
	}
	if (place != nullptr)
		*place = {MyDatabaseId, tables, log_id, finder};
	LWLockRelease(&shared->lock.lock);
	keeper_ring();
}

bool
drifted_waits()
{
	bool found = under_way.database == MyDatabaseId;

	if (shared == nullptr)
		return false;
	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	for (int i = 0; i < most_reports && !found; i++)
		found = shared->reports[i].database == MyDatabaseId;
	LWLockRelease(&shared->lock.lock);
	return found;
}

void
drifted_mend_step()
{
	QueueTable queues;
	QueueRow queue;
	bool found;
	int64 mended = 0;

	if (shared == nullptr || (under_way.database == InvalidOid && !take(&under_way)))
		return;
	queue_table_open(&queues, AccessShareLock);
	found = under_way.tables == own_tables() && queue_find_by_log(&queues, under_way.log_id, &queue);
	queue_table_close(&queues);
	if (found)
		mended = recount_mend(under_way.log_id);
	if (mended > 0)
	{
		/* written by the commit, which may fail */
		tried = mended;
		return;
	}
	if (found && tried > 0)
	{
		LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
		shared->rebuilds++;
		shared->mended += (uint64) tried;
		shared->last_rebuild = GetCurrentTimestamp();
		LWLockRelease(&shared->lock.lock);
		ereport(LOG, (errmsg("queen: %lld counts of queue \"%s\" did not agree with its messages, and are mended",
							 (long long) tried, queue.name),
					  under_way.finder == DriftFinder::commit
						  ? errdetail("A transaction has failed on them (QN003).")
						  : errdetail("A collection of the state has failed on them (QN004)."),
					  errhint("Only who writes queen's tables, or turns their triggers off, can bring that about.")));
	}
	under_way = {};
	tried = 0;
}

QUEEN_FUNCTION(queen_stat_rollup)

/* queen.stat_rollup() returns record; null without shared memory */
Datum
queen_stat_rollup(PG_FUNCTION_ARGS)
{
	TupleDesc desc;
	Datum values[5];
	bool nulls[lengthof(values)] = {};

	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("queen.stat_rollup() returns a record")));
	if (shared == nullptr)
		memset(nulls, true, sizeof(nulls));
	else
	{
		LWLockAcquire(&shared->lock.lock, LW_SHARED);
		values[0] = Int64GetDatum((int64) shared->failures);
		values[1] = Int64GetDatum((int64) shared->rebuilds);
		values[2] = Int64GetDatum((int64) shared->mended);
		values[3] = TimestampTzGetDatum(shared->last_failure);
		values[4] = TimestampTzGetDatum(shared->last_rebuild);
		nulls[3] = shared->last_failure == 0;
		nulls[4] = shared->last_rebuild == 0;
		LWLockRelease(&shared->lock.lock);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

} // namespace queen
