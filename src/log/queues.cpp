/*
 * queues.cpp: rows of queen.queues. See queues.h; options are in queue_options.cpp.
 *
 * Raises. Locks: none but the table's; a birth holds its unique key until the transaction ends. Runs in backends.
 */
#include "log/queues.h"

#include "hotlist/journal.h"
#include "log/births.h"

namespace queen
{

void
queue_table_open(QueueTable *queues, LOCKMODE mode)
{
	queues->table = open_table(Table::queues, mode);
	queues->by_name = open_index(queues->table, {queue_col_tenant + 1, queue_col_name + 1}, mode);
	queues->by_id = open_index(queues->table, {queue_col_id + 1}, mode);
	queues->by_log = open_index(queues->table, {queue_col_log_id + 1}, mode);
}

void
queue_table_close(QueueTable *queues)
{
	index_close(queues->by_log, NoLock);
	index_close(queues->by_id, NoLock);
	index_close(queues->by_name, NoLock);
	table_close(queues->table, NoLock);
}

void
queue_row_from_slot(TupleTableSlot *slot, QueueRow *row)
{
	slot_getallattrs(slot);
	memcpy(row->values, slot->tts_values, sizeof(row->values));
	memcpy(row->nulls, slot->tts_isnull, sizeof(row->nulls));
	row->values[queue_col_tenant] = datumCopy(row->values[queue_col_tenant], false, UUID_LEN);
	row->values[queue_col_name] = datumCopy(row->values[queue_col_name], false, -1);
	row->values[queue_col_kind] = datumCopy(row->values[queue_col_kind], false, -1);

	if (!row->nulls[queue_col_dedup])
		row->values[queue_col_dedup] = datumCopy(row->values[queue_col_dedup], false, -1);

	row->tid = slot->tts_tid;
	row->own = row_is_own(slot);
	row->queue_id = DatumGetInt64(row->values[queue_col_id]);
	row->log_id = DatumGetInt64(row->values[queue_col_log_id]);
	row->tenant = *DatumGetUUIDP(row->values[queue_col_tenant]);
	row->name = TextDatumGetCString(row->values[queue_col_name]);
	row->kind =
		strcmp(TextDatumGetCString(row->values[queue_col_kind]), "work") == 0 ? QueueKind::work : QueueKind::log;
	row->created_at = DatumGetTimestampTz(row->values[queue_col_created_at]);
	row->options = {};
	if (!row->nulls[queue_col_lease_time])
		row->options.lease_time = DatumGetInt64(row->values[queue_col_lease_time]);
	if (!row->nulls[queue_col_max_deliveries])
		row->options.max_deliveries = DatumGetInt32(row->values[queue_col_max_deliveries]);
	if (!row->nulls[queue_col_retry_delay])
		row->options.retry_delay = DatumGetInt64(row->values[queue_col_retry_delay]);
	if (!row->nulls[queue_col_compression])
		row->options.compression = DatumGetInt32(row->values[queue_col_compression]);
	if (!row->nulls[queue_col_delayed_processing])
		row->options.delayed_processing = DatumGetInt64(row->values[queue_col_delayed_processing]);
	if (!row->nulls[queue_col_window_buffer])
		row->options.window_buffer = DatumGetInt64(row->values[queue_col_window_buffer]);
	if (!row->nulls[queue_col_dedup_window])
		row->options.dedup_window = DatumGetInt64(row->values[queue_col_dedup_window]);
	if (!row->nulls[queue_col_dedup])
		row->options.dedup_error = strcmp(TextDatumGetCString(row->values[queue_col_dedup]), "error") == 0;
	if (!row->nulls[queue_col_retention])
		row->options.retention = DatumGetInt64(row->values[queue_col_retention]);
	if (!row->nulls[queue_col_completed_retention])
		row->options.completed_retention = DatumGetInt64(row->values[queue_col_completed_retention]);
	if (!row->nulls[queue_col_group_expiry])
		row->options.group_expiry = DatumGetInt64(row->values[queue_col_group_expiry]);
	if (!row->nulls[queue_col_dead_retention])
		row->options.dead_retention = DatumGetInt64(row->values[queue_col_dead_retention]);
	if (!row->nulls[queue_col_notify])
		row->options.notify = DatumGetBool(row->values[queue_col_notify]);
	if (!row->nulls[queue_col_visibility_timeout])
		row->options.visibility_timeout = DatumGetInt64(row->values[queue_col_visibility_timeout]);
	if (!row->nulls[queue_col_max_delivery_attempts])
		row->options.max_delivery_attempts = DatumGetInt32(row->values[queue_col_max_delivery_attempts]);
	if (!row->nulls[queue_col_message_ttl])
		row->options.message_ttl = DatumGetInt64(row->values[queue_col_message_ttl]);
	row->paused = DatumGetBool(row->values[queue_col_paused]);
}

static bool
fetch_one(IndexScan *scan, QueueRow *row)
{
	bool found;

	index_scan_start(scan);
	found = index_scan_next(scan, ForwardScanDirection);
	if (found)
		queue_row_from_slot(scan->slot, row);
	return found;
}

static void
key_by_name(IndexScan *scan, const pg_uuid_t *tenant, Name name)
{
	index_scan_key_uuid(scan, 1, UUIDPGetDatum(tenant));
	index_scan_key_text(scan, 2, PointerGetDatum(cstring_to_text_with_len(name.data, name.size)));
}

bool
queue_find(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, queues->table, queues->by_name, snapshot);
	key_by_name(&scan, tenant, name);
	found = fetch_one(&scan, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

static bool
find_by(QueueTable *queues, Relation index, StrategyNumber how, int64 id, QueueRow *row)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool found;

	index_scan_open(&scan, queues->table, index, snapshot);
	index_scan_key_int8(&scan, 1, how, id);
	found = fetch_one(&scan, row);
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

bool
queue_find_by_id(QueueTable *queues, int64 queue_id, QueueRow *row)
{
	return find_by(queues, queues->by_id, BTEqualStrategyNumber, queue_id, row);
}

bool
queue_find_by_log(QueueTable *queues, int64 log_id, QueueRow *row)
{
	return find_by(queues, queues->by_log, BTEqualStrategyNumber, log_id, row);
}

bool
queue_find_from(QueueTable *queues, int64 queue_id, QueueRow *row)
{
	return find_by(queues, queues->by_id, BTGreaterEqualStrategyNumber, queue_id, row);
}

void
queues_each(Snapshot snapshot, void (*fn)(const QueueRow *row, void *arg), void *arg)
{
	Relation table = open_table(Table::queues, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(table, nullptr);
	TableScanDesc scan = table_beginscan(table, snapshot, 0, nullptr);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		QueueRow row;

		CHECK_FOR_INTERRUPTS();
		queue_row_from_slot(slot, &row);
		fn(&row, arg);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(table, NoLock);
}

LogState
queue_log_state(QueueTable *queues, int64 queue_id, int64 log_id, TransactionId *changer)
{
	SnapshotData dirty;
	IndexScan scan;
	QueueRow row;
	LogState state = LogState::gone;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, queues->table, queues->by_id, &dirty);
	index_scan_key_int8(&scan, 1, BTEqualStrategyNumber, queue_id);
	index_scan_start(&scan);
	while (state != LogState::alive && index_scan_next(&scan, ForwardScanDirection))
	{
		bool isnull;

		if (DatumGetInt64(slot_getattr(scan.slot, queue_col_log_id + 1, &isnull)) != log_id)
			continue;
		/* a version that somebody replaces counts for nothing: a mere configuration leaves another with the same log */
		if (TransactionIdIsValid(dirty.xmax) || (TransactionIdIsValid(dirty.xmin) && row_is_replaced(scan.slot)))
		{
			state = LogState::changing;
			*changer = TransactionIdIsValid(dirty.xmax) ? dirty.xmax : dirty.xmin;
		}
		else
			state = LogState::alive;
	}
	index_scan_close(&scan);
	/* a dirty look may miss a row that is being moved */
	if (state == LogState::gone && queue_find_by_id(queues, queue_id, &row) && row.log_id == log_id)
		state = LogState::alive;
	return state;
}

void
raise_unknown_queue(Name name)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" does not exist", name_to_cstring(name)),
					errhint("Create it with queen.create_queue(), or by a first push with queen.auto_create on.")));
	pg_unreachable();
}

