/*
 * event_counts.cpp: how often what has happened to queues and groups. See event_counts.h.
 *
 * Raises for memory in calls, never at the transaction's end. Locks: LWLocks of its own tranche, for a bounded number of steps: shared to
 * count, exclusive where an object is counted for the first time, or goes. Laid out in the postmaster; runs in every process.
 */
#include "log/event_counts.h"

#include <atomic>

#include "log/work_calls.h"
#include "server/kept_array.h"
#include "server/settings.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* By an object's hash: so that one that takes or gives up a place seldom holds off another one. A power of two. */
constexpr uint32 table_count = 16;

struct Head
{
	LWLockPadded locks[table_count];
	int tranche;
	uint32 places; /* of each table */
	TimestampTz since;
	std::atomic<uint64> lost;
};
constexpr Size head_size = MAXALIGN(sizeof(Head)) + PG_CACHE_LINE_SIZE - MAXALIGN(sizeof(Head)) % PG_CACHE_LINE_SIZE;

constinit Head *head = nullptr;

/* What a transaction has done to an object. */
struct Note
{
	core::EventObject object;
	SubTransactionId sub;
	core::EventAmounts amounts;
};

/* What has gone, or has another id now. */
struct End
{
	core::EventObject object;
	int64 new_id; /* 0: it is gone */
	SubTransactionId sub;
};

/*
 * Notes of a transaction, for a commit must not go on for ever: those of an object become one when there is no room, and what is of too many
 * objects is lost, and counted as that.
 */
constexpr uint32 kept_notes = 16;
constexpr uint32 most_notes = kept_notes * 1024;
constexpr uint32 kept_ends = 4;
constinit KeptArray<Note, kept_notes> notes = {};
constinit KeptArray<End, kept_ends> ends = {};
constinit bool full = false;
constinit uint64 lost = 0;

/* The number of an object's note, by its hash. A hint. */
constinit uint32 hints[256] = {};

uint32
number_of(const core::EventObject &object)
{
	return core::event_hash(object) % table_count;
}

core::EventTable *
table(uint32 number)
{
	return (core::EventTable *) ((char *) head + head_size + core::event_table_size(head->places) * number);
}

void
lock(uint32 number, LWLockMode mode)
{
	LWLockAcquire(&head->locks[number].lock, mode);
}

void
unlock(uint32 number)
{
	LWLockRelease(&head->locks[number].lock);
}

/* As many as the views can show, and an eighth more: the tables are not filled evenly. */
uint32
places_of_table()
{
	const int64 objects = (int64) setting_state_queues * priority_count + setting_state_groups;

	return (uint32) Max(objects * 9 / 8 / table_count, (int64) 16);
}

Size
measure()
{
	return head_size + core::event_table_size(places_of_table()) * table_count;
}

void
lay_out(void *memory)
{
	memset(memory, 0, head_size);
	head = (Head *) memory;
	head->tranche = LWLockNewTrancheId();
	head->since = GetCurrentTimestamp();
	head->places = places_of_table();
	for (uint32 i = 0; i < table_count; i++)
	{
		LWLockInitialize(&head->locks[i].lock, head->tranche);
		(void) core::event_table_lay_out(table(i), head->places);
	}
}

void
attach(void *memory)
{
	head = (Head *) memory;
	LWLockRegisterTranche(head->tranche, "queen_event_counts");
}

void
forget_database(Oid database)
{
	for (uint32 i = 0; i < table_count; i++)
	{
		lock(i, LW_EXCLUSIVE);
		core::event_forget_database(*table(i), database);
		unlock(i);
	}
}

void
count(const core::EventObject &object, const core::EventAmounts &amounts, TimestampTz now, TimestampTz since)
{
	const uint32 number = number_of(object);
	bool done;

	lock(number, LW_SHARED);
	done = core::event_add_there(*table(number), object, amounts, now);
	unlock(number);
	if (done)
		return;
	lock(number, LW_EXCLUSIVE);
	core::event_add(*table(number), object, amounts, now, since);
	unlock(number);
}

