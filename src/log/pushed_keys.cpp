/*
 * pushed_keys.cpp: the dedup_keys of the push buffer. See pushed_keys.h.
 *
 * Raises only for memory, and not in pushed_keys_cut. No locks. Runs in backends.
 */
#include "log/pushed_keys.h"

namespace queen
{

const core::Uuid *
pushed_keys_find(const PushedKeys *keys, uint32 partition, const core::Uuid *hash)
{
	PushedKey::Key key = {*hash, partition};
	const PushedKey *entry;

	if (keys->table == nullptr)
		return nullptr;
	entry = (const PushedKey *) hash_search(keys->table, &key, HASH_FIND, nullptr);
	return entry != nullptr ? &entry->message_id : nullptr;
}

void
pushed_keys_add(PushedKeys *keys, MemoryContext context, uint64 limit, uint32 partition, const core::Uuid *hash,
				const core::Uuid *message_id, uint64 frame)
{
	PushedKey::Key key = {*hash, partition};
	PushedKey *entry;
	bool found;

	if (keys->table == nullptr)
	{
		HASHCTL control = {};

		static_assert(sizeof(PushedKey::Key) == sizeof(core::Uuid) + sizeof(uint32));
		control.keysize = sizeof(PushedKey::Key);
		control.entrysize = sizeof(PushedKey);
		control.hcxt = context;
		keys->table = hash_create("queen pushed keys", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if ((uint64) hash_get_num_entries(keys->table) >= limit)
		return;
	entry = (PushedKey *) hash_search(keys->table, &key, HASH_ENTER, &found);
	/* the first one counts */
	if (found)
		return;
	entry->message_id = *message_id;
	entry->frame = frame;
	entry->previous = keys->last;
	keys->last = entry;
}

void
pushed_keys_cut(PushedKeys *keys, uint64 frame)
{
	while (keys->last != nullptr && keys->last->frame >= frame)
	{
		PushedKey *entry = keys->last;

		keys->last = entry->previous;
		(void) hash_search(keys->table, &entry->key, HASH_REMOVE, nullptr);
	}
}

} // namespace queen
