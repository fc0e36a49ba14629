/*
 * table_access.cpp: direct index and table access. See table_access.h.
 *
 * Raises. Locks: rows as asked; tables and indexes are locked by whoever opened them. Runs in backends and workers.
 */
#include "server/table_access.h"

namespace queen
{

void
index_scan_open(IndexScan *scan, Relation table, Relation index, Snapshot snapshot)
{
	scan->table = table;
	scan->index = index;
	scan->snapshot = snapshot;
	scan->nkeys = 0;
	scan->slot = table_slot_create(table, nullptr);
	scan->desc = nullptr;
	scan->context = CurrentMemoryContext;
	scan->entries = false;
}

void
index_scan_reset_keys(IndexScan *scan)
{
	scan->nkeys = 0;
}

static void
add_key(IndexScan *scan, AttrNumber column, StrategyNumber strategy, RegProcedure procedure, Oid collation, Datum value)
{
	Assert(scan->nkeys < max_scan_keys);
	ScanKeyEntryInitialize(&scan->keys[scan->nkeys++], 0, column, strategy, InvalidOid, collation, procedure, value);
}

void
index_scan_key_int8(IndexScan *scan, AttrNumber column, StrategyNumber strategy, int64 value)
{
	RegProcedure procedure = F_INT8EQ;

	switch (strategy)
	{
		case BTLessStrategyNumber:
			procedure = F_INT8LT;
			break;
		case BTLessEqualStrategyNumber:
			procedure = F_INT8LE;
			break;
		case BTGreaterEqualStrategyNumber:
			procedure = F_INT8GE;
			break;
		case BTGreaterStrategyNumber:
			procedure = F_INT8GT;
			break;
		default:
			break;
	}
	add_key(scan, column, strategy, procedure, InvalidOid, Int64GetDatum(value));
}

void
index_scan_key_int2(IndexScan *scan, AttrNumber column, int16 value)
{
	add_key(scan, column, BTEqualStrategyNumber, F_INT2EQ, InvalidOid, Int16GetDatum(value));
}

void
index_scan_key_text(IndexScan *scan, AttrNumber column, Datum value, StrategyNumber strategy)
{
	constexpr RegProcedure compare[] = {F_TEXT_LT, F_TEXT_LE, F_TEXTEQ, F_TEXT_GE, F_TEXT_GT};

	add_key(scan, column, strategy, compare[strategy - BTLessStrategyNumber], C_COLLATION_OID, value);
}

void
index_scan_key_uuid(IndexScan *scan, AttrNumber column, Datum value, StrategyNumber strategy)
{
	constexpr RegProcedure compare[] = {F_UUID_LT, F_UUID_LE, F_UUID_EQ, F_UUID_GE, F_UUID_GT};

	add_key(scan, column, strategy, compare[strategy - BTLessStrategyNumber], InvalidOid, value);
}

void
index_scan_key_time(IndexScan *scan, AttrNumber column, StrategyNumber strategy, TimestampTz value)
{
	constexpr RegProcedure compare[] = {F_TIMESTAMPTZ_LT, F_TIMESTAMPTZ_LE, F_TIMESTAMPTZ_EQ, F_TIMESTAMPTZ_GE,
										F_TIMESTAMPTZ_GT};

	add_key(scan, column, strategy, compare[strategy - BTLessStrategyNumber], InvalidOid, TimestampTzGetDatum(value));
}

void
index_scan_start(IndexScan *scan)
{
	MemoryContext caller = MemoryContextSwitchTo(scan->context);

	if (scan->desc == nullptr)
		scan->desc = index_beginscan_compat(scan->table, scan->index, scan->snapshot, scan->nkeys);
	else if (scan->desc->numberOfKeys != scan->nkeys)
	{
		index_endscan(scan->desc);
		scan->desc = index_beginscan_compat(scan->table, scan->index, scan->snapshot, scan->nkeys);
	}
	/* the access method makes room for entries when it starts */
	scan->desc->xs_want_itup = scan->entries;
	/* one that is known to be dead is as good as any, and behind it may be pages full of them */
	scan->desc->ignore_killed_tuples &= !scan->entries;
	index_rescan(scan->desc, scan->keys, scan->nkeys, nullptr, 0);
	MemoryContextSwitchTo(caller);
}

void
index_scan_set_snapshot(IndexScan *scan, Snapshot snapshot)
{
	scan->snapshot = snapshot;
	if (scan->desc != nullptr)
		scan->desc->xs_snapshot = snapshot;
}

bool
index_scan_next(IndexScan *scan, ScanDirection direction)
{
	MemoryContext caller;
	bool found;

	CHECK_FOR_INTERRUPTS();
	caller = MemoryContextSwitchTo(scan->context);
	found = index_getnext_slot(scan->desc, direction, scan->slot);
	MemoryContextSwitchTo(caller);
	return found;
}

bool
index_scan_next_entry(IndexScan *scan, ScanDirection direction)
{
	MemoryContext caller = MemoryContextSwitchTo(scan->context);
	const bool found = index_getnext_tid(scan->desc, direction) != nullptr;

	MemoryContextSwitchTo(caller);
	return found;
}

Datum
index_scan_entry(const IndexScan *scan, AttrNumber column)
{
	bool isnull;

	return index_getattr(scan->desc->xs_itup, column, scan->desc->xs_itupdesc, &isnull);
}

void
index_scan_close(IndexScan *scan)
{
	if (scan->desc != nullptr)
		index_endscan(scan->desc);
	scan->desc = nullptr;
	ExecDropSingleTupleTableSlot(scan->slot);
}

bool
index_scan_newest(IndexScan *scan, HintCache *cache, int64 key1, int64 key2, AttrNumber index_column,
				  AttrNumber table_column)
{
	/* Fibonacci hashing: ids are dense, the product's high bits are spread */
	const uint64 mixed = ((uint64) key1 * UINT64CONST(31) + (uint64) key2) * UINT64CONST(0x9e3779b97f4a7c15);
	HintCache::Entry *hint = &cache->entries[(mixed >> 32) % HintCache::size];
	const int prefix = scan->nkeys;
	bool found = false;

	if (hint->key[0] == key1 && hint->key[1] == key2 && hint->newest > 0)
	{
		index_scan_key_int8(scan, index_column, BTGreaterEqualStrategyNumber, hint->newest);
		index_scan_start(scan);
		found = index_scan_next(scan, BackwardScanDirection);
		scan->nkeys = prefix;
	}
	/* what the hint was of may have been rolled back or deleted */
	if (!found)
	{
		index_scan_start(scan);
		found = index_scan_next(scan, BackwardScanDirection);
	}
	if (found)
	{
		bool isnull;

		*hint = {{key1, key2}, DatumGetInt64(slot_getattr(scan->slot, table_column, &isnull))};
	}
	return found;
}

bool
row_is_own(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	/* not the raw xmin: a frozen row's may be ours by coincidence, four billion transactions later */
	bool own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));

	if (should_free)
		heap_freetuple(tuple);
	return own;
}

