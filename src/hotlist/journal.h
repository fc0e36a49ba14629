/*
 * journal.h: what this transaction has checked out of the hot-list, and what it has to tell the pool when it ends. README.md has
 * the table of what is told when.
 *
 * All of it does nothing without a pool. What adds a note may raise for memory, before anything happened.
 */
#ifndef QUEEN_HOTLIST_JOURNAL_H
#define QUEEN_HOTLIST_JOURNAL_H

#include "hotlist/gates.h"
#include "hotlist/pool.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

extern const TransactionParticipant journal_participant;

/* A ring that a pop serves from. */
struct ServedRing
{
	core::hotlist::RingKey key;
	core::hotlist::RingRef ring;
};

/* A note's number, good until the transaction's or its savepoint's end. */
using NoteNumber = uint32;

/*
 * Check candidates out of a ring, at most `most`, for want messages, and note them as held: numbers receives the notes. Held ones must be
 * settled before the call ends; an error gives them back.
 */
uint32 journal_take(const ServedRing *served, uint32 most, uint64 want, NoteNumber *numbers);

/* A call begins that will take candidates; no number of a note is held. Returns the number of the first note to come. */
NoteNumber journal_begin_call();

/* The partition of a note. */
int64 journal_partition(NoteNumber number);

/* Give a held candidate back now. */
void journal_settle(NoteNumber number, const core::hotlist::Outcome &outcome);

/* Give it back when the transaction ends: with this outcome at its commit, as rolled back otherwise. */
void journal_settle_at_end(NoteNumber number, const core::hotlist::Outcome &outcome);

/*
 * The next candidate of the ring that this transaction will give back at its end, from *number on; false when there is none. What
 * has come of it since is told by journal_settle_at_end again.
 */
bool journal_next_own(const ServedRing *served, NoteNumber *number);

/* At the commit: a lease was acknowledged whole, number says which. Otherwise whoever met its row looks again. */
void journal_acknowledged(Oid tables, int64 queue_id, int64 group_id, int64 partition_id, uint64 number);

/* At the commit: a partition is pending again for the group. Otherwise as above. */
void journal_pending(Oid tables, int64 queue_id, int64 group_id, int64 partition_id);

/* This transaction has held a cursor's row: at its end whoever met it looks again. */
void journal_touched(Oid tables, int64 queue_id, int64 group_id, int64 partition_id);

/* At the commit: these rings owe a walk, or are forgotten. */
void journal_owe_queue(Oid tables, int64 queue_id);
void journal_owe_all(Oid tables);
void journal_forget_group(Oid tables, int64 queue_id, int64 group_id);
void journal_forget_queue(Oid tables, int64 queue_id);

/*
 * At its end, however that is, those are told who wait for news of a key (gates.h): of work, or of events. What runs into the limits of the journal
 * tells everybody.
 */
void journal_tell_all(uint64 work);
void journal_tell_event(uint64 event);

/* This transaction changes queues or groups: no claim of it proves that a partition is idle. */
void journal_changes();
bool journal_has_changed();

} // namespace queen

#endif
