/*
 * snapshot.cpp: the state of queues in shared memory. See snapshot.h; README.md says how databases share it.
 *
 * Raises for memory only, and only where not preloaded. Locks: two LWLocks. `filling` is held by who collects while he writes where nobody reads;
 * `looking` for the swap, some instructions, and shared by who copies. Laid out in the postmaster; written by keepers and by queen.collect().
 */
#include "state/snapshot.h"

#include "server/settings.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

constexpr int rows_of_chunk = 64;
constexpr int32 no_chunk = -1;

/* Rows of one kind, in chunks that databases take and give back: twice as many as may be shown, because the next ones are written beside the last. */
struct Pool
{
	int32 chunks;
	int32 most; /* that may be promised */
	int32 promised;
	int32 free; /* the first, others by next */
	Size row_size;
	Size next_at; /* in the memory */
	Size rows_at;
};

enum PoolKind : int
{
	of_queues,
	of_groups,
	pool_kinds,
};

struct Chain
{
	int32 first;
	int32 chunks;
	int32 rows;
};

constexpr Chain no_chain = {no_chunk, 0, 0};

struct Database
{
	Oid database; /* InvalidOid: free */
	Oid tables;
	Chain chains[pool_kinds];
	CollectorRecord record;
};

struct Memory
{
	LWLockPadded looking;
	LWLockPadded filling;
	int tranche;
	Pool pools[pool_kinds];
	Database databases[snapshot_most_databases];
};

constinit Memory *shared = nullptr;
constinit Memory *own = nullptr; /* of a session that has no other */

Memory *
memory()
{
	return shared != nullptr ? shared : own;
}

/* ---- layout ---- */

int32
chunks_of(int rows)
{
	return (rows + rows_of_chunk - 1) / rows_of_chunk;
}

/* Where everything lies, and how much that is. */
Size
plan(Pool *pools)
{
	const int rows[] = {setting_state_queues, setting_state_groups};
	const Size sizes[] = {sizeof(QueueState), sizeof(GroupState)};
	Size at = MAXALIGN(sizeof(Memory));

	for (int kind = 0; kind < pool_kinds; kind++)
	{
		Pool *pool = &pools[kind];

		*pool = {};
		pool->most = chunks_of(rows[kind]);
		pool->chunks = pool->most * 2;
		pool->row_size = sizes[kind];
		pool->next_at = at;
		at += MAXALIGN(sizeof(int32) * (Size) pool->chunks);
		pool->rows_at = at;
		at += MAXALIGN(pool->row_size * (Size) rows_of_chunk * (Size) pool->chunks);
	}
	return at;
}

int32 *
next_of(Memory *m, const Pool *pool)
{
	return (int32 *) ((char *) m + pool->next_at);
}

/* Rows are not touched: what nobody uses takes no memory. */
void
prepare(Memory *m)
{
	memset(m, 0, sizeof(Memory));
	(void) plan(m->pools);
	for (Pool &pool : m->pools)
	{
		int32 *next = next_of(m, &pool);

		for (int32 i = 0; i < pool.chunks; i++)
			next[i] = i + 1 < pool.chunks ? i + 1 : no_chunk;
		pool.free = pool.chunks > 0 ? 0 : no_chunk;
	}
	for (Database &database : m->databases)
		database.chains[of_queues] = database.chains[of_groups] = no_chain;
}

Size
measure()
{
	Pool pools[pool_kinds];

	return plan(pools);
}

void
lay_out(void *at)
{
	Memory *m = (Memory *) at;

	prepare(m);
	m->tranche = LWLockNewTrancheId();
	LWLockInitialize(&m->looking.lock, m->tranche);
	LWLockInitialize(&m->filling.lock, m->tranche);
}

void
attach(void *at)
{
	shared = (Memory *) at;
	LWLockRegisterTranche(shared->tranche, "queen_state");
}

void
make_own()
{
	Memory *m;

	if (memory() != nullptr)
		return;
	m = (Memory *) MemoryContextAllocExtended(TopMemoryContext, measure(), MCXT_ALLOC_HUGE);
	prepare(m);
	own = m;
}

/* Nobody else is in a session's own memory. */
void
lock(LWLockPadded *padded, LWLockMode mode)
{
	if (shared != nullptr)
		(void) LWLockAcquire(&padded->lock, mode);
}

void
unlock(LWLockPadded *padded)
{
	if (shared != nullptr)
		LWLockRelease(&padded->lock);
}

/* ---- chunks ---- */

void
give_back(Memory *m, PoolKind kind, Chain *chain)
{
	Pool *pool = &m->pools[kind];
	int32 *next = next_of(m, pool);

	while (chain->first != no_chunk)
	{
		const int32 chunk = chain->first;

		chain->first = next[chunk];
		next[chunk] = pool->free;
		pool->free = chunk;
	}
	*chain = no_chain;
}

