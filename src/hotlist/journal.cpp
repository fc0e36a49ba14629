/*
 * journal.cpp: check-outs and news of this transaction. See journal.h and README.md.
 *
 * Adding a note raises when memory is short. The participant's functions never raise, allocate or read a catalog; they take LWLocks of
 * the pool, for a bounded number of steps each. Runs in every process that runs transactions.
 */
#include "hotlist/journal.h"

#include "server/kept_array.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

enum class Kind : uint8
{
	nothing, /* settled, or folded into a later note */
	held,	 /* checked out by a call that has not ended */
	at_end,	 /* checked out, its outcome waits for the commit */
	acknowledged,
	pending,
	touched,
	owe_group,
	owe_queue,
	owe_all,
	forget_group,
	forget_queue,
	tell_all,
	tell_event,
	tell_everybody,
};

struct Note
{
	Kind kind;
	SubTransactionId sub;
	hot::RingKey key;
	hot::RingRef ring;
	hot::Taken taken; /* of all but what concerns whole rings: at least the partition */
	uint64 gate;	  /* of what is told */
	hot::Outcome outcome;
};

/* From here on little is noted (README.md); some more are rings that owe. */
constexpr uint32 many_notes = 10000;
constexpr uint32 most_notes = many_notes + 1000;
constexpr uint32 kept_notes = 256; /* room that stays between transactions */

constinit KeptArray<Note, kept_notes> notes = {};
constinit uint32 compact_at = kept_notes;
constinit bool changed = false;

/* Drop what is settled; no number of a note may be held. */
void
compact()
{
	uint32 left = 0;

	for (uint32 i = 0; i < notes.count; i++)
		if (notes.items[i].kind != Kind::nothing)
			notes.items[left++] = notes.items[i];
	notes.count = left;
	compact_at = Max(kept_notes, left * 2);
}

Note *
add(Kind kind, const hot::RingKey &key)
{
	Note *note;

	kept_array_reserve(&notes, 1);
	note = &notes.items[notes.count++];
	*note = {};
	note->kind = kind;
	note->sub = GetCurrentSubTransactionId();
	note->key = key;
	return note;
}

/* What cannot be noted one by one: rings that owe, and beyond some of them all of the tables'. */
void
owe(Kind kind, const hot::RingKey &key)
{
	constexpr uint32 look_back = 16;

	if (notes.count >= most_notes)
		kind = Kind::owe_all;
	for (uint32 i = 0; i < look_back && i < notes.count; i++)
	{
		const Note *note = &notes.items[notes.count - 1 - i];

		if (note->kind == kind && note->sub == GetCurrentSubTransactionId() &&
			(note->key == key || (kind == Kind::owe_all && note->key.queue.tables == key.queue.tables)))
			return;
	}
	(void) add(kind, key);
}

/* A tell of the same key by the same sub-transaction is one. */
void
tell(Kind kind, uint64 gate)
{
	if (notes.count > 0 && notes.items[notes.count - 1].kind == kind && notes.items[notes.count - 1].gate == gate &&
		notes.items[notes.count - 1].sub == GetCurrentSubTransactionId())
		return;
	if (notes.count >= many_notes)
		owe(Kind::tell_everybody, {});
	else
		add(kind, {})->gate = gate;
}

void
note_partition(Kind kind, const hot::RingKey &key, int64 partition_id, uint64 lease_number = 0)
{
	if (notes.count >= many_notes && kind == Kind::pending)
		owe(Kind::owe_group, key);
	else if (notes.count < many_notes)
	{
		Note *note = add(kind, key);

		note->taken.partition_id = partition_id;
		note->outcome.lease_number = lease_number;
	}
}

/* Is there anybody to tell? */
bool
told()
{
	return hotlist_there() || gates_there();
}

