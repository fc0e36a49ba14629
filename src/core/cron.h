/*
 * cron.h: when a recurring timer is due: a rule's text, and the next occurrence after an instant in a time zone.
 *
 * A rule is five fields, a nickname such as @daily, or "@every 1h30m"; README.md has the grammar and what happens to hours that a
 * zone skips or repeats. The zone is a function that is handed in, and asked for offsets only. Any text and any zone give an answer.
 */
#ifndef QUEEN_CORE_CRON_H
#define QUEEN_CORE_CRON_H

#include <string_view>

#include "core/types.h"

namespace queen::core
{

/* What a rule's text says. Bit n of a set stands for n, so bit 0 of the days and of the months is never set. */
struct CronSpec
{
	std::int64_t every; /* seconds of @every; 0: the sets count */
	std::uint64_t minutes;
	std::uint32_t hours;
	std::uint32_t days;
	std::uint16_t months;
	std::uint8_t weekdays; /* bit 0: Sunday */
	bool either_day;	   /* a day matches by days or by weekdays; else by both */
	bool elapsed;		   /* hours that a zone repeats count twice, those that it skips not at all */

	bool operator==(const CronSpec &) const = default;
};

enum class CronField : std::uint8_t
{
	whole, /* the text as such */
	minute,
	hour,
	day,
	month,
	weekday,
};

enum class CronReason : std::uint8_t
{
	missing_field,
	extra_field,
	expected_value,
	unexpected_character,
	unknown_name,
	out_of_range,
	reversed_range,
	step_without_range,
	bad_step,
	never_matches,
	unknown_nickname,
	bad_interval,
	interval_out_of_range,
};

struct CronError
{
	CronReason reason;
	CronField field;
	std::size_t position; /* of the byte that does not fit; the text's length: its end */
};

/* Sentences and words for an error's message. */
const char *cron_reason_text(CronReason reason) noexcept;
const char *cron_field_name(CronField field) noexcept;

inline constexpr std::int64_t cron_longest_interval = std::int64_t{366} * 86400;

/* Read a rule. False, and spec untouched, when it is none; error is written only then. */
bool cron_parse(std::string_view text, CronSpec &spec, CronError &error) noexcept;

/*
 * What a zone's clocks show at a UTC second minus that second. Must not raise. Taken to be at most cron_largest_offset either way, and
 * to change at most once within twice that, 48 hours: no zone of tzdata 2025b is over 16 hours, or has had less than 95 from one
 * change to the next.
 */
using CronOffsetAt = std::int32_t (*)(void *zone, std::int64_t utc) noexcept;
inline constexpr std::int64_t cron_largest_offset = 86400;

/* UTC seconds since 1970 that there are: those of the server's timestamps, 4714 BC to the year 294276. */
inline constexpr std::int64_t cron_first_second = -210866803200;
inline constexpr std::int64_t cron_last_second = 9224318015999;

/* How far the next occurrence is looked for. The rarest that can be written is 36 years away: 29 February, if a Friday or Sunday. */
inline constexpr std::int64_t cron_horizon = std::int64_t{50} * 366 * 86400;

/*
 * The first occurrence that is later than after. False when there is none within the horizon and cron_last_second, or when
 * after or anchor is not a second that there is. @every counts from the anchor and asks no zone; nothing else uses it.
 * A zone that changes more often than said costs occurrences, never the order: next > after.
 */
bool cron_next(const CronSpec &spec, std::int64_t after, std::int64_t anchor, CronOffsetAt offset_at, void *zone,
			   std::int64_t &next) noexcept;

} // namespace queen::core

#endif
