/*
 * occurrences.h: a rule's occurrence that is due: what it pushes, and the next one in its place.
 */
#ifndef QUEEN_TIMERS_OCCURRENCES_H
#define QUEEN_TIMERS_OCCURRENCES_H

#include "log/timer_rules.h"
#include "server/pg.h"
#include "timers/due.h"
#include "timers/recurrence.h"

namespace queen
{

/* A rule whose row this transaction has locked, and what follows on the occurrence that is due. */
struct Occurrence
{
	RuleTable rules;
	RuleRow rule;
	TimestampTz at;
	TimestampTz next;
	bool has_next;
};

enum class RuleState
{
	held, /* by another transaction */
	gone,
	unreadable,
	ready, /* occurrence_close must follow */
};

/* Lock the rule of an occurrence, without waiting. Nothing of the occurrence itself is held before. */
RuleState occurrence_open(Occurrence *occurrence, const DueTimer *timer);
void occurrence_close(Occurrence *occurrence);

/* Its message, as of now the rule's, under the id that its row has promised. In the current memory context. */
void occurrence_message(const Occurrence *occurrence, const core::Uuid &id, TimerMessage *message);

/* Its row is deleted: put the next one in its place, and tell the rule, with whether it was pushed. */
void occurrence_renew(TimerTable *timers, Occurrence *occurrence, bool pushed);

/* A new row for a rule's occurrence. */
void occurrence_fill(const TimerName *rule, Name partition, TimestampTz at, TimerRow *row);

/* Headers of a rule's message with "queen_cron": the rule's key, the time of the occurrence and that of the next. */
Jsonb *occurrence_headers(Jsonb *headers, Name key, TimestampTz at, bool has_next, TimestampTz next);

/*
 * The fire takes an occurrence: its row is deleted and the next one is there. push: the caller pushes the message; drop: it is not to be
 * pushed; held: another transaction is at it, and nothing was done. 22023 when its rule cannot be read.
 */
enum class OccurrenceEnd
{
	held,
	drop,
	push,
};
OccurrenceEnd occurrence_take(TimerTable *timers, const DueTimer *timer, Snapshot snapshot, TimerMessage *message,
							  TimestampTz *next);

} // namespace queen

#endif
