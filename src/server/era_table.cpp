/*
 * era_table.cpp: era tables. See era_table.h and era_table.README.md.
 *
 * Raises. Locks: the state row, as asked; an identity's key while its birth runs. Runs in backends and workers.
 */
#include "server/era_table.h"

namespace queen
{

/* column indexes (from 0) of era and changes */
static int
era_column(const EraTable *def)
{
	return def->nkeys;
}

static int
changes_column(const EraTable *def)
{
	return def->nkeys + 1;
}

static void
open_both(EraHandle *handle, const EraTable *def, LOCKMODE mode)
{
	handle->def = def;
	handle->identity = open_table(def->identity, mode);
	handle->state = open_table(def->state, mode);
	if (def->nkeys == 2)
	{
		handle->identity_index = open_index(handle->identity, {1, 2}, mode);
		handle->state_index = open_index(handle->state, {1, 2, 3}, mode);
	}
	else
	{
		Assert(def->nkeys == era_max_keys);
		handle->identity_index = open_index(handle->identity, {1, 2, 3}, mode);
		handle->state_index = open_index(handle->state, {1, 2, 3, 4}, mode);
	}
	handle->scan_open = false;
	handle->writer_open = false;
}

void
era_open(EraHandle *handle, const EraTable *def)
{
	open_both(handle, def, RowExclusiveLock);
}

void
era_open_to_read(EraHandle *handle, const EraTable *def)
{
	open_both(handle, def, AccessShareLock);
}

void
era_close(EraHandle *handle)
{
	era_release_snapshot(handle);
	if (handle->writer_open)
		table_writer_close(&handle->writer);
	index_close(handle->state_index, NoLock);
	index_close(handle->identity_index, NoLock);
	table_close(handle->state, NoLock);
	table_close(handle->identity, NoLock);
}

static void
open_identity_scan(EraHandle *handle, IndexScan *scan, Snapshot snapshot)
{
	index_scan_open(scan, handle->identity, handle->identity_index, snapshot);
	for (int i = 0; i < handle->def->nkeys; i++)
		index_scan_key_int8(scan, (AttrNumber) (i + 1), BTEqualStrategyNumber, handle->keys[i]);
	index_scan_start(scan);
}

/* No state is visible: is there an identity all the same, of a birth that runs or that ended after the snapshot? */
static EraSeek
look_for_identity(EraHandle *handle)
{
	SnapshotData dirty;
	IndexScan scan;
	EraSeek result = EraSeek::absent;

	InitDirtySnapshot(dirty);
	open_identity_scan(handle, &scan, &dirty);
	if (index_scan_next(&scan, ForwardScanDirection))
		result = TransactionIdIsValid(dirty.xmin) ? EraSeek::running : EraSeek::stale;
	index_scan_close(&scan);
	return result;
}

void
era_wait_for_birth(EraHandle *handle)
{
	SnapshotData dirty;
	IndexScan scan;
	TransactionId xid = InvalidTransactionId;
	uint32 token = 0;
	ItemPointerData tid = {};

	InitDirtySnapshot(dirty);
	open_identity_scan(handle, &scan, &dirty);
	if (index_scan_next(&scan, ForwardScanDirection))
	{
		xid = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
		token = dirty.speculativeToken;
		tid = scan.slot->tts_tid;
	}
	index_scan_close(&scan);
	if (token != 0)
		SpeculativeInsertionWait(xid, token);
	else if (TransactionIdIsValid(xid))
		XactLockTableWait(xid, handle->identity, &tid, XLTW_InsertIndex);
}

void
era_release_snapshot(EraHandle *handle)
{
	if (handle->scan_open)
		index_scan_close(&handle->scan);
	handle->scan_open = false;
}

/* The newest era that the scan's snapshot sees, into the scan's slot: dead versions lie behind it, and are not met. */
static bool
find_newest(EraHandle *handle)
{
	static constinit HintCache cache = {};
	const int nkeys = handle->def->nkeys;
	const auto era = (AttrNumber) (era_column(handle->def) + 1);

	index_scan_reset_keys(&handle->scan);
	for (int i = 0; i < nkeys; i++)
		index_scan_key_int8(&handle->scan, (AttrNumber) (i + 1), BTEqualStrategyNumber, handle->keys[i]);
	return index_scan_newest(&handle->scan, &cache, handle->keys[0],
							 nkeys > 2 ? handle->keys[1] << 32 | handle->keys[2] : handle->keys[1], era, era);
}

static EraSeek
seek(EraHandle *handle, const int64 *keys, Snapshot snapshot)
{
	const EraTable *def = handle->def;

	for (int i = 0; i < def->nkeys; i++)
		handle->keys[i] = keys[i];
	era_release_snapshot(handle);
	index_scan_open(&handle->scan, handle->state, handle->state_index, snapshot);
	handle->scan_open = true;
	if (!find_newest(handle))
		return look_for_identity(handle);

	slot_getallattrs(handle->scan.slot);
	memcpy(handle->values, handle->scan.slot->tts_values, sizeof(Datum) * (size_t) def->columns);
	memcpy(handle->nulls, handle->scan.slot->tts_isnull, sizeof(bool) * (size_t) def->columns);
	handle->tid = handle->scan.slot->tts_tid;
	return EraSeek::found;
}

EraSeek
era_seek(EraHandle *handle, std::initializer_list<int64> keys, Snapshot snapshot)
{
	Assert((int) keys.size() == handle->def->nkeys);
	return seek(handle, keys.begin(), snapshot);
}

/* Pages of states, clean ones, for a page of identities: some three. Beyond so many most of what is there is dead. */
static constexpr BlockNumber pages_of_page = 16;

void
era_each(EraHandle *handle, Snapshot snapshot, void (*fn)(const Datum *values, const bool *nulls, void *arg), void *arg)
{
	const bool seeks =
		RelationGetNumberOfBlocks(handle->state) / pages_of_page > RelationGetNumberOfBlocks(handle->identity) + 1;
	Relation table = seeks ? handle->identity : handle->state;
	TupleTableSlot *slot = table_slot_create(table, nullptr);
	TableScanDesc scan = table_beginscan(table, snapshot, 0, nullptr);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		int64 keys[era_max_keys] = {};

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (!seeks)
		{
			fn(slot->tts_values, slot->tts_isnull, arg);
			continue;
		}
		for (int i = 0; i < handle->def->nkeys; i++)
			keys[i] = DatumGetInt64(slot->tts_values[i]);
		if (seek(handle, keys, snapshot) == EraSeek::found)
			fn(handle->values, handle->nulls, arg);
		era_release_snapshot(handle);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

bool
era_each_version(EraHandle *handle, std::initializer_list<int64> keys, void (*fn)(TupleTableSlot *slot, void *arg),
				 void *arg)
{
	Snapshot snapshot = register_latest_snapshot();
	bool found = era_seek(handle, keys, snapshot) == EraSeek::found;
	int64 era = found ? DatumGetInt64(handle->values[era_column(handle->def)]) : 0;

	era_release_snapshot(handle);
	UnregisterSnapshot(snapshot);
	if (found)
	{
		const int nkeys = handle->def->nkeys;
		SnapshotData dirty;
		IndexScan scan;

		/* from that era on: older ones are dead, and may be many */
		InitDirtySnapshot(dirty);
		index_scan_open(&scan, handle->state, handle->state_index, &dirty);
		for (int i = 0; i < nkeys; i++)
			index_scan_key_int8(&scan, (AttrNumber) (i + 1), BTEqualStrategyNumber, handle->keys[i]);
		index_scan_key_int8(&scan, (AttrNumber) (nkeys + 1), BTGreaterEqualStrategyNumber, era);
		index_scan_start(&scan);
		while (index_scan_next(&scan, ForwardScanDirection))
			fn(scan.slot, arg);
		index_scan_close(&scan);
	}
	return found;
}

EraLock
era_lock(EraHandle *handle, bool wait)
{
	ItemPointerData tid = handle->tid;
	TM_Result result = lock_row(handle->state, &tid, handle->scan.snapshot, wait);

	switch (result)
	{
		case TM_Ok:
			return EraLock::ok;
		case TM_Updated:
		case TM_Deleted:
			return EraLock::changed;
		case TM_WouldBlock:
		case TM_BeingModified:
			return EraLock::locked;
		case TM_SelfModified:
		case TM_Invisible:
			break;
	}
	ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result %d of a row lock in table \"%s\"",
															(int) result, RelationGetRelationName(handle->state))));
	pg_unreachable();
}

