/*
 * cron_property_test.cpp: recurring timers' rules against oracles: random rules in random zones, and what they cost.
 */
#include <cstdlib>

#include "gtest/gtest.h"

#include "cron_support.h"

namespace queen::test
{
namespace
{

using core::CronError;
using core::CronReason;
using core::CronSpec;

/* ---- rules ---- */

std::string
random_field(Random &random, int low, int high)
{
	std::string text;

	for (std::int64_t items = random() % 3 == 0 ? between(random, 2, 4) : 1; items > 0; items--)
	{
		const std::int64_t a = between(random, low, high);
		const std::int64_t b = between(random, a, high);

		switch (random() % 4)
		{
			case 0:
				text += std::to_string(a);
				break;
			case 1:
				text += std::to_string(a) + "-" + std::to_string(b);
				break;
			case 2:
				text += std::to_string(a) + "-" + std::to_string(b) + "/" + std::to_string(between(random, 1, 5));
				break;
			default:
				text += "*/" + std::to_string(between(random, 1, high - low));
		}
		text += items > 1 ? "," : "";
	}
	return text;
}

/* A rule that has something to do in most months; hours are mostly those in which zones change. */
std::string
random_rule(Random &random)
{
	static const char *const hours[] = {"*", "*", "*/2", "*/12", "0", "1", "2", "3", "0-3", "1,2,3", "2-23/7", "0-23"};

	return (random() % 4 == 0 ? "*" : random_field(random, 0, 59)) + " " +
		   (random() % 3 == 0 ? random_field(random, 0, 23) : one_of(random, hours)) + " " +
		   (random() % 3 != 0 ? "*" : random_field(random, 1, 31)) + " " +
		   (random() % 6 != 0 ? "*" : random_field(random, 1, 12)) + " " +
		   (random() % 3 != 0 ? "*" : random_field(random, 0, 6));
}

CronSpec
random_spec(Random &random, std::string &text)
{
	CronSpec spec{};
	CronError error{};

	do
		text = random_rule(random);
	while (!core::cron_parse(text, spec, error) && error.reason == CronReason::never_matches);
	return rule(text);
}

/* From instants of 3,500 years; the C library's calendar says when the next one is. */
TEST(CronProperty, DaysOverManyYears)
{
	Random random(2);
	TableZone zone = utc_zone();

	for (int i = 0; i < 1500; i++)
	{
		const std::string text = "7 13 " + (random() % 4 == 0 ? "*" : random_field(random, 1, 31)) + " " +
								 (random() % 2 == 0 ? "2" : random_field(random, 1, 12)) + " " +
								 (random() % 4 == 0 ? "*" : random_field(random, 0, 6));
		CronSpec spec{};
		CronError error{};
		if (!core::cron_parse(text, spec, error))
			continue;
		std::int64_t after = between(random, instant("0003-01-01 00:00"), instant("3500-01-01 00:00"));
		std::int64_t expected = after - after % 86400 - (after < 0 ? 86400 : 0) + 13 * 3600 + 7 * 60;

		for (int n = 0; n < 5; n++)
		{
			while (expected <= after || !minute_matches(spec, expected))
				expected += 86400;
			ASSERT_EQ(next(spec, after, zone), expected) << text << " after " << text_of(after);
			after = expected;
		}
	}
}

TEST(CronProperty, NoDayOfEightHundredYearsIsLeftOut)
{
	TableZone zone = utc_zone();
	const CronSpec daily = rule("@daily");

	for (std::int64_t day = instant("1600-01-01 00:00"); day < instant("2400-01-01 00:00"); day += 86400)
		ASSERT_EQ(next(daily, day, zone), day + 86400) << text_of(day);
}

/* ---- zones ---- */

/* Changes at least 48 hours apart, often not much more, by amounts that zones have had and some that they have not. */
TableZone
random_zone(Random &random, std::int64_t from, std::int64_t to, std::int64_t step)
{
	static const std::int64_t amounts[] = {1800, 3600, 3600, 7200, 1200, 86400, 82800, 144000};
	TableZone zone;
	std::int64_t utc = from;

	zone.first = static_cast<std::int32_t>(between(random, -16 * 3600 / step, 16 * 3600 / step) * step);
	std::int64_t offset = zone.first;
	for (;;)
	{
		utc += 2 * 86400 + step + between(random, 0, 8 * 86400 / step) * step;
		if (utc > to)
			return zone;
		/* mostly near hours that rules name */
		if (random() % 2 == 0)
			utc += 86400 - (utc + offset) % 86400 + between(random, 0, 6) * 1800;
		std::int64_t by = one_of(random, amounts) * (random() % 2 == 0 ? 1 : -1);
		if (step == 1)
			by += between(random, -59, 59);
		if (std::abs(offset + by) > core::cron_largest_offset)
			by = std::abs(offset - by) > core::cron_largest_offset ? by / 5 : -by;
		offset += by;
		zone.changes.push_back({utc, static_cast<std::int32_t>(offset)});
	}
}

void
expect_as_oracle(const std::string &text, const CronSpec &spec, TableZone &zone, std::int64_t from, std::int64_t to,
				 std::int64_t step)
{
	std::int64_t after = from;

	for (const std::int64_t expected : oracle(spec, from, to, zone, step))
	{
		const std::optional<std::int64_t> found = next(spec, after, zone);
		ASSERT_EQ(found, expected) << text << " after " << text_of(after) << " expected " << text_of(expected)
								   << " found " << text_of(found.value_or(0));
		after = expected;
	}
	const std::optional<std::int64_t> found = next(spec, after, zone);
	ASSERT_TRUE(!found || *found > to) << text << " after " << text_of(after) << " found " << text_of(*found);
}

TEST(CronProperty, RandomZones)
{
	Random random(3);
	std::int64_t changes = 0;

	for (int i = 0; i < 600; i++)
	{
		const std::int64_t from = instant("2024-01-01 00:00") + between(random, 0, 1000000) * 60;
		const std::int64_t to = from + 30 * 86400;
		TableZone zone = random_zone(random, from - 5 * 86400, to, 60);
		std::string text;
		const CronSpec spec = random_spec(random, text);

		changes += static_cast<std::int64_t>(zone.changes.size());
		ASSERT_NO_FATAL_FAILURE(expect_as_oracle(text, spec, zone, from - between(random, 0, 59), to, 60));
	}
	EXPECT_GT(changes, 1500);
}

TEST(CronProperty, RandomZonesThatChangeBySeconds)
{
	Random random(4);

	for (int i = 0; i < 25; i++)
	{
		const std::int64_t from = instant("1890-01-01 00:00") + between(random, 0, 1000000);
		const std::int64_t to = from + 9 * 86400;
		TableZone zone = random_zone(random, from - 5 * 86400, to, 1);
		std::string text;
		const CronSpec spec = random_spec(random, text);

		ASSERT_NO_FATAL_FAILURE(expect_as_oracle(text, spec, zone, from, to, 1));
	}
}

TEST(CronProperty, RealZones)
{
	Random random(5);
	TableZone zones[] = {berlin(), new_york(), lord_howe(), casablanca(), apia()};

	for (TableZone &zone : zones)
		for (const TableZone::Change &change : zone.changes)
			for (int i = 0; i < 40; i++)
			{
				const std::int64_t from = change.utc - between(random, 1, 36 * 3600);
				std::string text;
				const CronSpec spec = random_spec(random, text);

				ASSERT_NO_FATAL_FAILURE(expect_as_oracle(text, spec, zone, from, change.utc + 2 * 86400, 60));
			}
}

/* ---- what it costs, and zones that are none ---- */

TEST(CronProperty, AZoneIsAskedSeldom)
{
	Random random(6);
	TableZone zones[] = {berlin(), new_york(), lord_howe(), casablanca(), apia()};
	std::int64_t most = 0;

	for (TableZone &zone : zones)
		for (int i = 0; i < 10'000; i++)
		{
			const TableZone::Change &change = one_of(random, zone.changes);
			const std::int64_t after = change.utc + between(random, -3 * 86400, 3 * 86400);
			std::string text;
			const CronSpec spec = random_spec(random, text);

			zone.asked = 0;
			ASSERT_GT(next(spec, after, zone), after) << text;
			most = std::max(most, zone.asked);
		}
	/* two searches of 18 steps, and the ends of what is searched */
	EXPECT_LE(most, 45);
	EXPECT_GE(most, 20);

	TableZone calm = utc_zone();
	for (int i = 0; i < 10'000; i++)
	{
		std::string text;
		const CronSpec spec = random_spec(random, text);

		calm.asked = 0;
		ASSERT_TRUE(next(spec, between(random, 0, 4'000'000'000), calm).has_value()) << text;
		ASSERT_LE(calm.asked, 4) << text;
	}
}

/* An offset of its own for each second, any number at all. */
std::int32_t
noise_at(void *asked, std::int64_t utc) noexcept
{
	const std::uint64_t hash = static_cast<std::uint64_t>(utc) * 0x9e3779b97f4a7c15u;

	++*static_cast<std::int64_t *>(asked);
	return static_cast<std::int32_t>(hash >> (hash >> 60 < 4 ? 32 : 46)) - 100000;
}

TEST(CronProperty, AZoneThatIsNoneGetsAnAnswerSoonAndALaterOne)
{
	Random random(7);
	std::int64_t answers = 0;

	for (int i = 0; i < 20'000; i++)
	{
		std::string text;
		const CronSpec spec = random_spec(random, text);
		const std::int64_t after = between(random, core::cron_first_second, core::cron_last_second);
		std::int64_t asked = 0;
		std::int64_t found = 0;

		if (core::cron_next(spec, after, 0, noise_at, &asked, found))
		{
			ASSERT_TRUE(found > after && found <= core::cron_last_second) << text << " " << after;
			answers++;
		}
		ASSERT_LE(asked, 100 * 20) << text << " " << after;
	}
	EXPECT_GT(answers, 10'000);
}

/* A zone whose clocks never show the hour that the rule names: it goes back to the midnight before whenever it comes to it. */
TEST(CronProperty, AnHourThatIsNeverShownIsNotLookedForForEver)
{
	TableZone zone;
	const CronSpec spec = rule("*/30 */23 31 12 *");

	for (int year = 2020; year < 2090; year++)
	{
		const std::int64_t day = instant(std::to_string(year) + "-12-31 00:00");
		zone.changes.push_back({day, 86400});
		zone.changes.push_back({day + 10 * 86400, 0});
	}
	ASSERT_TRUE(spec.elapsed);
	EXPECT_EQ(next(spec, instant("2020-01-01 00:00"), zone), std::nullopt);
	EXPECT_LT(zone.asked, 5000);
}

} // namespace
} // namespace queen::test
