/*
 * lease_token.h: what a lease's uuid carries.
 *
 * A UUID version 8 (RFC 9562: custom) of 36 bits partition id, 26 bits consumer group id and 60 random bits, so a token
 * finds its cursor row by itself, without an index on tokens, and cannot be guessed. A token proves nothing until it is
 * compared with the one that the row stores.
 */
#ifndef QUEEN_CORE_LEASE_TOKEN_H
#define QUEEN_CORE_LEASE_TOKEN_H

#include "core/types.h"

namespace queen::core
{

struct LeaseToken
{
	static constexpr int partition_bits = 36;
	static constexpr int group_bits = 26;
	static constexpr int nonce_bits = 60;

	std::uint64_t partition_id;
	std::uint64_t group_id;
	std::uint64_t nonce; /* only the low nonce_bits count */
};

/* Pack a token. False, and out untouched, when an id is wider than its bits. */
bool lease_token_pack(const LeaseToken &token, Uuid &out) noexcept;

/* Unpack a token. False when the uuid is not of version 8 and the RFC's variant: it was never a lease. */
bool lease_token_unpack(const Uuid &uuid, LeaseToken &out) noexcept;

} // namespace queen::core

#endif
