/*
 * events.cpp: hooks on what happens to extensions and databases. See events.h.
 *
 * Statements and PRE_COMMIT may raise; what the end of a transaction does here does not. Locks: evict.h's; the registry's, at the end of
 * a transaction that had such an event. Runs in every process that runs statements.
 */
#include "worker/events.h"

#include "worker/evict.h"
#include "worker/registry.h"

namespace queen
{

namespace
{

/* What this transaction has done. What a savepoint took back leads to a look for nothing. */
struct Events
{
	Oid created_extension; /* ours or another */
	bool extension;		   /* ours was created or dropped */
	bool databases;		   /* some may be to be looked at: which are more than one … */
	Oid database;		   /* … or this one */
};

constinit Events events = {};
constinit object_access_hook_type next_access_hook = nullptr;
constinit ProcessUtility_hook_type next_utility_hook = nullptr;

void
note_database(Oid database)
{
	if (OidIsValid(events.database) && events.database != database)
		events.databases = true;
	events.database = database;
}

/* The row of an extension that was just inserted has no name yet for a scan: asked before the commit. */
void
resolve()
{
	if (OidIsValid(events.created_extension) && get_extension_oid("queen", true) == events.created_extension)
		events.extension = true;
	events.created_extension = InvalidOid;
}

void
prepare()
{
	resolve();
	if (events.extension)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has created or dropped extension queen"),
						errhint("Commit it in one phase.")));
}

void
released()
{
	const Events done = events;

	if (!done.extension && !done.databases && !OidIsValid(done.database))
		return;
	events = {};
	if (done.extension)
	{
		registry_look(MyDatabaseId);
		registry_poke(MyDatabaseId);
	}
	if (done.databases)
		registry_poke_all();
	else if (OidIsValid(done.database))
		registry_poke(done.database);
}

/* An extension that was created and is not ours. */
void
ended(bool committed)
{
	(void) committed;
	events.created_extension = InvalidOid;
}

/* ---- statements about databases ---- */

/* The option of a statement as text; null when it has none. */
const char *
option(const List *options, const char *name)
{
	const ListCell *cell;

	foreach (cell, options)
	{
		DefElem *item = (DefElem *) lfirst(cell);

		if (strcmp(item->defname, name) == 0 && item->arg != nullptr)
			return defGetString(item);
	}
	return nullptr;
}

bool
may_create_databases()
{
	HeapTuple tuple;
	bool may;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	may = HeapTupleIsValid(tuple) && ((const FormData_pg_authid *) GETSTRUCT(tuple))->rolcreatedb;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return may;
}

/* May the caller do that to the database? The server asks the same, with more words, when it does it. */
bool
may_empty(Oid database, bool to_copy)
{
	HeapTuple tuple;
	bool is_template;

	/* one's own can be copied, and nothing else */
	if (!to_copy)
		return database != MyDatabaseId && owns_database(database);
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	is_template = HeapTupleIsValid(tuple) && ((const FormData_pg_database *) GETSTRUCT(tuple))->datistemplate;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return may_create_databases() && (is_template || owns_database(database));
}

/*
 * Is this a statement that fails when anybody is connected to a database? Which. changes: something else about a database is
 * changed, by which the launcher may go.
 */
const char *
database_to_empty(Node *statement, bool *to_copy, bool *in_block, const char **changes)
{
	*to_copy = false;
	*in_block = false;
	*changes = nullptr;
	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) statement)->dbname;
		case T_CreatedbStmt:
		{
			const char *copied = option(((CreatedbStmt *) statement)->options, "template");

			*to_copy = true;
			return copied != nullptr ? copied : "template1";
		}
		case T_RenameStmt:
			*in_block = true;
			return ((RenameStmt *) statement)->renameType == OBJECT_DATABASE ? ((RenameStmt *) statement)->subname
																			 : nullptr;
		case T_AlterDatabaseStmt:
			*changes = ((AlterDatabaseStmt *) statement)->dbname;
			return option(((AlterDatabaseStmt *) statement)->options, "tablespace") != nullptr ? *changes : nullptr;
		default:
			return nullptr;
	}
}

void
before_statement(Node *statement, bool top_level)
{
	const char *changes;
	bool to_copy;
	bool in_block;
	const char *name = database_to_empty(statement, &to_copy, &in_block, &changes);
	Oid database;

	if ((name == nullptr && changes == nullptr) || RecoveryInProgress())
		return;
	database = get_database_oid(name != nullptr ? name : changes, true);
	if (!OidIsValid(database))
		return;
	if (name == nullptr)
		note_database(database);
	/* where it is refused inside a transaction block nobody has to leave for it */
	else if ((in_block || !IsInTransactionBlock(top_level)) && may_empty(database, to_copy))
	{
		note_database(database);
		evict_workers(database);
	}
}

} // namespace

extern "C"
{
static void
queen_events_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_access_hook != nullptr)
		next_access_hook(access, class_id, object_id, sub_id, arg);
	if (class_id == DatabaseRelationId && access == OAT_POST_CREATE)
		note_database(object_id);
	else if (class_id == ExtensionRelationId && access == OAT_POST_CREATE)
	{
		resolve(); /* one before it */
		events.created_extension = object_id;
	}
	else if (class_id == ExtensionRelationId && access == OAT_DROP)
	{
		const char *name = get_extension_name(object_id);

		if (name != nullptr && strcmp(name, "queen") == 0)
			events.extension = true;
	}
}

static void
queen_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
			  ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	before_statement(planned->utilityStmt, context == PROCESS_UTILITY_TOPLEVEL);
	if (next_utility_hook != nullptr)
		next_utility_hook(planned, query, read_only_tree, context, params, environment, dest, completion);
	else
		standard_ProcessUtility(planned, query, read_only_tree, context, params, environment, dest, completion);
}
}

const TransactionParticipant events_participant = {
	resolve, prepare, ended, released, nullptr, nullptr,
};

void
events_init()
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	next_access_hook = object_access_hook;
	object_access_hook = queen_events_access;
	next_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = queen_utility;
}

} // namespace queen
