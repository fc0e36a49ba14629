/*
 * blocked.cpp: the rows of pg_stat_queen_blocked.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby. Reads all cursors, with the latest snapshot: the
 * statement's own may be older, and would show a cursor twice when its era moved in this transaction.
 */
#include "log/cursors.h"
#include "log/groups.h"
#include "log/log_reader.h"
#include "log/partitions.h"
#include "log/queues.h"

namespace queen
{

namespace
{

struct Names
{
	QueueRow queue;
	GroupRow group;
	PartitionRow partition;
};

enum BlockedColumn : int
{
	col_tenant,
	col_queue,
	col_partition,
	col_consumer_group,
	col_msg_offset,
	col_reason,
	col_attempts,
	col_blocked_until,
	col_error,
	col_blocking_xid,
	blocked_cols,
};

/* Why a cursor's partition delivers nothing although something is there. */
struct Block
{
	const char *reason; /* null: it delivers, or nothing is there */
	int64 offset;
	TransactionId xid; /* behind a push: whose */
};

Block
find_block(SegmentTable *segments, int64 partition_id, const Cursor *cursor, TimestampTz now)
{
	Block block = {};
	LogReader reader;

	if (cursor->blocked && cursor->blocked_until > now)
		return {"retry delay", cursor->attempt_offset, InvalidTransactionId};
	if (cursor->leased && cursor->lease_until > now)
		return block;
	if (log_surely_empty_after(segments, partition_id, cursor->committed))
		return block;
	log_reader_open(&reader, segments, partition_id, cursor->committed + 1);
	if (log_reader_next(&reader) == ReadResult::behind_push && TransactionIdIsValid(reader.running))
		block = {"behind a push", reader.want, SubTransGetTopmostTransaction(reader.running)};
	log_reader_close(&reader);
	return block;
}

/* What the ids of a cursor are called; false when it is being cleaned away. */
bool
find_names(QueueTable *queues, PartitionTable *partitions, int64 partition_id, int64 group_id, Names *names)
{
	return partition_find_by_id(partitions, partition_id, &names->partition) &&
		   group_find_by_id(group_id, &names->group) && queue_find_by_id(queues, names->group.queue_id, &names->queue);
}

} // namespace

QUEEN_FUNCTION(queen_stat_blocked)

/*
 * queen.stat_blocked() returns setof (tenant, queue, partition, consumer_group, msg_offset, reason, attempts,
 * blocked_until, error, blocking_xid)
 */
Datum
queen_stat_blocked(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const TimestampTz now = GetCurrentTimestamp();
	Relation table;
	QueueTable queues;
	PartitionTable partitions;
	SegmentTable segments;
	Snapshot snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;
	MemoryContext per_row;

	InitMaterializedSRF(fcinfo, 0);
	queue_table_open(&queues, AccessShareLock);
	partition_table_open(&partitions, AccessShareLock);
	segment_table_open(&segments);
	table = open_table(Table::log_cursors, AccessShareLock);
	snapshot = register_latest_snapshot();
	slot = table_slot_create(table, nullptr);
	scan = table_beginscan(table, snapshot, 0, nullptr);
	per_row = AllocSetContextCreate(CurrentMemoryContext, "queen blocked", ALLOCSET_DEFAULT_SIZES);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		int64 keys[2];
		Cursor cursor;
		Block block;
		Names names;
		Datum values[blocked_cols] = {};
		bool nulls[blocked_cols] = {};
		MemoryContext caller = MemoryContextSwitchTo(per_row);

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(per_row);
		cursor_read_slot(slot, keys, &cursor);
		block = find_block(&segments, keys[0], &cursor, now);
		if (block.reason == nullptr || !find_names(&queues, &partitions, keys[0], keys[1], &names))
		{
			MemoryContextSwitchTo(caller);
			continue;
		}
		values[col_tenant] = UUIDPGetDatum(&names.queue.tenant);
		values[col_queue] = CStringGetTextDatum(names.queue.name);
		values[col_partition] = CStringGetTextDatum(names.partition.name);
		values[col_consumer_group] = CStringGetTextDatum(names.group.name);
		values[col_msg_offset] = Int64GetDatum(block.offset);
		values[col_reason] = CStringGetTextDatum(block.reason);
		values[col_attempts] = Int32GetDatum(cursor_deliveries(&cursor, block.offset));
		nulls[col_blocked_until] = TransactionIdIsValid(block.xid);
		values[col_blocked_until] = TimestampTzGetDatum(cursor.blocked_until);
		nulls[col_error] = cursor.last_error == nullptr;
		values[col_error] = PointerGetDatum(cursor.last_error);
		nulls[col_blocking_xid] = !TransactionIdIsValid(block.xid);
		values[col_blocking_xid] = TransactionIdGetDatum(block.xid);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	table_close(table, NoLock);
	segment_table_close(&segments);
	partition_table_close(&partitions);
	queue_table_close(&queues);
	return (Datum) 0;
}

} // namespace queen