TransactionId
row_inserter(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);

	if (should_free)
		heap_freetuple(tuple);
	return xmin;
}

RowHolder
row_holder(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	/* a copy of its own, which a slot may have been made to take, does not change */
	const Buffer buffer = TTS_IS_BUFFERTUPLE(slot) ? ((BufferHeapTupleTableSlot *) slot)->buffer : InvalidBuffer;
	RowHolder holder;

	if (BufferIsValid(buffer))
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
	holder = {HeapTupleHeaderGetRawXmax(tuple->t_data), tuple->t_data->t_infomask};
	if (BufferIsValid(buffer))
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (should_free)
		heap_freetuple(tuple);
	return holder;
}

bool
row_is_replaced(TupleTableSlot *slot)
{
	const uint16 infomask = row_holder(slot).infomask;

	return (infomask & HEAP_XMAX_INVALID) == 0 && !HEAP_XMAX_IS_LOCKED_ONLY(infomask);
}

bool
row_is_locked(TupleTableSlot *slot)
{
	const auto [xmax, infomask] = row_holder(slot);

	if ((infomask & HEAP_XMAX_INVALID) != 0 || !TransactionIdIsValid(xmax))
		return false;
	if ((infomask & HEAP_XMAX_IS_MULTI) != 0)
		return MultiXactIdIsRunning(xmax, HEAP_XMAX_IS_LOCKED_ONLY(infomask));
	return !TransactionIdIsCurrentTransactionId(xmax) && TransactionIdIsInProgress(xmax);
}

