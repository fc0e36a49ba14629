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

/* Rows that a step deletes, and that it looks at; and the time after which it deletes no more. */
constexpr int most_rows = 1000;
constexpr int most_looks = 10 * most_rows;
constexpr int64 step_time = 50 * 1000; /* microseconds */

/* Where this process's pass stands. */
struct Pass
{
	MarkedScan marked;
	TimestampTz now; /* what expires later is for the next pass */
	int64 from;
	int64 left;		  /* the first that was not looked at */
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
	const TimestampTz end = GetCurrentTimestamp() + step_time;
	Expired expired[most_rows];
	MessageTable messages;
	Snapshot snapshot;
	IndexScan scan;
	int count = 0;
	int looks = 0;
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

		marked_scan_reached(&pass.marked);
		message_row_read(scan.slot, &row);
		/* looks end between two times, or those that were left would be looked at again and again */
		more = count == most_rows || (count > 0 && GetCurrentTimestamp() >= end) ||
			   (looks >= most_looks && row.expires_at > pass.from);
		looks++;
		pass.from = row.expires_at;
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
		/*
		 * Under a lease, or somebody is at it, for hours maybe: the mark does not wait for it, the next scan from the bottom finds it.
		 */
		pass.next = Min(pass.next, Max(until, pass.now + core::bottom_interval));
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

namespace
{

/*
 * Where the deletion of a log's messages stands: a scan from the first one would meet all that a held snapshot keeps, once a step. One log at a time in a
 * process; another one, or what was left behind the place, begins at the first.
 */
struct Deletion
{
	Oid tables;
	int64 log_id;
	MarkedIndex index;
	int16 priority;
	int64 from;
};

constinit Deletion deletion = {};

/* Is none left, be it one that is being inserted, or whose change may be rolled back? */
bool
is_none_left(MessageTable *messages, MarkedIndex index, int64 log_id)
{
	SnapshotData dirty;
	IndexScan scan;
	bool none;

	InitDirtySnapshot(dirty);
	message_scan_open(&scan, messages, index, &dirty);
	message_scan_start(&scan, index, log_id, 0, 0);
	none = !index_scan_next(&scan, ForwardScanDirection);
	index_scan_close(&scan);
	return none;
}

/* Of the deletion's index and priority from its place on; false when the scan ended before its end. */
bool
delete_from_place(MessageTable *messages, TimestampTz end, int *most)
{
	Snapshot snapshot = register_latest_snapshot();
	IndexScan scan;
	bool done = true;

	message_scan_open(&scan, messages, deletion.index, snapshot);
	message_scan_start(&scan, deletion.index, deletion.log_id, deletion.priority, deletion.from);
	PushActiveSnapshot(snapshot);
	while (done && index_scan_next(&scan, ForwardScanDirection))
	{
		ItemPointerData tid = scan.slot->tts_tid;
		MessageRow row;

		message_row_read(scan.slot, &row);
		deletion.from = message_key(&row);
		done = *most > 0 && GetCurrentTimestamp() < end && delete_row_unless_locked(messages->table, &tid, snapshot);
		*most -= done;
	}
	PopActiveSnapshot();
	index_scan_close(&scan);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	return done;
}

/* Of one state; false when some are left. */
bool
delete_of_state(MessageTable *messages, MarkedIndex index, TimestampTz end, int *most)
{
	if (deletion.index != index)
		deletion = {deletion.tables, deletion.log_id, index, priority_high, core::mark_bottom};
	for (;;)
	{
		if (!delete_from_place(messages, end, most))
			return false;
		if (deletion.priority == priority_low)
			break;
		deletion.priority--;
		deletion.from = core::mark_bottom;
	}
	if (is_none_left(messages, index, deletion.log_id))
		return true;
	deletion.priority = priority_high;
	deletion.from = core::mark_bottom;
	return false;
}

} // namespace

bool
messages_delete_log(int64 log_id, TimestampTz end, int *most)
{
	MessageTable messages;
	bool done;

	message_table_open(&messages, RowExclusiveLock);
	if (deletion.log_id != log_id || deletion.tables != messages.tables)
		deletion = {messages.tables, log_id, MarkedIndex::ready, priority_high, core::mark_bottom};
	/* in this order: none goes back to ready */
	done = (deletion.index == MarkedIndex::in_flight || delete_of_state(&messages, MarkedIndex::ready, end, most)) &&
		   delete_of_state(&messages, MarkedIndex::in_flight, end, most);
	if (done)
		deletion = {};
	message_table_close(&messages);
	/* nobody is at a message of it, so nobody holds a change of its counts */
	done = done && shard_rows_delete(log_id);
	return done;
}

} // namespace queen
