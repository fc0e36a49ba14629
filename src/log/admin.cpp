/*
 * admin.cpp: queen.create_queue, configure, list_queues.
 *
 * Raises. Locks: a queue's row while its options change. Runs in backends.
 */
#include "hotlist/journal.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

QueueKind
kind_argument(FunctionCallInfo fcinfo, int argno)
{
	char *kind;

	if (PG_ARGISNULL(argno))
		raise_null_argument("kind");
	kind = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(kind, "work") == 0)
		return QueueKind::work;
	if (strcmp(kind, "log") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no kind \"%s\" of queue", kind),
						errhint("The kind is log or work.")));
	return QueueKind::log;
}

} // namespace

int64
count_queues(const pg_uuid_t *tenant)
{
	Snapshot snapshot = register_latest_snapshot();
	QueueTable queues;
	IndexScan scan;
	int64 count = 0;

	queue_table_open(&queues, AccessShareLock);
	index_scan_open(&scan, queues.table, queues.by_name, snapshot);
	index_scan_key_uuid(&scan, 1, UUIDPGetDatum(tenant));
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
		count++;
	index_scan_close(&scan);
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
	return count;
}

QUEEN_FUNCTION(queen_create_queue)
QUEEN_FUNCTION(queen_configure)
QUEEN_FUNCTION(queen_list_queues)

/* queen.create_queue(queue, kind, options jsonb) returns void */
Datum
queen_create_queue(PG_FUNCTION_ARGS)
{
	Name name;
	QueueTable queues;
	QueueRow row;
	QueueKind kind;
	Jsonb *options;

	guard_write("queen.create_queue()");
	name = name_argument(fcinfo, 0, "queue");
	kind = kind_argument(fcinfo, 1);
	if (PG_ARGISNULL(2))
		raise_null_argument("options");
	options = PG_GETARG_JSONB_P(2);
	queue_table_open(&queues, RowExclusiveLock);
	queue_ensure(&queues, setting_tenant(), name, true, &row, kind);
	queue_check_kind(&row, kind, "A queue's kind cannot be changed: drop it, or take another name.");
	/* calling it again and again writes nothing */
	if (!JB_ROOT_IS_OBJECT(options) || JB_ROOT_COUNT(options) > 0)
	{
		queue_configure(&queues, setting_tenant(), name, options, &row);
		journal_changes();
	}
	queue_table_close(&queues);
	PG_RETURN_VOID();
}

/* queen.configure(queue, options jsonb) returns jsonb */
Datum
queen_configure(PG_FUNCTION_ARGS)
{
	Name name;
	QueueTable queues;
	QueueRow row;

	guard_write("queen.configure()");
	name = name_argument(fcinfo, 0, "queue");
	if (PG_ARGISNULL(1))
		raise_null_argument("options");
	queue_table_open(&queues, RowExclusiveLock);
	queue_configure(&queues, setting_tenant(), name, PG_GETARG_JSONB_P(1), &row);
	journal_changes();
	journal_owe_queue(own_tables(), row.queue_id);
	queue_table_close(&queues);
	return queue_options_jsonb(&row);
}

/* queen.list_queues() returns setof (queue, kind, partitions, options, created_at) */
Datum
queen_list_queues(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Snapshot snapshot;
	QueueTable queues;
	PartitionTable partitions;
	IndexScan scan;
	MemoryContext per_row;

	InitMaterializedSRF(fcinfo, 0);
	per_row = AllocSetContextCreate(CurrentMemoryContext, "queen list_queues", ALLOCSET_DEFAULT_SIZES);
	snapshot = register_latest_snapshot();
	queue_table_open(&queues, AccessShareLock);
	partition_table_open(&partitions, AccessShareLock);
	index_scan_open(&scan, queues.table, queues.by_name, snapshot);
	index_scan_key_uuid(&scan, 1, UUIDPGetDatum(setting_tenant()));
	index_scan_start(&scan);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		QueueRow row;
		Datum values[5];
		bool nulls[5] = {};
		MemoryContext caller = MemoryContextSwitchTo(per_row);

		MemoryContextReset(per_row);
		queue_row_from_slot(scan.slot, &row);
		values[0] = row.values[queue_col_name];
		values[1] = row.values[queue_col_kind];
		values[2] = Int64GetDatum(partition_count(&partitions, row.log_id));
		values[3] = queue_options_jsonb(&row);
		values[4] = TimestampTzGetDatum(row.created_at);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		MemoryContextSwitchTo(caller);
	}
	index_scan_close(&scan);
	partition_table_close(&partitions);
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
	return (Datum) 0;
}

} // namespace queen
