/*
 * aborted.cpp: deliveries whose transaction rolled back. See aborted.h.
 *
 * Raises for memory only, and not in the participant. Locks: a spinlock for a set of places, for some steps. Laid out in the postmaster; runs in
 * backends.
 */
#include "log/aborted.h"

#include <atomic>

#include "server/errors.h"
#include "server/kept_array.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

struct Key
{
	Oid database;
	Oid tables;
	int64 partition_id;
	int64 group_id;
};

struct Place
{
	Key key; /* database 0: free */
	int64 head;
	int64 delivered_to; /* messages behind head, up to here, were delivered once more than the cursor says */
	int32 aborted;		/* deliveries of head */
	uint16 reserved;	/* deliveries that a transaction holds: the place is not given to another meanwhile */
};

constexpr uint32 ways = 8;
struct Set
{
	slock_t lock;
	uint8 victim;
	Place places[ways];
};

/* 8,192 places in some 500 kB */
constexpr uint32 set_count = 1024;

struct Memory
{
	std::atomic<uint64> evicted;
	std::atomic<uint64> lost;
	Set sets[set_count];
};

constinit Memory *table = nullptr;

/* A delivery of this transaction. */
struct Note
{
	Key key;
	SubTransactionId sub;
	int64 head;
	int64 delivered_to; /* below head: none */
	int32 counted;		/* of head so far, here */
	int32 written;		/* of these into the cursor, by this claim */
	bool reserved;
	bool spare; /* it takes no place if it rolls back */
};

/* Messages of work queues that a transaction which rolls back brings into the table. A batch that is larger must not take it from everybody. */
constexpr uint32 most_messages = 1000;

constexpr uint32 kept_notes = 64;
constinit KeptArray<Note, kept_notes> notes = {};
constinit bool excused = false;	   /* what is rolled back is no message's fault */
constinit uint32 burials = 0;	   /* among the notes */
constinit uint32 new_messages = 0; /* the same: of work queues, with nothing counted, and not spare */

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
is_same(const Key *a, const Key *b)
{
	return a->partition_id == b->partition_id && a->group_id == b->group_id && a->tables == b->tables &&
		   a->database == b->database;
}

Set *
set_of(const Key *key)
{
	const uint32 hash = hash_combine(murmurhash32((uint32) key->partition_id), murmurhash32((uint32) key->group_id));

	return &table->sets[hash_combine(hash, hash_combine(key->tables, key->database)) % set_count];
}

/* Under the set's lock. */
Place *
place_of(Set *set, const Key *key)
{
	for (Place &place : set->places)
		if (place.key.database != InvalidOid && is_same(&place.key, key))
			return &place;
	return nullptr;
}

/* A place for a key that has none, for so many deliveries: never that of a key with more. Null when there is none. Under the set's lock. */
Place *
take_place(Set *set, const Key *key, int32 aborted)
{
	Place *place = nullptr;

	for (Place &free : set->places)
		if (free.key.database == InvalidOid)
			place = &free;
	/* what is of no use any more, its message having expired say, is never taken back by anybody: so it goes in turn */
	if (place == nullptr)
	{
		for (uint32 i = 0; i < ways; i++)
		{
			Place *other = &set->places[(set->victim + i) % ways];

			if (other->reserved == 0 && other->aborted <= aborted &&
				(place == nullptr || other->aborted < place->aborted))
				place = other;
		}
		if (place == nullptr)
			return nullptr;
		set->victim = (uint8) (place - set->places + 1);
		table->evicted.fetch_add(1, std::memory_order_relaxed);
	}
	*place = {};
	place->key = *key;
	return place;
}

void
give_up_place(Place *place, const Note *note)
{
	if (note->reserved && place->reserved > 0)
		place->reserved--;
	if (place->reserved == 0 && place->aborted == 0)
		*place = {};
}

/* Groups have no negative ids. */
bool
is_of_message(const Key *key)
{
	return key->group_id < 0;
}

bool
is_burial(const Note *note)
{
	return note->delivered_to < note->head;
}

bool
is_new_message(const Note *note)
{
	return is_of_message(&note->key) && !note->reserved && !note->spare;
}

