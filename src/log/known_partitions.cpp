/*
 * known_partitions.cpp: a backend's memory of partitions' names by their ids. See known_partitions.h.
 *
 * Raises for memory only. No locks. Runs in backends.
 */
#include "log/known_partitions.h"

#include "server/relations.h"

namespace queen
{

namespace
{

struct Entry
{
	int64 partition_id; /* 0: none */
	Oid tables;
	char *name;
};

/* Pages that nobody touches cost nothing. */
constexpr uint32 places = 8192;

constinit Entry entries[places] = {};
constinit MemoryContext context = nullptr;
constinit uint64 generation_of_entries = 0;

Entry *
entry_of(Oid tables, int64 partition_id)
{
	return &entries[hash_combine(murmurhash32((uint32) partition_id), tables) % places];
}

void
refresh()
{
	if (context != nullptr && generation_of_entries == names_generation())
		return;
	if (context == nullptr)
		context = AllocSetContextCreate(TopMemoryContext, "queen known partitions", ALLOCSET_DEFAULT_SIZES);
	memset(entries, 0, sizeof(entries));
	MemoryContextReset(context);
	generation_of_entries = names_generation();
}

} // namespace

const char *
known_partition_find(Oid tables, int64 partition_id)
{
	const Entry *entry = entry_of(tables, partition_id);

	refresh();
	return entry->partition_id == partition_id && entry->tables == tables ? entry->name : nullptr;
}

void
known_partition_put(Oid tables, int64 partition_id, const char *name, uint64 generation)
{
	Entry *entry = entry_of(tables, partition_id);
	char *copy;

	refresh();
	if (generation != generation_of_entries)
		return;
	copy = MemoryContextStrdup(context, name);
	if (entry->partition_id != 0)
		pfree(entry->name);
	*entry = {partition_id, tables, copy};
}

} // namespace queen