void
end(const End *what, TimestampTz now)
{
	const uint32 number = number_of(what->object);
	core::EventCounts counts;
	bool found;

	lock(number, LW_EXCLUSIVE);
	found = core::event_take(*table(number), what->object, &counts);
	unlock(number);
	if (!found || what->new_id == 0)
		return;
	counts.object.id = what->new_id;
	count(counts.object, counts.amounts, now, counts.since);
}

void
ended(bool committed)
{
	if (committed && head != nullptr && (notes.count > 0 || ends.count > 0))
	{
		const TimestampTz now = GetCurrentTransactionStopTimestamp();

		for (uint32 i = 0; i < notes.count; i++)
			count(notes.items[i].object, notes.items[i].amounts, now, now);
		for (uint32 i = 0; i < ends.count; i++)
			end(&ends.items[i], now);
		if (lost > 0)
			head->lost.fetch_add(lost, std::memory_order_relaxed);
	}
	full = false;
	lost = 0;
	kept_array_clear(&notes);
	kept_array_clear(&ends);
}

void
sub_committed(SubTransactionId self, SubTransactionId parent)
{
	kept_array_reparent(&notes, self, parent);
	kept_array_reparent(&ends, self, parent);
}

void
sub_aborted(SubTransactionId self)
{
	while (kept_array_take(&notes, self) != nullptr)
		full = false;
	kept_array_sub_aborted<ends>(self);
}

void
add(core::EventAmounts *to, const core::EventAmounts &amounts)
{
	for (uint32 i = 0; i < core::event_kinds; i++)
		to->of[i] += amounts.of[i];
}

int
compare_numbers(int64 left, int64 right)
{
	return left < right ? -1 : left > right;
}

int
compare_notes(const void *left, const void *right)
{
	const Note *a = (const Note *) left;
	const Note *b = (const Note *) right;
	int order = compare_numbers(a->sub, b->sub);

	if (order == 0)
		order = compare_numbers(a->object.queue_id, b->object.queue_id);
	if (order == 0)
		order = compare_numbers(a->object.id, b->object.id);
	if (order == 0)
		order = compare_numbers((int64) a->object.scope, (int64) b->object.scope);
	return order != 0 ? order : compare_numbers(a->object.tables, b->object.tables);
}

/* Make one of those of an object in a sub-transaction. Ids of those ascend from note to note, and still do afterwards. */
void
merge()
{
	uint32 kept = 0;

	qsort(notes.items, notes.count, sizeof(Note), compare_notes);
	for (uint32 i = 0; i < notes.count; i++)
	{
		if (kept > 0 && compare_notes(&notes.items[kept - 1], &notes.items[i]) == 0)
			add(&notes.items[kept - 1].amounts, notes.items[i].amounts);
		else
			notes.items[kept++] = notes.items[i];
	}
	notes.count = kept;
}

/* Room for one more; false when there are too many. At least a quarter is free after a merge, or sorting would be all that is done. */
bool
make_room()
{
	if (full)
		return false;
	if (notes.count < notes.room)
		return true;
	if (notes.count > 0)
		merge();
	if (notes.room < most_notes)
		kept_array_reserve(&notes, Max(notes.room / 4, (uint32) 1));
	full = notes.count > most_notes / 4 * 3;
	return !full;
}

void
note(const core::EventObject &object, Event event, uint64 amount)
{
	const SubTransactionId sub = GetCurrentSubTransactionId();
	uint32 *hint = &hints[core::event_hash(object) % lengthof(hints)];

	if (head == nullptr || amount == 0)
		return;
	if (*hint >= notes.count || notes.items[*hint].sub != sub || !(notes.items[*hint].object == object))
	{
		if (!make_room())
		{
			lost++;
			return;
		}
		*hint = notes.count++;
		notes.items[*hint] = {object, sub, {}};
	}
	notes.items[*hint].amounts.of[(int) event] += amount;
}

core::EventObject
object_of(Oid tables, EventScope scope, int64 queue_id, int64 id)
{
	return {MyDatabaseId, tables, scope, queue_id, id};
}

