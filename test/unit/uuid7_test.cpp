/*
 * uuid7_test.cpp: ids increase whatever the clock does, and say what RFC 9562 wants them to say.
 */
#include <cstring>
#include <type_traits>

#include <gtest/gtest.h>

#include "core/uuid7.h"
#include "support.h"

namespace queen::test
{
namespace
{

using core::Uuid;
using core::Uuid7Source;

constexpr std::uint64_t now = 1'700'000'000'000;
constinit Uuid7Source static_source;
static_assert(std::is_trivially_destructible_v<Uuid7Source>);

using Random = std::array<std::uint8_t, Uuid7Source::random_bytes>;

Random
filled(std::uint8_t value)
{
	Random random;

	random.fill(value);
	return random;
}

void
expect_version7(const Uuid &id)
{
	EXPECT_EQ(id.bytes[6] >> 4, 7);
	EXPECT_EQ(id.bytes[8] >> 6, 2);
}

bool
less(const Uuid &a, const Uuid &b)
{
	return std::memcmp(a.bytes, b.bytes, sizeof(a.bytes)) < 0;
}

TEST(Uuid7, LayoutAsInTheStandard)
{
	Uuid7Source source;
	const Random random = {0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
	/* the example of RFC 9562, appendix A.6 */
	const Uuid expected = {
		{0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3, 0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f}};

	EXPECT_TRUE(source.mint(0x017f22e279b0, random) == expected);
	EXPECT_EQ(core::uuid7_millis(expected), 0x017f22e279b0u);
}

TEST(Uuid7, StaticSourceStartsFresh)
{
	EXPECT_TRUE(static_source.needs_random(0));
	expect_version7(static_source.mint(0, filled(0)));
}

TEST(Uuid7, VersionAndVariantForAnyRandomBytes)
{
	for (unsigned value = 0; value < 256; value++)
	{
		Uuid7Source source;

		expect_version7(source.mint(now, filled(static_cast<std::uint8_t>(value))));
	}
}

TEST(Uuid7, CountsWithinAMillisecondWithoutRandom)
{
	Uuid7Source source;
	Uuid last = source.mint(now, filled(0x5a));

	for (int i = 0; i < 1000; i++)
	{
		EXPECT_FALSE(source.needs_random(now));
		const Uuid id = source.mint(now, filled(static_cast<std::uint8_t>(i)));
		EXPECT_TRUE(core::uuid7_follows(last, id));
		EXPECT_TRUE(less(last, id));
		last = id;
	}
}

TEST(Uuid7, NewMillisecondTakesRandom)
{
	Uuid7Source source;
	const Uuid first = source.mint(now, filled(0xff));

	EXPECT_TRUE(source.needs_random(now + 1));
	const Uuid second = source.mint(now + 1, filled(0x00));
	EXPECT_TRUE(less(first, second));
	EXPECT_FALSE(core::uuid7_follows(first, second));
	EXPECT_EQ(core::uuid7_millis(second), now + 1);
}

TEST(Uuid7, ClockStepsBack)
{
	Uuid7Source source;
	Uuid last = source.mint(now, filled(0x10));

	for (std::uint64_t back : {1u, 1000u, 86'400'000u})
	{
		EXPECT_FALSE(source.needs_random(now - back));
		const Uuid id = source.mint(now - back, filled(0));
		EXPECT_TRUE(less(last, id));
		EXPECT_EQ(core::uuid7_millis(id), now);
		last = id;
	}
}

TEST(Uuid7, CounterRunsOver)
{
	Uuid7Source source;
	const Uuid last = source.mint(now, filled(0xff));
	const Uuid carried = source.mint(now, filled(0));

	expect_version7(carried);
	EXPECT_TRUE(less(last, carried));
	EXPECT_EQ(core::uuid7_millis(carried), now + 1);
	EXPECT_TRUE(core::uuid7_next(last) == carried);
	EXPECT_FALSE(core::uuid7_follows(last, carried)) << "another millisecond";

	/* ahead of the clock now: it counts on until the clock passes it */
	EXPECT_FALSE(source.needs_random(now + 1));
	EXPECT_TRUE(core::uuid7_follows(carried, source.mint(now + 1, filled(0x77))));
	EXPECT_TRUE(source.needs_random(now + 2));
}

TEST(Uuid7, CarryBetweenTheHalves)
{
	Uuid7Source source;
	Random random = filled(0xff);

	random[0] = 0x01;
	random[1] = 0x23;
	const Uuid a = source.mint(now, random);
	const Uuid b = source.mint(now, random);
	expect_version7(b);
	EXPECT_TRUE(less(a, b));
	EXPECT_TRUE(core::uuid7_follows(a, b));
	EXPECT_EQ(core::uuid7_millis(b), now);
	EXPECT_EQ(b.bytes[6], 0x71);
	EXPECT_EQ(b.bytes[7], 0x24);
}

TEST(Uuid7, OnlyTheLow48BitsOfTheClockCount)
{
	Uuid7Source source;

	source.mint((std::uint64_t{1} << 48) | now, filled(1));
	EXPECT_FALSE(source.needs_random(now));
	EXPECT_FALSE(source.needs_random((std::uint64_t{7} << 48) | now));
	EXPECT_EQ(core::uuid7_millis(source.mint(now + 1, filled(1))), now + 1);
}

TEST(Uuid7, FollowsIsStrict)
{
	Uuid7Source source;
	const Uuid a = source.mint(now, filled(0x21));
	const Uuid b = source.mint(now, filled(0));
	const Uuid c = source.mint(now, filled(0));

	EXPECT_TRUE(core::uuid7_follows(a, b));
	EXPECT_FALSE(core::uuid7_follows(a, a));
	EXPECT_FALSE(core::uuid7_follows(b, a));
	EXPECT_FALSE(core::uuid7_follows(a, c));

	/* an id that is not of version 7 has no successor, nor is it one */
	Uuid other = a;
	other.bytes[6] = static_cast<std::uint8_t>((other.bytes[6] & 0x0f) | 0x40);
	EXPECT_FALSE(core::uuid7_follows(other, b));
	other = b;
	other.bytes[8] ^= 0x40;
	EXPECT_FALSE(core::uuid7_follows(a, other));
}

TEST(Uuid7, RandomClockAlwaysIncreases)
{
	std::mt19937_64 dice(42);
	Uuid7Source source;
	std::uint64_t clock = now;
	Uuid last = source.mint(clock, filled(0xff));

	for (int i = 0; i < 200'000; i++)
	{
		clock += dice() % 3;
		if (dice() % 100 == 0)
			clock -= dice() % 50;
		/* mostly ones, so that overflows happen often */
		const Uuid id = source.mint(clock, filled(dice() % 4 == 0 ? static_cast<std::uint8_t>(dice()) : 0xff));
		ASSERT_TRUE(less(last, id)) << i;
		expect_version7(id);
		last = id;
	}
}

} // namespace
} // namespace queen::test
