/*
 * push_later.cpp: a push whose message is to be delivered later. See push_later.h.
 *
 * Raises. Locks: the timer's row, which is new. Runs in backends.
 */
#include "log/push_later.h"

#include "server/settings.h"
#include "server/uuids.h"

namespace queen
{

TimestampTz
deliver_at_argument(FunctionCallInfo fcinfo, int deliver_at_arg, int delay_arg)
{
	const TimestampTz now = GetCurrentTimestamp();
	TimestampTz at;

	if (PG_ARGISNULL(deliver_at_arg) == PG_ARGISNULL(delay_arg))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg(PG_ARGISNULL(delay_arg) ? "neither deliver_at nor delay is given"
													   : "both deliver_at and delay are given"),
						errhint("A timer has exactly one of them: a time, or an interval from now on.")));
	if (!PG_ARGISNULL(deliver_at_arg))
		at = PG_GETARG_TIMESTAMPTZ(deliver_at_arg);
	else
		/* a month is what the calendar says; out of range is the server's error */
		at = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now),
													 IntervalPGetDatum(PG_GETARG_INTERVAL_P(delay_arg))));
	if (TIMESTAMP_NOT_FINITE(at))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must be finite", PG_ARGISNULL(delay_arg) ? "deliver_at" : "delay"),
						errhint("A time that has passed is allowed: such a timer fires at once.")));
	return at;
}

void
push_later(Name queue, const TimerMessage *message)
{
	const char *key = uuid_text(message->id);
	const TimerName name = {setting_tenant(), queue, {key, (int) strlen(key)}};
	TimerTable timers;
	TimerRow row;

	timer_row_fill(&name, message, &row);
	timer_table_open(&timers, RowExclusiveLock);
	if (!timer_insert(&timers, &row))
		ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("timer \"%s\" exists already", key),
						errhint("A message id is drawn at random: try again.")));
	timer_table_close(&timers);
}

} // namespace queen
