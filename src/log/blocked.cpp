/*
 * blocked.cpp: the rows of pg_stat_queen_blocked.
 *
 * Raises. No locks but the tables'. Runs in backends and on a standby. Reads all cursors, with the latest snapshot: the
 * statement's own may be older, and would show a cursor twice when its era moved in this transaction.
 */
#include "log/cursors.h"
#include "log/groups.h"
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

/* What the ids of a cursor are called; false when it is being cleaned away. */
bool
find_names(QueueTable *queues, PartitionTable *partitions, int64 partition_id, int64 group_id, Names *names)
{
	return partition_find_by_id(partitions, partition_id, &names->partition) &&
		   group_find_by_id(group_id, &names->group) && queue_find_by_id(queues, names->group.queue_id, &names->queue);
}

} // namespace

QUEEN_FUNCTION(queen_stat_blocked)

/* queen.stat_blocked() returns setof (tenant, queue, partition, consumer_group, msg_offset, reason, attempts, blocked_until, error) */
Datum
queen_stat_blocked(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const TimestampTz now = GetCurrentTimestamp();
	Relation table;
	QueueTable queues;
	PartitionTable partitions;
	Snapshot snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;

	InitMaterializedSRF(fcinfo, 0);
	queue_table_open(&queues, AccessShareLock);
	partition_table_open(&partitions, AccessShareLock);
	table = open_table(Table::log_cursors, AccessShareLock);
	snapshot = register_latest_snapshot();
	slot = table_slot_create(table, nullptr);
	scan = table_beginscan(table, snapshot, 0, nullptr);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		int64 keys[2];
		Cursor cursor;
		Names names;
		Datum values[9] = {};
		bool nulls[9] = {};

		CHECK_FOR_INTERRUPTS();
		cursor_read_slot(slot, keys, &cursor);
		if (!cursor.blocked || cursor.blocked_until <= now ||
			!find_names(&queues, &partitions, keys[0], keys[1], &names))
			continue;
		values[0] = UUIDPGetDatum(&names.queue.tenant);
		values[1] = CStringGetTextDatum(names.queue.name);
		values[2] = CStringGetTextDatum(names.partition.name);
		values[3] = CStringGetTextDatum(names.group.name);
		values[4] = Int64GetDatum(cursor.attempt_offset);
		values[5] = CStringGetTextDatum("retry delay");
		values[6] = Int32GetDatum(cursor.attempts);
		values[7] = TimestampTzGetDatum(cursor.blocked_until);
		nulls[8] = cursor.last_error == nullptr;
		values[8] = PointerGetDatum(cursor.last_error);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	table_close(table, NoLock);
	partition_table_close(&partitions);
	queue_table_close(&queues);
	return (Datum) 0;
}

} // namespace queen
