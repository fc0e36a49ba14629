/*
 * launcher.h: the one process that starts all others.
 */
#ifndef QUEEN_WORKER_LAUNCHER_H
#define QUEEN_WORKER_LAUNCHER_H

namespace queen
{

/* Called once by _PG_init: ask the postmaster for the launcher, when preloaded and not in a binary upgrade. */
void launcher_init();

} // namespace queen

#endif
