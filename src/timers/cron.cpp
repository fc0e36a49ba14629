/*
 * cron.cpp: queen.schedule_cron, unschedule_cron and list_crons; what queen.verify mends of rules.
 *
 * Raises. Locks: the rules' rows, then their occurrences', to the end of the transaction; see README.md for who waits. Runs in backends,
 * list_crons also on a standby.
 */
#include "log/push_message.h"
#include "log/timer_rules.h"
#include "server/guards.h"
#include "server/settings.h"
#include "timers/occurrences.h"
#include "timers/recurrence.h"
#include "timers/timers.h"

namespace queen
{

namespace
{

constexpr int64 most_rows = 100000;

/* A rule and its occurrence, as they are, locked, or as they are to be. */
struct Pair
{
	RuleTable rules;
	TimerTable timers;
	TimerName name;
	TimerName occurrence;
	RuleRow rule;
	TimerRow timer;
	bool has_timer;
};

void
pair_open(Pair *pair, const TimerName *name, LOCKMODE mode)
{
	timer_table_open(&pair->timers, mode);
	rule_table_open(&pair->rules, mode);
	pair->name = *name;
	pair->occurrence = occurrence_name(name);
}

void
pair_close(Pair *pair)
{
	rule_table_close(&pair->rules);
	timer_table_close(&pair->timers);
}

/* Lock both; the answer is the rule's. held: nothing is to be changed. */
TimerLock
pair_lock(Pair *pair)
{
	const TimerLock rule = rule_lock(&pair->rules, &pair->name, &pair->rule, RowWait::users);
	TimerLock timer;

	if (rule == TimerLock::held)
		return rule;
	timer = timer_lock(&pair->timers, &pair->occurrence, &pair->timer);
	pair->has_timer = timer == TimerLock::locked;
	return timer == TimerLock::held ? timer : rule;
}

const text *
misfire_argument(FunctionCallInfo fcinfo, int argno)
{
	const char *misfire;

	if (PG_ARGISNULL(argno))
		raise_null_argument("misfire");
	misfire = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(misfire, "once") != 0 && strcmp(misfire, "skip") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("misfire \"%s\" is not known", misfire),
						errhint("once pushes one message for all occurrences that were missed, skip pushes none.")));
	return PG_GETARG_TEXT_PP(argno);
}

/* A new rule's row, but for its times; what it says of when goes to recurrence, counting from now. */
void
rule_arguments(FunctionCallInfo fcinfo, const TimerName *name, TimestampTz now, RuleRow *row, Recurrence *recurrence)
{
	Jsonb *headers;
	Name partition;
	Name timezone;

	named_row_begin(name, row);
	if (PG_ARGISNULL(2))
		raise_null_argument("cron");
	if (PG_ARGISNULL(3))
		raise_null_argument("message");
	timezone = name_argument(fcinfo, 4, "timezone");
	named_row_put(row, rule_col_misfire, PointerGetDatum(misfire_argument(fcinfo, 5)));
	partition = name_argument(fcinfo, 6, "partition");
	headers = push_headers_argument(fcinfo, 7);
	recurrence_arguments(PG_GETARG_TEXT_PP(2), timezone, now, recurrence);
	named_row_put(row, rule_col_cron, PG_GETARG_DATUM(2));
	/* as the server's data spells it */
	named_row_put(row, rule_col_timezone, CStringGetTextDatum(pg_get_timezone_name(recurrence->zone)));
	named_row_put(row, rule_col_partition, PointerGetDatum(cstring_to_text_with_len(partition.data, partition.size)));
	named_row_put(row, rule_col_message, JsonbPGetDatum(PG_GETARG_JSONB_P(3)));
	if (headers != nullptr)
		named_row_put(row, rule_col_headers, JsonbPGetDatum(headers));
	named_row_put(row, rule_col_anchor_at, TimestampTzGetDatum(now));
	named_row_put(row, rule_col_created_at, TimestampTzGetDatum(now));
	named_row_put(row, rule_col_updated_at, TimestampTzGetDatum(now));
}

/* A message with the headers that it will have must fit: times of later years are longer by some digits. */
void
check_size(const RuleRow *row, Name key, TimestampTz next)
{
	constexpr Size digits = 16;
	Jsonb *headers = row->nulls[rule_col_headers] ? nullptr : DatumGetJsonbP(row->values[rule_col_headers]);

	push_check_size(VARSIZE_ANY_EXHDR(DatumGetJsonbP(row->values[rule_col_message])) + digits,
					occurrence_headers(headers, key, next, true, next));
}

/*
 * The same rule as the one that is there goes on in its step, and what is due is due: an application that says its rules at each start
 * puts none off. (Not to a later time than now says, though: the clock may have been ahead when that one was told.)
 */
