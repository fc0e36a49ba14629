/*
 * counts.cpp: what became of timers. See counts.h; queen.stat_timers(), reset_timer_stats().
 *
 * Raises in calls, not at the transaction's end. Locks: one LWLock, for as many steps as a batch has timers. Laid out in the postmaster; written by
 * the pulse and where fire_timers() is called, read by backends.
 */
#include "timers/counts.h"

#include "core/timer_counts.h"
#include "server/guards.h"
#include "server/relations.h"
#include "server/shared_memory.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* Some 500 kB. */
constexpr int place_count = 512;

struct Memory
{
	LWLockPadded lock;
	int tranche;
	uint64 clock;
	uint64 evicted;
	core::TimerCounts places[place_count];
};

constinit Memory *shared = nullptr;

/* What became of timers of one queue. In the transaction's memory, the newest first. */
struct Note
{
	Note *next;
	SubTransactionId sub; /* that it was noted in, or that of a savepoint inside of it which was released */
	core::TimerQueue queue;
	TimerEnd end;
	int count;
	TimestampTz due[FLEXIBLE_ARRAY_MEMBER];
};

constinit Note *notes = nullptr;

core::TimerCountsTable
table()
{
	return {shared->places, &shared->clock, &shared->evicted};
}

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
	LWLockRegisterTranche(shared->tranche, "queen_timer_counts");
}

void
forget_database(Oid database)
{
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	core::timer_counts_forget(table(), database);
	LWLockRelease(&shared->lock.lock);
}

void
write(const Note *note, TimestampTz now)
{
	core::TimerCounts *counts = core::timer_counts_of(table(), note->queue);

	if (counts->since == 0)
		counts->since = now;
	switch (note->end)
	{
		case TimerEnd::fired:
			counts->fired += (uint64) note->count;
			for (int i = 0; i < note->count; i++)
			{
				const uint64 late = (uint64) Max(now - note->due[i], (int64) 0);

				core::time_histogram_add(&counts->lateness, late);
				counts->longest = Max(counts->longest, late);
			}
			break;
		case TimerEnd::failed:
			counts->failed += (uint64) note->count;
			break;
		case TimerEnd::dead:
			counts->dead += (uint64) note->count;
			break;
		case TimerEnd::dropped:
			counts->dropped += (uint64) note->count;
			break;
	}
}

void
ended(bool committed)
{
	const Note *note = notes;

	notes = nullptr;
	if (note == nullptr || !committed)
		return;

	const TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (; note != nullptr; note = note->next)
		write(note, now);
	LWLockRelease(&shared->lock.lock);
}

/* Ids ascend: whatever has noted since it began is inside of it. */
void
sub_aborted(SubTransactionId self)
{
	while (notes != nullptr && notes->sub >= self)
		notes = notes->next;
}

Datum
milliseconds(uint64 microseconds)
{
	return Float8GetDatum((double) microseconds / 1000.0);
}

} // namespace

const TransactionParticipant timer_counts_participant = {.ended = ended, .sub_aborted = sub_aborted};

void
timer_counts_init()
{
	static constinit SharedPart part = {"queen timer counts", sizeof(Memory), lay_out, attach,
										forget_database,	  nullptr};

	shared_memory_join(&part);
}

void
timer_counts_note(const DueTimer *timers, int count, TimerEnd end)
{
	int last;

	if (shared == nullptr)
		return;
	for (int first = 0; first < count; first = last)
	{
		Note *note;

		for (last = first + 1;
			 last < count && memcmp(&timers[last].tenant, &timers[first].tenant, UUID_LEN) == 0 &&
			 timers[last].queue.size == timers[first].queue.size &&
			 memcmp(timers[last].queue.data, timers[first].queue.data, (Size) timers[first].queue.size) == 0;)
			last++;
		if (timers[first].queue.size > (int) core::most_queue_name)
			continue;
		note = (Note *) MemoryContextAlloc(TopTransactionContext,
										   offsetof(Note, due) + sizeof(TimestampTz) * (Size) (last - first));
		note->queue = {};
		note->queue.database = MyDatabaseId;
		note->queue.tables = own_tables();
		note->queue.tenant = uuid_from_datum(UUIDPGetDatum(&timers[first].tenant));
		note->queue.size = (uint8) timers[first].queue.size;
		memcpy(note->queue.name, timers[first].queue.data, (Size) timers[first].queue.size);
		note->sub = GetCurrentSubTransactionId();
		note->end = end;
		note->count = last - first;
		for (int i = first; i < last; i++)
			note->due[i - first] = timers[i].deliver_at;
		note->next = notes;
		notes = note;
	}
}

QUEEN_FUNCTION(queen_stat_timers)
QUEEN_FUNCTION(queen_reset_timer_stats)

/* queen.stat_timers() returns setof record */
Datum
queen_stat_timers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	core::TimerCounts *copy;
	int64 evicted;
	Oid tables;

	InitMaterializedSRF(fcinfo, 0);
	if (shared == nullptr)
		return (Datum) 0;
	tables = own_tables();
	copy = (core::TimerCounts *) palloc(sizeof(shared->places));
	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	memcpy(copy, shared->places, sizeof(shared->places));
	evicted = (int64) shared->evicted;
	LWLockRelease(&shared->lock.lock);
	for (int i = 0; i < place_count; i++)
	{
		const core::TimerCounts *counts = &copy[i];
		Datum values[11];
		bool nulls[11] = {};

		if (counts->queue.database != MyDatabaseId || counts->queue.tables != tables)
			continue;
		values[0] = uuid_to_datum(counts->queue.tenant);
		values[1] = PointerGetDatum(cstring_to_text_with_len(counts->queue.name, counts->queue.size));
		values[2] = Int64GetDatum((int64) counts->fired);
		values[3] = Int64GetDatum((int64) counts->failed);
		values[4] = Int64GetDatum((int64) counts->dead);
		values[5] = Int64GetDatum((int64) counts->dropped);
		nulls[6] = nulls[7] = nulls[8] = counts->fired == 0;
		/* a bucket's end may lie behind the longest */
		values[6] = milliseconds(Min(core::time_histogram_quantile(counts->lateness, 0.5), counts->longest));
		values[7] = milliseconds(Min(core::time_histogram_quantile(counts->lateness, 0.99), counts->longest));
		values[8] = milliseconds(counts->longest);
		values[9] = TimestampTzGetDatum(counts->since);
		values[10] = Int64GetDatum(evicted);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	pfree(copy);
	return (Datum) 0;
}

/* queen.reset_timer_stats() returns void */
Datum
queen_reset_timer_stats(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	if (shared == nullptr)
		PG_RETURN_VOID();
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	core::timer_counts_forget(table(), MyDatabaseId);
	LWLockRelease(&shared->lock.lock);
	PG_RETURN_VOID();
}

} // namespace queen
