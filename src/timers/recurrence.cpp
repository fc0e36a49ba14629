/*
 * recurrence.cpp: when a rule is due. See recurrence.h.
 *
 * Raises where its header does not say otherwise. No locks. Runs in backends, in the pulse, and where fire_timers() is called.
 */
#include "timers/recurrence.h"

namespace queen
{

namespace
{

constexpr int most_cron_bytes = 1000;
constexpr int64 epoch_seconds = (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY;

/* Seconds since 1970, rounded down. */
int64
seconds_of(TimestampTz at)
{
	const int64 seconds = at / USECS_PER_SEC;

	return seconds - (at % USECS_PER_SEC < 0) + epoch_seconds;
}

std::int32_t
offset_at(void *zone, std::int64_t utc) noexcept
{
	const pg_time_t at = utc;
	const pg_tm *local = pg_localtime(&at, (const pg_tz *) zone);

	/* null: a year that the server's calendar does not have */
	return local == nullptr ? 0 : (std::int32_t) local->tm_gmtoff;
}

/*
 * Is there a time zone of that name in the server's data? pg_tzset takes any "ABC5" for an offset, west of Greenwich at that. Such a text has a
 * digit, and so have few zones.
 */
bool
is_zone_of_data(const char *name)
{
	bool found = false;
	pg_tzenum *all;

	if (strpbrk(name, "0123456789") == nullptr)
		return true;
	all = pg_tzenumerate_start();
	while (pg_tz *zone = pg_tzenumerate_next(all))
		if (!found)
			found = pg_strcasecmp(pg_get_timezone_name(zone), name) == 0;
	pg_tzenumerate_end(all);
	return found;
}

core::CronError
parse(const text *cron, core::CronSpec *spec, bool *parsed)
{
	core::CronError error = {};

	*parsed = core::cron_parse({VARDATA_ANY(cron), VARSIZE_ANY_EXHDR(cron)}, *spec, error);
	return error;
}

} // namespace

void
recurrence_arguments(const text *cron, Name timezone, TimestampTz anchor, Recurrence *recurrence)
{
	const int size = (int) VARSIZE_ANY_EXHDR(cron);
	const char *zone_name = name_to_cstring(timezone);
	core::CronError error;
	bool parsed;

	if (size > most_cron_bytes)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("cron is too long"),
						errdetail("It has %d bytes.", size), errhint("A rule has at most %d bytes.", most_cron_bytes)));
	error = parse(cron, &recurrence->spec, &parsed);
	if (!parsed)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("cron \"%s\" is not a rule", text_to_cstring(cron)),
			 error.reason == core::CronReason::never_matches
				 ? errdetail("%s", core::cron_reason_text(error.reason))
				 : errdetail("Byte %zu, %s: %s", error.position + 1, core::cron_field_name(error.field),
							 core::cron_reason_text(error.reason)),
			 errhint("For example \"30 2 * * *\" (each day at 2:30), \"*/5 * * * mon-fri\", @hourly, @every 90s.")));
	recurrence->zone = is_zone_of_data(zone_name) ? pg_tzset(zone_name) : nullptr;
	if (recurrence->zone == nullptr || !pg_tz_acceptable(recurrence->zone))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("time zone \"%s\" is not known", zone_name),
						errhint("View pg_timezone_names has those that are.")));
	recurrence->anchor = anchor;
}

bool
recurrence_of_rule(const RuleRow *rule, Recurrence *recurrence)
{
	bool parsed;

	(void) parse(DatumGetTextPP(rule->values[rule_col_cron]), &recurrence->spec, &parsed);
	recurrence->zone = pg_tzset(TextDatumGetCString(rule->values[rule_col_timezone]));
	recurrence->anchor = DatumGetTimestampTz(rule->values[rule_col_anchor_at]);
	return parsed && recurrence->zone != nullptr;
}

bool
recurrence_next(const Recurrence *recurrence, TimestampTz after, TimestampTz *next)
{
	std::int64_t seconds;

	if (!core::cron_next(recurrence->spec, seconds_of(after), seconds_of(recurrence->anchor), offset_at,
						 recurrence->zone, seconds))
		return false;
	*next = (seconds - epoch_seconds) * USECS_PER_SEC;
	return true;
}

} // namespace queen
