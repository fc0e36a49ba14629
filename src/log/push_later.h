/*
 * push_later.h: a push whose message is to be delivered later: it becomes a timer with a key of its own.
 */
#ifndef QUEEN_LOG_PUSH_LATER_H
#define QUEEN_LOG_PUSH_LATER_H

#include "log/timer_rows.h"
#include "server/pg.h"

namespace queen
{

/* The one of the arguments deliver_at and delay that is given, as a time; 22023 for none, both, or what is not finite. */
TimestampTz deliver_at_argument(FunctionCallInfo fcinfo, int deliver_at_arg, int delay_arg);

/* Insert the message as a timer whose key is its id as text. */
void push_later(Name queue, const TimerMessage *message);

} // namespace queen

#endif
