/*
 * lease_token.cpp: packs partition, group and nonce into the 122 free bits of a UUID version 8. README.md has the bits.
 */
#include "core/lease_token.h"

#include "core/bytes.h"

namespace queen::core
{

namespace
{

constexpr std::uint64_t version = 8;
constexpr std::uint64_t variant = 2;

/* The group id is cut in three by the version and the variant: 12 bits before, 12 between, 2 behind. */
constexpr int group_low_bits = 2;
constexpr int group_middle_bits = 12;
constexpr int group_high_bits = LeaseToken::group_bits - group_middle_bits - group_low_bits;
static_assert(LeaseToken::partition_bits + group_high_bits == 48);
static_assert(group_low_bits + LeaseToken::nonce_bits == 62);

/* The value's lowest bits. */
constexpr std::uint64_t
low_bits(std::uint64_t value, int bits) noexcept
{
	return value & ((std::uint64_t{1} << bits) - 1);
}

} // namespace

bool
lease_token_pack(const LeaseToken &token, Uuid &out) noexcept
{
	if (token.partition_id >> LeaseToken::partition_bits != 0 || token.group_id >> LeaseToken::group_bits != 0)
		return false;

	const std::uint64_t group_high = token.group_id >> (group_middle_bits + group_low_bits);
	const std::uint64_t group_middle = low_bits(token.group_id >> group_low_bits, group_middle_bits);
	const std::uint64_t group_low = low_bits(token.group_id, group_low_bits);
	const std::uint64_t nonce = low_bits(token.nonce, LeaseToken::nonce_bits);

	store_be(out.bytes, token.partition_id << 28 | group_high << 16 | version << 12 | group_middle);
	store_be(out.bytes + 8, variant << 62 | group_low << LeaseToken::nonce_bits | nonce);
	return true;
}

bool
lease_token_unpack(const Uuid &uuid, LeaseToken &out) noexcept
{
	const auto first = load_be<std::uint64_t>(uuid.bytes);
	const auto second = load_be<std::uint64_t>(uuid.bytes + 8);

	if (low_bits(first >> 12, 4) != version || second >> 62 != variant)
		return false;

	const std::uint64_t group_high = low_bits(first >> 16, group_high_bits);
	const std::uint64_t group_middle = low_bits(first, group_middle_bits);
	const std::uint64_t group_low = low_bits(second >> LeaseToken::nonce_bits, group_low_bits);

	out.partition_id = first >> 28;
	out.group_id = group_high << (group_middle_bits + group_low_bits) | group_middle << group_low_bits | group_low;
	out.nonce = low_bits(second, LeaseToken::nonce_bits);
	return true;
}

} // namespace queen::core
