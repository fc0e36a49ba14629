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
	"queues",	   "log_partitions", "log_starts", "log_segments",	"log_groups", "log_consumers",
	"log_cursors", "dead_letters",	 "queue_ids",  "partition_ids", "group_ids",  "dead_ids",
};

constinit Oid oids[name_count] = {};
constinit bool oids_valid = false;
constinit uint64 invalidations = 0;

/* log_segments as lock_for_push locked it last */
constinit Oid locked_segments = InvalidOid;

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
	return true;
}

[[noreturn]] void
raise_missing()
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the tables of extension queen are not there"),
					errhint("Was the extension dropped? CREATE EXTENSION queen makes them.")));
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
			return rel;
		/* dropped between the look-up and the lock, which brought the news: perhaps it was made again */
		if (oids_valid)
			raise_missing();
	}
}

void
lock_for_push()
{
	constexpr int needed[] = {
		(int) Table::queues,
		(int) Table::log_partitions,
		(int) Table::log_starts,
		(int) Table::log_segments,
		table_count + (int) Sequence::queue_ids,
		table_count + (int) Sequence::partition_ids,
	};

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!load_oids())
			raise_missing();
		for (int i : needed)
			LockRelationOid(oids[i], RowExclusiveLock);
		/* a lock that had to be waited for brings the news that its relation was dropped */
	} while (!oids_valid);
	locked_segments = oids[(int) Table::log_segments];
}

bool
tables_were_dropped()
{
	if (load_oids())
		return false;
	/* renamed out of the way, say: what was pushed has nowhere to go, and must not go nowhere silently */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(locked_segments)))
		raise_missing();
	return true;
}

Relation
open_index(Relation table, std::initializer_list<AttrNumber> key, LOCKMODE mode)
{
	List *indexes = RelationGetIndexList(table);
	ListCell *cell;

	foreach (cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), mode);
		Form_pg_index form = index->rd_index;
		bool match = form->indisvalid && form->indnkeyatts == (int) key.size();

		for (int i = 0; match && i < (int) key.size(); i++)
			match = form->indkey.values[i] == key.begin()[i];
		if (match)
		{
			list_free(indexes);
			return index;
		}
		index_close(index, mode);
	}
	ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
					errmsg("table \"%s\" has no valid index on its key", RelationGetRelationName(table)),
					errhint("REINDEX the table.")));
	pg_unreachable();
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
