/*
 * claim_marks.cpp: marks of scans, what was passed by, and what the end of a transaction tells. See claim_marks.h and README.md.
 *
 * Notes raise for memory, the participant never. Locks: a spinlock for a set of marks, for some steps; what telling waiters takes. Laid out in the
 * postmaster; runs in every process that runs transactions.
 */
#include "workqueue/claim_marks.h"

#include <atomic>

#include "hotlist/gates.h"
#include "server/kept_array.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* What was passed by, and by how many calls. */
struct Passed
{
	PassedBy by;
	uint32 times;
};

constexpr uint32 most_passes = 10;
constexpr Passed nothing_passed = {passed_none, 0};

struct Place
{
	Oid database; /* 0: free */
	MarkKey key;  /* index none: of a queue, which has no mark */
	core::LowMark mark;
	Passed passed; /* of a queue */
};

constexpr uint32 ways = 8;
struct Set
{
	slock_t lock;
	uint8 victim;
	Place places[ways];
};

/* 8,192 marks in some 1.5 MB: of 1,365 queues with messages of all priorities in both states */
constexpr uint32 set_count = 1024;

struct Memory
{
	std::atomic<uint64> births;
	Set sets[set_count];
};

constinit Memory *table = nullptr;
constinit Passed passed_here = nothing_passed; /* where there is no such memory */

/* What a sub-transaction has done to an index. */
struct Note
{
	MarkKey key;
	SubTransactionId sub;
	int64 queue_id;
	int64 inserted; /* the least key */
	int64 taken;	/* the same */
	uint32 ready;	/* messages that can be taken at once after the commit … */
	uint32 back;	/* … or after a rollback */
};

/* Beyond so many notes all marks are forgotten, and everybody who waits is told: if merging them does not make room for a quarter. */
constexpr uint32 most_notes = 10000;
constexpr uint32 kept_notes = 64;
constinit KeptArray<Note, kept_notes> notes = {};
constinit uint32 merge_at = kept_notes; /* notes */
constinit Oid overrun = InvalidOid;		/* the tables of which not all is noted */

void
lay_out(void *memory)
{
	Memory *t = (Memory *) memory;

	memset(memory, 0, sizeof(Memory));
	for (Set &set : t->sets)
		SpinLockInit(&set.lock);
}

void
attach(void *memory)
{
	table = (Memory *) memory;
}

bool
is_same(const MarkKey *a, const MarkKey *b)
{
	return a->log_id == b->log_id && a->priority == b->priority && a->index == b->index && a->tables == b->tables;
}

Set *
set_of(const MarkKey *key)
{
	const uint32 id = hash_combine(murmurhash32((uint32) key->log_id), (uint32) (key->log_id >> 32));
	const uint32 hash = murmurhash32(id + (uint32) key->priority * 4 + (uint32) key->index);

	return &table->sets[hash_combine(hash, hash_combine(key->tables, MyDatabaseId)) % set_count];
}

/* Under the set's lock. */
Place *
place_of(Set *set, const MarkKey *key)
{
	for (Place &place : set->places)
		if (place.database == MyDatabaseId && is_same(&place.key, key))
			return &place;
	return nullptr;
}

/* The key's place, be it another's so far. Under the set's lock. */
Place *
get_place(Set *set, const MarkKey *key)
{
	Place *place = place_of(set, key);

	if (place != nullptr)
		return place;
	for (Place &free : set->places)
		if (free.database == InvalidOid)
			place = &free;
	if (place == nullptr)
		place = &set->places[set->victim++ % ways];
	place->database = MyDatabaseId;
	place->key = *key;
	place->passed = nothing_passed;
	core::mark_begin(place->mark, table->births.fetch_add(1, std::memory_order_relaxed) + 1);
	return place;
}

void
tell(const MarkKey *key, int64 at)
{
	Set *set;
	Place *place;

	if (table == nullptr || at == core::mark_nothing)
		return;
	set = set_of(key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, key);
	if (place != nullptr)
		core::mark_tell(place->mark, at);
	SpinLockRelease(&set->lock);
}

/* Marks of a database, or of one incarnation of its tables, are forgotten. */
void
forget(Oid database, Oid tables)
{
	for (uint32 i = 0; table != nullptr && i < set_count; i++)
	{
		SpinLockAcquire(&table->sets[i].lock);
		for (Place &place : table->sets[i].places)
			if (place.database == database && (tables == InvalidOid || place.key.tables == tables))
				place = {};
		SpinLockRelease(&table->sets[i].lock);
	}
}

