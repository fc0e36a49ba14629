/*
 * ring_walk.cpp: the reseed floor. See ring_walk.h.
 *
 * Raises: the rings then owe what they owed, and whoever comes next takes the walk over. Locks: those of the tables; the pool's in the core. No
 * snapshot is held for longer than a page. Runs in backends.
 *
 * It over-includes: a partition is named when anything lies, or is on its way, behind the group's cursor, whatever leases and the
 * queue's options say, and when the cursor is this transaction's own and may be rolled back.
 */
#include "log/ring_walk.h"

#include "hotlist/upkeep.h"
#include "log/append.h"
#include "log/cursors.h"
#include "log/log_reader.h"
#include "log/partitions.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

constexpr int page_size = 512;
/* Rings of one queue that one walk serves. */
constexpr int most_tickets = 64;
/* So many candidates did not fit: the rest will not either. */
constexpr int64 most_dropped = 64;

/* A ring that the walk pays for. */
struct WalkedRing
{
	hot::Ticket ticket;
	GroupRow group;
	uint64 repairs;
	int64 dropped;
	int64 first_dropped; /* partition id */
};

struct Walk
{
	WalkedRing rings[most_tickets];
	int ring_count;
	PartitionTable partitions;
	SegmentTable segments;
	EraHandle cursors;
	PartitionRow rows[page_size];
	MemoryContext page;
	Snapshot snapshot; /* of the page */
	IndexScan tails;
	SnapshotData dirty;
};

/* Where a partition ends, what is on its way included. */
struct TailLook
{
	bool any;
	bool settled; /* whoever wrote the newest segment is through with its commit */
	int64 end;
	TimestampTz created_at;
};

TailLook
look_at_tail(Walk *walk, int64 partition_id)
{
	TailLook tail = {};

	index_scan_reset_keys(&walk->tails);
	index_scan_key_int8(&walk->tails, 1, BTEqualStrategyNumber, partition_id);
	index_scan_start(&walk->tails);
	tail.any = index_scan_next(&walk->tails, BackwardScanDirection);
	if (tail.any)
	{
		bool isnull;

		tail.end = segment_int8(walk->tails.slot, segment_col_end_offset);
		tail.created_at = DatumGetTimestampTz(slot_getattr(walk->tails.slot, segment_col_created_at + 1, &isnull));
		tail.settled = dirty_row_owner(&walk->dirty, walk->tails.slot) == RowOwner::committed;
	}
	return tail;
}

/* Is there anything for the group? settled becomes false when the answer is that of a transaction that has not ended. */
bool
is_pending(Walk *walk, const GroupRow *group, int64 partition_id, const TailLook *tail, bool *settled)
{
	bool pending = true;

	*settled = tail->settled;
	if (!tail->any)
		return false;
	switch (era_seek(&walk->cursors, {partition_id, group->group_id}, walk->snapshot))
	{
		case EraSeek::found:
		{
			Cursor cursor;

			cursor_read(&walk->cursors, &cursor);
			pending = tail->end > cursor.committed;
			if (row_is_own(walk->cursors.scan.slot))
				*settled = false;
			pending |= !*settled;
			break;
		}
		case EraSeek::absent:
			pending = !group->has_start || tail->created_at >= group->start_at || !tail->settled;
			break;
		default:
			*settled = false;
			break;
	}
	era_release_snapshot(&walk->cursors);
	return pending;
}

/* Is whoever wrote the partition's newest segment, and the group's cursor, through with what a commit tells the rings? */
bool
all_is_told(Walk *walk, const GroupRow *group, int64 partition_id)
{
	bool told = true;

	(void) look_at_tail(walk, partition_id);
	if (!TupIsNull(walk->tails.slot))
		told = transaction_has_ended(row_inserter(walk->tails.slot));
	if (told && era_seek(&walk->cursors, {partition_id, group->group_id}, walk->snapshot) == EraSeek::found)
		told = transaction_has_ended(row_inserter(walk->cursors.scan.slot));
	era_release_snapshot(&walk->cursors);
	return told;
}

/*
 * The ring owes nothing and does not hold a partition that is pending. Either somebody was between its commit and its mark, or
 * an answer was old, or the ring has lost it, which must not be: look again with what is so now.
 */
bool
is_lost(Walk *walk, const WalkedRing *walked, int64 partition_id, const TailLook *before)
{
	const Snapshot page = walk->snapshot;
	TailLook tail;
	bool settled;
	bool lost;

	/* these locks go behind the COMMIT callbacks */
	if (!all_is_told(walk, &walked->group, partition_id))
		return false;
	walk->snapshot = register_latest_snapshot();
	tail = look_at_tail(walk, partition_id);
	lost = is_pending(walk, &walked->group, partition_id, &tail, &settled) && settled && tail.end == before->end &&
		   !hot::holds(hotlist(), walked->ticket.ring, partition_id);
	UnregisterSnapshot(walk->snapshot);
	walk->snapshot = page;
	return lost;
}

