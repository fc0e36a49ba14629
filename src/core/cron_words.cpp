/*
 * cron_words.cpp: words for what is wrong with a recurring timer's rule, as they appear in the details of errors.
 */
#include "core/cron.h"

namespace queen::core
{

const char *
cron_field_name(CronField field) noexcept
{
	/* no default: the compiler names one that was forgotten here */
	switch (field)
	{
		case CronField::whole:
			return "rule";
		case CronField::minute:
			return "minute";
		case CronField::hour:
			return "hour";
		case CronField::day:
			return "day of month";
		case CronField::month:
			return "month";
		case CronField::weekday:
			return "day of week";
	}
	return "rule";
}

const char *
cron_reason_text(CronReason reason) noexcept
{
	switch (reason)
	{
		case CronReason::missing_field:
			return "A rule has five fields: minute, hour, day of month, month and day of week.";
		case CronReason::extra_field:
			return "A rule has no more than five fields: minute, hour, day of month, month and day of week.";
		case CronReason::expected_value:
			return "A number, a name or \"*\" is expected here.";
		case CronReason::unexpected_character:
			return "This cannot stand here.";
		case CronReason::unknown_name:
			return "Months are jan to dec, days of the week are sun to sat; other fields have no names.";
		case CronReason::out_of_range:
			return "Minutes are 0 to 59, hours 0 to 23, days of the month 1 to 31, months 1 to 12, days of the week 0 to 7.";
		case CronReason::reversed_range:
			return "A range ends before it begins.";
		case CronReason::step_without_range:
			return "A step stands behind \"*\" or a range only.";
		case CronReason::bad_step:
			return "A step is at least 1 and not longer than the field's range.";
		case CronReason::never_matches:
			return "No year has such a day.";
		case CronReason::unknown_nickname:
			return "Nicknames are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually and @every.";
		case CronReason::bad_interval:
			return "An interval is whole numbers with the units d, h, m and s, in this order, as in 1h30m.";
		case CronReason::interval_out_of_range:
			return "An interval is 1 second to 366 days.";
	}
	return "";
}

} // namespace queen::core
