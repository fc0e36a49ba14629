/*
 * changes.cpp: which partitions have been pushed to. See changes.h.
 *
 * Raises at the server's start only, but for the function of the tests. Locks: one LWLock, for as many steps as most_held and
 * feed_most_looked_at say. Laid out in the postmaster; runs in backends.
 */
#include "log/changes.h"

#include "server/errors.h"
#include "server/relations.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* What lies before the feed. */
struct Head
{
	LWLockPadded lock;
	/* of all commits that have written a cursor, so in a line that nobody else writes */
	union
	{
		pg_atomic_uint64 cursor_changes;
		char line[PG_CACHE_LINE_SIZE];
	};
	int tranche;
};

/* 1.6 MB: who reads once a second keeps up with 65,536 changes a second */
constexpr uint32 capacity = 65536;
constexpr uint32 most_held = 256;
/* Who follows comes at least each changes_interval, and so often that a quarter of the feed comes in between. */
constexpr int64 interval_least = 50 * 1000;
constexpr uint64 changes_between_reads = capacity / 4;
constexpr int most_reads = 64; /* of 1,000 changes at most */

constinit Head *head = nullptr;
constinit bool cursor_written = false; /* by this transaction */

core::Feed *
feed_of(Head *h)
{
	return (core::Feed *) ((char *) h + MAXALIGN(sizeof(Head)));
}

void
lay_out(void *memory)
{
	Head *h = (Head *) CACHELINEALIGN(memory);

	h->tranche = LWLockNewTrancheId();
	LWLockInitialize(&h->lock.lock, h->tranche);
	pg_atomic_init_u64(&h->cursor_changes, 0);
	(void) core::feed_lay_out(feed_of(h), capacity);
}

void
attach(void *memory)
{
	head = (Head *) CACHELINEALIGN(memory);
	LWLockRegisterTranche(head->tranche, "queen_changes");
}

void
ended(bool committed)
{
	if (cursor_written && committed && head != nullptr)
		(void) pg_atomic_fetch_add_u64(&head->cursor_changes, 1);
	cursor_written = false;
}

} // namespace

const TransactionParticipant cursor_changes_participant = {.ended = ended};

void
changes_init()
{
	static constinit SharedPart part = {"queen changes", 0, lay_out, attach, nullptr, nullptr};

	part.size = PG_CACHE_LINE_SIZE + MAXALIGN(sizeof(Head)) + core::feed_size(capacity);
	shared_memory_join(&part);
}

bool
changes_are_shared()
{
	return head != nullptr;
}

void
changes_append(const core::Change *changes, uint32 count)
{
	while (count > 0)
	{
		const uint32 some = Min(count, most_held);

		LWLockAcquire(&head->lock.lock, LW_EXCLUSIVE);
		core::feed_append(*feed_of(head), {changes, some});
		LWLockRelease(&head->lock.lock);
		changes += some;
		count -= some;
	}
}

uint64
changes_end()
{
	return core::feed_end(*feed_of(head));
}

bool
changes_read(Oid tables, uint64 *position, core::Change *out, uint32 room, uint32 *count)
{
	core::FeedRead read = {};

	if (*position != changes_end())
	{
		LWLockAcquire(&head->lock.lock, LW_SHARED);
		read = core::feed_read(*feed_of(head), MyDatabaseId, tables, *position, {out, room});
		LWLockRelease(&head->lock.lock);
	}
	*count = read.count;
	return !read.overrun;
}

int64
changes_follow(Oid tables, uint64 *position, bool *lost, void (*fn)(const core::Change *change, void *arg), void *arg)
{
	const uint64 from = *position;
	core::Change changes[1000];
	uint64 read;

	for (int i = 0; i < most_reads && *position != changes_end(); i++)
	{
		uint32 count;

		if (!changes_read(tables, position, changes, lengthof(changes), &count))
			*lost = true;
		for (uint32 c = 0; c < count; c++)
			fn(&changes[c], arg);
	}
	read = Max(*position - from, 1);
	return Max(Min((int64) ((uint64) changes_interval * changes_between_reads / read), changes_interval),
			   interval_least);
}

uint64
cursor_changes()
{
	return pg_atomic_read_u64(&head->cursor_changes);
}

void
cursor_change_note()
{
	cursor_written = true;
}

QUEEN_FUNCTION(queen_changes)

/*
 * queen_test_changes("position", "most") returns setof record: what comes behind a position, in a step; null: where a reader begins. One
 * row says at least how far it came.
 */
Datum
queen_changes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	core::Change out[1000];
	uint64 position;
	uint32 count = 0;
	bool whole = true;

	if (!changes_are_shared())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("queen is not preloaded")));
	if (PG_ARGISNULL(0))
		position = changes_end();
	else
	{
		position = (uint64) PG_GETARG_INT64(0);
		whole = changes_read(own_tables(), &position, out, lengthof(out), &count);
	}
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 i = 0; i < Max(count, 1); i++)
	{
		Datum values[] = {Int64GetDatum((int64) position), BoolGetDatum(!whole), 0, 0};
		bool nulls[] = {false, false, count == 0, count == 0};

		if (count > 0)
		{
			values[2] = Int64GetDatum(out[i].queue_id);
			values[3] = Int64GetDatum(out[i].partition_id);
		}
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

} // namespace queen
