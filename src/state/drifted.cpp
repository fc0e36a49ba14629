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

/*
 * Reports that wait, of all databases. One that finds no room takes the place of that which was told longest ago: nobody may mend there (a database
 * without a keeper), and where somebody does the next transaction that fails tells again.
 */
constexpr int most_reports = 64;

/* Keeps its place until the keeper has seen that nothing is wrong (any more). A free place is all zero. */
struct Report
{
	Oid database;
	Oid tables;
	int64 log_id;
	uint64 told; /* when, for the last time; both by Memory.clock */
	uint64 turn; /* since when it waits for the keeper, who mends them in turn */
	int64 tried; /* how many counts his last try has mended: that they are is known when another one finds none */
	DriftFinder finder;
};

struct Memory
{
	LWLockPadded lock;
	int tranche;
	uint64 clock;
	Report reports[most_reports];
	/* since the server started, of all databases */
	uint64 failures; /* of transactions: QN003 */
	uint64 rebuilds;
	uint64 mended; /* shards */
	TimestampTz last_failure;
	TimestampTz last_rebuild;
};

constinit Memory *shared = nullptr;

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

bool
is_of(const Report *report, Oid database, Oid tables, int64 log_id)
{
	return report->database == database && report->tables == tables && report->log_id == log_id;
}

/* Whose turn it is of this database's, which waits since before that; it goes behind the others. False when there is none. */
bool
take(Report *taken, uint64 before)
{
	Report *next = nullptr;

	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (Report &report : shared->reports)
		if (report.database == MyDatabaseId && report.turn <= before && (next == nullptr || report.turn < next->turn))
			next = &report;
	if (next != nullptr)
	{
		next->turn = ++shared->clock;
		*taken = *next;
	}
	LWLockRelease(&shared->lock.lock);
	return next != nullptr;
}

uint64
clock_now()
{
	uint64 now;

	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	now = shared->clock;
	LWLockRelease(&shared->lock.lock);
	return now;
}

/* The keeper has mended so many counts, or (0) found none to mend; then it gives the place back, unless somebody has failed meanwhile. */
void
settle(const Report *taken, int64 mended)
{
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (Report &report : shared->reports)
		if (is_of(&report, taken->database, taken->tables, taken->log_id))
		{
			report.tried = mended;
			if (mended == 0 && report.told == taken->told)
				report = {};
		}
	if (mended == 0 && taken->tried > 0)
	{
		shared->rebuilds++;
		shared->mended += (uint64) taken->tried;
		shared->last_rebuild = GetCurrentTimestamp();
	}
	LWLockRelease(&shared->lock.lock);
}

/* False: somebody else is at it. */
bool
mend(Report *report)
{
	QueueTable queues;
	QueueRow queue;
	bool found;
	int64 mended = 0;

	queue_table_open(&queues, AccessShareLock);
	found = report->tables == own_tables() && queue_find_by_log(&queues, report->log_id, &queue);
	queue_table_close(&queues);
	if (found && !recount_try_mend(report->log_id, &mended))
		return false;
	if (!found)
		report->tried = 0;
	/* what is mended is written by the commit, which may fail: the next look tells */
	settle(report, mended);
	if (mended == 0 && report->tried > 0)
		ereport(LOG, (errmsg("queen: %lld counts of queue \"%s\" did not agree with its messages, and are mended",
							 (long long) report->tried, queue.name),
					  report->finder == DriftFinder::commit
						  ? errdetail("A transaction has failed on them (QN003).")
						  : errdetail("A collection of the state has failed on them (QN004)."),
					  errhint("Only who writes queen's tables, or turns their triggers off, can bring that about.")));
	return true;
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
		if (is_of(&report, MyDatabaseId, tables, log_id))
		{
			place = &report;
			break;
		}
		if (place == nullptr || report.told < place->told)
			place = &report;
	}
	if (!is_of(place, MyDatabaseId, tables, log_id))
		*place = {MyDatabaseId, tables, log_id, 0, ++shared->clock, 0, finder};
	place->finder = finder;
	place->told = ++shared->clock;
	LWLockRelease(&shared->lock.lock);
	keeper_ring();
}

bool
drifted_waits()
{
	bool found = false;

	if (shared == nullptr)
		return false;
	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	for (int i = 0; i < most_reports && !found; i++)
		found = shared->reports[i].database == MyDatabaseId;
	LWLockRelease(&shared->lock.lock);
	return found;
}

void
drifted_forget(Oid database)
{
	if (shared != nullptr)
		forget_database(database);
}

bool
drifted_mend_step()
{
	const uint64 now = shared != nullptr ? clock_now() : 0;
	Report report;

	while (shared != nullptr && take(&report, now))
		if (mend(&report))
			return true;
	return false;
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