void
note_end(const core::EventObject &object, int64 new_id)
{
	if (head == nullptr)
		return;
	kept_array_reserve(&ends, 1);
	ends.items[ends.count++] = {object, new_id, GetCurrentSubTransactionId()};
}

} // namespace

const TransactionParticipant event_counts_participant = {nullptr, nullptr, ended, nullptr, sub_committed, sub_aborted};

void
event_counts_init()
{
	static constinit SharedPart part = {"queen event counts", 0, lay_out, attach, forget_database, measure};

	shared_memory_join(&part);
}

void
event_note_log(Oid tables, int64 queue_id, Event event, uint64 amount)
{
	note(object_of(tables, EventScope::log, queue_id, 0), event, amount);
}

void
event_note_group(Oid tables, int64 queue_id, int64 group_id, Event event, uint64 amount)
{
	event_note_log(tables, queue_id, event, amount);
	note(object_of(tables, EventScope::group, queue_id, group_id), event, amount);
}

void
event_note_work(Oid tables, int64 queue_id, int16 priority, Event event, uint64 amount)
{
	note(object_of(tables, EventScope::work, queue_id, priority), event, amount);
}

void
event_note_queue_gone(Oid tables, int64 queue_id)
{
	note_end(object_of(tables, EventScope::log, queue_id, 0), 0);
	for (int64 priority = 1; priority <= priority_count; priority++)
		note_end(object_of(tables, EventScope::work, queue_id, priority), 0);
}

void
event_note_group_gone(Oid tables, int64 queue_id, int64 group_id)
{
	note_end(object_of(tables, EventScope::group, queue_id, group_id), 0);
}

void
event_note_group_renewed(Oid tables, int64 queue_id, int64 group_id, int64 new_id)
{
	note_end(object_of(tables, EventScope::group, queue_id, group_id), new_id);
}

bool
event_counts_reset(Oid tables, int64 queue_id, TimestampTz now)
{
	if (head == nullptr)
		return false;
	for (uint32 i = 0; i < table_count; i++)
	{
		lock(i, LW_EXCLUSIVE);
		core::event_reset(*table(i), MyDatabaseId, tables, queue_id, now);
		unlock(i);
	}
	return true;
}

core::EventCounts *
event_counts_read(Oid tables, uint32 *count)
{
	core::EventCounts *all = nullptr;
	uint32 room = 0;

	*count = 0;
	for (uint32 i = 0; head != nullptr && i < table_count; i++)
	{
		uint32 at = 0;

		/* what comes between the two locks, into a full array, is for the next who reads */
		lock(i, LW_SHARED);
		room = *count + core::event_table_state(*table(i)).used;
		unlock(i);
		if (room == 0)
			continue;
		all = all == nullptr ? (core::EventCounts *) palloc(sizeof(core::EventCounts) * (Size) room)
							 : (core::EventCounts *) repalloc(all, sizeof(core::EventCounts) * (Size) room);
		lock(i, LW_SHARED);
		while (*count < room && core::event_read(*table(i), MyDatabaseId, tables, &at, &all[*count]))
			++*count;
		unlock(i);
	}
	return all;
}

bool
event_counts_find(Oid tables, EventScope scope, int64 queue_id, int64 id, core::EventCounts *found)
{
	const core::EventObject object = object_of(tables, scope, queue_id, id);
	const uint32 number = number_of(object);
	bool there;

	if (head == nullptr)
		return false;
	lock(number, LW_SHARED);
	there = core::event_find(*table(number), object, found);
	unlock(number);
	return there;
}

bool
event_counts_state(EventCountsState *state)
{
	*state = {};
	if (head == nullptr)
		return false;
	state->since = head->since;
	state->lost = (int64) head->lost.load(std::memory_order_relaxed);
	for (uint32 i = 0; i < table_count; i++)
	{
		core::EventTableState one;

		lock(i, LW_SHARED);
		one = core::event_table_state(*table(i));
		unlock(i);
		state->places += one.places;
		state->used += one.used;
		state->evicted += (int64) one.evicted;
		state->last_evicted = Max(state->last_evicted, one.last_evicted);
	}
	return true;
}

} // namespace queen
