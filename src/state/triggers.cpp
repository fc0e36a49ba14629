/*
 * triggers.cpp: what SQL does to queen.messages is counted. Only the triggers of sql/15_triggers.sql call it; the code writes the table without SQL,
 * fires no trigger, and notes what it does itself.
 *
 * Raises. Locks: none beyond the statement's. Runs in backends, and where logical replication applies changes.
 */
#include "server/relations.h"
#include "state/rollup.h"
#include "state/shard_rows.h"

namespace queen
{

namespace
{

/* A message is there, or is not any more. sign: 1 or -1. */
void
note_message(Oid tables, TupleTableSlot *slot, int sign)
{
	bool in_flight;

	slot_getallattrs(slot);
	in_flight = !slot->tts_isnull[counted_col_visible_at];
	rollup_note(tables,
				{DatumGetInt64(slot->tts_values[counted_col_log_id]),
				 DatumGetInt16(slot->tts_values[counted_col_priority]),
				 DatumGetInt16(slot->tts_values[counted_col_shard]), in_flight ? 0 : sign, in_flight ? sign : 0});
}

/* All rows of a transition table. */
void
note_messages(Oid tables, Relation table, Tuplestorestate *rows, int sign)
{
	TupleTableSlot *slot;

	if (rows == nullptr)
		return;
	slot = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsMinimalTuple);
	/* another trigger of the statement may have read it */
	tuplestore_select_read_pointer(rows, 0);
	tuplestore_rescan(rows);
	while (tuplestore_gettupleslot(rows, true, false, slot))
	{
		CHECK_FOR_INTERRUPTS();
		note_message(tables, slot, sign);
	}
	ExecDropSingleTupleTableSlot(slot);
}

void
take_away(const ShardCounts *counts, void *arg)
{
	const Oid *tables = (const Oid *) arg;

	rollup_note(*tables, {counts->log_id, counts->priority, counts->shard, -counts->ready, -counts->in_flight});
}

/*
 * Nothing is left: what is counted, and what this transaction has noted before, is taken away. The statement's lock lets nobody else have changes that
 * are not committed.
 */
void
note_truncate(Oid tables)
{
	Snapshot snapshot = register_latest_snapshot();
	int count;
	ShardCounts *pending = rollup_pending(tables, &count);

	for (int i = 0; i < count; i++)
		take_away(&pending[i], &tables);
	pfree(pending);
	shard_rows_each(snapshot, take_away, &tables);
	UnregisterSnapshot(snapshot);
}

void
check_caller(FunctionCallInfo fcinfo)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	bool ours = CALLED_AS_TRIGGER(fcinfo) && TRIGGER_FIRED_AFTER(trigger->tg_event);

	if (ours)
	{
		Relation messages = open_table(Table::messages, AccessShareLock);

		ours = RelationGetRelid(messages) == RelationGetRelid(trigger->tg_relation);
		table_close(messages, NoLock);
	}
	if (!ours)
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("queen.counted() is called by the triggers of queen.messages only")));
}

} // namespace

QUEEN_FUNCTION(queen_counted)

/*
 * queen.counted(): behind a statement that changes queen.messages, or behind each row where a replica's changes are applied: those fire no trigger for
 * the statement
 */
Datum
queen_counted(PG_FUNCTION_ARGS)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	Oid tables;

	check_caller(fcinfo);
	tables = own_tables();
	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		note_truncate(tables);
	else if (TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
	{
		note_messages(tables, trigger->tg_relation, trigger->tg_oldtable, -1);
		note_messages(tables, trigger->tg_relation, trigger->tg_newtable, 1);
	}
	else
	{
		note_message(tables, trigger->tg_trigslot, TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? 1 : -1);
		if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
			note_message(tables, trigger->tg_newslot, 1);
	}
	rollup_settle();
	return PointerGetDatum(nullptr);
}

} // namespace queen