/* Who waits without a ring for what the note is about. */
void
tell_gates(const Note *note)
{
	const Oid tables = note->key.queue.tables;
	const int64 queue_id = note->key.queue.queue_id;

	switch (note->kind)
	{
		case Kind::tell_event:
			gates_tell_event(note->gate);
			break;
		case Kind::tell_all:
			gates_tell_all(note->gate);
			break;
		case Kind::owe_queue:
			if (gates_bucket_waiters())
				gates_tell_all(gate_key(News::queue, tables, queue_id));
			gates_tell_event(gate_key(News::queue_event, tables, queue_id));
			break;
		case Kind::owe_all:
		case Kind::tell_everybody:
			gates_tell_everybody();
			break;
		case Kind::at_end:
		case Kind::acknowledged:
		case Kind::pending:
		case Kind::touched:
			if (!gates_bucket_waiters())
				break;
			gates_tell(gate_key(News::partition, tables, queue_id, note->taken.partition_id), 1);
			gates_tell(gate_key(News::queue, tables, queue_id), 1);
			break;
		case Kind::owe_group:
			if (gates_bucket_waiters())
				gates_tell_all(gate_key(News::queue, tables, queue_id));
			break;
		case Kind::forget_group:
		case Kind::forget_queue:
			/* who was told of the event before may have made a ring that went with the others */
			gates_tell_event(gate_key(News::queue_event, tables, queue_id));
			break;
		default:
			break;
	}
}

void
give_back(const Note *note)
{
	hot::Outcome rolled_back;

	rolled_back.reached = true;
	(void) hot::check_in(hotlist(), note->ring, note->taken, rolled_back, hotlist_now(), hotlist_listener());
}

void
play_committed(const Note *note, hot::Micros now)
{
	const hot::Hotlist &list = hotlist();
	const hot::Listener &listener = hotlist_listener();
	const int64 partition_id = note->taken.partition_id;

	switch (note->kind)
	{
		case Kind::nothing:
			break;
		case Kind::held:
			give_back(note);
			break;
		case Kind::at_end:
			(void) hot::check_in(list, note->ring, note->taken, note->outcome, now, listener);
			break;
		case Kind::acknowledged:
			hot::promote(list, note->key, partition_id, note->outcome.lease_number, now, listener);
			break;
		case Kind::pending:
			(void) hot::mark_ring(list, note->key, partition_id, now, listener);
			break;
		case Kind::touched:
			hot::unpark(list, note->key, partition_id, now, listener);
			break;
		case Kind::owe_group:
			hot::owe_ring(list, note->key, listener);
			break;
		case Kind::owe_queue:
			hot::owe_queue(list, note->key.queue, listener);
			break;
		case Kind::owe_all:
			hot::owe_tables(list, note->key.queue.database, note->key.queue.tables, listener);
			break;
		case Kind::forget_group:
			hot::forget_ring(list, note->key);
			break;
		case Kind::forget_queue:
			hot::forget_queue(list, note->key.queue);
			break;
		case Kind::tell_all:
		case Kind::tell_event:
		case Kind::tell_everybody:
			break;
	}
}

void
play_aborted(const Note *note, hot::Micros now)
{
	switch (note->kind)
	{
		case Kind::held:
		case Kind::at_end:
			give_back(note);
			break;
		case Kind::acknowledged:
		case Kind::pending:
		case Kind::touched:
			hot::unpark(hotlist(), note->key, note->taken.partition_id, now, hotlist_listener());
			break;
		default:
			break;
	}
}

/* Also what a transaction did in vain is told: who looked meanwhile may have met it. */
void
play(const Note *note, bool committed, hot::Micros now)
{
	if (hotlist_there() && committed)
		play_committed(note, now);
	else if (hotlist_there())
		play_aborted(note, now);
	tell_gates(note);
}

void
ended(bool committed)
{
	const hot::Micros now = notes.count > 0 ? hotlist_now() : 0;

	for (uint32 i = 0; i < notes.count; i++)
		play(&notes.items[i], committed, now);
	if (notes.count > 0)
		gates_parked();
	compact_at = kept_notes;
	changed = false;
	kept_array_clear(&notes);
}

void
sub_aborted(SubTransactionId self)
{
	const hot::Micros now = notes.count > 0 ? hotlist_now() : 0;

	while (const Note *note = kept_array_take(&notes, self))
		play(note, false, now);
}

} // namespace

