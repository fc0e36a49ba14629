/*
 * uuid7.h: message ids, UUID version 7 (RFC 9562).
 *
 * 48 bits of Unix milliseconds, then 74 bits that are random when the millisecond is new and count up by one while it
 * lasts ("monotonic random"). So ids of one source strictly increase, also when the clock steps back, and the ids of
 * one batch differ by one: a segment stores such an id as one flag bit.
 *
 * No lock: a source belongs to one process. Trivially destructible, constinit.
 */
#ifndef QUEEN_CORE_UUID7_H
#define QUEEN_CORE_UUID7_H

#include "core/types.h"

namespace queen::core
{

class Uuid7Source
{
  public:
	static constexpr std::size_t random_bytes = 10;

	/* Would mint(now_ms, …) read its random bytes? For the first id, and when now_ms is later than the last id's. */
	bool needs_random(std::uint64_t now_ms) const noexcept;

	/*
	 * The next id, greater than every id minted before by this source.
	 *   now_ms: Unix time in milliseconds; the low 48 bits count.
	 *   random: unpredictable bytes; not read unless needs_random(now_ms).
	 */
	Uuid mint(std::uint64_t now_ms, std::span<const std::uint8_t, random_bytes> random) noexcept;

  private:
	bool started_ = false;
	Uuid last_{};
};

/* Has the id the version and the variant that Uuid7Source writes? */
bool uuid7_is_one(const Uuid &id) noexcept;

/* Was a minted before b, by one source? Of any two, the order of PostgreSQL's uuid. */
bool uuid7_less(const Uuid &a, const Uuid &b) noexcept;

/* Is b == a + 1, counting in the random bits as Uuid7Source does, in the same millisecond? */
bool uuid7_follows(const Uuid &a, const Uuid &b) noexcept;

/* a + 1 in the same sense; a carry out of the random bits goes to the millisecond. */
Uuid uuid7_next(const Uuid &a) noexcept;

/* The Unix milliseconds inside an id. */
std::uint64_t uuid7_millis(const Uuid &id) noexcept;

} // namespace queen::core

#endif
