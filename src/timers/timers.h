/*
 * timers.h: what the files of this folder share.
 */
#ifndef QUEEN_TIMERS_TIMERS_H
#define QUEEN_TIMERS_TIMERS_H

#include "log/timer_rows.h"
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

enum class TimerVerdict
{
	scheduled,
	rescheduled,
	kept,
	too_late,
};

/* (verdict text, value), the value null when it was too late: what schedule and schedule_cron answer. */
Datum timer_verdict_record(FunctionCallInfo fcinfo, TimerVerdict verdict, Datum value);

/* The arguments queue and timer_key, the first two. */
TimerName timer_name_arguments(FunctionCallInfo fcinfo);

} // namespace queen

#endif
