/*
 * cron_support.h: what the tests of recurring timers share: zones as tables of changes, and an oracle that steps over time.
 */
#ifndef QUEEN_TEST_UNIT_CRON_SUPPORT_H
#define QUEEN_TEST_UNIT_CRON_SUPPORT_H

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/cron.h"

namespace queen::test
{

using Random = std::mt19937_64;

inline std::int64_t
between(Random &random, std::int64_t low, std::int64_t high)
{
	return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

template <class Of>
const auto &
one_of(Random &random, const Of &of)
{
	return of[random() % std::size(of)];
}

/* A zone: an offset, and from when on another one holds. Counts how often it is asked. */
struct TableZone
{
	struct Change
	{
		std::int64_t utc;
		std::int32_t offset;
	};

	std::int32_t first = 0;
	std::vector<Change> changes;
	std::int64_t asked = 0;

	std::int32_t at(std::int64_t utc) const;
	static std::int32_t offset_at(void *zone, std::int64_t utc) noexcept;
};

/* As tzdata has them. Casablanca's clocks go back for Ramadan; Apia had no 30 December 2011; Lord Howe's step is half an hour. */
TableZone utc_zone();
TableZone berlin();		/* 2024 to 2026 */
TableZone new_york();	/* 2024 to 2026 */
TableZone lord_howe();	/* 2024 to 2026 */
TableZone casablanca(); /* 2024 to 2026 */
TableZone apia();		/* 2011 to 2012 */

/* Seconds since 1970 of "2024-03-31 01:00:00", or without the seconds; by the C library. The reverse, too. */
std::int64_t instant(const std::string &text);
std::string text_of(std::int64_t seconds);

/* A rule that is one; fails the test if it is not. */
core::CronSpec rule(const std::string &text);

std::optional<std::int64_t> next(const core::CronSpec &spec, std::int64_t after, TableZone &zone);

/* The next count occurrences as the zone's clocks show them, with the offset in minutes where it is not zero. */
std::vector<std::string> shown(const std::string &text, const std::string &after, TableZone zone, std::size_t count);

/* Does the calendar's minute at these seconds match? By the C library's calendar. */
bool minute_matches(const core::CronSpec &spec, std::int64_t label);

/*
 * All occurrences in (after, last], from README's sentences: it looks at every step, which is 60 or 1 seconds, and at each
 * label. It sees only labels and changes that are multiples of the step.
 */
std::vector<std::int64_t> oracle(const core::CronSpec &spec, std::int64_t after, std::int64_t last,
								 const TableZone &zone, std::int64_t step);

/* What a rule's text means, by a parser that cuts strings; nothing if it is none. Not of rules that never match. */
std::optional<core::CronSpec> naive_parse(std::string text);

} // namespace queen::test

#endif
