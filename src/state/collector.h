/*
 * collector.h: finding out the state of all queues, and putting it where the views read it.
 */
#ifndef QUEEN_STATE_COLLECTOR_H
#define QUEEN_STATE_COLLECTOR_H

#include "server/pg.h"

namespace queen
{

/*
 * Collect, in a transaction that has changed nothing. Raises, for one QN004: counts are found wrong; whatever it raises is counted first. Locks: the tables',
 * and what snapshot.cpp says.
 */
void collect();

/* One bounded step of what need not wait for a collection; in how many microseconds to come again, 0: at once, before one. Raises. */
int64 collect_ahead();

/* In how many microseconds the keeper is to collect next; -1: never. Raises where there is no extension. */
int64 collect_due();

} // namespace queen

#endif
