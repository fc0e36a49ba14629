/*
 * claim_marks.h: where scans for messages begin, and what a transaction tells about messages when it ends: marks are lowered, who waits is woken.
 *
 * Marks are in shared memory of fixed size, preloaded only; without, and for a key whose place was given to another, scans begin at the bottom. The
 * rule is core/low_mark.h's. The notes raise for memory only.
 */
#ifndef QUEEN_WORKQUEUE_CLAIM_MARKS_H
#define QUEEN_WORKQUEUE_CLAIM_MARKS_H

#include "core/low_mark.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

extern const TransactionParticipant claim_marks_participant;

/* Called once by _PG_init. */
void claim_marks_init();

/* An index whose scans have marks, and its keys. */
enum class MarkedIndex : uint8
{
	ready,	   /* enqueue_order of a queue's messages of one priority */
	in_flight, /* visible_at, the same */
	expiry,	   /* expires_at of all messages: log_id and priority are 0 */
	none,	   /* by message_id, which needs no mark */
};

struct MarkKey
{
	Oid tables; /* own_tables */
	int64 log_id;
	int16 priority;
	MarkedIndex index;
};

/* A scan that begins. */
struct MarkedScan
{
	MarkKey key;
	bool marked; /* there is a mark */
	core::MarkTicket ticket;
	int64 from; /* also below what this transaction has inserted, and others do not see yet */
	TimestampTz began;
};

/* Take a ticket: before the scan's snapshot. */
void marked_scan_begin(MarkedScan *scan, const MarkKey *key);

/* The scan has ended, and has left nothing below a key. Never raises. */
void marked_scan_end(const MarkedScan *scan, int64 left);

/* Where a scan would begin that takes nothing and raises nothing: below there may be what somebody is taking. Never raises. */
int64 claim_mark(const MarkKey *key);

/*
 * What has to come alone, and a call has passed by because it had taken something. Of a queue's the one that was enqueued first is remembered: one day
 * each is that. Best effort, as marks are; where not preloaded each session remembers for itself, of one queue.
 */
struct PassedBy
{
	MarkKey key;
	int64 at;				 /* its key in that index */
	TimestampTz enqueued_at; /* DT_NOEND: there is none */
};

inline constexpr PassedBy passed_none = {{}, 0, DT_NOEND};

/* Have so many calls passed something by that this one is to begin with it? Then it is forgotten. Never raises. */
bool passed_by_due(Oid tables, int64 log_id, PassedBy *due);

/* A call has passed it by. Never raises. */
void passed_by_note(const PassedBy *passed);

/*
 * This transaction has made a message appear under a key. count: so many that can be taken at once are told of at the commit to who waits at the queue.
 */
void claim_note_inserted(const MarkKey *key, int64 at, int64 queue_id, uint32 count);

/* This transaction has taken a message away from a key: if that is rolled back it can be found there again. */
void claim_note_taken(const MarkKey *key, int64 at, int64 queue_id);

/* At the commit marks are forgotten altogether: SQL has written the table. */
void claim_note_all(Oid tables);

} // namespace queen

#endif