void
forget_database(Oid database)
{
	forget(database, InvalidOid);
}

/* Marks before waiters: who is woken begins at them. */
void
play(const Note *note, bool committed)
{
	if (committed)
		tell(&note->key, note->inserted);
	else
		tell(&note->key, note->taken);
	if (note->queue_id != 0 && gates_bucket_waiters())
	{
		const uint32 ready = committed ? note->ready : note->back;

		if (ready > 0)
			gates_tell(gate_key(News::queue, note->key.tables, note->queue_id), ready);
	}
}

void
tell_of_overrun()
{
	if (overrun == InvalidOid)
		return;
	forget(MyDatabaseId, overrun);
	gates_tell_everybody();
}

void
ended(bool committed)
{
	for (uint32 i = 0; i < notes.count; i++)
		play(&notes.items[i], committed);
	tell_of_overrun();
	overrun = InvalidOid;
	merge_at = kept_notes;
	kept_array_clear(&notes);
}

void
sub_aborted(SubTransactionId self)
{
	while (const Note *note = kept_array_take(&notes, self))
		play(note, false);
	/* what is not noted may be of this one */
	tell_of_overrun();
}

/* Where what was passed by is remembered. */
MarkKey
queue_key(Oid tables, int64 log_id)
{
	return {tables, log_id, 0, MarkedIndex::none};
}

bool
is_of_queue(const PassedBy *by, const MarkKey *queue)
{
	return by->key.tables == queue->tables && by->key.log_id == queue->log_id;
}

void
note_passed(Passed *passed, const PassedBy *by)
{
	if (by->enqueued_at < passed->by.enqueued_at)
		passed->by = *by;
	passed->times++;
}

/* The least key that this transaction has inserted. */
int64
least_own(const MarkKey *key)
{
	int64 least = core::mark_nothing;

	for (uint32 i = 0; i < notes.count; i++)
		if (is_same(&notes.items[i].key, key))
			least = Min(least, notes.items[i].inserted);
	return least;
}

int
compare_notes(const void *a, const void *b)
{
	const MarkKey *left = &((const Note *) a)->key;
	const MarkKey *right = &((const Note *) b)->key;

	if (left->log_id != right->log_id)
		return left->log_id < right->log_id ? -1 : 1;
	if (left->priority != right->priority)
		return left->priority - right->priority;
	if (left->index != right->index)
		return (int) left->index - (int) right->index;
	return left->tables < right->tables ? -1 : left->tables > right->tables;
}

/*
 * A savepoint that is released leaves its notes to its parent, which may have the same. Those of one sub-transaction are merged, key by key; they
 * stand together.
 */
void
merge_notes()
{
	uint32 kept = 0;
	uint32 end;

	for (uint32 first = 0; first < notes.count; first = end)
	{
		const uint32 kept_first = kept;

		for (end = first + 1; end < notes.count && notes.items[end].sub == notes.items[first].sub; end++)
			;
		qsort(&notes.items[first], end - first, sizeof(Note), compare_notes);
		for (uint32 i = first; i < end; i++)
		{
			const Note note = notes.items[i];
			Note *same = kept > kept_first ? &notes.items[kept - 1] : nullptr;

			if (same == nullptr || !is_same(&same->key, &note.key))
			{
				notes.items[kept++] = note;
				continue;
			}
			/* the cleaner notes no queue */
			if (same->queue_id == 0)
				same->queue_id = note.queue_id;
			same->inserted = Min(same->inserted, note.inserted);
			same->taken = Min(same->taken, note.taken);
			same->ready += note.ready;
			same->back += note.back;
		}
	}
	notes.count = kept;
}

/* The note of a key, made when it is new; null where there would be too many. */
Note *
note_of(const MarkKey *key, int64 queue_id)
{
	constexpr uint32 look_back = 16;
	const SubTransactionId sub = GetCurrentSubTransactionId();

	for (uint32 i = notes.count; i > 0 && i + look_back > notes.count; i--)
		if (notes.items[i - 1].sub == sub && is_same(&notes.items[i - 1].key, key))
			return &notes.items[i - 1];
	if (notes.count >= merge_at && overrun == InvalidOid)
	{
		merge_notes();
		merge_at = Min(Max(notes.count * 2, kept_notes), most_notes);
		if (notes.count > most_notes / 4 * 3)
			overrun = key->tables;
	}
	/* all is forgotten, and everybody told, in the end */
	if (notes.count >= merge_at)
		return nullptr;
	kept_array_reserve(&notes, 1);
	notes.items[notes.count] = {*key, sub, queue_id, core::mark_nothing, core::mark_nothing, 0, 0};
	return &notes.items[notes.count++];
}

} // namespace

