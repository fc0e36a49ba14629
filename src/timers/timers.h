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

/* As SQL says it. */
const char *timer_verdict_text(TimerVerdict verdict);

/* The arguments queue and timer_key, the first two. */
TimerName timer_name_arguments(FunctionCallInfo fcinfo);

} // namespace queen

#endif