void
queue_get(const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	QueueTable queues;

	queue_table_open(&queues, AccessShareLock);
	if (!queue_find(&queues, tenant, name, row))
		raise_unknown_queue(name);
	queue_table_close(&queues);
}

void
queue_check_kind(const QueueRow *row, QueueKind kind, const char *hint)
{
	if (row->kind != kind)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("queue \"%s\" is a %s queue", row->name, row->kind == QueueKind::work ? "work" : "log"),
						errhint("%s", hint)));
}

void
queue_get_log(const pg_uuid_t *tenant, Name name, const char *hint, QueueRow *row)
{
	queue_get(tenant, name, row);
	queue_check_kind(row, QueueKind::log, hint);
}

static void
insert_queue(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueKind kind)
{
	TableWriter writer;
	Datum values[queue_cols] = {};
	bool nulls[queue_cols];

	memset(nulls, true, sizeof(nulls));
	values[queue_col_id] = values[queue_col_log_id] = Int64GetDatum(next_id(Sequence::queue_ids));
	values[queue_col_tenant] = UUIDPGetDatum(tenant);
	values[queue_col_name] = PointerGetDatum(cstring_to_text_with_len(name.data, name.size));
	values[queue_col_kind] = CStringGetTextDatum(kind == QueueKind::work ? "work" : "log");
	values[queue_col_created_at] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[queue_col_paused] = BoolGetDatum(false);
	for (int i = queue_col_id; i <= queue_col_created_at; i++)
		nulls[i] = false;
	nulls[queue_col_paused] = false;
	table_writer_open(&writer, queues->table, queue_cols, true);
	/* false, somebody was quicker: the caller looks again */
	(void) table_writer_insert_unless_exists(&writer, values, nulls);
	table_writer_close(&writer);
	CommandCounterIncrement();
	journal_tell_event(gate_key_of_name(own_tables(), tenant, name.data, name.size));
}

