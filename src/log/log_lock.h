/*
 * log_lock.h: a heavyweight lock on the log of a work queue: who puts messages into it, against who drops or purges the queue.
 */
#ifndef QUEEN_LOG_LOG_LOCK_H
#define QUEEN_LOG_LOG_LOCK_H

#include "server/pg.h"

namespace queen
{

/*
 * Hold off who drops or purges the queue until the end of the transaction; those who put messages into it don't wait for each other. Waits for
 * who has it for more, at most queen.flush_timeout (QN002). queue: its name, for the error. Afterwards the queue has to be found again.
 */
void log_lock_to_put(int64 log_id, const char *queue);

/* The same without a wait; false when somebody drops or purges it. */
bool log_lock_try_to_put(int64 log_id);

/* Wait for all who have put messages into it and not ended, at most queen.flush_timeout (QN002). */
void log_lock_to_drop(int64 log_id, const char *queue);

} // namespace queen

#endif