static TableWriter *
state_writer(EraHandle *handle)
{
	if (!handle->writer_open)
	{
		table_writer_open(&handle->writer, handle->state, handle->def->columns, false);
		handle->writer_open = true;
	}
	return &handle->writer;
}

void
era_update(EraHandle *handle)
{
	const EraTable *def = handle->def;
	int64 changes = DatumGetInt64(handle->values[changes_column(def)]) + 1;

	handle->values[changes_column(def)] = Int64GetDatum(changes);
	handle->values[era_column(def)] = Int64GetDatum(changes / era_length);
	table_writer_update(state_writer(handle), &handle->tid, handle->values, handle->nulls);
}

bool
era_birth(EraHandle *handle)
{
	const EraTable *def = handle->def;
	TableWriter identity;
	Datum values[era_max_keys + 1];
	bool nulls[era_max_keys + 1] = {};
	bool born;

	for (int i = 0; i < def->nkeys; i++)
		values[i] = Int64GetDatum(handle->keys[i]);
	values[def->nkeys] = TimestampTzGetDatum(GetCurrentTimestamp());
	table_writer_open(&identity, handle->identity, def->nkeys + 1, true);
	born = table_writer_insert_unless_exists(&identity, values, nulls);
	table_writer_close(&identity);
	return born;
}

void
era_delete(EraHandle *handle)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;

	delete_row(handle->state, &handle->tid);
	open_identity_scan(handle, &scan, snapshot);
	/* somebody may have deleted it by SQL: what is left goes all the same, or it would stop all who clean up */
	if (index_scan_next(&scan, ForwardScanDirection))
		delete_row(handle->identity, &scan.slot->tts_tid);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
}

bool
era_forget_identity(EraHandle *handle)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool gone;

	open_identity_scan(handle, &scan, snapshot);
	gone = index_scan_next(&scan, ForwardScanDirection) &&
		   delete_row_unless_locked(handle->identity, &scan.slot->tts_tid, snapshot);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	return gone;
}

void
era_insert_state(EraHandle *handle)
{
	const EraTable *def = handle->def;

	for (int i = 0; i < def->nkeys; i++)
	{
		handle->values[i] = Int64GetDatum(handle->keys[i]);
		handle->nulls[i] = false;
	}
	handle->values[era_column(def)] = Int64GetDatum(0);
	handle->values[changes_column(def)] = Int64GetDatum(0);
	handle->nulls[era_column(def)] = handle->nulls[changes_column(def)] = false;
	table_writer_insert(state_writer(handle), handle->values, handle->nulls);
	CommandCounterIncrement();
}

} // namespace queen
