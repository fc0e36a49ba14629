/*
 * drifted.h: queues whose counts a commit has found to be wrong: told by who failed on them, mended by the keeper.
 *
 * In shared memory of fixed size, so only when preloaded; without, nobody is told.
 */
#ifndef QUEEN_STATE_DRIFTED_H
#define QUEEN_STATE_DRIFTED_H

#include "server/pg.h"

namespace queen
{

/* Called once by _PG_init. */
void drifted_init();

/* Who has found a log's counts to be wrong. */
enum class DriftFinder : uint8
{
	commit,		/* a transaction that fails: QN003 */
	collection, /* of the state, that fails: QN004 */
};

/* A log's counts are wrong. Wakes the keeper. Never raises. */
void drifted_report(Oid tables, int64 log_id, DriftFinder finder);

/* Is there something for drifted_mend_step in this database? Never raises. */
bool drifted_waits();

/*
 * A task of the keeper: mend the counts of a queue that was reported. Commit after it. Raises; it is tried again then, behind the others. False when
 * there is none that others are not mending, dropping or purging: it waits for nobody.
 */
bool drifted_mend_step();

/* There is nobody any more who would mend in a database. Never raises. */
void drifted_forget(Oid database);

} // namespace queen

#endif
