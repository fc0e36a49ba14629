/*
 * uuid7.cpp: UUID version 7 with a counter that starts at random in each millisecond.
 */
#include "core/uuid7.h"

#include "core/bytes.h"

namespace queen::core
{

namespace
{

constexpr std::uint64_t millis_mask = (std::uint64_t{1} << 48) - 1;
constexpr std::uint64_t high_mask = (std::uint64_t{1} << 12) - 1;
constexpr std::uint64_t low_mask = (std::uint64_t{1} << 62) - 1;
constexpr std::uint64_t version = 7;
constexpr std::uint64_t variant = 2;

/* What an id says, without version and variant. The counter is high * 2^62 + low. */
struct Parts
{
	std::uint64_t millis;
	std::uint64_t high;
	std::uint64_t low;
};

/* Take an id apart. */
Parts
split(const Uuid &id) noexcept
{
	const auto first = load_be<std::uint64_t>(id.bytes);
	const auto second = load_be<std::uint64_t>(id.bytes + 8);

	return Parts{first >> 16, first & high_mask, second & low_mask};
}

/* Put an id together; bits over a field's width are dropped. */
Uuid
join(const Parts &parts) noexcept
{
	Uuid id;

	store_be(id.bytes, (parts.millis & millis_mask) << 16 | version << 12 | (parts.high & high_mask));
	store_be(id.bytes + 8, variant << 62 | (parts.low & low_mask));
	return id;
}

} // namespace

bool
uuid7_is_one(const Uuid &id) noexcept
{
	return id.bytes[6] >> 4 == version && id.bytes[8] >> 6 == variant;
}

bool
Uuid7Source::needs_random(std::uint64_t now_ms) const noexcept
{
	return !started_ || (now_ms & millis_mask) > uuid7_millis(last_);
}

Uuid
Uuid7Source::mint(std::uint64_t now_ms, std::span<const std::uint8_t, random_bytes> random) noexcept
{
	if (needs_random(now_ms))
	{
		const std::uint8_t *bytes = random.data();

		last_ = join(Parts{now_ms, load_be<std::uint16_t>(bytes), load_be<std::uint64_t>(bytes + 2)});
		started_ = true;
	}
	else
		last_ = uuid7_next(last_);
	return last_;
}

bool
uuid7_less(const Uuid &a, const Uuid &b) noexcept
{
	return std::memcmp(a.bytes, b.bytes, sizeof(a.bytes)) < 0;
}

bool
uuid7_follows(const Uuid &a, const Uuid &b) noexcept
{
	return uuid7_is_one(a) && uuid7_next(a) == b && uuid7_millis(a) == uuid7_millis(b);
}

Uuid
uuid7_next(const Uuid &a) noexcept
{
	Parts parts = split(a);

	parts.low = (parts.low + 1) & low_mask;
	if (parts.low == 0)
	{
		parts.high = (parts.high + 1) & high_mask;
		if (parts.high == 0)
			parts.millis++;
	}
	return join(parts);
}

std::uint64_t
uuid7_millis(const Uuid &id) noexcept
{
	return load_be<std::uint64_t>(id.bytes) >> 16;
}

} // namespace queen::core
