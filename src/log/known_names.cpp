/*
 * known_names.cpp: a backend's memory of which ids the names of partitions stand for. See known_names.h.
 *
 * Raises for memory only. No locks. Runs in backends.
 */
#include "log/known_names.h"

#include "server/relations.h"

namespace queen
{

namespace
{

/* The names follow: the queue's, then the partition's. */
struct Entry
{
	uint32 hash;
	Oid tables;
	pg_uuid_t tenant;
	int queue_size;
	int name_size;
	KnownName known;
};

/* Names whose hashes have the same low bits share a set. */
constexpr uint32 sets = 2048;
constexpr uint32 ways = 4;

constinit Entry *entries[sets][ways] = {};
constinit MemoryContext context = nullptr;
constinit uint64 generation_of_entries = 0;

Entry **
set_of(const BufferedPartition *names)
{
	return entries[names->hash % sets];
}

bool
is_entry(const Entry *entry, const BufferedPartition *names)
{
	const BufferedQueue *queue = names->queue;
	const char *text = (const char *) (entry + 1);

	return entry->hash == names->hash && entry->tables == queue->tables && entry->queue_size == queue->name.size &&
		   entry->name_size == names->name.size && memcmp(&entry->tenant, &queue->tenant, UUID_LEN) == 0 &&
		   memcmp(text, queue->name.data, (Size) queue->name.size) == 0 &&
		   memcmp(text + queue->name.size, names->name.data, (Size) names->name.size) == 0;
}

/* Forget what an invalidation has made doubtful: all of it, for such changes are rare. */
void
refresh()
{
	if (generation_of_entries == names_generation())
		return;
	if (context == nullptr)
		context = AllocSetContextCreate(TopMemoryContext, "queen known names", ALLOCSET_DEFAULT_SIZES);
	memset(entries, 0, sizeof(entries));
	MemoryContextReset(context);
	generation_of_entries = names_generation();
}

} // namespace

bool
known_name_find(const BufferedPartition *names, KnownName *known)
{
	Entry *const *set = set_of(names);

	refresh();
	for (uint32 i = 0; i < ways; i++)
		if (set[i] != nullptr && is_entry(set[i], names))
		{
			*known = set[i]->known;
			return true;
		}
	return false;
}

void
known_name_put(const BufferedPartition *names, const KnownName *known, uint64 generation)
{
	static constinit uint32 victim = 0;
	const BufferedQueue *queue = names->queue;
	const Size size = (Size) queue->name.size + (Size) names->name.size;
	Entry **set = set_of(names);
	Entry *made;
	char *text;
	uint32 way = 0;

	refresh();
	/* what was read before the news came may be what the news is about */
	if (generation != generation_of_entries)
		return;
	while (way < ways && set[way] != nullptr && !is_entry(set[way], names))
		way++;
	if (way == ways)
		way = victim++ % ways;
	made = (Entry *) MemoryContextAlloc(context, sizeof(Entry) + size);
	*made = {names->hash, queue->tables, queue->tenant, queue->name.size, names->name.size, *known};
	text = (char *) (made + 1);
	memcpy(text, queue->name.data, (Size) queue->name.size);
	memcpy(text + queue->name.size, names->name.data, (Size) names->name.size);
	if (set[way] != nullptr)
		pfree(set[way]);
	set[way] = made;
}

} // namespace queen
