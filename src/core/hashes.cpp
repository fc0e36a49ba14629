/*
 * hashes.cpp: the one place that compiles xxHash in, so that no library is needed for it.
 */
#include "core/key_hash.h"
#include "core/segment_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace queen::core
{

std::uint64_t
segment_checksum(const std::uint8_t *bytes, std::size_t length) noexcept
{
	return XXH3_64bits(bytes, length);
}

Uuid
key_hash(ByteView key) noexcept
{
	XXH128_canonical_t canonical;
	Uuid hash;

	static_assert(sizeof(canonical.digest) == sizeof(hash.bytes));
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(key.data(), key.size()));
	for (std::size_t i = 0; i < sizeof(hash.bytes); i++)
		hash.bytes[i] = canonical.digest[i];
	return hash;
}

} // namespace queen::core
