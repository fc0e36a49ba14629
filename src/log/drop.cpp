/*
 * drop.cpp: queen.drop_queue and purge_queue. README.md of this folder has the protocol between them and pushes.
 *
 * Raises. Locks: the rows of the queue, its groups, rules, timers and their dead letters, to the end of the transaction, waiting for
 * whoever changes them; each of its partitions for a moment; waits for the transactions that have written pushes to it. Runs in backends.
 */
#include "hotlist/journal.h"
#include "log/append.h"
#include "log/cursors.h"
#include "log/dead_letters.h"
#include "log/dropped.h"
#include "log/event_counts.h"
#include "log/groups.h"
#include "log/log_lock.h"
#include "log/log_reader.h"
#include "log/partition_lock.h"
#include "log/partition_walk.h"
#include "log/push_buffer.h"
#include "log/queues.h"
#include "log/timer_rules.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* Transactions that were seen to write into the log. */
struct Writers
{
	TransactionId *xids;
	int count;
	int room;
};

/*
 * The transactions that may have written segments at a moment: whoever does holds the lock of queen.log_segments to its end,
 * a prepared one, too.
 */
struct Suspects
{
	VirtualTransactionId *vxids;
	int count;
};

Suspects
find_suspects(Relation segments)
{
	Suspects suspects;
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, segments->rd_lockInfo.lockRelId.dbId, segments->rd_lockInfo.lockRelId.relId);
	suspects.vxids = GetLockConflicts(&tag, ShareLock, &suspects.count);
	return suspects;
}

bool
any_is_left(Suspects *suspects)
{
	while (suspects->count > 0 && VirtualXactLock(suspects->vxids[suspects->count - 1], false))
		suspects->count--;
	return suspects->count > 0;
}

void
add_writer(Writers *writers, TransactionId xid)
{
	for (int i = 0; i < writers->count; i++)
		if (writers->xids[i] == xid)
			return;
	if (writers->count == writers->room)
	{
		writers->room *= 2;
		writers->xids = (TransactionId *) repalloc(writers->xids, sizeof(TransactionId) * (Size) writers->room);
	}
	writers->xids[writers->count++] = xid;
}

/*
 * The running transactions with segments in a partition. They may lie below committed ones, but not below what a cursor has
 * passed, and there are none when no suspect is left.
 */
void
find_writers(const SegmentTable *segments, const EraHandle *cursors, int64 partition_id, Suspects *suspects,
			 Writers *writers)
{
	constexpr int rows_between = 100; /* looks at the suspects */
	Snapshot snapshot = register_latest_snapshot();
	const int64 settled = cursors_furthest(cursors, partition_id, snapshot);
	SnapshotData dirty;
	IndexScan scan;
	int rows = 0;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, segments->table, segments->index, &dirty);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(&scan);
	while (index_scan_next(&scan, BackwardScanDirection) && segment_int8(scan.slot, segment_col_end_offset) > settled)
	{
		CHECK_FOR_INTERRUPTS();
		if (TransactionIdIsValid(dirty.xmin))
			add_writer(writers, dirty.xmin);
		if (++rows % rows_between == 0 && !any_is_left(suspects))
			break;
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
}

/*
 * Make every push notice the queue's row, which says that the log is gone to whoever looks dirty; pushes do, under the lock
 * of the first partition that they write to. Whoever has the lock after us looks. The walk is dirty as well: a push may have
 * written to a partition that its own transaction brings to life.
 */
void
pass_partitions(const QueueRow *queue)
{
	SnapshotData dirty;
	PartitionWalk walk;

	InitDirtySnapshot(dirty);
	partition_walk_open(&walk, queue->log_id, 0, &dirty);
	while (const PartitionRow *partition = partition_walk_next(&walk))
	{
		if (!partition_lock(partition->partition_id))
			raise_partition_locked(partition->name, queue->name);
		partition_unlock(partition->partition_id);
	}
	partition_walk_close(&walk);
}

/* Those that came before are suspects then, as long as they run: look who of them has written to the log, and wait for it. */
void
wait_for_writers(const QueueRow *queue)
{
	Writers writers = {(TransactionId *) palloc(sizeof(TransactionId) * 64), 0, 64};
	SnapshotData dirty;
	SegmentTable segments;
	Suspects suspects;
	EraHandle cursors;
	PartitionWalk walk;
	const PartitionRow *partition;

	if (queue->kind == QueueKind::work)
	{
		log_lock_to_drop(queue->log_id, queue->name);
		return;
	}
	pass_partitions(queue);
	InitDirtySnapshot(dirty);
	segment_table_open(&segments);
	suspects = find_suspects(segments.table);
	era_open(&cursors, &cursor_table);
	partition_walk_open(&walk, queue->log_id, 0, &dirty);
	while (any_is_left(&suspects) && (partition = partition_walk_next(&walk)) != nullptr)
		find_writers(&segments, &cursors, partition->partition_id, &suspects, &writers);
	partition_walk_close(&walk);
	era_close(&cursors);
	segment_table_close(&segments);
	for (int i = 0; i < writers.count; i++)
		XactLockTableWait(writers.xids[i], nullptr, nullptr, XLTW_None);
}

} // namespace

QUEEN_FUNCTION(queen_drop_queue)
QUEEN_FUNCTION(queen_purge_queue)

/* queen.drop_queue(queue) returns boolean */
Datum
queen_drop_queue(PG_FUNCTION_ARGS)
{
	Name name;
	QueueTable queues;
	QueueRow queue;
	bool found;
	int64 waiting;

	guard_write("queen.drop_queue()");
	name = name_argument(fcinfo, 0, "queue");
	/* before the queue's row is marked: a fire that holds one of them waits for whoever has */
	waiting = rules_delete_of_queue(setting_tenant(), name) + timers_delete_of_queue(setting_tenant(), name);
	queue_table_open(&queues, RowExclusiveLock);
	found = queue_delete(&queues, setting_tenant(), name, &queue);
	queue_table_close(&queues);
	if (found)
	{
		wait_for_writers(&queue);
		group_delete_all(queue.queue_id);
		dropped_file_log(queue.log_id, queue.queue_id);
		event_note_queue_gone(own_tables(), queue.queue_id);
		journal_changes();
		journal_forget_queue(own_tables(), queue.queue_id);
	}
	/* also where the queue is not there yet: what its timers have left, and what this transaction has pushed to it */
	waiting += dead_letters_delete_of_no_queue(setting_tenant(), name);
	push_buffer_void(setting_tenant(), name);
	return BoolGetDatum(found || waiting > 0);
}

/* queen.purge_queue(queue) returns boolean */
Datum
queen_purge_queue(PG_FUNCTION_ARGS)
{
	Name name;
	QueueTable queues;
	QueueRow queue;
	bool found;

	guard_write("queen.purge_queue()");
	name = name_argument(fcinfo, 0, "queue");
	queue_table_open(&queues, RowExclusiveLock);
	found = queue_renew_log(&queues, setting_tenant(), name, &queue);
	queue_table_close(&queues);
	if (found)
	{
		wait_for_writers(&queue);
		group_renew_all(queue.queue_id);
		dropped_file_log(queue.log_id, 0);
		journal_changes();
		journal_forget_queue(own_tables(), queue.queue_id);
	}
	push_buffer_void(setting_tenant(), name);
	return BoolGetDatum(found);
}

} // namespace queen
