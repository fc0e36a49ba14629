/*
 * pushed_partitions.cpp: to which partitions this transaction has appended segments. See pushed_partitions.h.
 *
 * pushed_partitions_reserve raises for memory, nothing else does. pushed_partitions_tell takes LWLocks of the hot-list's pool and of the change
 * feed, for a bounded number of steps each. Runs in backends.
 */
#include "log/pushed_partitions.h"

#include "hotlist/gates.h"
#include "hotlist/notify.h"
#include "log/changes.h"
#include "server/kept_array.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

/* Partitions that follow each other in one queue. */
struct Run
{
	Oid tables;
	int64 queue_id;
	uint32 first; /* of the marks */
	uint32 count;
	uint64 channel;
	bool more; /* than there was room for: its rings owe a walk, and it is named as a whole */
};

/* From here on a queue's rings owe a walk: a commit must not hold its locks for ever. */
constexpr uint32 most_marks = 10000;
constexpr uint32 kept = 64; /* room that stays between transactions */

constinit KeptArray<hot::Mark, kept> marks = {};
constinit KeptArray<Run, kept> runs = {};

/* Is there anybody to tell? */
bool
told()
{
	return hotlist_there() || changes_are_shared();
}

void
tell_hotlist(const Run *run, hot::Micros now)
{
	const hot::QueueKey key = hotlist_queue_key(run->tables, run->queue_id);

	if (run->count > 0)
		(void) hot::mark(hotlist(), key, {marks.items + run->first, run->count}, now, hotlist_listener());
	if (run->more)
		hot::owe_queue(hotlist(), key, hotlist_listener());
}

/* Who waits without a ring. */
void
tell_gates(const Run *run)
{
	if (!gates_bucket_waiters())
		return;
	for (uint32 i = 0; i < run->count; i++)
		gates_tell(gate_key(News::partition, run->tables, run->queue_id, marks.items[run->first + i].partition_id), 1);
	if (run->more)
		gates_tell_everybody();
	else
		gates_tell(gate_key(News::queue, run->tables, run->queue_id), run->count);
}

void
tell_feed(const Run *run)
{
	constexpr uint32 at_once = 128;
	core::Change changes[at_once];
	uint32 count = 0;

	for (uint32 i = 0; i < run->count; i++)
	{
		changes[count++] = {MyDatabaseId, run->tables, run->queue_id, marks.items[run->first + i].partition_id};
		if (count == at_once)
		{
			changes_append(changes, count);
			count = 0;
		}
	}
	if (run->more)
		changes[count++] = {MyDatabaseId, run->tables, run->queue_id, 0};
	changes_append(changes, count);
}

} // namespace

void
pushed_partitions_reserve()
{
	if (!told())
		return;
	kept_array_reserve(&marks, 1);
	kept_array_reserve(&runs, 1);
}

void
pushed_partitions_note(Oid tables, int64 queue_id, int64 partition_id, uint32 messages, uint64 channel)
{
	Run *run = runs.count > 0 ? &runs.items[runs.count - 1] : nullptr;

	if (!told())
		return;
	if (run == nullptr || run->queue_id != queue_id || run->tables != tables)
	{
		run = &runs.items[runs.count++];
		*run = {tables, queue_id, marks.count, 0, channel, false};
	}
	/* one partition's segments follow each other */
	if (run->count > 0 && marks.items[marks.count - 1].partition_id == partition_id)
		marks.items[marks.count - 1].messages += messages;
	else if (marks.count < most_marks)
	{
		marks.items[marks.count++] = {partition_id, messages};
		run->count++;
	}
	else
		run->more = true;
}

void
pushed_partitions_tell(bool stays)
{
	const hot::Micros now = runs.count > 0 ? hotlist_now() : 0;

	for (uint32 i = 0; i < runs.count; i++)
	{
		if (hotlist_there())
			tell_hotlist(&runs.items[i], now);
		tell_gates(&runs.items[i]);
		if (stays && runs.items[i].channel != 0)
			notify_flag(runs.items[i].channel);
		if (stays && changes_are_shared())
			tell_feed(&runs.items[i]);
	}
	/* where the queue defers */
	if (runs.count > 0)
		gates_parked();
	kept_array_clear(&marks);
	kept_array_clear(&runs);
}

} // namespace queen
