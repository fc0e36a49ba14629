/*
 * key_hash_test.cpp: what stands for a dedup_key is stored, so it must never change.
 */
#include "core/key_hash.h"

#include <cstring>

#include "gtest/gtest.h"

using namespace queen;

namespace
{

core::Uuid
hash_of(const char *key)
{
	return core::key_hash({reinterpret_cast<const std::uint8_t *>(key), std::strlen(key)});
}

TEST(KeyHash, IsXxh3Of128BitsInCanonicalOrder)
{
	/* the empty input's hash as xxHash's own documentation has it */
	const core::Uuid empty = {
		{0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8, 0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f}};

	EXPECT_EQ(hash_of(""), empty);
}

TEST(KeyHash, EveryByteCounts)
{
	EXPECT_NE(hash_of("a"), hash_of("A"));
	EXPECT_NE(hash_of("a"), hash_of("a "));
	EXPECT_NE(hash_of("order 1"), hash_of("order 2"));
}

} // namespace