/* A delivery back to its head: notes are rolled back the newest first, so that the place ends at the head of the oldest. */
void
roll_back(const Note *note)
{
	const bool delivered = !is_burial(note) && !excused;
	const int32 aborted = note->counted < PG_INT32_MAX ? note->counted + delivered : PG_INT32_MAX;
	Set *set = set_of(&note->key);
	Place *place;

	if (note->spare)
	{
		table->lost.fetch_add(1, std::memory_order_relaxed);
		return;
	}
	SpinLockAcquire(&set->lock);
	place = place_of(set, &note->key);
	if (place == nullptr && aborted > 0)
		place = take_place(set, &note->key, aborted);
	if (place != nullptr)
	{
		/* a savepoint behind it may have counted another head, a seek forgotten this one */
		if (place->head != note->head || place->aborted < note->counted)
			place->aborted = note->counted;
		place->head = note->head;
		if (delivered && place->aborted < PG_INT32_MAX)
			place->aborted++;
		if (delivered)
			place->delivered_to = Max(place->delivered_to, note->delivered_to);
		give_up_place(place, note);
	}
	SpinLockRelease(&set->lock);
	if (delivered && place == nullptr)
		table->lost.fetch_add(1, std::memory_order_relaxed);
}

/* The cursor's row says it now. */
void
settle(const Note *note)
{
	Set *set = set_of(&note->key);
	Place *place;

	if (!note->reserved)
		return;
	SpinLockAcquire(&set->lock);
	place = place_of(set, &note->key);
	if (place != nullptr)
	{
		if (place->head == note->head)
			place->aborted = Max(place->aborted - note->written, 0);
		give_up_place(place, note);
	}
	SpinLockRelease(&set->lock);
}

void
ended(bool committed)
{
	while (notes.count > 0)
	{
		const Note *note = &notes.items[--notes.count];

		if (committed)
			settle(note);
		else
			roll_back(note);
	}
	burials = 0;
	new_messages = 0;
	excused = false;
	kept_array_clear(&notes);
}

void
sub_aborted(SubTransactionId self)
{
	while (const Note *note = kept_array_take(&notes, self))
	{
		burials -= is_burial(note);
		new_messages -= is_new_message(note);
		roll_back(note);
	}
	excused = false;
}

void
forget_database(Oid database)
{
	for (uint32 i = 0; table != nullptr && i < set_count; i++)
	{
		SpinLockAcquire(&table->sets[i].lock);
		for (Place &place : table->sets[i].places)
			if (place.key.database == database)
				place = {};
		SpinLockRelease(&table->sets[i].lock);
	}
}

/* This transaction's last claim of the cursor, or null. */
const Note *
last_note(const Key *key)
{
	for (uint32 i = notes.count; i > 0; i--)
		if (is_same(&notes.items[i - 1].key, key))
			return &notes.items[i - 1];
	return nullptr;
}

Key
key_of(Oid tables, int64 partition_id, int64 group_id)
{
	return {MyDatabaseId, tables, partition_id, group_id};
}

} // namespace

const TransactionParticipant aborted_participant = {
	nullptr, nullptr, ended, nullptr, kept_array_sub_committed<notes>, sub_aborted};

void
aborted_init()
{
	static constinit const SharedPart part = {"queen aborted deliveries", sizeof(Memory), lay_out, attach,
											  forget_database};

	shared_memory_join(&part);
}

/* Deliveries of a head that rolled back, but for those that this transaction's last claim of it (own) has written into the row. */
static int32
count_aborted(const Key *key, int64 head, bool own, int64 *delivered_to)
{
	const Note *last;
	const Place *place;
	int32 aborted = 0;
	Set *set;

	if (table == nullptr)
		return 0;
	set = set_of(key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, key);
	if (place != nullptr && place->head == head)
	{
		aborted = place->aborted;
		*delivered_to = place->delivered_to;
	}
	SpinLockRelease(&set->lock);
	last = own && aborted > 0 ? last_note(key) : nullptr;
	if (last != nullptr && last->head == head)
		aborted = Max(aborted - last->counted, 0);
	return aborted;
}