const TransactionParticipant journal_participant = {
	nullptr, nullptr, ended, nullptr, kept_array_sub_committed<notes>, sub_aborted};

uint32
journal_take(const ServedRing *served, uint32 most, uint64 want, NoteNumber *numbers)
{
	hot::Taken taken[hotlist_most_taken];
	const SubTransactionId sub = GetCurrentSubTransactionId();
	uint32 got;

	kept_array_reserve(&notes, most);
	/* from here to the notes nothing raises */
	got = hot::take(hotlist(), served->ring, most, want, hotlist_now(), hotlist_owner(), taken, hotlist_listener());
	for (uint32 i = 0; i < got; i++)
	{
		Note *note = &notes.items[notes.count];

		*note = {};
		note->kind = Kind::held;
		note->sub = sub;
		note->key = served->key;
		note->ring = served->ring;
		note->taken = taken[i];
		numbers[i] = notes.count++;
	}
	return got;
}

NoteNumber
journal_begin_call()
{
	if (notes.count >= compact_at)
		compact();
	return notes.count;
}

int64
journal_partition(NoteNumber number)
{
	return notes.items[number].taken.partition_id;
}

void
journal_settle(NoteNumber number, const hot::Outcome &outcome)
{
	Note *note = &notes.items[number];

	note->kind = Kind::nothing;
	(void) hot::check_in(hotlist(), note->ring, note->taken, outcome, hotlist_now(), hotlist_listener());
	gates_parked();
}

void
journal_settle_at_end(NoteNumber number, const hot::Outcome &outcome)
{
	const Note held = notes.items[number];
	Note *note;

	if (notes.count >= many_notes)
	{
		hot::Outcome locked;

		locked.verdict = core::Verdict::locked;
		journal_settle(number, locked);
		return;
	}
	/* the last place, behind the acknowledgements that came before it */
	note = add(Kind::at_end, held.key);
	note->ring = held.ring;
	note->taken = held.taken;
	note->outcome = outcome;
	notes.items[number].kind = Kind::nothing;
}

bool
journal_next_own(const ServedRing *served, NoteNumber *number)
{
	for (; *number < notes.count; (*number)++)
		if (notes.items[*number].kind == Kind::at_end && notes.items[*number].ring.id == served->ring.id)
			return true;
	return false;
}

void
journal_acknowledged(Oid tables, int64 queue_id, int64 group_id, int64 partition_id, uint64 number)
{
	if (told())
		note_partition(Kind::acknowledged, hotlist_ring_key(tables, queue_id, group_id), partition_id, number);
}

void
journal_pending(Oid tables, int64 queue_id, int64 group_id, int64 partition_id)
{
	if (told())
		note_partition(Kind::pending, hotlist_ring_key(tables, queue_id, group_id), partition_id);
}

void
journal_touched(Oid tables, int64 queue_id, int64 group_id, int64 partition_id)
{
	if (told())
		note_partition(Kind::touched, hotlist_ring_key(tables, queue_id, group_id), partition_id);
}

void
journal_owe_queue(Oid tables, int64 queue_id)
{
	if (told())
		owe(Kind::owe_queue, hotlist_ring_key(tables, queue_id, 0));
}

void
journal_owe_all(Oid tables)
{
	if (told())
		owe(Kind::owe_all, hotlist_ring_key(tables, 0, 0));
}

void
journal_forget_group(Oid tables, int64 queue_id, int64 group_id)
{
	if (told())
		(void) add(Kind::forget_group, hotlist_ring_key(tables, queue_id, group_id));
}

void
journal_forget_queue(Oid tables, int64 queue_id)
{
	if (told())
		(void) add(Kind::forget_queue, hotlist_ring_key(tables, queue_id, 0));
}

void
journal_tell_all(uint64 work)
{
	if (gates_there())
		tell(Kind::tell_all, work);
}

void
journal_tell_event(uint64 event)
{
	if (gates_there())
		tell(Kind::tell_event, event);
}

void
journal_changes()
{
	changed = true;
}

bool
journal_has_changed()
{
	return changed;
}

} // namespace queen
