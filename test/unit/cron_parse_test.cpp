/*
 * cron_parse_test.cpp: texts of recurring timers' rules: what they mean, what is wrong with them, and any text at all.
 */
#include "gtest/gtest.h"

#include "cron_support.h"

namespace queen::test
{
namespace
{

using core::CronError;
using core::CronField;
using core::CronReason;
using core::CronSpec;

constexpr std::uint64_t all_minutes = (std::uint64_t{1} << 60) - 1;

TEST(CronParse, FieldsAreSets)
{
	EXPECT_EQ(rule("* * * * *"), (CronSpec{0, all_minutes, 0xffffff, 0xfffffffe, 0x1ffe, 0x7f, false, true}));
	EXPECT_EQ(rule("0,30 9-17 1 1-12/3 mon"),
			  (CronSpec{0, 1 | 1 << 30, 0x3fe00, 1 << 1, 1 << 1 | 1 << 4 | 1 << 7 | 1 << 10, 1 << 1, true, false}));
	EXPECT_EQ(rule("*/20 */12 */15 */6 */3").minutes, (1 | 1 << 20 | std::uint64_t{1} << 40));
	EXPECT_EQ(rule("*/20 */12 */15 */6 */3").hours, 1u | 1 << 12);
	EXPECT_EQ(rule("*/20 */12 */15 */6 */3").days, 1u << 1 | 1 << 16 | 1u << 31);
	EXPECT_EQ(rule("*/20 */12 */15 */6 */3").months, 1 << 1 | 1 << 7);
	EXPECT_EQ(rule("*/20 */12 */15 */6 */3").weekdays, 1 | 1 << 3 | 1 << 6);
	EXPECT_EQ(rule("59 23 31 12 7").minutes, std::uint64_t{1} << 59);
	EXPECT_EQ(rule("10-20/5,1 0 1 1 1").minutes, (1u << 1 | 1 << 10 | 1 << 15 | 1 << 20));
}

TEST(CronParse, NamesAndSunday)
{
	EXPECT_EQ(rule("0 0 * JAN,fEb,dec Mon-frI"), rule("0 0 * 1,2,12 1-5"));
	EXPECT_EQ(rule("0 0 * * 7"), rule("0 0 * * 0"));
	EXPECT_EQ(rule("0 0 * * sun"), rule("0 0 * * 0"));
	EXPECT_EQ(rule("0 0 * * fri-sun"), rule("0 0 * * 5,6,0"));
	EXPECT_EQ(rule("0 0 * * sun-tue"), rule("0 0 * * 0-2"));
	EXPECT_EQ(rule("0 0 * * 5-7"), rule("0 0 * * 0,5,6"));
	EXPECT_EQ(rule("0 0 * * 0-7").weekdays, 0x7f);
	EXPECT_EQ(rule("  00 \t 000 * 01  *\t"), rule("0 0 * 1 *"));
}

TEST(CronParse, Nicknames)
{
	EXPECT_EQ(rule("@hourly"), rule("0 * * * *"));
	EXPECT_EQ(rule("@daily"), rule("0 0 * * *"));
	EXPECT_EQ(rule("@Midnight"), rule("0 0 * * *"));
	EXPECT_EQ(rule("@weekly"), rule("0 0 * * 0"));
	EXPECT_EQ(rule("@monthly"), rule("0 0 1 * *"));
	EXPECT_EQ(rule("@YEARLY "), rule("0 0 1 1 *"));
	EXPECT_EQ(rule("\t@annually"), rule("0 0 1 1 *"));
}

TEST(CronParse, Intervals)
{
	EXPECT_EQ(rule("@every 1s").every, 1);
	EXPECT_EQ(rule("@every 90m").every, 5400);
	EXPECT_EQ(rule("@EVERY \t1h30M ").every, 5400);
	EXPECT_EQ(rule("@every 1d2h3m4s").every, 93784);
	EXPECT_EQ(rule("@every 0d5s").every, 5);
	EXPECT_EQ(rule("@every 366d").every, core::cron_longest_interval);
	EXPECT_EQ(rule("@every 31622400s").every, core::cron_longest_interval);
	EXPECT_EQ(rule("@every 365d24h").every, core::cron_longest_interval);
}

TEST(CronParse, WhichDaysAndWhichClock)
{
	EXPECT_TRUE(rule("0 0 13 * fri").either_day);
	EXPECT_TRUE(rule("0 0 1-31 * fri").either_day) << "a range is a restriction, all days though it has";
	EXPECT_FALSE(rule("0 0 * * fri").either_day);
	EXPECT_FALSE(rule("0 0 13 * *").either_day);
	EXPECT_FALSE(rule("0 0 */2 * fri").either_day);
	EXPECT_FALSE(rule("0 0 13 * 1,*/2").either_day);

	for (const char *elapsed : {"30 * * * *", "*/5 * * * *", "0 0-23 * * *", "0 */1 1 1 *", "*/15 */2 * * *"})
		EXPECT_TRUE(rule(elapsed).elapsed) << elapsed;
	for (const char *clock : {"30 2 * * *", "*/5 2 * * *", "0 */12 * * *", "0,30 */2 * * *", "* 0-22 * * *"})
		EXPECT_FALSE(rule(clock).elapsed) << clock;
}

TEST(CronParse, WhatIsWrongAndWhere)
{
	struct Case
	{
		std::string text;
		CronReason reason;
		CronField field;
		std::size_t position;
	};
	using R = CronReason;
	using F = CronField;
	const Case cases[] = {
		{"", R::missing_field, F::minute, 0},
		{" \t", R::missing_field, F::minute, 2},
		{"0 0 * *", R::missing_field, F::weekday, 7},
		{"0 0 * * * *", R::extra_field, F::whole, 10},
		{"0 0 * * * @daily", R::extra_field, F::whole, 10},
		{"0,, 0 * * *", R::expected_value, F::minute, 2},
		{"0 , * * *", R::expected_value, F::hour, 2},
		{"0 1- * * *", R::expected_value, F::hour, 4},
		{"-1 0 * * *", R::expected_value, F::minute, 0},
		{"0 0 ? * *", R::expected_value, F::day, 4},
		{"0 0 * * 5#2", R::unexpected_character, F::weekday, 9},
		{"0 0 15W * *", R::unexpected_character, F::day, 6},
		{"0 0 L * *", R::unknown_name, F::day, 4},
		{"** 0 * * *", R::unexpected_character, F::minute, 1},
		{"*-5 0 * * *", R::unexpected_character, F::minute, 1},
		{"1-2-3 0 * * *", R::unexpected_character, F::minute, 3},
		{"1-5/2/2 0 * * *", R::unexpected_character, F::minute, 5},
		{"0\n0 * * *", R::unexpected_character, F::minute, 1},
		{std::string("0\0 0 * * *", 10), R::unexpected_character, F::minute, 1},
		{"0 0 * january *", R::unknown_name, F::month, 6},
		{"0 0 * ja *", R::unknown_name, F::month, 6},
		{"0 0 * mon *", R::unknown_name, F::month, 6},
		{"0 0 * * feb", R::unknown_name, F::weekday, 8},
		{"60 0 * * *", R::out_of_range, F::minute, 0},
		{"0 24 * * *", R::out_of_range, F::hour, 2},
		{"0 0 0 * *", R::out_of_range, F::day, 4},
		{"0 0 32 * *", R::out_of_range, F::day, 4},
		{"0 0 * 0 *", R::out_of_range, F::month, 6},
		{"0 0 * 1-13 *", R::out_of_range, F::month, 8},
		{"0 0 * * 8", R::out_of_range, F::weekday, 8},
		{"99999999999999999999999999 0 * * *", R::out_of_range, F::minute, 0},
		{"18446744073709551616 0 * * *", R::out_of_range, F::minute, 0},
		{"0 22-2 * * *", R::reversed_range, F::hour, 2},
		{"0 0 * * fri-mon", R::reversed_range, F::weekday, 8},
		{"5/15 0 * * *", R::step_without_range, F::minute, 1},
		{"*/0 0 * * *", R::bad_step, F::minute, 2},
		{"*/ 0 * * *", R::bad_step, F::minute, 2},
		{"*/x 0 * * *", R::bad_step, F::minute, 2},
		{"*/90 0 * * *", R::bad_step, F::minute, 2},
		{"0 1-5/24 * * *", R::bad_step, F::hour, 6},
		{"*/4294967297 0 * * *", R::bad_step, F::minute, 2},
		{"0 0 31 2 *", R::never_matches, F::whole, 0},
		{"0 0 30 2 *", R::never_matches, F::whole, 0},
		{"0 0 31 4,6,9,11 */2", R::never_matches, F::whole, 0},
		{"@", R::unknown_nickname, F::whole, 1},
		{"@reboot", R::unknown_nickname, F::whole, 1},
		{"@dailyx", R::unknown_nickname, F::whole, 1},
		{"@ daily", R::unknown_nickname, F::whole, 1},
		{"@daily x", R::unexpected_character, F::whole, 7},
		{"@daily7", R::unexpected_character, F::whole, 6},
		{"@every", R::bad_interval, F::whole, 6},
		{"@every5m", R::bad_interval, F::whole, 6},
		{"@every x", R::bad_interval, F::whole, 7},
		{"@every 5", R::bad_interval, F::whole, 8},
		{"@every 5 m", R::bad_interval, F::whole, 8},
		{"@every 5w", R::bad_interval, F::whole, 8},
		{"@every 1.5h", R::bad_interval, F::whole, 8},
		{"@every 5ms", R::bad_interval, F::whole, 9},
		{"@every 30m1h", R::bad_interval, F::whole, 11},
		{"@every 1m1m", R::bad_interval, F::whole, 10},
		{"@every -5m", R::bad_interval, F::whole, 7},
		{"@every 5m 5s", R::unexpected_character, F::whole, 10},
		{"@every 0s", R::interval_out_of_range, F::whole, 7},
		{"@every 366d1s", R::interval_out_of_range, F::whole, 7},
		{"@every 99999999999999999999d", R::interval_out_of_range, F::whole, 7},
	};
	const CronSpec untouched = rule("@every 77s");

	for (const Case &c : cases)
	{
		CronSpec spec = untouched;
		CronError error{};

		EXPECT_FALSE(core::cron_parse(c.text, spec, error)) << c.text;
		EXPECT_EQ(error.reason, c.reason) << c.text << ": " << core::cron_reason_text(error.reason);
		EXPECT_EQ(error.field, c.field) << c.text << ": " << core::cron_field_name(error.field);
		EXPECT_EQ(error.position, c.position) << c.text;
		EXPECT_EQ(spec, untouched) << c.text;
	}
}

TEST(CronParse, WhatExistsInSomeYearIsARule)
{
	EXPECT_EQ(rule("0 0 29 2 *").days, 1u << 29);
	EXPECT_EQ(rule("0 0 30,31 2,3 *").days, 3u << 30);
	EXPECT_TRUE(rule("0 0 31 2 mon").either_day) << "Mondays of February";
}

/* ---- any text ---- */

/* A piece of a rule, or near one. */
std::string
piece(Random &random)
{
	static const char *const pieces[] = {"*",		"*",   "*",		 "/",	"-",   ",",	  "0",
										 "1",		"5",   "7",		 "59",	"60",  "30",  "2",
										 "31",		"mon", "SUN",	 "sat", "Feb", "jan", "dec",
										 "1-5",		"*/2", "9-17/3", "?",	"L",   "#",	  "@daily",
										 "@every ", "1h",  "30m",	 "5s",	"d",   "00",  "99999999999999999999"};

	return random() % 40 == 0 ? std::string(1, static_cast<char>(random())) : one_of(random, pieces);
}

/* From right to wrong: pieces alone or in fields, and rules with a byte or two changed, left out or put in. */
std::string
random_text(Random &random)
{
	static const char *const rules[] = {"*/5 9-17 * jan-mar mon-fri",
										"0,30 2 1,15 * *",
										"@every 1h30m",
										"@weekly",
										"59 23 31 12 7",
										"0 0 30 2,4 *",
										"0 0 29 2 sat-sun"};
	std::string text;

	if (random() % 2 == 0)
	{
		text = one_of(random, rules);
		for (std::int64_t n = between(random, 1, 3); n > 0; n--)
		{
			const std::size_t at = random() % text.size();
			const std::string with = random() % 2 == 0 ? piece(random) : "";

			text.replace(at, random() % 2, with);
			if (text.empty())
				break;
		}
		return text;
	}
	for (std::int64_t field = between(random, 3, 6); field > 0; field--)
	{
		for (std::int64_t n = random() % 4 == 0 ? between(random, 1, 4) : 1; n > 0; n--)
			text += piece(random);
		text += random() % 8 == 0 ? "\t " : " ";
	}
	return text;
}

/* What every spec that a text gave has to be. */
void
expect_whole(const CronSpec &spec, const std::string &text)
{
	if (spec.every != 0)
	{
		EXPECT_TRUE(spec.every > 0 && spec.every <= core::cron_longest_interval) << text;
		return;
	}
	EXPECT_TRUE(spec.minutes != 0 && spec.minutes >> 60 == 0) << text;
	EXPECT_TRUE(spec.hours != 0 && spec.hours >> 24 == 0) << text;
	EXPECT_TRUE(spec.days != 0 && (spec.days & 1) == 0) << text;
	EXPECT_TRUE(spec.months != 0 && (spec.months & 1) == 0 && spec.months >> 13 == 0) << text;
	EXPECT_TRUE(spec.weekdays != 0 && spec.weekdays >> 7 == 0) << text;
}

/* No date of a leap year is such a day, whatever the weekday. */
void
expect_never(const CronSpec &spec, const std::string &text)
{
	CronSpec each = spec;

	EXPECT_FALSE(spec.either_day) << text;
	each.weekdays = 0x7f;
	each.minutes = 1;
	each.hours = 1;
	for (std::int64_t day = instant("2024-01-01 00:00"); day < instant("2025-01-01 00:00"); day += 86400)
		EXPECT_FALSE(minute_matches(each, day)) << text << " " << text_of(day);
}

TEST(CronProperty, AnyTextIsARuleOrAnErrorAndMeansWhatTheNaiveParserSays)
{
	Random random(1);
	int rules = 0;
	int refused[static_cast<std::size_t>(CronReason::interval_out_of_range) + 1] = {};

	for (int i = 0; i < 300'000; i++)
	{
		const std::string text = random_text(random);
		/* of exactly its size, for the sanitizer */
		const std::vector<char> bytes(text.begin(), text.end());
		CronSpec spec{};
		CronError error{};

		if (!core::cron_parse({bytes.data(), bytes.size()}, spec, error))
		{
			ASSERT_LT(static_cast<std::size_t>(error.reason), std::size(refused)) << text;
			ASSERT_LE(error.field, CronField::weekday) << text;
			ASSERT_LE(error.position, text.size()) << text;
			ASSERT_GT(std::string(core::cron_reason_text(error.reason)).size(), 10u);
			refused[static_cast<std::size_t>(error.reason)]++;
			const std::optional<CronSpec> naive = naive_parse(text);
			if (error.reason == CronReason::never_matches)
				expect_never(naive.value(), text);
			else
				ASSERT_FALSE(naive.has_value()) << text;
			continue;
		}
		expect_whole(spec, text);
		ASSERT_TRUE(spec.every > 0 || naive_parse(text) == spec) << text;
		TableZone zone = utc_zone();
		const std::int64_t after =
			between(random, core::cron_first_second, core::cron_last_second - core::cron_horizon);
		const std::optional<std::int64_t> found = next(spec, after, zone);
		ASSERT_TRUE(found.has_value() && *found > after) << text << " " << after;
		rules++;
	}
	EXPECT_GT(rules, 10'000);
	for (std::size_t i = 0; i < std::size(refused); i++)
		EXPECT_GT(refused[i], 10) << core::cron_reason_text(static_cast<CronReason>(i));
}

} // namespace
} // namespace queen::test