int32
aborted_add(Oid tables, int64 partition_id, int64 group_id, int64 head, bool own, Cursor *cursor)
{
	const Key key = key_of(tables, partition_id, group_id);
	const int32 deliveries = cursor_deliveries(cursor, head);
	int64 delivered_to = -1;
	const int32 aborted = count_aborted(&key, head, own, &delivered_to);

	if (aborted > 0)
	{
		cursor->delivered_to = Max(cursor->delivered_to, delivered_to);
		cursor->attempt_offset = head;
		if (pg_add_s32_overflow(deliveries, aborted, &cursor->attempts))
			cursor->attempts = PG_INT32_MAX;
	}
	return aborted;
}

bool
aborted_buried(Oid tables, int64 partition_id, int64 group_id)
{
	const Key key = key_of(tables, partition_id, group_id);
	const Note *last = burials > 0 ? last_note(&key) : nullptr;

	return last != nullptr && is_burial(last);
}

static void
note_delivery(const Key &key, int64 head, int64 delivered_to, int32 written)
{
	Note note = {key, GetCurrentSubTransactionId(), head, delivered_to, written, written, false, false};
	Set *set;
	Place *place;

	if (table == nullptr)
		return;
	kept_array_reserve(&notes, 1);
	set = set_of(&key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, &key);
	note.reserved = place != nullptr && place->reserved < PG_UINT16_MAX;
	if (note.reserved)
		place->reserved++;
	if (place != nullptr && place->head == head)
		note.counted = Max(note.counted, place->aborted);
	SpinLockRelease(&set->lock);
	note.spare = is_new_message(&note) && new_messages == most_messages;
	new_messages += is_new_message(&note);
	burials += is_burial(&note);
	notes.items[notes.count++] = note;
}

void
aborted_note(Oid tables, int64 partition_id, int64 group_id, int64 head, int64 delivered_to, int32 written)
{
	note_delivery(key_of(tables, partition_id, group_id), head, delivered_to, written);
}

static Key
key_of_message(Oid tables, int64 log_id, int64 order)
{
	return key_of(tables, order, -log_id);
}

int32
aborted_message(Oid tables, int64 log_id, int64 order, bool own)
{
	const Key key = key_of_message(tables, log_id, order);
	int64 delivered_to;

	return count_aborted(&key, 0, own, &delivered_to);
}

void
aborted_message_note(Oid tables, int64 log_id, int64 order, bool delivered, int32 written)
{
	note_delivery(key_of_message(tables, log_id, order), 0, delivered ? 0 : -1, written);
}

void
aborted_excuse()
{
	excused = true;
}

bool
aborted_message_buried()
{
	for (uint32 i = burials > 0 ? notes.count : 0; i > 0; i--)
		if (is_of_message(&notes.items[i - 1].key) && is_burial(&notes.items[i - 1]))
			return true;
	return false;
}

void
aborted_forget(Oid tables, int64 partition_id, int64 group_id)
{
	const Key key = key_of(tables, partition_id, group_id);
	Place *place;
	Set *set;

	if (table == nullptr)
		return;
	set = set_of(&key);
	SpinLockAcquire(&set->lock);
	place = place_of(set, &key);
	if (place != nullptr)
	{
		place->aborted = 0;
		if (place->reserved == 0)
			*place = {};
	}
	SpinLockRelease(&set->lock);
}

QUEEN_FUNCTION(queen_stat_aborted)

/* queen.stat_aborted() returns record; null without shared memory */
Datum
queen_stat_aborted(PG_FUNCTION_ARGS)
{
	Datum values[4];
	bool nulls[4] = {};
	TupleDesc desc;
	int64 used = 0;

	if (table == nullptr)
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	/* without locks: a glance */
	for (const Set &set : table->sets)
		for (const Place &place : set.places)
			used += place.key.database != InvalidOid;
	values[0] = Int64GetDatum((int64) set_count * ways);
	values[1] = Int64GetDatum(used);
	values[2] = Int64GetDatum((int64) table->evicted.load(std::memory_order_relaxed));
	values[3] = Int64GetDatum((int64) table->lost.load(std::memory_order_relaxed));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

} // namespace queen
