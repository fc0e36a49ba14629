/*
 * cron_next.cpp: the next occurrence of a recurring timer's rule. See cron.h; README.md has the rule for skipped and repeated hours.
 *
 * A label is what the clocks of a zone show, in seconds since 1970 as they show them. Which labels match is the calendar's business
 * alone and is found by months, days and hours, never by stepping over minutes. When a label is shown is the zone's.
 */
#include "core/cron.h"

#include <bit>

namespace queen::core
{

namespace
{

constexpr std::int64_t day_seconds = 86400;
constexpr std::int64_t day_minutes = 1440;

/* In this time a zone changes at most once, and what is shown twice is shown within it. */
constexpr std::int64_t window = 2 * cron_largest_offset;

/* How many parts of constant offset are looked at in search of a label that is shown; more are tried only in zones that are none. */
constexpr int most_parts = 100;

/* ---- the calendar ---- */

constexpr std::int64_t
divide_down(std::int64_t a, std::int64_t b) noexcept
{
	return a / b - (a % b < 0 ? 1 : 0);
}

constexpr bool
is_leap(std::int64_t year) noexcept
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

constexpr int
days_of_month(std::int64_t year, int month) noexcept
{
	constexpr std::uint8_t days[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return month == 2 && is_leap(year) ? 29 : days[month];
}

/* The number of 1 January, where 1 January 1970 is 0. */
constexpr std::int64_t
day_of_year(std::int64_t year) noexcept
{
	const std::int64_t before = year - 1;

	return 365 * (year - 1970) + divide_down(before, 4) - divide_down(before, 100) + divide_down(before, 400) - 477;
}
static_assert(day_of_year(1970) == 0 && day_of_year(1973) == 1096 && day_of_year(2000) == 10957);
static_assert(day_of_year(-4713) == cron_first_second / day_seconds - 327);

/* A month: which it is, and the number of its first day. */
struct Month
{
	std::int64_t year;
	int month;
	std::int64_t first;

	/* The month that a day is in. */
	explicit Month(std::int64_t day) noexcept : year(1970 + divide_down(day * 400, 146097)), month(1)
	{
		if (day_of_year(year) > day)
			year--;
		else if (day_of_year(year + 1) <= day)
			year++;
		first = day_of_year(year);
		while (first + length() <= day)
			step();
	}

	int
	length() const noexcept
	{
		return days_of_month(year, month);
	}

	void
	step() noexcept
	{
		first += length();
		if (++month > 12)
		{
			month = 1;
			year++;
		}
	}
};

/* The days of a month that match; bit n stands for day n. */
std::uint32_t
days_that_match(const CronSpec &spec, const Month &month) noexcept
{
	if ((spec.months >> month.month & 1) == 0)
		return 0;

	/* the weekdays from that of day 1 on, over and over; 1 January 1970 was a Thursday */
	const std::int64_t weekday = month.first + 4 - divide_down(month.first + 4, 7) * 7;
	const std::uint64_t week = (spec.weekdays >> weekday | spec.weekdays << (7 - weekday)) & 0x7f;
	const auto by_weekday = static_cast<std::uint32_t>(week * 0x10204081 << 1);
	const std::uint32_t there_are = static_cast<std::uint32_t>((std::uint64_t{2} << month.length()) - 2);

	return (spec.either_day ? spec.days | by_weekday : spec.days & by_weekday) & there_are;
}

/* The first day from a day on that matches; false if it is later than last. */
bool
first_day(const CronSpec &spec, std::int64_t day, std::int64_t last, std::int64_t &found) noexcept
{
	for (Month month(day); month.first <= last; month.step())
	{
		std::uint32_t days = days_that_match(spec, month);

		if (day > month.first)
			days &= ~std::uint32_t{0} << (day - month.first + 1);
		if (days != 0)
		{
			found = month.first + std::countr_zero(days) - 1;
			return found <= last;
		}
	}
	return false;
}

/* The first minute of a day that matches, from a minute on; -1: none is left. */
std::int64_t
first_minute(const CronSpec &spec, std::int64_t minute) noexcept
{
	const std::int64_t hour = minute / 60;
	const std::uint64_t minutes = spec.minutes >> minute % 60 << minute % 60;

	if ((spec.hours >> hour & 1) != 0 && minutes != 0)
		return hour * 60 + std::countr_zero(minutes);

	const std::uint64_t hours = std::uint64_t{spec.hours} >> (hour + 1) << (hour + 1);
	return hours == 0 ? -1 : std::countr_zero(hours) * 60 + std::countr_zero(spec.minutes);
}

/* The first label from a label on that matches; false if it is later than last. */
bool
first_label(const CronSpec &spec, std::int64_t label, std::int64_t last, std::int64_t &found) noexcept
{
	const std::int64_t minute = divide_down(label + 59, 60);
	const std::int64_t today = divide_down(minute, day_minutes);
	const std::int64_t last_day = divide_down(last, day_seconds);
	std::int64_t day;

	if (!first_day(spec, today, last_day, day))
		return false;
	std::int64_t at = first_minute(spec, day == today ? minute - today * day_minutes : 0);
	if (at < 0)
	{
		if (!first_day(spec, today + 1, last_day, day))
			return false;
		at = first_minute(spec, 0);
	}
	found = day * day_seconds + at * 60;
	return found <= last;
}

/* ---- the zone ---- */

struct Zone
{
	CronOffsetAt offset_at;
	void *zone;

	std::int64_t
	offset(std::int64_t utc) const noexcept
	{
		const std::int64_t offset = offset_at(zone, utc);

		return offset < -cron_largest_offset  ? -cron_largest_offset
			   : offset > cron_largest_offset ? cron_largest_offset
											  : offset;
	}

	/* The first second of the later offset, between a second that has offset and a later one that has not. */
	std::int64_t
	change(std::int64_t before, std::int64_t behind, std::int64_t offset_before) const noexcept
	{
		while (behind - before > 1)
		{
			const std::int64_t middle = before + (behind - before) / 2;

			if (offset(middle) == offset_before)
				before = middle;
			else
				behind = middle;
		}
		return behind;
	}
};

/* The latest label that was shown or skipped up to a second. Later than what is shown then, if an hour is being repeated. */
std::int64_t
latest_label(const Zone &zone, std::int64_t utc) noexcept
{
	const std::int64_t before = zone.offset(utc - window);
	const std::int64_t now = zone.offset(utc);

	if (before <= now)
		return utc + now;
	const std::int64_t end = zone.change(utc - window, utc, before) - 1 + before;
	return end > utc + now ? end : utc + now;
}

/* The first second at which the clocks show a label or a later one. */
std::int64_t
first_reached(const Zone &zone, std::int64_t label) noexcept
{
	const std::int64_t from = label - cron_largest_offset;
	const std::int64_t to = label + cron_largest_offset;
	const std::int64_t before = zone.offset(from);
	const std::int64_t behind = zone.offset(to);

	if (before == behind)
		return label - before;
	const std::int64_t change = zone.change(from, to, before);
	if (label - before < change)
		return label - before;
	/* skipped: at the change */
	return label - behind > change ? label - behind : change;
}

/* ---- the two kinds of rules ---- */

/* A matching label counts when the clocks come to it or past it for the first time. */
bool
next_by_clock(const CronSpec &spec, std::int64_t after, std::int64_t last, const Zone &zone,
			  std::int64_t &found) noexcept
{
	std::int64_t label;

	if (!first_label(spec, latest_label(zone, after) + 1, last, label))
		return false;
	found = first_reached(zone, label);
	if (found > after)
		return true;
	/* only in a zone that changes too often; from there on, a label is behind after whatever its offset */
	if (!first_label(spec, after + cron_largest_offset + 1, last, label))
		return false;
	found = first_reached(zone, label);
	return true;
}

/* A matching label counts whenever it is shown. */
bool
next_by_elapsed_time(const CronSpec &spec, std::int64_t after, std::int64_t last, const Zone &zone,
					 std::int64_t &found) noexcept
{
	std::int64_t from = after + 1;

	for (int part = 0; part < most_parts; part++)
	{
		const std::int64_t offset = zone.offset(from);
		std::int64_t label;

		if (!first_label(spec, from + offset, last, label))
			return false;
		found = label - offset;

		const std::int64_t to = found < from + window ? found : from + window;
		if (zone.offset(to) != offset)
			from = zone.change(from, to, offset);
		else if (to == found)
			return true;
		else
		{
			/* up to a day before the label, only labels are shown that lie between two that follow each other */
			const std::int64_t near = label - cron_largest_offset;
			from = near > to ? near : to;
		}
	}
	return false;
}

constexpr bool
there_is(std::int64_t second) noexcept
{
	return second >= cron_first_second && second <= cron_last_second;
}

} // namespace

bool
cron_next(const CronSpec &spec, std::int64_t after, std::int64_t anchor, CronOffsetAt offset_at, void *zone,
		  std::int64_t &next) noexcept
{
	std::int64_t found = 0;

	if (!there_is(after) || !there_is(anchor))
		return false;
	if (spec.every > 0)
		found = anchor + (divide_down(after - anchor, spec.every) + 1) * spec.every;
	else
	{
		const std::int64_t last = after + cron_horizon;
		const Zone asked{offset_at, zone};

		if (spec.elapsed ? !next_by_elapsed_time(spec, after, last, asked, found)
						 : !next_by_clock(spec, after, last, asked, found))
			return false;
	}
	if (!there_is(found))
		return false;
	next = found;
	return true;
}

} // namespace queen::core
