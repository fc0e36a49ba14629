/*
 * timed_wait.h: lock waits with a bound of their own.
 */
#ifndef QUEEN_SERVER_TIMED_WAIT_H
#define QUEEN_SERVER_TIMED_WAIT_H

#include "server/pg.h"

namespace queen
{

/*
 * Run fn(arg) with every heavyweight lock wait in it bounded by timeout_ms (0: unbounded), or by lock_timeout where the
 * caller asked for less and respect_lock_timeout is set. False when our bound was hit: nothing was locked, and the caller
 * raises its own error, since the statement cannot go on. Any other error of fn passes through. Cancel and deadlock
 * detection work as always.
 */
bool run_with_timeout(int timeout_ms, bool respect_lock_timeout, void (*fn)(void *), void *arg);

} // namespace queen

#endif
