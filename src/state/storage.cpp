/*
 * storage.cpp: what a table of the extension takes up: queen.stat_storage, for the view pg_stat_queen_storage.
 *
 * Raises. Locks: AccessShareLock on the table, its indexes and what is stored out of line, each while it is looked at, and only if that needs no wait:
 * who monitors must not stand in line behind a VACUUM FULL. Runs in backends, also on a standby. Looks at the sizes of files and at the catalog.
 */
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

namespace
{

enum StorageColumn : int
{
	storage_heap_bytes,
	storage_toast_bytes,
	storage_index_bytes,
	storage_row_bytes,
	storage_cols,
};

/* Null when that would take a wait, or it is gone. To be closed with the same lock. */
Relation
open_at_once(Oid id)
{
	Relation relation;

	if (!ConditionalLockRelationOid(id, AccessShareLock))
		return nullptr;
	relation = try_relation_open(id, NoLock);
	if (relation == nullptr)
		UnlockRelationOid(id, AccessShareLock);
	return relation;
}

int64
fork_bytes(Relation relation, ForkNumber fork)
{
	if (!smgrexists(RelationGetSmgr(relation), fork))
		return 0;
	return (int64) smgrnblocks(RelationGetSmgr(relation), fork) * BLCKSZ;
}

int64
all_bytes(Relation relation)
{
	int64 bytes = 0;

	for (int fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
		bytes += fork_bytes(relation, (ForkNumber) fork);
	return bytes;
}

/* Adds up all indexes of a table; false when one of them cannot be looked at. */
bool
add_indexes(Relation table, int64 *bytes)
{
	List *indexes = RelationGetIndexList(table);
	ListCell *cell;
	bool known = true;

	foreach (cell, indexes)
	{
		Relation index = open_at_once(lfirst_oid(cell));

		known = index != nullptr;
		if (!known)
			break;
		*bytes += all_bytes(index);
		relation_close(index, AccessShareLock);
	}
	list_free(indexes);
	return known;
}

/* Adds what is stored out of line, with its index; false as above. */
bool
add_toast(Relation table, int64 *bytes)
{
	Relation toast;
	bool known;

	if (!OidIsValid(table->rd_rel->reltoastrelid))
		return true;
	toast = open_at_once(table->rd_rel->reltoastrelid);
	if (toast == nullptr)
		return false;
	*bytes += all_bytes(toast);
	known = add_indexes(toast, bytes);
	relation_close(toast, AccessShareLock);
	return known;
}

/* What a row takes in its page, by the widths that ANALYZE found, as the planner reckons with it. */
int64
row_bytes(Relation table)
{
	return (int64) (MAXALIGN(get_rel_data_width(table, nullptr)) + MAXALIGN(SizeofHeapTupleHeader) +
					sizeof(ItemIdData));
}

} // namespace

QUEEN_FUNCTION(queen_stat_storage)

/* queen.stat_storage(relation) returns (heap_bytes, toast_bytes, index_bytes, row_bytes) */
Datum
queen_stat_storage(PG_FUNCTION_ARGS)
{
	Datum values[storage_cols] = {};
	bool nulls[storage_cols] = {true, true, true, true};
	Relation table = nullptr;
	TupleDesc desc;
	Oid id;

	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	if (PG_ARGISNULL(0))
		raise_null_argument("relation");
	id = PG_GETARG_OID(0);
	/* widths of other tables are for those who may read them */
	if (getExtensionOfObject(RelationRelationId, id) == get_extension_oid("queen", false))
		table = open_at_once(id);
	if (table != nullptr && table->rd_rel->relkind == RELKIND_RELATION)
	{
		const int64 heap = fork_bytes(table, MAIN_FORKNUM);
		int64 toast = all_bytes(table) - heap;
		int64 indexes = 0;

		nulls[storage_heap_bytes] = nulls[storage_row_bytes] = false;
		values[storage_heap_bytes] = Int64GetDatum(heap);
		values[storage_row_bytes] = Int64GetDatum(row_bytes(table));
		nulls[storage_toast_bytes] = !add_toast(table, &toast);
		values[storage_toast_bytes] = Int64GetDatum(toast);
		nulls[storage_index_bytes] = !add_indexes(table, &indexes);
		values[storage_index_bytes] = Int64GetDatum(indexes);
	}
	if (table != nullptr)
		relation_close(table, AccessShareLock);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

} // namespace queen
