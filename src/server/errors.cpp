/*
 * errors.cpp: checks of arguments. See errors.h.
 *
 * Raises. No locks. Runs in backends.
 */
#include "server/errors.h"

namespace queen
{

void
raise_null_argument(const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
	pg_unreachable();
}

/* Bytes of the control character that begins at byte i, or 0. In UTF-8 U+0080 to U+009F are some too. */
static int
control_length(Name name, int i)
{
	unsigned char c = (unsigned char) name.data[i];

	if (c == 0xc2 && GetDatabaseEncoding() == PG_UTF8 && i + 1 < name.size)
		return (unsigned char) name.data[i + 1] < 0xa0 ? 2 : 0;
	return c < 0x20 || c == 0x7f ? 1 : 0;
}

/* A value for an error message: control characters as \xHH, cut to a readable length at a character's border. */
static char *
printable(Name name)
{
	constexpr int most = 64;
	int shown = name.size <= most ? name.size : pg_mbcliplen(name.data, name.size, most);
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0, escaped = 0; i < shown; i++)
	{
		escaped = Max(escaped, i + control_length(name, i));
		if (i < escaped)
			appendStringInfo(&out, "\\x%02x", (unsigned char) name.data[i]);
		else
			appendStringInfoChar(&out, name.data[i]);
	}
	if (shown < name.size)
		appendStringInfoString(&out, "...");
	return out.data;
}

Name
name_from_text(const text *value, const char *what)
{
	Name name = {VARDATA_ANY(value), (int) VARSIZE_ANY_EXHDR(value)};

	if (name.size == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", what),
						errhint("A name has 1 to %d bytes.", max_name_bytes)));
	if (name.size > max_name_bytes)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG), errmsg("%s \"%s\" is too long", what, printable(name)),
				 errdetail("It has %d bytes.", name.size), errhint("A name has 1 to %d bytes.", max_name_bytes)));
	for (int i = 0; i < name.size; i++)
	{
		unsigned char c = (unsigned char) name.data[i];

		if (control_length(name, i) > 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s \"%s\" contains a control character", what, printable(name)),
					 errdetail("Byte %d is 0x%02x.", i + 1, c), errhint("Any other character is allowed in a name.")));
	}
	return name;
}

Name
name_argument(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		raise_null_argument(what);
	return name_from_text(PG_GETARG_TEXT_PP(argno), what);
}

char *
name_to_cstring(Name name)
{
	return pnstrdup(name.data, (Size) name.size);
}

int64
count_argument(FunctionCallInfo fcinfo, int argno, const char *what, int64 least, int64 most)
{
	int32 value;

	if (PG_ARGISNULL(argno))
		raise_null_argument(what);
	value = PG_GETARG_INT32(argno);
	if (value < least || value > most)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s %d is out of range", what, value),
						errhint("It lies between %lld and %lld.", (long long) least, (long long) most)));
	return value;
}

char *
interval_text(int64 microseconds)
{
	char *result = (char *) palloc(MAXDATELEN + 1);
	struct pg_itm parts;
	Interval interval = {};

	interval.day = (int32) (microseconds / USECS_PER_DAY);
	interval.time = microseconds % USECS_PER_DAY;
	interval2itm(interval, &parts);
	/* one form for all sessions, whatever their IntervalStyle: it stands in JSON that programs read */
	EncodeInterval(&parts, INTSTYLE_POSTGRES, result);
	return result;
}

int64
interval_in_range(const Interval *interval, const char *what, int64 least, int64 most)
{
	int64 days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64 total = 0;
	bool overflow =
		pg_mul_s64_overflow(days, USECS_PER_DAY, &total) || pg_add_s64_overflow(total, interval->time, &total);

	if (overflow || total < least || total > most)
	{
		Interval copy = *interval;

		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s \"%s\" is out of range", what,
							   DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&copy)))),
						errhint("It lies between %s and %s.", interval_text(least), interval_text(most))));
	}
	return total;
}

} // namespace queen
