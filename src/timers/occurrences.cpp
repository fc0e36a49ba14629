/*
 * occurrences.cpp: a rule's occurrence that is due. See occurrences.h and README.md.
 *
 * Raises. Locks: the rule's row, then the occurrence's by deleting it, both without waiting. Runs in the pulse, and where fire_timers() is
 * called.
 */
#include "timers/occurrences.h"

#include "log/push_message.h"
#include "server/settings.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* An occurrence that is later than that was missed: as fine as the grain of a rule. */
constexpr int64 missed_after = USECS_PER_MINUTE;

TimerName
rule_name(const DueTimer *timer)
{
	return {&timer->tenant, timer->queue, {timer->key.data + 1, timer->key.size - 1}};
}

/* As JSON has it, in UTC wherever the server is. */
void
append_time(StringInfo out, TimestampTz at)
{
	char buffer[MAXDATELEN + 1];
	const int utc = 0;

	appendStringInfo(out, "\"%s\"", JsonEncodeDateTime(buffer, TimestampTzGetDatum(at), TIMESTAMPTZOID, &utc));
}

bool
is_missed(const Occurrence *occurrence, TimestampTz now)
{
	const text *misfire = DatumGetTextPP(occurrence->rule.values[rule_col_misfire]);

	return VARSIZE_ANY_EXHDR(misfire) == 4 && memcmp(VARDATA_ANY(misfire), "skip", 4) == 0 &&
		   now - occurrence->at > missed_after;
}

/* Is it overdue by more than queen.overdue_limit allows? */
bool
is_overdue(const DueTimer *timer, TimestampTz now)
{
	if (setting_overdue_limit == 0 || now - timer->deliver_at <= (int64) setting_overdue_limit * USECS_PER_SEC)
		return false;
	ereport(LOG, (errmsg("queen: an occurrence of rule \"%s\" of queue \"%s\" was due at %s and is dropped",
						 timer->key.data + 1, timer->queue.data, timestamptz_to_str(timer->deliver_at)),
				  errdetail("queen.overdue_limit is %d s.", setting_overdue_limit)));
	return true;
}

} // namespace

RuleState
occurrence_open(Occurrence *occurrence, const DueTimer *timer)
{
	const TimerName name = rule_name(timer);
	RuleState state = RuleState::held;
	Recurrence recurrence;

	rule_table_open(&occurrence->rules, RowExclusiveLock);
	switch (rule_lock(&occurrence->rules, &name, &occurrence->rule, RowWait::nobody))
	{
		case TimerLock::held:
			break;
		case TimerLock::absent:
			state = RuleState::gone;
			break;
		case TimerLock::locked:
			state = recurrence_of_rule(&occurrence->rule, &recurrence) ? RuleState::ready : RuleState::unreadable;
			break;
	}
	if (state != RuleState::ready)
	{
		rule_table_close(&occurrence->rules);
		return state;
	}
	occurrence->at = timer->deliver_at;
	/* behind now: one message stands for all that was missed; behind itself: also where a clock was set back */
	occurrence->has_next =
		recurrence_next(&recurrence, Max(GetCurrentTimestamp(), timer->deliver_at), &occurrence->next);
	return state;
}

void
occurrence_close(Occurrence *occurrence)
{
	rule_table_close(&occurrence->rules);
}

Jsonb *
occurrence_headers(Jsonb *headers, Name key, TimestampTz at, bool has_next, TimestampTz next)
{
	StringInfoData json;
	Datum added;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"queen_cron\": {\"timer_key\": ");
	escape_json(&json, name_to_cstring(key));
	appendStringInfoString(&json, ", \"at\": ");
	append_time(&json, at);
	appendStringInfoString(&json, ", \"next\": ");
	if (has_next)
		append_time(&json, next);
	else
		appendStringInfoString(&json, "null");
	appendStringInfoString(&json, "}}");
	added = DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
	return DatumGetJsonbP(headers == nullptr ? added
											 : DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(headers), added));
}

