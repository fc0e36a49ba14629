/*
 * compat.h: the one place that knows PostgreSQL's version. Written for the newest; older servers get the new names.
 *
 * Included by pg.h only, after PostgreSQL's headers. Nothing here raises beyond what it wraps.
 */
#ifndef QUEEN_SERVER_COMPAT_H
#define QUEEN_SERVER_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "queen builds on PostgreSQL 15 to 18"
#endif

/* 16 moved the varlena macros out of postgres.h */
#if PG_VERSION_NUM >= 160000
extern "C"
{
#include "varatt.h"
}
#endif

/* up to 15 PGDLLEXPORT is empty, so that hidden visibility would hide the entry points too */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

/* 16 declares it in fmgr.h */
#if PG_VERSION_NUM < 160000
extern "C"
{
extern PGDLLEXPORT void _PG_init(void);
}
#endif

namespace queen
{

/* 16 added the flag for summarizing indexes (never set: all of ours are btrees) */
inline List *
exec_insert_index_tuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate, bool update, bool no_dup_err,
						 bool *spec_conflict)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, update, no_dup_err, spec_conflict, NIL, false);
#else
	return ExecInsertIndexTuples(rri, slot, estate, update, no_dup_err, spec_conflict, NIL);
#endif
}

/* 18 added the instrumentation argument */
inline IndexScanDesc
index_beginscan_compat(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, nullptr, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 16 turned the flag "update the indexes" into an enum; true when any index needs the new version */
inline bool
simple_table_tuple_update_compat(Relation rel, ItemPointer tid, TupleTableSlot *slot, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update_indexes = TU_None;

	simple_table_tuple_update(rel, tid, slot, snapshot, &update_indexes);
	return update_indexes != TU_None;
#else
	bool update_indexes = false;

	simple_table_tuple_update(rel, tid, slot, snapshot, &update_indexes);
	return update_indexes;
#endif
}

/*
 * The same change: an update that gives up at a row that another transaction is at. Heap tables, from 15 to 18, can be asked not to wait, and answer
 * TM_BeingModified before they have done anything, for whoever has locked the row, however weakly. But no caller in the server asks that, and a
 * build with assertions refuses it: there the row is locked first. Everywhere that would cost 56 bytes of WAL a row.
 */
inline TM_Result
table_tuple_update_nowait(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid, bool *update_indexes)
{
	TM_FailureData failure;
	LockTupleMode mode;
	TM_Result result;
#ifdef USE_ASSERT_CHECKING
	constexpr bool wait = true;
	TupleTableSlot *locked = table_slot_create(rel, nullptr);

	result = table_tuple_lock(rel, tid, SnapshotAny, locked, cid, LockTupleExclusive, LockWaitSkip, 0, &failure);
	ExecDropSingleTupleTableSlot(locked);
	if (result != TM_Ok)
		return result;
#else
	constexpr bool wait = false;
#endif
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes which = TU_None;

	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot, InvalidSnapshot, wait, &failure, &mode, &which);
	*update_indexes = which != TU_None;
#else
	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot, InvalidSnapshot, wait, &failure, &mode,
								update_indexes);
#endif
	return result;
}

/* 17 gave processes numbers of their own and moved the virtual transaction id */
inline int
my_proc_number()
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyProc->pgprocno;
#endif
}

/* The local transaction that a process runs, 0 for none. */
inline LocalTransactionId
proc_lxid(int number)
{
#if PG_VERSION_NUM >= 170000
	return *(volatile LocalTransactionId *) &ProcGlobal->allProcs[number].vxid.lxid;
#else
	return *(volatile LocalTransactionId *) &ProcGlobal->allProcs[number].lxid;
#endif
}

/* Has a transaction released its lock, which it does behind its COMMIT or ABORT callbacks? Never waits. 18 added the flag to log failures. */
inline bool
transaction_has_ended(TransactionId xid)
{
#if PG_VERSION_NUM >= 180000
	return ConditionalXactLockTableWait(xid, false);
#else
	return ConditionalXactLockTableWait(xid);
#endif
}

/* 16 made one function of those that ask for an owner */
inline bool
owns_database(Oid database)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, GetUserId());
#else
	return pg_database_ownercheck(database, GetUserId());
#endif
}

/* 15.4 and its contemporaries leave that in datconnlimit when DROP DATABASE was cut short; nobody can connect */
inline bool
is_invalid_database(const FormData_pg_database *database)
{
	return database->datconnlimit == -2;
}

/* 17 gave extensions wait events of their own; known keeps it, 0 at first */
inline uint32
named_wait_event(const char *name, uint32 *known)
{
#if PG_VERSION_NUM >= 170000
	if (*known == 0)
		*known = WaitEventExtensionNew(name);
#else
	(void) name;
	*known = PG_WAIT_EXTENSION;
#endif
	return *known;
}

/* The settings that end what takes long; 17 added the last */
inline constexpr const char *const timeout_settings[] = {
	"statement_timeout",   "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
#if PG_VERSION_NUM >= 170000
	"transaction_timeout",
#endif
};

/* 16 made the pointer const */
inline void
buffile_write(BufFile *file, const void *data, Size size)
{
#if PG_VERSION_NUM >= 160000
	BufFileWrite(file, data, size);
#else
	BufFileWrite(file, const_cast<void *>(data), size);
#endif
}

/* 16 added the form that raises for a short read */
inline void
buffile_read_exact(BufFile *file, void *data, Size size)
{
#if PG_VERSION_NUM >= 160000
	BufFileReadExact(file, data, size);
#else
	Size got = BufFileRead(file, data, size);

	if (got != size)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not read from temporary file: read only %zu of %zu bytes", got, size)));
#endif
}

} // namespace queen

#endif
