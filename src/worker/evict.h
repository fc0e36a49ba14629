/*
 * evict.h: keeps workers out of a database that has to be empty.
 */
#ifndef QUEEN_WORKER_EVICT_H
#define QUEEN_WORKER_EVICT_H

#include "server/pg.h"

namespace queen
{

/*
 * Let no worker start in that database until this transaction ends, and wait until those that are there have left, or for some
 * seconds. Raises when it is cancelled.
 */
void evict_workers(Oid database);

/* For the launcher: may workers start there now? If so, end_launching must follow before anything can raise for long. */
bool may_launch(Oid database);
void end_launching(Oid database);

} // namespace queen

#endif
