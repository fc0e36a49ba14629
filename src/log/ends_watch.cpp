/*
 * ends_watch.cpp: where each partition begins and ends. See ends_watch.h.
 *
 * Raises. Locks: the feed's while it is read; the tables', as who reads. Runs in the keeper, and in a backend for the length of a call.
 */
#include "log/ends_watch.h"

#include "log/append.h"
#include "log/changes.h"
#include "log/log_reader.h"
#include "log/partition_walk.h"
#include "log/queues.h"
#include "log/starts.h"

namespace queen
{

namespace
{

/* Partitions of a step of a walk, and of what a refresh looks at beside what it was told of. */
constexpr int most_looks = 1000;
constexpr int queues_of_look = 16;
/* A walk that is owed takes at most one part in so many of the time. */
constexpr int64 walk_share = 20;

struct Watch
{
	MemoryContext context;
	HTAB *partitions;
	int64 *told; /* partition ids */
	int told_count;
	int told_room;
	Oid tables; /* which incarnation is watched */

	uint64 position; /* in the feed */
	bool walk_owed;
	bool walking;
	uint32 walk; /* its number */
	uint64 changes;
	/* where the walk, or what a refresh looks at beside, goes on */
	int64 queue_id;
	int64 partition_id;
	TimestampTz walk_began;
	TimestampTz walk_not_before;
};

constinit Watch watch = {};

void
begin_anew(Oid tables)
{
	HASHCTL control = {};

	ends_watch_forget();
	watch.context = AllocSetContextCreate(TopMemoryContext, "queen ends watch", ALLOCSET_DEFAULT_SIZES);
	control.keysize = sizeof(int64);
	control.entrysize = sizeof(WatchedEnds);
	control.hcxt = watch.context;
	watch.partitions = hash_create("queen watched ends", 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	watch.told_room = 1024;
	watch.told = (int64 *) MemoryContextAlloc(watch.context, sizeof(int64) * (Size) watch.told_room);
	/* what is pushed from here on is in the feed, what was pushed before in sight of the walk */
	watch.position = changes_are_shared() ? changes_end() : 0;
	watch.walk_owed = true;
	watch.tables = tables;
}

/* ---- what was told ---- */

WatchedEnds *
entry_of(int64 partition_id)
{
	bool found;
	auto *entry = (WatchedEnds *) hash_search(watch.partitions, &partition_id, HASH_ENTER, &found);

	if (!found)
	{
		*entry = {};
		entry->partition_id = partition_id;
		entry->last = -1;
		entry->walk = watch.walk;
	}
	return entry;
}

void
take_note(const core::Change *change, void *arg)
{
	WatchedEnds *entry;

	(void) arg;
	if (change->partition_id == 0)
	{
		watch.walk_owed = true;
		return;
	}
	entry = entry_of(change->partition_id);
	if (entry->told)
		return;
	if (watch.told_count == watch.told_room)
	{
		watch.told_room *= 2;
		watch.told = (int64 *) repalloc_huge(watch.told, sizeof(int64) * (Size) watch.told_room);
	}
	watch.told[watch.told_count++] = change->partition_id;
	entry->told = true;
}

/* ---- looking ---- */

/* What a partition is looked at with. */
struct Looks
{
	PartitionTable partitions;
	SegmentTable segments;
	Relation starts;
	Relation starts_index;
	IndexScan segment_scan;
	IndexScan start_scan;
};

void
looks_open(Looks *looks, Snapshot snapshot)
{
	partition_table_open(&looks->partitions, AccessShareLock);
	segment_table_open(&looks->segments);
	looks->starts = open_table(Table::log_starts, AccessShareLock);
	looks->starts_index = open_index(looks->starts, {start_col_partition_id + 1}, AccessShareLock);
	index_scan_open(&looks->segment_scan, looks->segments.table, looks->segments.index, snapshot);
	index_scan_open(&looks->start_scan, looks->starts, looks->starts_index, snapshot);
}

void
looks_close(Looks *looks)
{
	index_scan_close(&looks->start_scan);
	index_scan_close(&looks->segment_scan);
	index_close(looks->starts_index, NoLock);
	table_close(looks->starts, NoLock);
	segment_table_close(&looks->segments);
	partition_table_close(&looks->partitions);
}

TimestampTz
created_at_of(TupleTableSlot *slot)
{
	bool isnull;

	return DatumGetTimestampTz(slot_getattr(slot, segment_col_created_at + 1, &isnull));
}

/* The newest segment, or the first one from an offset on. */
bool
find_segment(Looks *looks, int64 partition_id, const int64 *from)
{
	IndexScan *scan = &looks->segment_scan;

	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, partition_id);
	if (from != nullptr)
		index_scan_key_int8(scan, 2, BTGreaterEqualStrategyNumber, *from);
	index_scan_start(scan);
	return index_scan_next(scan, from != nullptr ? ForwardScanDirection : BackwardScanDirection);
}

void
look_at(Looks *looks, WatchedEnds *entry)
{
	const int64 first = entry->first;
	const int64 last = entry->last;
	LogStart start;
	bool isnull;

	index_scan_reset_keys(&looks->start_scan);
	log_start_find(&looks->start_scan, entry->partition_id, &start);
	entry->told = false;
	entry->last = start.offset - 1;
	if (find_segment(looks, entry->partition_id, nullptr))
	{
		TupleTableSlot *slot = looks->segment_scan.slot;
		const Size size = toast_datum_size(slot_getattr(slot, segment_col_blob + 1, &isnull));

		entry->last_base = segment_int8(slot, segment_col_base_offset);
		entry->last = segment_int8(slot, segment_col_end_offset);
		entry->last_at = created_at_of(slot);
		entry->bytes_of_message = (double) size / (double) (entry->last - entry->last_base + 1);
	}
	watch.changes += start.offset != first || entry->last != last;
	if (start.offset == first && entry->first_at != 0)
		return;
	entry->first = start.offset;
	entry->first_at = 0;
	/* a push that rolled back may have left nothing there */
	if (entry->last >= entry->first && find_segment(looks, entry->partition_id, &entry->first))
		entry->first_at = created_at_of(looks->segment_scan.slot);
}

/* ---- the walk ---- */

/* Partitions of a queue from where the walk stands, so many at most. */
void
walk_queue(Looks *looks, int64 log_id, Snapshot snapshot, int *left)
{
	const PartitionRow *partition;
	PartitionWalk walk;

	partition_walk_open(&walk, log_id, watch.partition_id, snapshot);
	while (*left > 0 && (partition = partition_walk_next(&walk)) != nullptr)
	{
		WatchedEnds *entry = entry_of(partition->partition_id);

		entry->log_id = log_id;
		entry->walk = watch.walk;
		look_at(looks, entry);
		watch.partition_id = partition->partition_id + 1;
		(*left)--;
	}
	partition_walk_close(&walk);
}

/* What a walk over everything has not met is gone. */
void
end_walk()
{
	const TimestampTz now = GetCurrentTimestamp();
	HASH_SEQ_STATUS each;
	WatchedEnds *entry;

	hash_seq_init(&each, watch.partitions);
	while ((entry = (WatchedEnds *) hash_seq_search(&each)) != nullptr)
		if (entry->walk != watch.walk && !entry->told)
		{
			(void) hash_search(watch.partitions, &entry->partition_id, HASH_REMOVE, nullptr);
			watch.changes++;
		}
	if (watch.walking)
		watch.walk_not_before = now + (now - watch.walk_began) * walk_share;
	watch.walking = false;
	watch.walk++;
	watch.queue_id = 0;
	watch.partition_id = 0;
}

/* Is the queue of a row of queen.queues a log? */
bool
is_log(TupleTableSlot *slot)
{
	const text *kind;
	bool isnull;

	kind = DatumGetTextPP(slot_getattr(slot, queue_col_kind + 1, &isnull));
	return VARSIZE_ANY_EXHDR(kind) == 3 && memcmp(VARDATA_ANY(kind), "log", 3) == 0;
}

/* Go on by so many partitions of logs. */
void
walk(Looks *looks, Snapshot snapshot)
{
	int left = most_looks;
	bool more = true;
	int passed_by = 0;
	QueueTable queues;
	IndexScan scan;

	queue_table_open(&queues, AccessShareLock);
	index_scan_open(&scan, queues.table, queues.by_id, snapshot);
	index_scan_key_int8(&scan, 1, BTGreaterEqualStrategyNumber, watch.queue_id);
	index_scan_start(&scan);
	while (left > 0 && (more = index_scan_next(&scan, ForwardScanDirection)))
	{
		bool isnull;
		const int64 queue_id = DatumGetInt64(slot_getattr(scan.slot, queue_col_id + 1, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (queue_id != watch.queue_id)
			watch.partition_id = 0;
		watch.queue_id = queue_id;
		if (is_log(scan.slot))
			walk_queue(looks, DatumGetInt64(slot_getattr(scan.slot, queue_col_log_id + 1, &isnull)), snapshot, &left);
		/* stopped by the number of looks it goes on there: some queues are a look, too */
		if (left > 0)
		{
			watch.queue_id++;
			watch.partition_id = 0;
			left -= ++passed_by % queues_of_look == 0;
		}
	}
	index_scan_close(&scan);
	queue_table_close(&queues);
	if (!more)
		end_walk();
}

/* Of a partition that was told of; false when it is gone. */
bool
find_log(Looks *looks, WatchedEnds *entry)
{
	PartitionRow row;

	if (entry->log_id != 0)
		return true;
	if (!partition_find_by_id(&looks->partitions, entry->partition_id, &row))
		return false;
	entry->log_id = row.log_id;
	return true;
}

} // namespace

int64
ends_watch_read()
{
	const Oid tables = own_tables();

	if (watch.tables != tables)
		begin_anew(tables);
	if (changes_are_shared())
		return changes_follow(tables, &watch.position, &watch.walk_owed, take_note, nullptr);
	watch.walk_owed = true;
	return changes_interval;
}

bool
ends_watch_walk()
{
	Snapshot snapshot;
	Looks looks;

	if (!watch.walking)
	{
		const TimestampTz now = GetCurrentTimestamp();

		if (!watch.walk_owed || now < watch.walk_not_before)
			return false;
		watch.walk_owed = false;
		watch.walking = true;
		watch.walk_began = now;
		watch.walk++;
		watch.queue_id = 0;
		watch.partition_id = 0;
	}
	snapshot = register_latest_snapshot();
	looks_open(&looks, snapshot);
	walk(&looks, snapshot);
	looks_close(&looks);
	UnregisterSnapshot(snapshot);
	return watch.walking;
}

void
ends_watch_refresh(Snapshot snapshot)
{
	Looks looks;

	looks_open(&looks, snapshot);
	while (watch.told_count > 0)
	{
		WatchedEnds *entry = ends_watch_find(watch.told[watch.told_count - 1]);

		CHECK_FOR_INTERRUPTS();
		if (entry != nullptr && find_log(&looks, entry))
			look_at(&looks, entry);
		else if (entry != nullptr)
			(void) hash_search(watch.partitions, &entry->partition_id, HASH_REMOVE, nullptr);
		watch.told_count--;
	}
	if (!watch.walking)
		walk(&looks, snapshot);
	looks_close(&looks);
}

uint64
ends_watch_changes()
{
	return watch.changes;
}

WatchedEnds *
ends_watch_find(int64 partition_id)
{
	return (WatchedEnds *) hash_search(watch.partitions, &partition_id, HASH_FIND, nullptr);
}

void
ends_watch_each(void (*fn)(WatchedEnds *ends, void *arg), void *arg)
{
	HASH_SEQ_STATUS each;
	WatchedEnds *entry;

	hash_seq_init(&each, watch.partitions);
	while ((entry = (WatchedEnds *) hash_seq_search(&each)) != nullptr)
		fn(entry, arg);
}

void
ends_watch_forget()
{
	if (watch.context != nullptr)
		MemoryContextDelete(watch.context);
	watch = {};
}

} // namespace queen
