/*
 * cleaner.cpp: deleting messages that nobody gets any more: expired ones, and those of logs that are gone.
 *
 * Raises. Locks: the rows that are deleted, without waiting. Runs in backends and workers.
 */
#include "workqueue/cleaner.h"

#include "log/event_counts.h"
#include "log/queues.h"
#include "state/shard_rows.h"
#include "workqueue/message_rows.h"

namespace queen
{

namespace
{

/* Rows that a step deletes. */
constexpr int most_rows = 1000;

/* Where this process's pass stands. */
struct Pass
{
	MarkedScan marked;
	TimestampTz now; /* what expires later is for the next pass */
	int64 from;
	int64 left;		  /* the first that was left */
	TimestampTz next; /* when something can be deleted that cannot now */
};

constinit Pass pass = {};

/* Is its time over, also that of its lease? Otherwise *until is when it will be. */
bool
is_over(const MessageRow *row, TimestampTz *until)
{
	*until = row->in_flight ? Max(row->expires_at, row->visible_at) : row->expires_at;
	return *until <= pass.now;
}

/* Messages that a step has deleted: whose they were. */
struct Expired
{
	int64 log_id;
	int16 priority;
};

int
compare_expired(const void *left, const void *right)
{
	const Expired *a = (const Expired *) left;
	const Expired *b = (const Expired *) right;

	if (a->log_id != b->log_id)
		return a->log_id < b->log_id ? -1 : 1;
	return a->priority - b->priority;
}

/* Those of a log that was purged are nobody's any more. */
void
note_expired(Oid tables, Expired *expired, int count)
{
	int64 log_id = 0;
	QueueTable queues;
	QueueRow queue;
	bool found = false;

	queue_table_open(&queues, AccessShareLock);
	qsort(expired, (Size) count, sizeof(Expired), compare_expired);
	for (int i = 0; i < count; i++)
	{
		if (expired[i].log_id != log_id)
			found = queue_find_by_log(&queues, expired[i].log_id, &queue);
		log_id = expired[i].log_id;
		if (found)
			event_note_work(tables, queue.queue_id, expired[i].priority, Event::expired, 1);
	}
	queue_table_close(&queues);
}

} // namespace

bool
messages_expire_step(bool first, TimestampTz *next)
{
	Expired expired[most_rows];
	MessageTable messages;
	Snapshot snapshot;
	IndexScan scan;
	int count = 0;
	bool more = false;

	message_table_open(&messages, RowExclusiveLock);
	if (first)
	{
		const MarkKey key = {messages.tables, 0, 0, MarkedIndex::expiry};

		pass = {};
		/* before the snapshot */
		marked_scan_begin(&pass.marked, &key);
		pass.from = pass.marked.from;
		pass.left = core::mark_nothing;
		pass.next = DT_NOEND;
		pass.now = GetCurrentTimestamp();
	}
	snapshot = register_latest_snapshot();
	PushActiveSnapshot(snapshot);
	message_scan_open(&scan, &messages, MarkedIndex::expiry, snapshot);
	message_scan_start(&scan, MarkedIndex::expiry, 0, 0, pass.from);
	while (index_scan_next(&scan, ForwardScanDirection))
	{
		TimestampTz until;
		MessageRow row;

		message_row_read(scan.slot, &row);
		pass.from = row.expires_at;
		more = count == most_rows;
		if (more || row.expires_at > pass.now)
		{
			pass.left = Min(pass.left, row.expires_at);
			pass.next = Min(pass.next, more ? pass.next : row.expires_at);
			break;
		}
		if (is_over(&row, &until) && message_delete_unless_locked(&messages, &row, snapshot, 0))
		{
			expired[count++] = {row.log_id, row.priority};
			continue;
		}
		/* under a lease, or somebody is at it */
		pass.left = Min(pass.left, row.expires_at);
		pass.next = Min(pass.next, until);
	}
	index_scan_close(&scan);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	if (count > 0)
		note_expired(messages.tables, expired, count);
	message_table_close(&messages);
	if (!more)
		marked_scan_end(&pass.marked, pass.left);
	*next = pass.next;
	return more;
}

/* Of one state; false when some are left. */
static bool
delete_of_log(MessageTable *messages, MarkedIndex index, int64 log_id, int *most)
{
	Snapshot snapshot = register_latest_snapshot();
	SnapshotData dirty;
	IndexScan scan;
	bool done = true;

	message_scan_open(&scan, messages, index, snapshot);
	message_scan_start(&scan, index, log_id, 0, 0);
	PushActiveSnapshot(snapshot);
	while (done && index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		done = *most > 0 && delete_row_unless_locked(messages->table, &tid, snapshot);
		*most -= done;
	}
	PopActiveSnapshot();
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	if (!done)
		return false;
	/* what is being inserted, or whose change may be rolled back */
	InitDirtySnapshot(dirty);
	message_scan_open(&scan, messages, index, &dirty);
	message_scan_start(&scan, index, log_id, 0, 0);
	done = !index_scan_next(&scan, ForwardScanDirection);
	index_scan_close(&scan);
	return done;
}

bool
messages_delete_log(int64 log_id, int *most)
{
	MessageTable messages;
	bool done;

	message_table_open(&messages, RowExclusiveLock);
	/* in this order: none goes back to ready */
	done = delete_of_log(&messages, MarkedIndex::ready, log_id, most) &&
		   delete_of_log(&messages, MarkedIndex::in_flight, log_id, most);
	message_table_close(&messages);
	/* nobody is at a message of it, so nobody holds a change of its counts */
	done = done && shard_rows_delete(log_id);
	return done;
}

} // namespace queen