bool
row_is_known_to_all(Relation table, TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);

	if (should_free)
		heap_freetuple(tuple);
	/* a statement that began before the commit holds a snapshot in which this transaction runs */
	return TransactionIdPrecedes(xmin, GetOldestNonRemovableTransactionId(table));
}

bool
row_is_visible(Relation table, TupleTableSlot *slot, Snapshot snapshot)
{
	return table_tuple_satisfies_snapshot(table, slot, snapshot);
}

RowOwner
dirty_row_owner(const SnapshotData *dirty, TupleTableSlot *slot)
{
	/* the dirty snapshot reports no xmin for rows of our own transaction */
	return TransactionIdIsValid(dirty->xmin) || row_is_own(slot) ? RowOwner::running : RowOwner::committed;
}

void
table_writer_open(TableWriter *writer, Relation table, int columns, bool speculative)
{
	writer->table = table;
	writer->columns = columns;
	writer->estate = CreateExecutorState();
	writer->rri = makeNode(ResultRelInfo);
	/* range table index 0: there is no range table, and an era's move would look into it */
	InitResultRelInfo(writer->rri, table, 0, nullptr, 0);
	ExecOpenIndices(writer->rri, speculative);
	writer->slot = table_slot_create(table, nullptr);
}

void
table_writer_close(TableWriter *writer)
{
	ExecCloseIndices(writer->rri);
	ExecDropSingleTupleTableSlot(writer->slot);
	FreeExecutorState(writer->estate);
}

static void
fill_slot(const TableWriter *writer, TupleTableSlot *slot, const Datum *values, const bool *nulls)
{
	TupleDesc desc = slot->tts_tupleDescriptor;

	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, sizeof(Datum) * (size_t) writer->columns);
	memcpy(slot->tts_isnull, nulls, sizeof(bool) * (size_t) writer->columns);
	for (int i = writer->columns; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attnotnull && !TupleDescAttr(desc, i)->attisdropped)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("column \"%s\" of table \"%s\" is not the extension's and not null",
								   NameStr(TupleDescAttr(desc, i)->attname), RelationGetRelationName(writer->table)),
							errhint("Drop the column: queen's tables belong to queen.")));
		slot->tts_values[i] = (Datum) 0;
		slot->tts_isnull[i] = true;
	}
	ExecStoreVirtualTuple(slot);
}

void
table_writer_insert(TableWriter *writer, const Datum *values, const bool *nulls)
{
	fill_slot(writer, writer->slot, values, nulls);
	simple_table_tuple_insert(writer->table, writer->slot);
	exec_insert_index_tuples(writer->rri, writer->slot, writer->estate, false, false, nullptr);
	ResetPerTupleExprContext(writer->estate);
}

void
table_writer_add(TableWriter *writer, RowBatch *batch, const Datum *values, const bool *nulls)
{
	TupleTableSlot *slot;
	bool should_free;

	if (batch->count == RowBatch::size || batch->bytes >= RowBatch::most_bytes)
		table_writer_flush(writer, batch);
	if (batch->made == batch->count)
	{
		/* it lives as long as the writer's */
		MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(writer->slot));

		batch->slots[batch->made++] = table_slot_create(writer->table, nullptr);
		MemoryContextSwitchTo(caller);
	}
	slot = batch->slots[batch->count++];
	fill_slot(writer, slot, values, nulls);
	ExecMaterializeSlot(slot);
	batch->bytes += ExecFetchSlotHeapTuple(slot, false, &should_free)->t_len;
}

