/*
 * dedup_expiry.cpp: deleting dedup_keys that are older than their queue's window. See dedup.h.
 *
 * Raises. Locks: the rows that are deleted, without waiting. Runs in backends and workers.
 */
#include "log/dedup.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "server/relations.h"

namespace queen
{

namespace
{

constexpr BlockNumber piece_blocks = 256;

struct WindowEntry
{
	int64 id; /* of a log, or of a partition */
	int64 window;
};

/* Windows by log, and by the partitions that were met. A log that is no queue's any more is somebody else's work. */
struct Windows
{
	HTAB *of_log;
	HTAB *of_partition;
	PartitionTable partitions;
};

constexpr int64 no_window = -1;

HTAB *
make_table(const char *name)
{
	HASHCTL control = {};

	control.keysize = sizeof(int64);
	control.entrysize = sizeof(WindowEntry);
	control.hcxt = CurrentMemoryContext;
	return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
put(HTAB *table, int64 id, int64 window)
{
	bool found;

	((WindowEntry *) hash_search(table, &id, HASH_ENTER, &found))->window = window;
}

void
windows_open(Windows *windows)
{
	Snapshot snapshot = register_latest_snapshot();
	QueueTable queues;
	IndexScan scan;

	windows->of_log = make_table("queen windows of logs");
	windows->of_partition = make_table("queen windows of partitions");
	queue_table_open(&queues, AccessShareLock);
	index_scan_open(&scan, queues.table, queues.by_id, snapshot);
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		QueueRow row;

		queue_row_from_slot(scan.slot, &row);
		put(windows->of_log, row.log_id, row.options.dedup_window);
	}
	index_scan_close(&scan);
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
	partition_table_open(&windows->partitions, AccessShareLock);
}

int64
window_of(Windows *windows, int64 partition_id)
{
	const auto *known = (const WindowEntry *) hash_search(windows->of_partition, &partition_id, HASH_FIND, nullptr);
	const WindowEntry *log = nullptr;
	PartitionRow row;

	if (known != nullptr)
		return known->window;
	if (partition_find_by_id(&windows->partitions, partition_id, &row))
		log = (const WindowEntry *) hash_search(windows->of_log, &row.log_id, HASH_FIND, nullptr);
	put(windows->of_partition, partition_id, log != nullptr ? log->window : no_window);
	return log != nullptr ? log->window : no_window;
}

} // namespace

bool
dedup_expire_step(BlockNumber *next)
{
	Relation table = open_table(Table::log_txns, RowExclusiveLock);
	const BlockNumber end = RelationGetNumberOfBlocks(table);
	const TimestampTz now = GetCurrentTimestamp();
	Snapshot snapshot;
	ItemPointerData first;
	ItemPointerData last;
	Windows windows;
	TableScanDesc scan;
	TupleTableSlot *slot;

	if (*next >= end)
	{
		table_close(table, NoLock);
		return false;
	}
	snapshot = register_latest_snapshot();
	windows_open(&windows);
	ItemPointerSet(&first, *next, FirstOffsetNumber);
	*next = Min(end, *next + piece_blocks);
	ItemPointerSet(&last, *next - 1, MaxOffsetNumber);
	slot = table_slot_create(table, nullptr);
	scan = table_beginscan_tidrange(table, snapshot, &first, &last);
	while (table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
	{
		ItemPointerData tid = slot->tts_tid;
		int64 window;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		window = window_of(&windows, DatumGetInt64(slot->tts_values[txn_col_partition_id]));
		if (window != no_window && DatumGetTimestampTz(slot->tts_values[txn_col_pushed_at]) < now - window)
			(void) delete_row_unless_locked(table, &tid, snapshot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	partition_table_close(&windows.partitions);
	UnregisterSnapshot(snapshot);
	table_close(table, NoLock);
	CommandCounterIncrement();
	return true;
}

} // namespace queen
