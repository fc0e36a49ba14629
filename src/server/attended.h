/*
 * attended.h: does a keeper attend to this database? Whoever serves leaves to it what it does as well, and wakes it for what it alone does.
 *
 * In shared memory, so only when preloaded. Nothing here raises but attended_init.
 */
#ifndef QUEEN_SERVER_ATTENDED_H
#define QUEEN_SERVER_ATTENDED_H

#include "server/pg.h"

namespace queen
{

/* For the current database; two loads as long as keepers neither come nor go. */
bool keeper_attends();

/* A keeper is there, or gone (InvalidOid). place: of the registry of workers, less than max_worker_processes. */
void attended_set(int place, Oid database);

/* Wake the keeper of this database, if there is one. */
void keeper_ring();

/* How that is done: told by who knows the processes. */
void attended_set_ring(void (*ring)(Oid database));

/* Called once by _PG_init. */
void attended_init();

} // namespace queen

#endif