void
queue_ensure(QueueTable *queues, const pg_uuid_t *tenant, Name name, bool may_create, QueueRow *row, QueueKind kind)
{
	while (!queue_find(queues, tenant, name, row))
	{
		SnapshotData dirty;
		IndexScan scan;
		Birth birth;

		CHECK_FOR_INTERRUPTS();
		if (!may_create)
			raise_unknown_queue(name);
		InitDirtySnapshot(dirty);
		index_scan_open(&scan, queues->table, queues->by_name, &dirty);
		key_by_name(&scan, tenant, name);
		birth = look_for_birth(&scan, &dirty, true, "queue", name_to_cstring(name));
		index_scan_close(&scan);
		if (birth == Birth::absent)
			insert_queue(queues, tenant, name, kind);
	}
}

/* Find the queue and lock its row, waiting for whoever changes it; false when it is not there. */
static bool
lock_if_there(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row,
			  LockTupleMode mode = LockTupleExclusive)
{
	for (;;)
	{
		Snapshot snapshot = register_latest_snapshot();
		TM_Result result = TM_Ok;
		IndexScan scan;
		bool found;

		CHECK_FOR_INTERRUPTS();
		index_scan_open(&scan, queues->table, queues->by_name, snapshot);
		key_by_name(&scan, tenant, name);
		found = fetch_one(&scan, row);
		if (found)
			result = lock_row(queues->table, &row->tid, snapshot, true, mode);
		index_scan_close(&scan);
		UnregisterSnapshot(snapshot);
		if (!found || result == TM_Ok)
			return found;
	}
}

static void
lock_by_name(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	if (!lock_if_there(queues, tenant, name, row))
		raise_unknown_queue(name);
}

void
queue_tell(int64 queue_id)
{
	journal_tell_event(gate_key(News::queue_event, own_tables(), queue_id));
}

/* Write the values of a row that is locked. */
static void
write_locked(QueueTable *queues, QueueRow *row)
{
	TableWriter writer;

	invalidate_names(queues->table);
	queue_tell(row->queue_id);
	table_writer_open(&writer, queues->table, queue_cols, false);
	table_writer_update(&writer, &row->tid, row->values, row->nulls);
	table_writer_close(&writer);
}

void
queue_configure(QueueTable *queues, const pg_uuid_t *tenant, Name name, Jsonb *options, QueueRow *row)
{
	lock_by_name(queues, tenant, name, row);
	queue_options_merge(options, row->values, row->nulls);
	write_locked(queues, row);
	if (!queue_find(queues, tenant, name, row))
		raise_unknown_queue(name);
}

bool
queue_set_paused(QueueTable *queues, const pg_uuid_t *tenant, Name name, bool paused)
{
	QueueRow row;

	lock_by_name(queues, tenant, name, &row);
	if (row.paused == paused)
		return false;
	row.values[queue_col_paused] = BoolGetDatum(paused);
	write_locked(queues, &row);
	return true;
}

bool
queue_hold(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	return lock_if_there(queues, tenant, name, row, LockTupleKeyShare);
}

bool
queue_delete(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	if (!lock_if_there(queues, tenant, name, row))
		return false;
	invalidate_names(queues->table);
	queue_tell(row->queue_id);
	delete_row(queues->table, &row->tid);
	return true;
}

bool
queue_renew_log(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row)
{
	if (!lock_if_there(queues, tenant, name, row))
		return false;
	row->values[queue_col_log_id] = Int64GetDatum(next_id(Sequence::queue_ids));
	write_locked(queues, row);
	return true;
}

} // namespace queen
