/*
 * timer_rules.cpp: rows of queen.log_timer_rules. See timer_rules.h.
 *
 * Raises. Locks: rows, to the end of the transaction, as named_rows.h says: a rule's, then its occurrence's. Runs in backends and workers.
 */
#include "log/timer_rules.h"

#include "log/timer_news.h"

namespace queen
{

void
rule_table_open(RuleTable *rules, LOCKMODE mode)
{
	rules->columns = rule_cols;
	rules->table = open_table(Table::log_timer_rules, mode);
	rules->by_key = open_index(rules->table, {rule_col_tenant + 1, rule_col_queue + 1, rule_col_key + 1}, mode);
}

void
rule_table_close(RuleTable *rules)
{
	index_close(rules->by_key, NoLock);
	table_close(rules->table, NoLock);
}

TimerName
occurrence_name(const TimerName *rule)
{
	char *key = (char *) palloc((Size) rule->key.size + 1);

	key[0] = occurrence_mark;
	memcpy(key + 1, rule->key.data, (Size) rule->key.size);
	return {rule->tenant, rule->queue, {key, rule->key.size + 1}};
}

TimerLock
rule_lock(RuleTable *rules, const TimerName *name, RuleRow *row, RowWait wait)
{
	const TimerLock lock = named_row_lock(rules, name, wait, row);

	/* as of a timer: the fire passes the occurrence by; it is due then, or later where it could not be pushed */
	if (lock == TimerLock::locked && wait != RowWait::nobody && !row->nulls[rule_col_next_at])
		timer_news_note(DatumGetTimestampTz(row->values[rule_col_next_at]));
	return lock;
}

int64
rules_delete_of_queue(const pg_uuid_t *tenant, Name queue)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "queen rule", ALLOCSET_DEFAULT_SIZES);
	Snapshot snapshot = register_latest_snapshot();
	TimerTable timers;
	RuleTable rules;
	IndexScan scan;
	int64 count = 0;

	timer_table_open(&timers, RowExclusiveLock);
	rule_table_open(&rules, RowExclusiveLock);
	named_scan_start(&scan, &rules, snapshot, tenant, queue, {nullptr, 0});
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_row);
		const TimerName name = {tenant, queue, named_row_key(scan.slot)};
		const TimerName occurrence = occurrence_name(&name);
		RuleRow rule;
		TimerRow timer;

		/* a fire moves both on: whatever version it has left goes */
		if (rule_lock(&rules, &name, &rule, RowWait::everybody) == TimerLock::locked)
		{
			if (timer_lock(&timers, &occurrence, &timer, RowWait::everybody) == TimerLock::locked)
				timer_delete(&timers, &timer);
			delete_row(rules.table, &rule.tid);
			count++;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
	}
	index_scan_close(&scan);
	rule_table_close(&rules);
	timer_table_close(&timers);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(per_row);
	return count;
}

} // namespace queen
