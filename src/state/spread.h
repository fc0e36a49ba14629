/*
 * spread.h: over how many shards a work queue's counts are spread. README.md says why it grows, and when.
 *
 * A hint, in shared memory of fixed size when preloaded, else each process's own. Nothing here raises. No locks.
 */
#ifndef QUEEN_STATE_SPREAD_H
#define QUEEN_STATE_SPREAD_H

#include "server/pg.h"

namespace queen
{

/*
 * A part of the stored layout: a message's shard is below this for good. Messages a second of 8 clients on one queue of two processors, commits on disk, with 1,
 * 8, 32 and 64 shards from the first call on, 2026-11-30 (BENCHES=state PARTS=shards SYNC=on REPS=1 SECONDS_EACH=3 make bench): single 2,047, 6,089, 6,448,
 * 5,478; batches of 100 54,278, 58,275, 59,945, 59,255; single enqueues beside dequeues of 100 5,970, 17,021, 17,474, 17,038. As many shards as clients
 * are enough: more than 32 clients in their commits at once are for a larger machine than this.
 */
inline constexpr int16 most_shards = 32;

/* Called once by _PG_init. */
void spread_init();

/* How many shards are drawn from: 1, or a greater power of two. */
int16 spread_of(Oid tables, int64 log_id);

/* The shard at which a transaction counts what it does to a log: this process's share of the spread. */
int16 spread_draw(Oid tables, int64 log_id);

/* Who found this spread had to wait: it is twice that, unless somebody has widened it since. */
void spread_widen(Oid tables, int64 log_id, int16 found);

} // namespace queen

#endif
