/*
 * key_hash.h: what stands for a dedup_key in tables and memory.
 */
#ifndef QUEEN_CORE_KEY_HASH_H
#define QUEEN_CORE_KEY_HASH_H

#include "core/types.h"

namespace queen::core
{

/*
 * 128 bits of XXH3 over a key's bytes, in canonical (big-endian) order: the same on every machine, since it is stored. Who
 * looks for collisions finds them, but only among keys of one partition, whose pushers trust each other.
 */
Uuid key_hash(ByteView key) noexcept;

} // namespace queen::core

#endif