TimestampTz
go_on(const RuleRow *there, RuleRow *row, const Recurrence *recurrence, TimestampTz next)
{
	const char *zone = TextDatumGetCString(there->values[rule_col_timezone]);
	Recurrence before;

	if (!recurrence_of_rule(there, &before) || !(before.spec == recurrence->spec) ||
		strcmp(zone, pg_get_timezone_name(recurrence->zone)) != 0)
		return next;
	row->values[rule_col_anchor_at] = there->values[rule_col_anchor_at];
	if (recurrence_next(&before, GetCurrentTimestamp(), &next) && !there->nulls[rule_col_next_at])
		next = Min(next, DatumGetTimestampTz(there->values[rule_col_next_at]));
	return next;
}

/* Write the rule, in the place of the one that is there or not, and its occurrence. False: somebody else has made it meanwhile. */
bool
pair_write(Pair *pair, RuleRow *row, bool is_there, TimestampTz next)
{
	const text *partition = DatumGetTextPP(row->values[rule_col_partition]);
	TimerRow timer;

	named_row_put(row, rule_col_next_at, TimestampTzGetDatum(next));
	if (is_there)
	{
		row->tid = pair->rule.tid;
		row->values[rule_col_created_at] = pair->rule.values[rule_col_created_at];
		row->values[rule_col_last_at] = pair->rule.values[rule_col_last_at];
		row->nulls[rule_col_last_at] = pair->rule.nulls[rule_col_last_at];
		named_row_update(&pair->rules, row);
	}
	else if (!named_row_insert(&pair->rules, row))
		return false;
	occurrence_fill(&pair->name, {VARDATA_ANY(partition), (int) VARSIZE_ANY_EXHDR(partition)}, next, &timer);
	if (!pair->has_timer)
		return timer_insert(&pair->timers, &timer);
	timer.tid = pair->timer.tid;
	timer_update(&pair->timers, &timer);
	return true;
}

TimerVerdict
schedule(Pair *pair, RuleRow *row, const Recurrence *recurrence, TimestampTz first, TimestampTz *next)
{
	const RuleRow fresh = *row;

	for (;;)
	{
		const TimerLock lock = pair_lock(pair);

		if (lock == TimerLock::held)
			return TimerVerdict::too_late;
		*row = fresh;
		*next = lock == TimerLock::locked ? go_on(&pair->rule, row, recurrence, first) : first;
		if (pair_write(pair, row, lock == TimerLock::locked, *next))
			return lock == TimerLock::locked ? TimerVerdict::rescheduled : TimerVerdict::scheduled;
	}
}

/* Columns of list_crons that are not the rule's own come from its occurrence. */
void
put(ReturnSetInfo *set, const RuleRow *rule, const TimerRow *timer)
{
	constexpr struct
	{
		RuleColumn of_rule;
		TimerColumn of_timer; /* where of_rule is rule_cols */
	} shown[] = {
		{rule_col_key, {}},
		{rule_col_cron, {}},
		{rule_col_timezone, {}},
		{rule_col_misfire, {}},
		{rule_col_partition, {}},
		{rule_col_next_at, {}},
		{rule_col_last_at, {}},
		{rule_cols, timer_col_message_id},
		{rule_cols, timer_col_retry_at},
		{rule_cols, timer_col_attempts},
		{rule_cols, timer_col_last_error},
		{rule_col_created_at, {}},
		{rule_col_updated_at, {}},
		{rule_col_message, {}},
		{rule_col_headers, {}},
	};
	Datum values[lengthof(shown)];
	bool nulls[lengthof(shown)];

	for (int i = 0; i < (int) lengthof(shown); i++)
	{
		const bool of_rule = shown[i].of_rule != rule_cols;
		const NamedRow *row = of_rule ? rule : timer;
		const int column = of_rule ? (int) shown[i].of_rule : (int) shown[i].of_timer;

		values[i] = row->values[column];
		nulls[i] = row->nulls[column];
	}
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

} // namespace

QUEEN_FUNCTION(queen_schedule_cron)
QUEEN_FUNCTION(queen_unschedule_cron)
QUEEN_FUNCTION(queen_list_crons)
QUEEN_FUNCTION(queen_verify_mend_rule)

/*
 * queen.schedule_cron(queue, timer_key, cron, message jsonb, timezone, misfire, partition, headers) returns (verdict, next_at)
 */
