/*
 * segment_checksum.cpp: the one place that compiles xxHash in, so that no library is needed for it.
 */
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

} // namespace queen::core
