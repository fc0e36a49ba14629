/*
 * cleaner.h: deleting messages that nobody gets any more. WorkCalls says what each does; all raise, none waits.
 */
#ifndef QUEEN_WORKQUEUE_CLEANER_H
#define QUEEN_WORKQUEUE_CLEANER_H

#include "server/pg.h"

namespace queen
{

bool messages_expire_step(bool first, TimestampTz *next);
bool messages_delete_log(int64 log_id, TimestampTz end, int *most);

} // namespace queen

#endif
