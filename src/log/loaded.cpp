/*
 * loaded.cpp: rows that SQL writes into the tables. Only the triggers of sql/15_triggers.sql call it.
 *
 * The code writes without SQL and fires no trigger; what does is a restore's COPY, or a superuser. What this server remembers of
 * the tables (tails.h, known_names.h) may then be too little, so it is forgotten.
 *
 * Raises. Locks: queen.log_segments, against whoever appends, to the end of the transaction. Runs in backends.
 */
#include "hotlist/journal.h"
#include "log/changes.h"
#include "log/tails.h"
#include "log/work_calls.h"
#include "server/relations.h"

namespace queen
{

namespace
{

/*
 * A restore speaks the encoding that it was dumped in, and COPY converts texts; it cannot convert those inside of segments. A
 * database without an encoding takes anything.
 */
void
check_encoding()
{
	const int from = pg_get_client_encoding();
	const int to = GetDatabaseEncoding();

	if (from != to && to != PG_SQL_ASCII)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("messages in encoding %s cannot be loaded into a database of encoding %s",
					pg_encoding_to_char(from), pg_encoding_to_char(to)),
			 errdetail("Segments hold texts in the encoding of their database."),
			 errhint("Restore into a database of the encoding that was dumped, without an encoding of its own (-E) for "
					 "the dump.")));
}

/* log_groups and log_cursors */
bool
is_of_groups(Relation table)
{
	const char *name = RelationGetRelationName(table);

	return strcmp(name, "log_groups") == 0 || strcmp(name, "log_cursors") == 0;
}

} // namespace

QUEEN_FUNCTION(queen_loaded)

/*
 * queen.loaded(): before a statement that changes queues, log_partitions, log_starts, log_segments, messages, and log_groups or
 * log_cursors, of which only the hot-list has knowledge
 */
Datum
queen_loaded(PG_FUNCTION_ARGS)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	Relation queues;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("queen.loaded() is called by the triggers of the extension's tables only")));
	if (strcmp(RelationGetRelationName(trigger->tg_relation), "messages") == 0)
	{
		work_calls->loaded(own_tables());
		return PointerGetDatum(nullptr);
	}
	journal_owe_all(own_tables());
	cursor_change_note();
	if (is_of_groups(trigger->tg_relation))
		return PointerGetDatum(nullptr);
	if (RelationGetRelid(trigger->tg_relation) == own_tables())
	{
		if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
			check_encoding();
		/* from here to the end nobody appends, and so nobody notes a tail that does not know of these rows */
		LockRelationOid(own_tables(), ShareRowExclusiveLock);
	}
	tails_forget_all(own_tables());
	queues = open_table(Table::queues, AccessShareLock);
	invalidate_names(queues);
	table_close(queues, NoLock);
	return PointerGetDatum(nullptr);
}

} // namespace queen