/* So many as are left of what may be promised, beside what the database has itself. */
Chain
take(Memory *m, PoolKind kind, const Chain *before, int rows)
{
	Pool *pool = &m->pools[kind];
	int32 *next = next_of(m, pool);
	Chain chain = no_chain;

	chain.chunks = Min(chunks_of(rows), pool->most - pool->promised + before->chunks);
	chain.rows = Min(rows, chain.chunks * rows_of_chunk);
	for (int32 i = 0; i < chain.chunks; i++)
	{
		const int32 chunk = pool->free;

		pool->free = next[chunk];
		next[chunk] = chain.first;
		chain.first = chunk;
	}
	return chain;
}

/* A chain's rows from an array, or into one. */
void
copy_rows(Memory *m, PoolKind kind, const Chain *chain, char *array, bool into_chain)
{
	const Pool *pool = &m->pools[kind];
	const int32 *next = next_of(m, pool);
	int32 left = chain->rows;

	for (int32 chunk = chain->first; left > 0; chunk = next[chunk])
	{
		char *rows = (char *) m + pool->rows_at + pool->row_size * (Size) rows_of_chunk * (Size) chunk;
		const int32 count = Min(left, rows_of_chunk);
		const Size size = pool->row_size * (Size) count;

		memcpy(into_chain ? rows : array, into_chain ? array : rows, size);
		array += size;
		left -= count;
	}
}

/* ---- databases ---- */

Database *
find(Memory *m, Oid database)
{
	for (Database &known : m->databases)
		if (known.database == database)
			return &known;
	return nullptr;
}

void
clear(Memory *m, Database *database)
{
	for (int kind = 0; kind < pool_kinds; kind++)
	{
		m->pools[kind].promised -= database->chains[kind].chunks;
		give_back(m, (PoolKind) kind, &database->chains[kind]);
	}
	database->record = {};
	database->database = InvalidOid;
}

/* This database's place, for these tables; null when there is none. Both locks are held. */
Database *
enter(Memory *m, Oid tables)
{
	Database *place = find(m, MyDatabaseId);

	/* another extension's: it was dropped, and made anew */
	if (place != nullptr && place->tables != tables)
		clear(m, place);
	if (place == nullptr || place->database == InvalidOid)
		place = find(m, InvalidOid);
	if (place != nullptr && place->database == InvalidOid)
	{
		place->database = MyDatabaseId;
		place->tables = tables;
	}
	return place;
}

void
lock_both(Memory *m)
{
	lock(&m->filling, LW_EXCLUSIVE);
	lock(&m->looking, LW_EXCLUSIVE);
}

void
unlock_both(Memory *m)
{
	unlock(&m->looking);
	unlock(&m->filling);
}

void
forget_database(Oid database)
{
	Memory *m = memory();
	Database *place;

	lock_both(m);
	place = find(m, database);
	if (place != nullptr)
		clear(m, place);
	unlock_both(m);
}

void
count_attempt(CollectorRecord *record, core::hotlist::Micros began, int64 rest, bool failed)
{
	const core::hotlist::Micros now = hotlist_now();
	const int64 took = now - began;

	record->attempts++;
	record->attempted = now;
	record->failing = failed;
	record->last_attempt = GetCurrentTimestamp();
	record->rest = rest;
	record->last_took = took;
	record->longest = Max(record->longest, took);
	record->total += took;
}

} // namespace

void
snapshot_init()
{
	static constinit SharedPart part = {"queen state", 0, lay_out, attach, forget_database, measure};

	shared_memory_join(&part);
}

