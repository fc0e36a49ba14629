/*
 * retired_groups.h: the cursors of groups that were unsubscribed, and their deletion in bounded pieces.
 */
#ifndef QUEEN_LOG_RETIRED_GROUPS_H
#define QUEEN_LOG_RETIRED_GROUPS_H

#include "server/pg.h"

namespace queen
{

/* The group's row was deleted: file it for the deletion of its cursors. False when it is filed already. */
bool retired_group_file(int64 log_id, int64 group_id);

/*
 * Delete the cursors of one retired group in up to 1,000 partitions, and the group's filing with the last of them. False
 * when there is nothing to do now: none is left, or what is left waits for transactions to end. Never waits for a row.
 * Commit after each call.
 */
bool retired_groups_step();

} // namespace queen

#endif
