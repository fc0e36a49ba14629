/*
 * table_access.h: rows by direct index access, without planner, SPI or permission checks.
 *
 * No plan can flip, no search_path matters. What SQL would check has to be checked by the caller: see guards.h. All of
 * these raise; objects here are plain structs that an abort cleans up (resource owner, memory context).
 */
#ifndef QUEEN_SERVER_TABLE_ACCESS_H
#define QUEEN_SERVER_TABLE_ACCESS_H

#include "server/pg.h"

namespace queen
{

inline constexpr int max_scan_keys = 4;

/* An index scan that fetches whole rows. */
struct IndexScan
{
	Relation table;
	Relation index;
	IndexScanDesc desc;
	TupleTableSlot *slot;
	ScanKeyData keys[max_scan_keys];
	int nkeys;
	Snapshot snapshot;
	MemoryContext context; /* where the access method keeps its state: the one in which the scan was opened */
	bool entries;		   /* index_scan_next_entry will be used */
};

/* Open a scan with a snapshot that stays registered, or a dirty one that stays in place, until it is closed. */
void index_scan_open(IndexScan *scan, Relation table, Relation index, Snapshot snapshot);

/* Set the keys (key_int8 and the others, on index columns 1, 2, …) and start over. */
void index_scan_start(IndexScan *scan);

/* Go on with another registered snapshot; index_scan_start must follow. */
void index_scan_set_snapshot(IndexScan *scan, Snapshot snapshot);

/* The next row into scan->slot; false at the end. */
bool index_scan_next(IndexScan *scan, ScanDirection direction);

/*
 * The next entry of the index, whether its row is there or not, without a look at the table; scan->entries was set before
 * index_scan_start. index_scan_entry: its column (of the index, from 1), not null, good until the next call.
 */
bool index_scan_next_entry(IndexScan *scan, ScanDirection direction);
Datum index_scan_entry(const IndexScan *scan, AttrNumber column);

void index_scan_close(IndexScan *scan);

/* Append a key: column (of the index, from 1) compared with a value. */
void index_scan_key_int8(IndexScan *scan, AttrNumber column, StrategyNumber strategy, int64 value);
void index_scan_key_int2(IndexScan *scan, AttrNumber column, int16 value);
void index_scan_key_text(IndexScan *scan, AttrNumber column, Datum value,
						 StrategyNumber strategy = BTEqualStrategyNumber);
void index_scan_key_uuid(IndexScan *scan, AttrNumber column, Datum value,
						 StrategyNumber strategy = BTEqualStrategyNumber);
void index_scan_key_time(IndexScan *scan, AttrNumber column, StrategyNumber strategy, TimestampTz value);
void index_scan_reset_keys(IndexScan *scan);

/*
 * A backend's memory of where the newest entry under a key was last seen. A btree scan reads all matching entries of a
 * leaf page before it gives the first one, so a search for the newest that starts at a hint spares hundreds of dead or
 * old ones. A hint is never trusted: whoever finds nothing at or behind it searches again without.
 */
struct HintCache
{
	static constexpr int size = 8192; /* pages that nobody touches cost nothing */
	struct Entry
	{
		int64 key[2];
		int64 newest;
	} entries[size];
};

/*
 * The newest row under a key into scan->slot: the keys that the scan carries are an index's leading columns, and the bigint
 * column behind them (index_column of the index, table_column of the table) says what is newest. key1 and key2 name the
 * key in the cache.
 */
bool index_scan_newest(IndexScan *scan, HintCache *cache, int64 key1, int64 key2, AttrNumber index_column,
					   AttrNumber table_column);

/* Who else is at a row that a dirty snapshot returned. */
enum class RowOwner
{
	committed,
	running, /* its inserter's transaction, ours included, has not ended */
};
RowOwner dirty_row_owner(const SnapshotData *dirty, TupleTableSlot *slot);

/* Did this transaction insert the row? It may still be rolled back, however visible it is to us. */
bool row_is_own(TupleTableSlot *slot);

/* The transaction that inserted the row version; FrozenTransactionId when that is long ago. */
TransactionId row_inserter(TupleTableSlot *slot);

/*
 * Has every statement of this database that may still run begun after the row was committed? Then none goes on that has
 * not seen it. False proves nothing: a held snapshot, or one of a standby, delays it.
 */
bool row_is_known_to_all(Relation table, TupleTableSlot *slot);

/* Has somebody replaced or deleted the row in the slot, be it in vain? Of a running transaction's row: that transaction. */
bool row_is_replaced(TupleTableSlot *slot);

/* Who is or was at a row last, a transaction or several of them, and how. */
struct RowHolder
{
	TransactionId xmax; /* raw */
	uint16 infomask;
};

/* As the page says now. The slot has it pinned, not locked: the two are read together under its lock. */
RowHolder row_holder(TupleTableSlot *slot);

/* Is another transaction, which has not ended, at the row in the slot: has it locked, replaced or deleted it? */
bool row_is_locked(TupleTableSlot *slot);

/* Does a snapshot other than the one of its scan see the row in the slot? */
bool row_is_visible(Relation table, TupleTableSlot *slot, Snapshot snapshot);

/* Inserts and updates rows of one table, all indexes included. */
struct TableWriter
{
	Relation table;
	int columns; /* that the caller's arrays have; what was added behind them is written null */
	EState *estate;
	ResultRelInfo *rri;
	TupleTableSlot *slot;
};

/* speculative: table_writer_insert_unless_exists will be used */
void table_writer_open(TableWriter *writer, Relation table, int columns, bool speculative);
void table_writer_close(TableWriter *writer);

/* Insert; a duplicate key waits for the other inserter and raises, as INSERT does. */
void table_writer_insert(TableWriter *writer, const Datum *values, const bool *nulls);

/* Rows that are inserted some at a time, which costs less of locks on pages and of WAL. */
struct RowBatch
{
	static constexpr int size = 64;
	static constexpr Size most_bytes = 1024 * 1024;
	TupleTableSlot *slots[size];
	int made; /* slots */
	int count;
	Size bytes;
};

/* Copies the row; it is there when the batch is full, or flushed. A duplicate key raises then. */
void table_writer_add(TableWriter *writer, RowBatch *batch, const Datum *values, const bool *nulls);
void table_writer_flush(TableWriter *writer, RowBatch *batch);
void row_batch_close(RowBatch *batch);

/* Insert unless a unique key is taken, by a committed or a running transaction: then false, at once, nothing inserted. */
bool table_writer_insert_unless_exists(TableWriter *writer, const Datum *values, const bool *nulls);

/* Replace the row at tid, which this transaction has locked. Ends with CommandCounterIncrement. */
void table_writer_update(TableWriter *writer, ItemPointer tid, const Datum *values, const bool *nulls);

/*
 * Replace the row version at tid, found with a snapshot of after it. False, at once, when another transaction is or was at it. The caller ends
 * with CommandCounterIncrement.
 */
bool table_writer_update_unless_locked(TableWriter *writer, ItemPointer tid, const Datum *values, const bool *nulls);

/* Delete the row at tid, which this transaction has locked. Ends with CommandCounterIncrement. */
void delete_row(Relation table, ItemPointer tid);

/* Delete the row version at tid, found with snapshot. False, at once, when another transaction is or was at it. */
bool delete_row_unless_locked(Relation table, ItemPointer tid, Snapshot snapshot);

/* The same, but wait for whoever is at the row. False when it was deleted or replaced. */
bool delete_row_unless_changed(Relation table, ItemPointer tid, Snapshot snapshot);

/* Lock the row version at tid, found with snapshot, FOR UPDATE unless said otherwise. Waits only when asked to. */
TM_Result lock_row(Relation table, ItemPointer tid, Snapshot snapshot, bool wait,
				   LockTupleMode mode = LockTupleExclusive);

/* The latest snapshot, registered; release with UnregisterSnapshot. */
Snapshot register_latest_snapshot();

} // namespace queen

#endif