void
table_writer_flush(TableWriter *writer, RowBatch *batch)
{
	if (batch->count == 1)
		simple_table_tuple_insert(writer->table, batch->slots[0]);
	else if (batch->count > 1)
		table_multi_insert(writer->table, batch->slots, batch->count, GetCurrentCommandId(true), 0, nullptr);
	for (int i = 0; i < batch->count; i++)
	{
		exec_insert_index_tuples(writer->rri, batch->slots[i], writer->estate, false, false, nullptr);
		ResetPerTupleExprContext(writer->estate);
		ExecClearTuple(batch->slots[i]);
	}
	batch->count = 0;
	batch->bytes = 0;
}

void
row_batch_close(RowBatch *batch)
{
	for (int i = 0; i < batch->made; i++)
		ExecDropSingleTupleTableSlot(batch->slots[i]);
	*batch = {};
}

bool
table_writer_insert_unless_exists(TableWriter *writer, const Datum *values, const bool *nulls)
{
	TransactionId xid = GetCurrentTransactionId();
	bool conflict = false;
	uint32 token;

	fill_slot(writer, writer->slot, values, nulls);
	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(writer->table, writer->slot, GetCurrentCommandId(true), 0, nullptr, token);
	exec_insert_index_tuples(writer->rri, writer->slot, writer->estate, false, true, &conflict);
	table_tuple_complete_speculative(writer->table, writer->slot, token, !conflict);
	SpeculativeInsertionLockRelease(xid);
	ResetPerTupleExprContext(writer->estate);
	return !conflict;
}

void
table_writer_update(TableWriter *writer, ItemPointer tid, const Datum *values, const bool *nulls)
{
	fill_slot(writer, writer->slot, values, nulls);
	if (simple_table_tuple_update_compat(writer->table, tid, writer->slot, InvalidSnapshot))
		exec_insert_index_tuples(writer->rri, writer->slot, writer->estate, true, false, nullptr);
	ResetPerTupleExprContext(writer->estate);
	CommandCounterIncrement();
}

bool
table_writer_update_unless_locked(TableWriter *writer, ItemPointer tid, const Datum *values, const bool *nulls)
{
	bool update_indexes;
	TM_Result result;

	fill_slot(writer, writer->slot, values, nulls);
	result = table_tuple_update_nowait(writer->table, tid, writer->slot, GetCurrentCommandId(true), &update_indexes);
	if (result == TM_Ok && update_indexes)
		exec_insert_index_tuples(writer->rri, writer->slot, writer->estate, true, false, nullptr);
	ResetPerTupleExprContext(writer->estate);
	return result == TM_Ok;
}

void
delete_row(Relation table, ItemPointer tid)
{
	simple_table_tuple_delete(table, tid, InvalidSnapshot);
	CommandCounterIncrement();
}

static bool
try_delete(Relation table, ItemPointer tid, Snapshot snapshot, bool wait)
{
	TM_FailureData failure;

	return table_tuple_delete(table, tid, GetCurrentCommandId(true), snapshot, InvalidSnapshot, wait, &failure,
							  false) == TM_Ok;
}

bool
delete_row_unless_locked(Relation table, ItemPointer tid, Snapshot snapshot)
{
	return try_delete(table, tid, snapshot, false);
}

bool
delete_row_unless_changed(Relation table, ItemPointer tid, Snapshot snapshot)
{
	return try_delete(table, tid, snapshot, true);
}

TM_Result
lock_row(Relation table, ItemPointer tid, Snapshot snapshot, bool wait, LockTupleMode mode)
{
	TupleTableSlot *slot = table_slot_create(table, nullptr);
	TM_FailureData failure;
	TM_Result result;

	result = table_tuple_lock(table, tid, snapshot, slot, GetCurrentCommandId(false), mode,
							  wait ? LockWaitBlock : LockWaitSkip, 0, &failure);
	ExecDropSingleTupleTableSlot(slot);
	return result;
}

Snapshot
register_latest_snapshot()
{
	return RegisterSnapshot(GetLatestSnapshot());
}

} // namespace queen
