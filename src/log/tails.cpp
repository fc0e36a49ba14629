/*
 * tails.cpp: where partitions end, in shared memory. See tails.h.
 *
 * Never raises but in tails_init. Locks: a spinlock for a set of places, for the length of a copy. Runs in backends, also of
 * databases without the extension; memory is laid out in the postmaster.
 */
#include "log/tails.h"

#include "server/shared_memory.h"

namespace queen
{

namespace
{

struct Place
{
	Oid database; /* InvalidOid: free */
	Oid tables;
	int64 partition_id;
	Tail tail;
};

/* Partitions whose keys share a hash's low bits share a set. */
constexpr int ways = 4;
struct Set
{
	slock_t lock;
	uint8 victim;
	Place places[ways];
};

/* 1.1 MB: the tails of some 30,000 partitions */
constexpr uint32 sets = 8192;

constinit Set *table = nullptr;

void
lay_out(void *memory)
{
	Set *set = (Set *) memory;

	memset(memory, 0, sizeof(Set) * sets);
	for (uint32 i = 0; i < sets; i++)
		SpinLockInit(&set[i].lock);
}

void
attach(void *memory)
{
	table = (Set *) memory;
}

Set *
set_of(Oid tables, int64 partition_id)
{
	return &table[hash_combine(murmurhash32((uint32) partition_id), hash_combine(tables, MyDatabaseId)) % sets];
}

/* The partition's place, or null. Under the set's lock. */
Place *
place_of(Set *set, Oid tables, int64 partition_id)
{
	for (Place &place : set->places)
		if (place.partition_id == partition_id && place.tables == tables && place.database == MyDatabaseId)
			return &place;
	return nullptr;
}

/* Forget the tails of a database's tables; InvalidOid: of all its tables. */
void
forget_all(Oid database, Oid tables)
{
	for (uint32 i = 0; table != nullptr && i < sets; i++)
	{
		SpinLockAcquire(&table[i].lock);
		for (Place &place : table[i].places)
			if (place.database == database && (place.tables == tables || !OidIsValid(tables)))
				place = {};
		SpinLockRelease(&table[i].lock);
	}
}

void
forget_database(Oid database)
{
	forget_all(database, InvalidOid);
}

} // namespace

void
tails_init()
{
	static constinit const SharedPart part = {"queen tails", sizeof(Set) * sets, lay_out, attach, forget_database};

	shared_memory_join(&part);
}

bool
tails_are_shared()
{
	return table != nullptr;
}

bool
tail_find(Oid tables, int64 partition_id, Tail *tail)
{
	const Place *place;
	Set *set;

	if (table == nullptr)
		return false;
	set = set_of(tables, partition_id);
	SpinLockAcquire(&set->lock);
	place = place_of(set, tables, partition_id);
	if (place != nullptr)
		*tail = place->tail;
	SpinLockRelease(&set->lock);
	return place != nullptr;
}

void
tail_put(Oid tables, int64 partition_id, const Tail *tail)
{
	Place *place;
	Set *set;

	if (table == nullptr)
		return;
	set = set_of(tables, partition_id);
	SpinLockAcquire(&set->lock);
	place = place_of(set, tables, partition_id);
	for (int i = 0; place == nullptr && i < ways; i++)
		if (!OidIsValid(set->places[i].database))
			place = &set->places[i];
	if (place == nullptr)
		place = &set->places[set->victim++ % ways];
	*place = {MyDatabaseId, tables, partition_id, *tail};
	SpinLockRelease(&set->lock);
}

void
tail_forget(Oid tables, int64 partition_id)
{
	Place *place;
	Set *set;

	if (table == nullptr)
		return;
	set = set_of(tables, partition_id);
	SpinLockAcquire(&set->lock);
	place = place_of(set, tables, partition_id);
	if (place != nullptr)
		*place = {};
	SpinLockRelease(&set->lock);
}

void
tails_forget_all(Oid tables)
{
	forget_all(MyDatabaseId, tables);
}

} // namespace queen