const TransactionParticipant claim_marks_participant = {
	nullptr, nullptr, ended, nullptr, kept_array_sub_committed<notes>, sub_aborted};

void
claim_marks_init()
{
	static constinit const SharedPart part = {"queen claim marks", sizeof(Memory), lay_out, attach, forget_database};

	shared_memory_join(&part);
}

void
marked_scan_begin(MarkedScan *scan, const MarkKey *key)
{
	*scan = {};
	scan->key = *key;
	scan->began = GetCurrentTimestamp();
	scan->from = core::mark_bottom;
	scan->marked = table != nullptr && overrun == InvalidOid;
	if (!scan->marked)
		return;

	Set *set = set_of(key);

	SpinLockAcquire(&set->lock);
	scan->ticket = core::mark_ticket(get_place(set, key)->mark, scan->began);
	SpinLockRelease(&set->lock);
	scan->from = Min(scan->ticket.from, least_own(key));
}

int64
marked_scan_peek(const MarkKey *key)
{
	const TimestampTz now = GetCurrentTimestamp();
	int64 from = core::mark_bottom;
	const Place *place;
	Set *set;

	if (table == nullptr || overrun != InvalidOid)
		return from;
	set = set_of(key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, key);
	if (place != nullptr)
		from = core::mark_peek(place->mark, now);
	SpinLockRelease(&set->lock);
	return Min(from, least_own(key));
}

int64
claim_mark(const MarkKey *key)
{
	int64 mark = core::mark_bottom;
	const Place *place;
	Set *set;

	if (table == nullptr)
		return mark;
	set = set_of(key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, key);
	if (place != nullptr)
		mark = place->mark.mark;
	SpinLockRelease(&set->lock);
	return mark;
}

void
marked_scan_end(const MarkedScan *scan, int64 left)
{
	TimestampTz now;
	Place *place;
	Set *set;

	if (!scan->marked)
		return;
	now = GetCurrentTimestamp();
	set = set_of(&scan->key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, &scan->key);
	if (place != nullptr)
		core::mark_raise(place->mark, scan->ticket, left, now,
						 (scan->reached != 0 ? scan->reached : now) - scan->began);
	SpinLockRelease(&set->lock);
}

bool
passed_by_due(Oid tables, int64 log_id, PassedBy *due)
{
	const MarkKey key = queue_key(tables, log_id);
	Passed *passed = table == nullptr && is_of_queue(&passed_here.by, &key) ? &passed_here : nullptr;
	Set *set = table != nullptr ? set_of(&key) : nullptr;
	bool is_due;

	if (set != nullptr)
	{
		Place *place;

		SpinLockAcquire(&set->lock);
		place = place_of(set, &key);
		passed = place != nullptr ? &place->passed : nullptr;
	}
	is_due = passed != nullptr && passed->times >= most_passes;
	if (is_due)
	{
		*due = passed->by;
		*passed = nothing_passed;
	}
	if (set != nullptr)
		SpinLockRelease(&set->lock);
	return is_due;
}

void
passed_by_note(const PassedBy *by)
{
	const MarkKey key = queue_key(by->key.tables, by->key.log_id);

	if (table == nullptr)
	{
		if (!is_of_queue(&passed_here.by, &key))
			passed_here = nothing_passed;
		note_passed(&passed_here, by);
	}
	else
	{
		Set *set = set_of(&key);

		SpinLockAcquire(&set->lock);
		note_passed(&get_place(set, &key)->passed, by);
		SpinLockRelease(&set->lock);
	}
}

void
claim_note_inserted(const MarkKey *key, int64 at, int64 queue_id, uint32 count)
{
	Note *note = note_of(key, queue_id);

	if (note == nullptr)
		return;
	note->inserted = Min(note->inserted, at);
	note->ready += count;
}

void
claim_note_taken(const MarkKey *key, int64 at, int64 queue_id)
{
	Note *note = note_of(key, queue_id);

	if (note == nullptr)
		return;
	note->taken = Min(note->taken, at);
	note->back++;
}

void
claim_note_all(Oid tables)
{
	overrun = tables;
}

} // namespace queen
