/*
 * aborted.h: deliveries whose transaction rolled back. The cursor's row cannot tell of them, so shared memory does, until the next
 * claim has written them there and committed.
 *
 * Of fixed size, preloaded only, empty after a crash of the server. Only what has rolled back has a place. It may be given to another that has
 * rolled back as often at least, but not while a transaction holds a delivery; of a work queue's messages a transaction brings in the
 * first 1,000. What has no place is not counted, which costs one delivery more than may be; the view pg_stat_queen_aborted says how
 * often that was.
 */
#ifndef QUEEN_LOG_ABORTED_H
#define QUEEN_LOG_ABORTED_H

#include "log/cursors.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

extern const TransactionParticipant aborted_participant;

void aborted_init();

/*
 * Add what aborted to a cursor that was read, for its head, the first message that is not completed. Returns how many deliveries of
 * the head that were. own: this transaction wrote the cursor, and what it has added before is not added again. The caller holds no
 * lock yet: what is counted after this look is for the next claim.
 */
int32 aborted_add(Oid tables, int64 partition_id, int64 group_id, int64 head, bool own, Cursor *cursor);

/*
 * Has this transaction's last claim of the cursor buried a message by what is counted here? What it delivered behind that would take the
 * burial along if it fails, time and again, and nothing would end.
 */
bool aborted_buried(Oid tables, int64 partition_id, int64 group_id);

/*
 * This transaction has written into the cursor what aborted_add returned. delivered_to: the last message that it delivered from head
 * on, which counts as delivered if it rolls back, or below head when it delivered nothing. Raises for memory only.
 */
void aborted_note(Oid tables, int64 partition_id, int64 group_id, int64 head, int64 delivered_to, int32 written);

/*
 * The same of a work queue's message, whose row has no head and no batch. aborted_message: deliveries that rolled back and that its row does not
 * say. aborted_message_note: this transaction has written them there, and has delivered the message once more, or has buried it.
 * aborted_message_buried: has this transaction buried one for what is counted here only?
 */
int32 aborted_message(Oid tables, int64 log_id, int64 order, bool own);
void aborted_message_note(Oid tables, int64 log_id, int64 order, bool delivered, int32 written);
bool aborted_message_buried();

/* What fails now is queen's fault, and no message's: what this transaction, or its savepoint, has delivered is not counted as that. */
void aborted_excuse();

/* Forget what is counted: the cursor was moved, and begins anew. */
void aborted_forget(Oid tables, int64 partition_id, int64 group_id);

} // namespace queen

#endif
