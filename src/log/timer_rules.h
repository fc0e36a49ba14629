/*
 * timer_rules.h: rows of queen.log_timer_rules: rules of recurring timers. When a rule's occurrences are due is src/timers' matter.
 */
#ifndef QUEEN_LOG_TIMER_RULES_H
#define QUEEN_LOG_TIMER_RULES_H

#include "log/timer_rows.h"

namespace queen
{

/* Columns of queen.log_timer_rules, from 0. */
enum RuleColumn : int
{
	rule_col_tenant,
	rule_col_queue,
	rule_col_key,
	rule_col_cron,
	rule_col_timezone,
	rule_col_misfire,
	rule_col_partition,
	rule_col_message,
	rule_col_headers,
	rule_col_anchor_at,
	rule_col_next_at,
	rule_col_last_at,
	rule_col_created_at,
	rule_col_updated_at,
	rule_cols,
};
static_assert(rule_cols <= max_named_columns);

using RuleTable = NamedTable;
using RuleRow = NamedRow;

void rule_table_open(RuleTable *rules, LOCKMODE mode);
void rule_table_close(RuleTable *rules);

/* The timer that is the rule's occurrence. */
TimerName occurrence_name(const TimerName *rule);

/* named_row_lock; whoever has locked a rule tells of its occurrence when the transaction ends. */
TimerLock rule_lock(RuleTable *rules, const TimerName *name, RuleRow *row, RowWait wait);

/* Delete all rules of a queue and their occurrences; waits for whoever is at one. Returns how many there were. */
int64 rules_delete_of_queue(const pg_uuid_t *tenant, Name queue);

} // namespace queen

#endif
