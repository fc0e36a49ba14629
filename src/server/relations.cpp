/*
 * relations.cpp: own tables by name. See relations.h.
 *
 * Raises (but the invalidation callback does not). Locks: the tables, as asked. Runs in backends and workers.
 */
#include "server/relations.h"

namespace queen
{

namespace
{

constexpr int table_count = (int) Table::count;
constexpr int sequence_count = (int) Sequence::count;
constexpr int name_count = table_count + sequence_count;

/* in the order of the two enums */
constexpr const char *const names[name_count] = {
	"queues",
	"log_partitions",
	"log_starts",
	"log_dropped",
	"log_segments",
	"log_txns",
	"log_groups",
	"log_retired_groups",
	"log_consumers",
	"log_cursors",
	"dead_letters",
	"log_timers",
	"log_timer_rules",
	"messages",
	"queue_priority_shards",
	"queue_priority_state_shard",
	"queue_ids",
	"partition_ids",
	"group_ids",
	"dead_ids",
	"dropped_ids",
	"message_orders",
};

/* columns that this library knows, in the order of enum class Table; more may follow, see check_columns */
constexpr int known_columns[table_count] = {23, 4, 3, 5, 5, 4, 8, 4, 3, 15, 19, 17, 14, 16, 4, 7};

constinit Oid oids[name_count] = {};
constinit bool oids_valid = false;
constinit uint64 loads = 0; /* of the oids */
constinit uint64 invalidations = 0;
constinit uint64 names_changed = 1;

/* the load whose relations this transaction has locked for its pushes; 0: none */
constinit uint64 locked_for_push = 0;

/* Fill the cache; false when any of the relations is missing. */
bool
load_oids()
{
	uint64 seen;
	Oid schema;

	if (oids_valid)
		return true;
	do
	{
		seen = invalidations;
		schema = get_namespace_oid("queen", true);
		if (!OidIsValid(schema))
			return false;
		for (int i = 0; i < name_count; i++)
		{
			oids[i] = get_relname_relid(names[i], schema);
			if (!OidIsValid(oids[i]))
				return false;
		}
		/* what was invalidated while we looked was perhaps looked up before */
	} while (seen != invalidations);
	oids_valid = true;
	loads++;
	return true;
}

/*
 * Our arrays are as long as our enums. Columns that somebody added behind are read over and written null; fewer columns, or
 * one of ours dropped, is a library that does not go with the tables.
 */
void
check_columns(Table table, Relation rel)
{
	const int known = known_columns[(int) table];
	TupleDesc desc = RelationGetDescr(rel);
	bool fits = desc->natts >= known;

	for (int i = 0; fits && i < known; i++)
		fits = !TupleDescAttr(desc, i)->attisdropped;
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" does not have the columns that this library knows", RelationGetRelationName(rel)),
				 errhint("Bring library and extension to the same version with ALTER EXTENSION queen UPDATE.")));
}

/* Rows whose column has a value; column 0: all rows. */
struct RowsOf
{
	AttrNumber column;
	const char *value;
};

bool
is_of_rows(Relation index, const RowsOf *rows)
{
	List *predicate = NIL;
	const OpExpr *comparison;
	const Var *column;
	const Const *value;

	if (!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr))
		predicate = RelationGetIndexPredicate(index);
	if (rows->column == 0 || list_length(predicate) != 1 || !IsA(linitial(predicate), OpExpr))
		return rows->column == 0 && predicate == NIL;
	comparison = (const OpExpr *) linitial(predicate);
	if (comparison->opno != TextEqualOperator || !IsA(linitial(comparison->args), Var) ||
		!IsA(lsecond(comparison->args), Const))
		return false;
	column = (const Var *) linitial(comparison->args);
	value = (const Const *) lsecond(comparison->args);
	return column->varattno == rows->column && !value->constisnull &&
		   strcmp(TextDatumGetCString(value->constvalue), rows->value) == 0;
}

/* Is this an index that our scans and conflict checks can rest on? A DBA may have made others on the same columns. */
bool
is_ours(Relation table, Relation index, std::initializer_list<AttrNumber> key, bool unique, const RowsOf *rows)
{
	Form_pg_index form = index->rd_index;
	bool match = form->indisvalid && form->indislive && form->indisunique >= unique &&
				 index->rd_rel->relam == BTREE_AM_OID && form->indnkeyatts == (int) key.size() &&
				 heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, nullptr) && is_of_rows(index, rows);

	for (int i = 0; match && i < (int) key.size(); i++)
		match = form->indkey.values[i] == key.begin()[i] && index->rd_indoption[i] == 0 &&
				index->rd_indcollation[i] == TupleDescAttr(RelationGetDescr(table), key.begin()[i] - 1)->attcollation;
	return match;
}

[[noreturn]] void
raise_missing()
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the tables of extension queen are not there"),
					errhint("Was the extension dropped? CREATE EXTENSION queen makes them.")));
	pg_unreachable();
}