Datum
queen_schedule_cron(PG_FUNCTION_ARGS)
{
	const TimestampTz now = GetCurrentTimestamp();
	Recurrence recurrence;
	TimestampTz first;
	TimestampTz next = 0;
	TimerVerdict verdict;
	TimerName name;
	RuleRow row;
	Pair pair;

	guard_write("queen.schedule_cron()");
	name = timer_name_arguments(fcinfo);
	rule_arguments(fcinfo, &name, now, &row, &recurrence);
	if (!recurrence_next(&recurrence, now, &first))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cron \"%s\" has no next occurrence", TextDatumGetCString(row.values[rule_col_cron])),
				 errdetail("Time zone %s does not come to it within 50 years.", pg_get_timezone_name(recurrence.zone)),
				 errhint("queen.schedule() delivers a message once.")));
	check_size(&row, name.key, first);
	pair_open(&pair, &name, RowExclusiveLock);
	verdict = schedule(&pair, &row, &recurrence, first, &next);
	pair_close(&pair);
	return timer_verdict_record(fcinfo, verdict, TimestampTzGetDatum(next));
}

/* queen.unschedule_cron(queue, timer_key) returns text */
Datum
queen_unschedule_cron(PG_FUNCTION_ARGS)
{
	const char *verdict = "absent";
	TimerName name;
	Pair pair;

	guard_write("queen.unschedule_cron()");
	name = timer_name_arguments(fcinfo);
	pair_open(&pair, &name, RowExclusiveLock);
	switch (pair_lock(&pair))
	{
		case TimerLock::absent:
			break;
		case TimerLock::held:
			verdict = "too_late";
			break;
		case TimerLock::locked:
			if (pair.has_timer)
				timer_delete(&pair.timers, &pair.timer);
			delete_row(pair.rules.table, &pair.rule.tid);
			verdict = "cancelled";
			break;
	}
	pair_close(&pair);
	PG_RETURN_TEXT_P(cstring_to_text(verdict));
}

/* queen.list_crons(queue, after_key, max_rows) returns setof record */
Datum
queen_list_crons(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const Name queue = name_argument(fcinfo, 0, "queue");
	const Name after = PG_ARGISNULL(1) ? Name{nullptr, 0} : name_argument(fcinfo, 1, "after_key");
	int64 left = count_argument(fcinfo, 2, "max_rows", 1, most_rows);
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen rule", ALLOCSET_DEFAULT_SIZES);
	TimerTable timers;
	Snapshot snapshot;
	RuleTable rules;
	IndexScan scan;

	InitMaterializedSRF(fcinfo, 0);
	timer_table_open(&timers, AccessShareLock);
	rule_table_open(&rules, AccessShareLock);
	snapshot = register_latest_snapshot();
	named_scan_start(&scan, &rules, snapshot, setting_tenant(), queue, after);
	while (left > 0 && index_scan_next(&scan, ForwardScanDirection))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		const TimerName name = {setting_tenant(), queue, named_row_key(scan.slot)};
		const TimerName occurrence = occurrence_name(&name);
		RuleRow rule;
		TimerRow timer;

		if (after.data == nullptr || name.key.size != after.size ||
			memcmp(name.key.data, after.data, (Size) after.size) != 0)
		{
			named_row_copy(&rules, scan.slot, &rule);
			if (!named_row_find(&timers, &occurrence, snapshot, &timer))
				named_row_begin(&occurrence, &timer);
			put(set, &rule, &timer);
			left--;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	rule_table_close(&rules);
	timer_table_close(&timers);
	MemoryContextDelete(per_row);
	return (Datum) 0;
}

/*
 * queen.verify_mend_rule(tenant uuid, queue text, timer_key text) returns boolean: a rule whose occurrence is not there gets it back, an occurrence
 * whose rule is not there goes. False when neither is so, or a fire is at it.
 */
Datum
queen_verify_mend_rule(PG_FUNCTION_ARGS)
{
	bool mended = false;
	TimerName name;
	TimerLock lock;
	Pair pair;

	guard_write("queen.verify(repair => true)");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		raise_null_argument("a rule");
	/* as they are in the table: no call may have let them in */
	name.tenant = PG_GETARG_UUID_P(0);
	name.queue = {VARDATA_ANY(PG_GETARG_TEXT_PP(1)), (int) VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(1))};
	name.key = {VARDATA_ANY(PG_GETARG_TEXT_PP(2)), (int) VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(2))};
	pair_open(&pair, &name, RowExclusiveLock);
	lock = pair_lock(&pair);
	if (lock == TimerLock::locked && !pair.has_timer && !pair.rule.nulls[rule_col_next_at])
	{
		const text *partition = DatumGetTextPP(pair.rule.values[rule_col_partition]);
		TimerRow timer;

		occurrence_fill(&name, {VARDATA_ANY(partition), (int) VARSIZE_ANY_EXHDR(partition)},
						DatumGetTimestampTz(pair.rule.values[rule_col_next_at]), &timer);
		mended = timer_insert(&pair.timers, &timer);
	}
	else if (lock == TimerLock::absent && pair.has_timer)
	{
		timer_delete(&pair.timers, &pair.timer);
		mended = true;
	}
	pair_close(&pair);
	return BoolGetDatum(mended);
}

} // namespace queen
