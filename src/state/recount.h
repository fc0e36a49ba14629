/*
 * recount.h: mending counts that do not agree with the messages.
 */
#ifndef QUEEN_STATE_RECOUNT_H
#define QUEEN_STATE_RECOUNT_H

#include "server/pg.h"

namespace queen
{

inline constexpr int64 all_logs = 0;

/*
 * Correct the counts of a log that is a queue's, or of all, when this transaction commits. Returns how many shards were wrong. Raises: QN002, when
 * another one mends for too long.
 */
int64 recount_mend(int64 log_id);

/* The same of one log, without a wait for who mends, drops or purges it: false, and nothing is noted, when somebody does. */
bool recount_try_mend(int64 log_id, int64 *mended);

} // namespace queen

#endif
