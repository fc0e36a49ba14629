/*
 * xact.h: the transaction's life as the folders see it.
 *
 * xact.cpp registers the only transaction callbacks of this library and calls the participants in a fixed order. What a
 * participant buffers for a transaction is kept in its own folder; this file only says when.
 */
#ifndef QUEEN_SERVER_XACT_H
#define QUEEN_SERVER_XACT_H

#include "server/pg.h"

namespace queen
{

/*
 * What a folder does at a transaction's events. A null member is skipped.
 *   flush           PRE_COMMIT: write what is buffered. May raise; the transaction then aborts.
 *   prepare         PRE_PREPARE: the same, or refuse. May raise.
 *   ended           COMMIT, ABORT or PREPARE: forget it. Never raises, allocates, waits or reads a catalog; must cope with
 *                   flush not having run.
 *   released        the same, behind the release of all locks. Never raises, allocates, waits or reads a catalog.
 *   sub_committed   a savepoint was released: what it buffered now belongs to parent. Never raises.
 *   sub_aborted     a savepoint was rolled back: drop what was buffered since. Never raises.
 */
struct TransactionParticipant
{
	void (*flush)();
	void (*prepare)();
	void (*ended)(bool committed);
	void (*released)();
	void (*sub_committed)(SubTransactionId self, SubTransactionId parent);
	void (*sub_aborted)(SubTransactionId self);
};

/* The participants, in the order in which they flush (design.md section 3). */
enum class TransactionStage : int
{
	log_push,
	log_cursors,
	hotlist,
	waiting,
	aborted,
	work_put,
	work_marks, /* behind aborted: who is woken finds what was counted */
	timer_news,
	timers_due,
	timer_counts,
	event_counts,
	workers,
	rollup, /* last: only its row locks are held through the fsync */
	count,
};

/* Called once by _PG_init: registers the callbacks. */
void transaction_init();

/* Called by _PG_init for each folder. */
void transaction_join(TransactionStage stage, const TransactionParticipant *participant);

/* This transaction did something of ours that cannot be prepared. Never raises. */
void transaction_touched();

/*
 * Has the flush of this transaction begun? From then on a change is written at once: nothing would flush it later
 * (another library's PRE_COMMIT callback may still push). Never raises.
 */
bool transaction_flushing();

} // namespace queen

#endif
