/*
 * lease_token_test.cpp: what is packed comes out again, at the edges of every field too.
 */
#include <random>

#include <gtest/gtest.h>

#include "core/lease_token.h"
#include "core/uuid7.h"

namespace queen::test
{
namespace
{

using core::LeaseToken;
using core::Uuid;

constexpr std::uint64_t partition_max = (std::uint64_t{1} << LeaseToken::partition_bits) - 1;
constexpr std::uint64_t group_max = (std::uint64_t{1} << LeaseToken::group_bits) - 1;
constexpr std::uint64_t nonce_max = (std::uint64_t{1} << LeaseToken::nonce_bits) - 1;

void
expect_round_trip(const LeaseToken &token)
{
	Uuid uuid{};
	LeaseToken back{};

	ASSERT_TRUE(core::lease_token_pack(token, uuid));
	EXPECT_EQ(uuid.bytes[6] >> 4, 8);
	EXPECT_EQ(uuid.bytes[8] >> 6, 2);
	ASSERT_TRUE(core::lease_token_unpack(uuid, back));
	EXPECT_EQ(back.partition_id, token.partition_id);
	EXPECT_EQ(back.group_id, token.group_id);
	EXPECT_EQ(back.nonce, token.nonce & nonce_max);
}

TEST(LeaseToken, EveryBitOfEveryField)
{
	expect_round_trip({0, 0, 0});
	expect_round_trip({partition_max, group_max, nonce_max});
	for (int bit = 0; bit < LeaseToken::partition_bits; bit++)
		expect_round_trip({std::uint64_t{1} << bit, 0, 0});
	for (int bit = 0; bit < LeaseToken::group_bits; bit++)
		expect_round_trip({0, std::uint64_t{1} << bit, 0});
	for (int bit = 0; bit < LeaseToken::nonce_bits; bit++)
		expect_round_trip({0, 0, std::uint64_t{1} << bit});
}

TEST(LeaseToken, RandomFields)
{
	std::mt19937_64 dice(7);

	for (int i = 0; i < 10'000; i++)
		expect_round_trip({dice() & partition_max, dice() & group_max, dice()});
}

TEST(LeaseToken, BitsAreWhereTheReadmeSays)
{
	Uuid uuid{};
	const Uuid expected = {
		{0xab, 0xcd, 0xef, 0x12, 0x3d, 0xdd, 0x8d, 0xdd, 0xb1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}};

	ASSERT_TRUE(core::lease_token_pack({0xabcdef123, 0x3777777, 0x123456789abcdef}, uuid));
	EXPECT_TRUE(uuid == expected);
}

TEST(LeaseToken, TooWideIsRefusedAndLeavesOutAlone)
{
	Uuid uuid{};
	uuid.bytes[0] = 0x77;
	const Uuid before = uuid;

	EXPECT_FALSE(core::lease_token_pack({partition_max + 1, 0, 0}, uuid));
	EXPECT_FALSE(core::lease_token_pack({0, group_max + 1, 0}, uuid));
	EXPECT_FALSE(core::lease_token_pack({~std::uint64_t{0}, ~std::uint64_t{0}, 0}, uuid));
	EXPECT_TRUE(uuid == before);
}

TEST(LeaseToken, OtherUuidsAreNoLeases)
{
	Uuid uuid{};
	LeaseToken out{1, 2, 3};

	EXPECT_FALSE(core::lease_token_unpack(uuid, out));
	ASSERT_TRUE(core::lease_token_pack({5, 6, 7}, uuid));
	for (int version = 0; version < 16; version++)
		for (int variant = 0; variant < 4; variant++)
		{
			Uuid changed = uuid;

			changed.bytes[6] = static_cast<std::uint8_t>((changed.bytes[6] & 0x0f) | version << 4);
			changed.bytes[8] = static_cast<std::uint8_t>((changed.bytes[8] & 0x3f) | variant << 6);
			out = {1, 2, 3};
			EXPECT_EQ(core::lease_token_unpack(changed, out), version == 8 && variant == 2);
			EXPECT_EQ(out.partition_id, version == 8 && variant == 2 ? 5u : 1u) << "out untouched";
		}
}

TEST(Status, EveryNameIsAWord)
{
	for (int i = 0; i <= static_cast<int>(core::Status::no_space); i++)
		EXPECT_STRNE(core::status_name(static_cast<core::Status>(i)), "unknown");
	EXPECT_STREQ(core::status_name(static_cast<core::Status>(200)), "unknown");
	EXPECT_STREQ(core::status_name(core::Status::bad_checksum), "bad checksum");
}

} // namespace
} // namespace queen::test