void
name_to_ring(Walk *walk, WalkedRing *walked, int64 partition_id, const TailLook *tail)
{
	bool settled;

	if (!is_pending(walk, &walked->group, partition_id, tail, &settled))
		return;
	if (walked->ticket.settled && settled && !hot::holds(hotlist(), walked->ticket.ring, partition_id) &&
		is_lost(walk, walked, partition_id, tail))
	{
		walked->repairs++;
		ereport(LOG, (errmsg("queen: the hot-list had lost partition %lld of consumer group \"%s\"",
							 (long long) partition_id, walked->group.name),
					  errhint("It was found by the reseed walk. Please report this with the server's log.")));
	}
	if (hot::reseed_row(hotlist(), &walked->ticket, partition_id, hotlist_now(), hotlist_owner_alive) ==
		hot::Reseeded::full)
	{
		if (walked->dropped++ == 0)
			walked->first_dropped = partition_id;
	}
}

/* Have all of them dropped so much that it is no use to go on? */
bool
is_full(const Walk *walk)
{
	for (int i = 0; i < walk->ring_count; i++)
		if (walk->rings[i].dropped < most_dropped)
			return false;
	return true;
}

/* Walk the partitions with first <= id <= last; false when it stopped because nothing fits. */
bool
walk_range(Walk *walk, int64 log_id, int64 first, int64 last)
{
	int count = page_size;

	while (count == page_size && first <= last)
	{
		MemoryContext caller;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(walk->page);
		caller = MemoryContextSwitchTo(walk->page);
		walk->snapshot = register_latest_snapshot();
		count = partition_page(&walk->partitions, log_id, first, last, walk->snapshot, walk->rows, page_size);
		for (int i = 0; i < count; i++)
		{
			const int64 partition_id = walk->rows[i].partition_id;
			const TailLook tail = look_at_tail(walk, partition_id);

			for (int r = 0; r < walk->ring_count; r++)
				name_to_ring(walk, &walk->rings[r], partition_id, &tail);
			first = partition_id + 1;
		}
		UnregisterSnapshot(walk->snapshot);
		MemoryContextSwitchTo(caller);
		if (is_full(walk))
			return false;
	}
	return true;
}

bool
add_ring(Walk *walk, const GroupRow *group, hot::RingRef ring)
{
	WalkedRing *walked = &walk->rings[walk->ring_count];

	*walked = {};
	walked->group = *group;
	if (!hot::reseed_begin(hotlist(), ring, hotlist_now(), hotlist_owner(), hotlist_owner_alive, &walked->ticket))
		return false;
	walk->ring_count++;
	return true;
}

/* The queue's other rings that owe a walk, unless it would have to begin in the middle. */
void
add_other_rings(Walk *walk, const QueueRow *queue, int64 own_group)
{
	Snapshot snapshot = register_latest_snapshot();
	const hot::Micros interval = hotlist_floor();
	int count;
	const GroupRow *groups = group_list(queue->queue_id, snapshot, &count);

	UnregisterSnapshot(snapshot);
	for (int i = 0; i < count && walk->ring_count < most_tickets; i++)
	{
		hot::RingRef ring;

		if (groups[i].group_id == own_group ||
			!hot::ring_find(hotlist(), hotlist_ring_key(own_tables(), queue->queue_id, groups[i].group_id), &ring))
			continue;
		switch (hot::owes(hotlist(), ring, hotlist_now(), interval))
		{
			case hot::Owes::walk:
			case hot::Owes::floor:
				(void) add_ring(walk, &groups[i], ring);
				break;
			default:
				break;
		}
	}
}

} // namespace

bool
ring_walk(const QueueRow *queue, const GroupRow *group, const ServedRing *served)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "queen ring walk", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Walk *walk = (Walk *) palloc0(sizeof(Walk));
	int64 from;
	bool all;

	if (!add_ring(walk, group, served->ring))
	{
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
		return false;
	}
	/* the rings are there: whoever commits from now on tells them. Every snapshot comes behind this */
	from = walk->rings[0].ticket.resume_at;
	if (from == 0)
		add_other_rings(walk, queue, group->group_id);

	walk->page = AllocSetContextCreate(context, "queen ring walk page", ALLOCSET_DEFAULT_SIZES);
	InitDirtySnapshot(walk->dirty);
	partition_table_open(&walk->partitions, AccessShareLock);
	segment_table_open(&walk->segments);
	index_scan_open(&walk->tails, walk->segments.table, walk->segments.index, &walk->dirty);
	era_open_to_read(&walk->cursors, &cursor_table);
	all = walk_range(walk, queue->log_id, from, PG_INT64_MAX) &&
		  (from == 0 || walk_range(walk, queue->log_id, 0, from - 1));
	era_close(&walk->cursors);
	index_scan_close(&walk->tails);
	segment_table_close(&walk->segments);
	partition_table_close(&walk->partitions);
	for (int i = 0; i < walk->ring_count; i++)
	{
		const WalkedRing *walked = &walk->rings[i];
		const bool whole = all && walked->dropped == 0;

		hot::reseed_end(hotlist(), walked->ticket, whole, whole ? 0 : walked->first_dropped, walked->repairs,
						hotlist_now(), hotlist_listener());
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return true;
}

} // namespace queen
