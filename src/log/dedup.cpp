/*
 * dedup.cpp: rows of queen.log_txns. See dedup.h; README.md of this folder says why it holds.
 *
 * Raises. Locks: dedup_take holds the key's row to the end of the transaction, and waits for another transaction that
 * does, at most queen.flush_timeout. dedup_find takes none. Runs in backends.
 */
#include "log/dedup.h"

#include "log/births.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "server/relations.h"
#include "server/settings.h"
#include "server/timed_wait.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

Relation
open_key(Relation table, LOCKMODE mode)
{
	return open_index(table, {txn_col_partition_id + 1, txn_col_key_hash + 1}, mode);
}

/* Look for the key; true when there is a row, which scan->slot then holds. */
bool
seek(IndexScan *scan, int64 partition_id, const core::Uuid *key_hash)
{
	index_scan_reset_keys(scan);
	index_scan_key_int8(scan, 1, BTEqualStrategyNumber, partition_id);
	index_scan_key_uuid(scan, 2, uuid_to_datum(*key_hash));
	index_scan_start(scan);
	return index_scan_next(scan, ForwardScanDirection);
}

KeyOwner
owner_of(TupleTableSlot *slot)
{
	KeyOwner owner;
	bool isnull;

	owner.message_id = uuid_from_datum(slot_getattr(slot, txn_col_message_id + 1, &isnull));
	owner.pushed_at = DatumGetTimestampTz(slot_getattr(slot, txn_col_pushed_at + 1, &isnull));
	return owner;
}

/* A clock that was set back leaves a time ahead of it: that is within the window too. */
bool
within(const KeyOwner *owner, int64 window)
{
	return owner->pushed_at > GetCurrentTimestamp() - window;
}

struct RowLock
{
	Relation table;
	ItemPointer tid;
	Snapshot snapshot;
	TM_Result result;
};

void
wait_for_row(void *arg)
{
	RowLock *lock = (RowLock *) arg;

	lock->result = lock_row(lock->table, lock->tid, lock->snapshot, true);
}

[[noreturn]] void
raise_key_locked(const char *queue_name, const char *partition_name)
{
	ereport(
		ERROR,
		(errcode(errcode_flush_timeout),
		 errmsg("a dedup_key of partition \"%s\" of queue \"%s\" is being pushed by a transaction that has not ended",
				partition_name, queue_name),
		 errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout), errhint("Try again.")));
	pg_unreachable();
}

/* Take the key over from an owner that is older than the window; false when its row has changed since. */
bool
take_over(DedupTable *dedup, int64 partition_id, const core::Uuid *key_hash, int64 window, const Datum *values,
		  const bool *nulls, const char *queue_name, const char *partition_name)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool done = false;

	index_scan_open(&scan, dedup->table, dedup->index, snapshot);
	if (seek(&scan, partition_id, key_hash))
	{
		KeyOwner owner = owner_of(scan.slot);
		ItemPointerData tid = scan.slot->tts_tid;
		RowLock lock = {dedup->table, &tid, snapshot, TM_Invisible};

		if (!within(&owner, window))
		{
			/* the snapshot is registered: pruning cannot take this version away before it is locked */
			if (!run_with_timeout(setting_flush_timeout, false, wait_for_row, &lock))
				raise_key_locked(queue_name, partition_name);
			done = lock.result == TM_Ok;
			if (done)
				table_writer_update(&dedup->writer, &tid, values, nulls);
		}
	}
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	return done;
}

/* What a dirty look says of a key. */
enum class Look
{
	free,	 /* nobody has it */
	running, /* it was waited for a transaction that has ended now: look again */
	expired,
	taken,
};

Look
look(DedupTable *dedup, int64 partition_id, const core::Uuid *key_hash, int64 window, const char *queue_name,
	 const char *partition_name, KeyOwner *owner)
{
	SnapshotData dirty;
	IndexScan scan;
	Look result = Look::free;

	InitDirtySnapshot(dirty);
	index_scan_open(&scan, dedup->table, dedup->index, &dirty);
	if (seek(&scan, partition_id, key_hash))
	{
		*owner = owner_of(scan.slot);
		if (TransactionIdIsValid(dirty.xmin) || TransactionIdIsValid(dirty.xmax))
		{
			if (!wait_for_owner(&scan, &dirty))
				raise_key_locked(queue_name, partition_name);
			result = Look::running;
		}
		else
			result = within(owner, window) ? Look::taken : Look::expired;
	}
	index_scan_close(&scan);
	return result;
}

} // namespace