[[noreturn]] void
raise_no_index(Relation table, std::initializer_list<AttrNumber> key, bool unique)
{
	StringInfoData columns;

	initStringInfo(&columns);
	for (AttrNumber column : key)
		appendStringInfo(&columns, "%s%s", columns.len > 0 ? ", " : "",
						 NameStr(TupleDescAttr(RelationGetDescr(table), column - 1)->attname));
	ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
					errmsg("table \"%s\" has no valid %sindex on (%s)", RelationGetRelationName(table),
						   unique ? "unique " : "", columns.data),
					errhint("REINDEX the table; where the index is gone, create it as the extension's script does.")));
	pg_unreachable();
}

} // namespace

extern "C"
{
/* Never raises. */
static void
queen_relcache_callback(Datum arg, Oid relid)
{
	(void) arg;
	invalidations++;
	if (!OidIsValid(relid) || !oids_valid || relid == oids[(int) Table::queues])
		names_changed++;
	if (!OidIsValid(relid))
		oids_valid = false;
	for (int i = 0; oids_valid && i < name_count; i++)
		if (oids[i] == relid)
			oids_valid = false;
}
}

void
relations_init()
{
	CacheRegisterRelcacheCallback(queen_relcache_callback, (Datum) 0);
}

Relation
open_table(Table table, LOCKMODE mode)
{
	for (;;)
	{
		Relation rel;

		CHECK_FOR_INTERRUPTS();
		if (!load_oids())
			raise_missing();
		rel = try_table_open(oids[(int) table], mode);
		if (rel != nullptr)
		{
			check_columns(table, rel);
			return rel;
		}
		/* dropped between the look-up and the lock, which brought the news: perhaps it was made again */
		if (oids_valid)
			raise_missing();
	}
}

void
lock_extension()
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!load_oids())
			raise_missing();
		LockRelationOid(oids[table_count + (int) Sequence::queue_ids], AccessShareLock);
	} while (!oids_valid);
}

ExtensionLock
try_lock_extension()
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(get_extension_oid("queen", true)))
			return ExtensionLock::missing;
		if (!load_oids())
			raise_missing();
		if (!ConditionalLockRelationOid(oids[table_count + (int) Sequence::queue_ids], AccessShareLock))
			return ExtensionLock::busy;
	} while (!oids_valid);
	return ExtensionLock::locked;
}

Oid
lock_for_push()
{
	constexpr int needed[] = {
		table_count + (int) Sequence::queue_ids,
		(int) Table::queues,
		(int) Table::log_partitions,
		(int) Table::log_starts,
		(int) Table::log_segments,
		(int) Table::log_txns,
		table_count + (int) Sequence::partition_ids,
	};

	if (oids_valid && locked_for_push == loads)
		return oids[(int) Table::log_segments];
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!load_oids())
			raise_missing();
		for (int i : needed)
			LockRelationOid(oids[i], RowExclusiveLock);
		/* a lock that had to be waited for brings the news that its relation was dropped */
	} while (!oids_valid);
	locked_for_push = loads;
	return oids[(int) Table::log_segments];
}

Oid
own_tables()
{
	if (!load_oids())
		raise_missing();
	return oids[(int) Table::log_segments];
}

void
forget_push_locks()
{
	locked_for_push = 0;
}

uint64
names_generation()
{
	return names_changed;
}

void
invalidate_names(Relation queues)
{
	CacheInvalidateRelcache(queues);
}

bool
tables_were_dropped(Oid tables)
{
	if (load_oids() && tables == oids[(int) Table::log_segments])
		return false;
	/* renamed out of the way, say: what was pushed has nowhere to go, and must not go nowhere silently */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(tables)))
		raise_missing();
	return true;
}

static Relation
open_index_of(Relation table, std::initializer_list<AttrNumber> key, LOCKMODE mode, bool unique, const RowsOf *rows)
{
	List *indexes = RelationGetIndexList(table);
	ListCell *cell;

	foreach (cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), mode);

		if (is_ours(table, index, key, unique, rows))
		{
			list_free(indexes);
			return index;
		}
		index_close(index, mode);
	}
	raise_no_index(table, key, unique);
}

Relation
open_index(Relation table, std::initializer_list<AttrNumber> key, LOCKMODE mode, bool unique)
{
	const RowsOf all = {0, nullptr};

	return open_index_of(table, key, mode, unique, &all);
}

Relation
open_partial_index(Relation table, std::initializer_list<AttrNumber> key, AttrNumber column, const char *value,
				   LOCKMODE mode)
{
	const RowsOf rows = {column, value};

	return open_index_of(table, key, mode, false, &rows);
}

int64
next_id(Sequence sequence)
{
	const bool read_only = XactReadOnly;
	int64 id;

	if (!load_oids())
		raise_missing();
	/*
	 * A transaction may turn read-only after its writes. What it pushed before is written at its commit and may need an
	 * id; the call itself was refused if it came later.
	 */
	XactReadOnly = false;
	PG_TRY();
	{
		id = nextval_internal(oids[table_count + (int) sequence], false);
	}
	PG_FINALLY();
	{
		XactReadOnly = read_only;
	}
	PG_END_TRY();
	return id;
}

} // namespace queen
