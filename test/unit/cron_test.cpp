/*
 * cron_test.cpp: recurring timers' rules by example: the calendar, and what becomes of hours that a zone skips or repeats.
 * cron_property_test.cpp compares with oracles.
 */
#include "gtest/gtest.h"

#include "cron_support.h"

namespace queen::test
{
namespace
{

using core::CronSpec;

using Times = std::vector<std::string>;

/* ---- the calendar, where no zone interferes ---- */

TEST(CronNext, StrictlyLater)
{
	TableZone zone = utc_zone();
	const CronSpec noon = rule("0 12 * * *");
	const std::int64_t at = instant("2024-05-05 12:00");

	EXPECT_EQ(next(noon, at - 1, zone), at);
	EXPECT_EQ(next(noon, at - 59, zone), at);
	EXPECT_EQ(next(noon, at, zone), at + 86400);
}

TEST(CronNext, Calendar)
{
	EXPECT_EQ(shown("0 0 29 2 *", "2096-01-01 00:00", utc_zone(), 2), (Times{"2096-02-29 00:00", "2104-02-29 00:00"}));
	EXPECT_EQ(shown("59 23 31 * *", "2025-01-31 23:59", utc_zone(), 3),
			  (Times{"2025-03-31 23:59", "2025-05-31 23:59", "2025-07-31 23:59"}));
	EXPECT_EQ(shown("0 0 13 * fri", "2026-02-01 00:00", utc_zone(), 4),
			  (Times{"2026-02-06 00:00", "2026-02-13 00:00", "2026-02-20 00:00", "2026-02-27 00:00"}));
	EXPECT_EQ(shown("0 0 */10 * sun", "2026-01-01 00:00", utc_zone(), 2),
			  (Times{"2026-01-11 00:00", "2026-02-01 00:00"}));
	EXPECT_EQ(shown("*/50 22-23 31 12 *", "1969-12-31 23:00", utc_zone(), 2),
			  (Times{"1969-12-31 23:50", "1970-12-31 22:00"}));
	EXPECT_EQ(shown("0 0 * * mon-fri", "2024-03-01 08:00", utc_zone(), 1), (Times{"2024-03-04 00:00"}));
	/* the rarest */
	EXPECT_EQ(shown("0 0 29 2 */5", "2284-02-29 00:00", utc_zone(), 1), (Times{"2320-02-29 00:00"}));
}

TEST(CronNext, EveryCountsFromTheAnchor)
{
	const CronSpec spec = rule("@every 1h30m");
	std::int64_t found = 0;
	const auto after = [&](std::int64_t second, std::int64_t anchor) {
		/* no zone is asked */
		EXPECT_TRUE(core::cron_next(spec, second, anchor, nullptr, nullptr, found));
		return found;
	};

	EXPECT_EQ(after(1000, 1000), 6400);
	EXPECT_EQ(after(6399, 1000), 6400);
	EXPECT_EQ(after(6400, 1000), 11800);
	EXPECT_EQ(after(1000 + 5400 * 1000 + 17, 1000), 1000 + 5400 * 1001) << "a late look keeps the phase";
	EXPECT_EQ(after(999, 1000), 1000) << "a clock that was put back keeps it, too";
	EXPECT_EQ(after(1000 - 5400, 1000), 1000);
	EXPECT_EQ(after(1000 - 5401, 1000), 1000 - 5400);
	EXPECT_EQ(after(core::cron_first_second, core::cron_last_second) - core::cron_first_second,
			  (core::cron_last_second - core::cron_first_second) % 5400);
}

TEST(CronNext, TheEndsOfTime)
{
	TableZone zone = utc_zone();
	const CronSpec minutely = rule("* * * * *");
	const CronSpec daily = rule("@daily");

	EXPECT_EQ(next(minutely, core::cron_first_second, zone), core::cron_first_second + 60);
	EXPECT_EQ(next(daily, core::cron_first_second, zone), core::cron_first_second + 86400);
	EXPECT_EQ(next(minutely, core::cron_last_second - 60, zone), core::cron_last_second - 59);
	for (const CronSpec &spec : {minutely, daily, rule("@every 2h")})
		for (const std::int64_t none :
			 {core::cron_last_second, core::cron_last_second + 1, core::cron_first_second - 1, INT64_MAX, INT64_MIN})
			EXPECT_EQ(next(spec, none, zone), std::nullopt);
	std::int64_t found = 0;
	EXPECT_FALSE(core::cron_next(rule("@every 1s"), 0, INT64_MIN, TableZone::offset_at, &zone, found));
}

/* ---- zones: times as their clocks show them, with the offset in minutes ---- */

TEST(CronZone, AFixedTimeThatIsSkippedComesAtTheJump)
{
	EXPECT_EQ(shown("30 2 * * *", "2024-03-29 12:00", berlin(), 3),
			  (Times{"2024-03-30 02:30 60", "2024-03-31 03:00 120", "2024-04-01 02:30 120"}));
	EXPECT_EQ(shown("*/20 2 * * *", "2024-03-30 12:00", berlin(), 2),
			  (Times{"2024-03-31 03:00 120", "2024-04-01 02:00 120"}))
		<< "once, though three fall into it";
	EXPECT_EQ(shown("0,30 2,3 31 3 *", "2024-03-30 12:00", berlin(), 3),
			  (Times{"2024-03-31 03:00 120", "2024-03-31 03:30 120", "2025-03-31 02:00 120"}))
		<< "once, though 3:00 is one, too";
	EXPECT_EQ(shown("0 2 * * *", "2024-03-09 12:00", new_york(), 2),
			  (Times{"2024-03-10 03:00 -240", "2024-03-11 02:00 -240"}));
	EXPECT_EQ(shown("15 2 * * *", "2024-10-05 00:00", lord_howe(), 2),
			  (Times{"2024-10-06 02:30 660", "2024-10-07 02:15 660"}));
	EXPECT_EQ(shown("30 2 14 4 *", "2024-04-10 00:00", casablanca(), 1), (Times{"2024-04-14 03:00 60"}));
	EXPECT_EQ(shown("0 9 * * *", "2011-12-29 00:00", apia(), 3),
			  (Times{"2011-12-29 09:00 -600", "2011-12-31 00:00 840", "2011-12-31 09:00 840"}))
		<< "a day that was not";
}

TEST(CronZone, AFixedTimeThatIsRepeatedComesTheFirstTime)
{
	EXPECT_EQ(shown("30 2 * * *", "2024-10-26 12:00", berlin(), 2),
			  (Times{"2024-10-27 02:30 120", "2024-10-28 02:30 60"}));
	EXPECT_EQ(shown("*/30 2,3 27 10 *", "2024-10-26 12:00", berlin(), 4),
			  (Times{"2024-10-27 02:00 120", "2024-10-27 02:30 120", "2024-10-27 03:00 60", "2024-10-27 03:30 60"}));
	/* asked from inside the second pass */
	EXPECT_EQ(shown("*/30 2,3 27 10 *", "2024-10-27 01:10", berlin(), 1), (Times{"2024-10-27 03:00 60"}));
	EXPECT_EQ(shown("30 1 * * *", "2024-11-02 12:00", new_york(), 2),
			  (Times{"2024-11-03 01:30 -240", "2024-11-04 01:30 -300"}));
	EXPECT_EQ(shown("45 1 * * *", "2024-04-06 12:00", lord_howe(), 2),
			  (Times{"2024-04-07 01:45 660", "2024-04-08 01:45 630"}));
	EXPECT_EQ(shown("30 2 * * *", "2024-03-09 12:00", casablanca(), 2),
			  (Times{"2024-03-10 02:30 60", "2024-03-11 02:30"}));
}

TEST(CronZone, HourlyRulesFollowElapsedTime)
{
	EXPECT_EQ(shown("30 * * * *", "2024-03-31 00:00", berlin(), 3),
			  (Times{"2024-03-31 01:30 60", "2024-03-31 03:30 120", "2024-03-31 04:30 120"}));
	EXPECT_EQ(shown("30 * * * *", "2024-10-26 23:40", berlin(), 3),
			  (Times{"2024-10-27 02:30 120", "2024-10-27 02:30 60", "2024-10-27 03:30 60"}));
	EXPECT_EQ(shown("*/30 */2 * * *", "2024-03-31 00:00", berlin(), 2),
			  (Times{"2024-03-31 04:00 120", "2024-03-31 04:30 120"}));
	EXPECT_EQ(shown("*/30 */2 * * *", "2024-10-26 23:00", berlin(), 5),
			  (Times{"2024-10-27 02:00 120", "2024-10-27 02:30 120", "2024-10-27 02:00 60", "2024-10-27 02:30 60",
					 "2024-10-27 04:00 60"}));
	EXPECT_EQ(shown("*/15 * * * *", "2024-10-05 15:14", lord_howe(), 3),
			  (Times{"2024-10-06 01:45 630", "2024-10-06 02:30 660", "2024-10-06 02:45 660"}));
	EXPECT_EQ(shown("0 * 30 12 *", "2010-12-31 12:00", apia(), 1), (Times{"2012-12-30 00:00 840"}))
		<< "the skipped day's hours are not made up for";
}

} // namespace
} // namespace queen::test
