/*
 * recurrence.h: when a rule is due: the core's cron, in the server's own time zones.
 */
#ifndef QUEEN_TIMERS_RECURRENCE_H
#define QUEEN_TIMERS_RECURRENCE_H

#include "core/cron.h"
#include "log/timer_rules.h"
#include "server/pg.h"

namespace queen
{

struct Recurrence
{
	core::CronSpec spec;
	pg_tz *zone;
	TimestampTz anchor;
};

/* Read what a user has given, counting from an anchor; 22023 for what is no rule, or no time zone. */
void recurrence_arguments(const text *cron, Name timezone, TimestampTz anchor, Recurrence *recurrence);

/* Read a row; raises for memory only. False when it cannot be read: a restored one may name a time zone that this server does not know. */
bool recurrence_of_rule(const RuleRow *rule, Recurrence *recurrence);

/* The first occurrence behind a time; false when there is none. Never raises. */
bool recurrence_next(const Recurrence *recurrence, TimestampTz after, TimestampTz *next);

} // namespace queen

#endif