void
snapshot_publish(Oid tables, const StateSnapshot *found, core::hotlist::Micros began, int64 rest)
{
	const char *arrays[] = {(const char *) found->queues, (const char *) found->groups};
	int rows[] = {found->queue_count, found->group_count};
	Chain before[pool_kinds];
	Chain after[pool_kinds];
	Database *place;
	Memory *m;

	make_own();
	m = memory();
	lock_both(m);
	place = enter(m, tables);
	if (place == nullptr || place->record.collected > found->record.collected)
	{
		if (place != nullptr)
			count_attempt(&place->record, began, rest, false);
		unlock_both(m);
		return;
	}
	for (int kind = 0; kind < pool_kinds; kind++)
	{
		before[kind] = place->chains[kind];
		after[kind] = take(m, (PoolKind) kind, &before[kind], rows[kind]);
		if (kind == of_queues)
			/* groups of queues that are left out: they come last */
			while (rows[of_groups] > 0 && found->groups[rows[of_groups] - 1].queue >= after[of_queues].rows)
				rows[of_groups]--;
	}
	unlock(&m->looking);
	/* nobody looks there yet, and nobody else fills */
	for (int kind = 0; kind < pool_kinds; kind++)
		copy_rows(m, (PoolKind) kind, &after[kind], (char *) arrays[kind], true);
	lock(&m->looking, LW_EXCLUSIVE);
	for (int kind = 0; kind < pool_kinds; kind++)
	{
		place->chains[kind] = after[kind];
		m->pools[kind].promised += after[kind].chunks - before[kind].chunks;
		give_back(m, (PoolKind) kind, &before[kind]);
	}
	count_attempt(&place->record, began, rest, false);
	place->record.collected = found->record.collected;
	place->record.collected_at = found->record.collected_at;
	place->record.queues = after[of_queues].rows;
	place->record.left_out_queues = found->queue_count - after[of_queues].rows;
	place->record.left_out_groups = found->group_count - after[of_groups].rows;
	unlock_both(m);
}

void
snapshot_failed(Oid tables, core::hotlist::Micros began, int64 rest, int sqlstate, const char *message)
{
	Database *place;
	Memory *m;

	make_own();
	m = memory();
	lock_both(m);
	place = enter(m, tables);
	if (place != nullptr)
	{
		CollectorRecord *record = &place->record;

		count_attempt(record, began, rest, true);
		record->failures++;
		record->last_failure = record->last_attempt;
		record->last_sqlstate = sqlstate;
		strlcpy(record->last_message, message, sizeof(record->last_message));
		record->last_message[pg_mbcliplen(record->last_message, (int) strlen(record->last_message),
										  (int) sizeof(record->last_message) - 2)] = '\0';
	}
	unlock_both(m);
}

void
snapshot_read(Oid tables, StateSnapshot *copy)
{
	Memory *m = memory();
	char *arrays[pool_kinds] = {};
	int32 room[pool_kinds] = {};
	bool copied = m == nullptr;

	*copy = {};
	while (!copied)
	{
		int32 rows[pool_kinds] = {};
		const Database *place;

		copy->record = {};
		lock(&m->looking, LW_SHARED);
		place = find(m, MyDatabaseId);
		if (place != nullptr && place->tables == tables)
		{
			rows[of_queues] = place->chains[of_queues].rows;
			rows[of_groups] = place->chains[of_groups].rows;
			copy->record = place->record;
		}
		copied = rows[of_queues] <= room[of_queues] && rows[of_groups] <= room[of_groups];
		for (int kind = 0; copied && kind < pool_kinds; kind++)
			if (rows[kind] > 0)
				copy_rows(m, (PoolKind) kind, &place->chains[kind], arrays[kind], false);
		unlock(&m->looking);
		copy->queue_count = rows[of_queues];
		copy->group_count = rows[of_groups];
		/* memory for as many, but not under the lock, where nothing may raise; there may be more by then */
		for (int kind = 0; !copied && kind < pool_kinds; kind++)
		{
			room[kind] = rows[kind];
			arrays[kind] =
				(char *) palloc_extended(Max(m->pools[kind].row_size * (Size) rows[kind], 1), MCXT_ALLOC_HUGE);
		}
	}
	copy->queues = (const QueueState *) arrays[of_queues];
	copy->groups = (const GroupState *) arrays[of_groups];
}

bool
snapshot_record(Oid tables, CollectorRecord *record)
{
	Memory *m = memory();
	const Database *place;
	bool found;

	*record = {};
	if (m == nullptr)
		return false;
	lock(&m->looking, LW_SHARED);
	place = find(m, MyDatabaseId);
	found = place != nullptr && place->tables == tables;
	if (found)
		*record = place->record;
	unlock(&m->looking);
	return found;
}

bool
snapshot_has_place()
{
	Memory *m = memory();
	bool found;

	if (m == nullptr)
		return true;
	lock(&m->looking, LW_SHARED);
	found = find(m, MyDatabaseId) != nullptr || find(m, InvalidOid) != nullptr;
	unlock(&m->looking);
	return found;
}

void
snapshot_reset_counts()
{
	Memory *m = memory();
	Database *place;

	if (m == nullptr)
		return;
	lock(&m->looking, LW_EXCLUSIVE);
	place = find(m, MyDatabaseId);
	if (place != nullptr)
	{
		CollectorRecord *record = &place->record;

		record->attempts = record->failures = 0;
		record->longest = record->total = 0;
		record->stats_reset = GetCurrentTimestamp();
	}
	unlock(&m->looking);
}

void
snapshot_forget(Oid database)
{
	if (memory() != nullptr)
		forget_database(database);
}

} // namespace queen
