/*
 * tails.h: where partitions end, in shared memory: what saves an append the search for the newest segment.
 *
 * Of fixed size: a partition takes the place of another, and whoever finds none searches. Without preload there is none.
 * All of it but tails_forget_all is called under the partition's lock only, by which a tail that is there is never below the
 * newest segment nor below log_start. Nothing here raises, allocates or waits.
 */
#ifndef QUEEN_LOG_TAILS_H
#define QUEEN_LOG_TAILS_H

#include "server/pg.h"

namespace queen
{

/* Where the next segment goes. */
struct Tail
{
	int64 base;
	TimestampTz created_at; /* of the segment before it, or the newest that was deleted */
};

/* Called once by _PG_init. */
void tails_init();

/* Is there such memory? */
bool tails_are_shared();

/* tables: what names the incarnation of the tables, see own_tables. */
bool tail_find(Oid tables, int64 partition_id, Tail *tail);
void tail_put(Oid tables, int64 partition_id, const Tail *tail);
void tail_forget(Oid tables, int64 partition_id);

/* Forget the tails of all partitions of these tables. */
void tails_forget_all(Oid tables);

} // namespace queen

#endif
