/*
 * pushed_keys.h: the dedup_keys of the push buffer, so that a key that comes twice in a transaction is seen at the call.
 *
 * An aid only: the flush decides by the table, and memory for it is bounded. Keys are kept in the order of their pushes;
 * a rolled-back savepoint drops the newest.
 */
#ifndef QUEEN_LOG_PUSHED_KEYS_H
#define QUEEN_LOG_PUSHED_KEYS_H

#include "core/types.h"
#include "server/pg.h"

namespace queen
{

struct PushedKey
{
	/* the key of the hash table, without padding: it is compared as bytes */
	struct Key
	{
		core::Uuid hash;
		uint32 partition; /* its number in the buffer */
	} key;
	core::Uuid message_id;
	uint64 frame; /* its number in the buffer */
	PushedKey *previous;
};

struct PushedKeys
{
	HTAB *table;
	PushedKey *last;
};

/* The message that was pushed with this key to this partition, or null. */
const core::Uuid *pushed_keys_find(const PushedKeys *keys, uint32 partition, const core::Uuid *hash);

/*
 * Remember a key, unless as many as limit are known. context: where the table is made; frame: the message's number, above
 * all that were given. May raise for memory.
 */
void pushed_keys_add(PushedKeys *keys, MemoryContext context, uint64 limit, uint32 partition, const core::Uuid *hash,
					 const core::Uuid *message_id, uint64 frame);

/* Forget the keys of frames from a number on. Never raises. */
void pushed_keys_cut(PushedKeys *keys, uint64 frame);

} // namespace queen

#endif