void
occurrence_message(const Occurrence *occurrence, const core::Uuid &id, TimerMessage *message)
{
	const RuleRow *rule = &occurrence->rule;
	const text *key = DatumGetTextPP(rule->values[rule_col_key]);
	const text *partition = DatumGetTextPP(rule->values[rule_col_partition]);
	Jsonb *headers = rule->nulls[rule_col_headers] ? nullptr : DatumGetJsonbP(rule->values[rule_col_headers]);

	*message = {};
	message->id = id;
	message->partition = {VARDATA_ANY(partition), (int) VARSIZE_ANY_EXHDR(partition)};
	message->deliver_at = occurrence->at;
	message->content = rule->values[rule_col_message];
	message->headers = occurrence_headers(headers, {VARDATA_ANY(key), (int) VARSIZE_ANY_EXHDR(key)}, occurrence->at,
										  occurrence->has_next, occurrence->next);
}

void
occurrence_fill(const TimerName *rule, Name partition, TimestampTz at, TimerRow *row)
{
	const TimerName name = occurrence_name(rule);
	TimerMessage message = {};

	message.id = push_mint_id(push_ms());
	message.partition = partition;
	message.deliver_at = at;
	timer_row_fill(&name, &message, row);
}

void
occurrence_renew(TimerTable *timers, Occurrence *occurrence, bool pushed)
{
	RuleRow *rule = &occurrence->rule;

	if (occurrence->has_next)
	{
		const text *queue = DatumGetTextPP(rule->values[rule_col_queue]);
		const text *key = DatumGetTextPP(rule->values[rule_col_key]);
		const text *partition = DatumGetTextPP(rule->values[rule_col_partition]);
		const TimerName name = {DatumGetUUIDP(rule->values[rule_col_tenant]),
								{VARDATA_ANY(queue), (int) VARSIZE_ANY_EXHDR(queue)},
								{VARDATA_ANY(key), (int) VARSIZE_ANY_EXHDR(key)}};
		TimerRow row;

		occurrence_fill(&name, {VARDATA_ANY(partition), (int) VARSIZE_ANY_EXHDR(partition)}, occurrence->next, &row);
		/* nobody else makes one: the rule is locked */
		if (!timer_insert(timers, &row))
			ereport(ERROR,
					(errcode(ERRCODE_UNIQUE_VIOLATION),
					 errmsg("the next occurrence of a rule of queue \"%s\" is there already", text_to_cstring(queue))));
	}
	named_row_put(rule, rule_col_next_at, TimestampTzGetDatum(occurrence->next));
	rule->nulls[rule_col_next_at] = !occurrence->has_next;
	if (pushed)
		named_row_put(rule, rule_col_last_at, TimestampTzGetDatum(occurrence->at));
	named_row_update(&occurrence->rules, rule);
}

OccurrenceEnd
occurrence_take(TimerTable *timers, const DueTimer *timer, Snapshot snapshot, TimerMessage *message, TimestampTz *next)
{
	const TimestampTz now = GetCurrentTimestamp();
	Occurrence occurrence = {};
	OccurrenceEnd end;
	const RuleState state = occurrence_open(&occurrence, timer);
	ItemPointerData tid = timer->tid;

	switch (state)
	{
		case RuleState::held:
			return OccurrenceEnd::held;
		case RuleState::unreadable:
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the rule cannot be read"),
							errhint("Does the server know its time zone? queen.schedule_cron() replaces it.")));
			break;
		case RuleState::gone:
		case RuleState::ready:
			break;
	}
	if (!delete_row_unless_locked(timers->table, &tid, snapshot))
		end = OccurrenceEnd::held;
	else if (state == RuleState::gone || is_overdue(timer, now) || is_missed(&occurrence, now))
		end = OccurrenceEnd::drop;
	else
		end = OccurrenceEnd::push;
	if (state == RuleState::gone)
		return end;
	if (end == OccurrenceEnd::push)
		occurrence_message(&occurrence, uuid_from_datum(UUIDPGetDatum(&timer->mark.id)), message);
	if (end != OccurrenceEnd::held)
	{
		occurrence_renew(timers, &occurrence, end == OccurrenceEnd::push);
		*next = occurrence.has_next ? occurrence.next : (TimestampTz) DT_NOEND;
	}
	occurrence_close(&occurrence);
	return end;
}

} // namespace queen
