/*
 * events.h: what happens to extensions and databases, and who has to know.
 */
#ifndef QUEEN_WORKER_EVENTS_H
#define QUEEN_WORKER_EVENTS_H

#include "server/xact.h"

namespace queen
{

/* Of server/xact. */
extern const TransactionParticipant events_participant;

/* Called once by _PG_init: the hooks, when preloaded. */
void events_init();

} // namespace queen

#endif