void
dedup_open(DedupTable *dedup)
{
	dedup->table = open_table(Table::log_txns, RowExclusiveLock);
	dedup->index = open_key(dedup->table, RowExclusiveLock);
	table_writer_open(&dedup->writer, dedup->table, txn_cols, true);
}

void
dedup_close(DedupTable *dedup)
{
	table_writer_close(&dedup->writer);
	index_close(dedup->index, NoLock);
	table_close(dedup->table, NoLock);
}

bool
dedup_take(DedupTable *dedup, int64 partition_id, const core::Uuid *key_hash, const core::Uuid *message_id,
		   int64 window, const char *queue_name, const char *partition_name, KeyOwner *owner)
{
	const bool nulls[txn_cols] = {};
	Datum values[txn_cols];

	values[txn_col_partition_id] = Int64GetDatum(partition_id);
	values[txn_col_key_hash] = uuid_to_datum(*key_hash);
	values[txn_col_message_id] = uuid_to_datum(*message_id);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		values[txn_col_pushed_at] = TimestampTzGetDatum(GetCurrentTimestamp());
		switch (look(dedup, partition_id, key_hash, window, queue_name, partition_name, owner))
		{
			case Look::taken:
				return false;
			case Look::running:
				break;
			case Look::free:
				/*
				 * A dirty look may miss a row that is being moved; the unique index does not. False then, or somebody was
				 * quicker: look again.
				 */
				if (table_writer_insert_unless_exists(&dedup->writer, values, nulls))
					return true;
				break;
			case Look::expired:
				if (take_over(dedup, partition_id, key_hash, window, values, nulls, queue_name, partition_name))
					return true;
				break;
		}
	}
}

void
dedup_reader_open(DedupReader *reader, const pg_uuid_t *tenant, Name queue, Name partition)
{
	QueueTable queues;
	PartitionTable partitions;
	QueueRow queue_row;
	PartitionRow partition_row;

	queue_row.options = {};
	queue_table_open(&queues, AccessShareLock);
	partition_table_open(&partitions, AccessShareLock);
	reader->open = queue_find(&queues, tenant, queue, &queue_row) &&
				   partition_find(&partitions, queue_row.log_id, partition, &partition_row);
	partition_table_close(&partitions);
	queue_table_close(&queues);
	reader->window = queue_row.options.dedup_window;
	reader->is_error = queue_row.options.dedup_error;
	if (reader->open)
	{
		reader->partition_id = partition_row.partition_id;
		reader->table = open_table(Table::log_txns, AccessShareLock);
		reader->index = open_key(reader->table, AccessShareLock);
		reader->snapshot = register_latest_snapshot();
		index_scan_open(&reader->scan, reader->table, reader->index, reader->snapshot);
	}
}

void
dedup_reader_close(DedupReader *reader)
{
	if (!reader->open)
		return;
	index_scan_close(&reader->scan);
	UnregisterSnapshot(reader->snapshot);
	index_close(reader->index, NoLock);
	table_close(reader->table, NoLock);
}

bool
dedup_find(DedupReader *reader, const core::Uuid *key_hash, KeyOwner *owner)
{
	if (!reader->open || !seek(&reader->scan, reader->partition_id, key_hash))
		return false;
	*owner = owner_of(reader->scan.slot);
	return within(owner, reader->window);
}

void
raise_duplicate(const char *queue_name, const char *partition_name, const char *what, const KeyOwner *owner)
{
	ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
					errmsg("duplicate message in partition \"%s\" of queue \"%s\"", partition_name, queue_name),
					owner->pushed_at == pushed_just_now
						? errdetail("%s: message %s was pushed with the same key before, in this transaction.", what,
									uuid_text(owner->message_id))
						: errdetail("%s: message %s was pushed with the same key at %s.", what,
									uuid_text(owner->message_id), timestamptz_to_str(owner->pushed_at)),
					errhint("With the queue's option dedup set to \"drop\" duplicates are dropped silently.")));
	pg_unreachable();
}

} // namespace queen
