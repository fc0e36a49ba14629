/*
 * changes.h: which partitions have been pushed to, in shared memory: for who keeps state of them and refreshes what has changed.
 *
 * Of fixed size, preloaded only, empty after a crash of the server. A reader keeps its position, and takes a snapshot after it has read:
 * what was committed before is then in sight. What a prepared transaction has pushed is named when it is prepared and in sight later,
 * of which nobody tells: who finds something running in a partition has to look again.
 */
#ifndef QUEEN_LOG_CHANGES_H
#define QUEEN_LOG_CHANGES_H

#include "core/feed.h"
#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

/* Called once by _PG_init. */
void changes_init();

/* Is there such memory? Nothing below is called without. */
bool changes_are_shared();

/* Called when a transaction has ended: never raises or allocates, and holds a lock for a bounded number of steps at a time. */
void changes_append(const core::Change *changes, uint32 count);

/* Where a reader begins, before it looks at everything. */
uint64 changes_end();

/*
 * Up to room changes of this database's tables (see own_tables) from position on, which moves on. False: some are lost, position is at the
 * end, and everything is to be looked at. Fewer than room are not all that there are: it has read all when position is at the end.
 */
bool changes_read(Oid tables, uint64 *position, core::Change *out, uint32 room, uint32 *count);

/* Without memory: in how many microseconds to look at everything again. */
inline constexpr int64 changes_interval = 10 * USECS_PER_SEC;

/*
 * Show fn what comes behind a position, which moves on, some 64,000 changes at most; *lost becomes true when everything is to be looked at. Returns in how
 * many microseconds to do so again, lest something is lost. Raises what fn does.
 */
int64 changes_follow(Oid tables, uint64 *position, bool *lost, void (*fn)(const core::Change *change, void *arg),
					 void *arg);

/*
 * Whether any cursor was moved, leased or blocked since: goes up, in all databases, when a transaction that has written one is visible. Take it before a
 * snapshot: what that does not see makes it go up later.
 */
uint64 cursor_changes();

/* This transaction writes a cursor. Never raises. */
void cursor_change_note();

extern const TransactionParticipant cursor_changes_participant;

} // namespace queen

#endif
