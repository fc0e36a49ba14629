/*
 * groups.h: consumer groups, rows of queen.log_groups.
 */
#ifndef QUEEN_LOG_GROUPS_H
#define QUEEN_LOG_GROUPS_H

#include "server/errors.h"
#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"

namespace queen
{

struct GroupRow
{
	int64 group_id;
	int64 queue_id;
	pg_uuid_t tenant;
	char *name; /* palloc'ed */
};

enum class GroupFind
{
	found,
	running, /* another transaction subscribes it and has not ended */
};

/*
 * Find a queue's group, or subscribe it at the earliest message. Never waits: whoever meets another's running
 * subscription is told so.
 */
GroupFind group_find_or_subscribe(const pg_uuid_t *tenant, int64 queue_id, Name name, GroupRow *row);

/* Find by id with the latest snapshot. */
bool group_find_by_id(int64 group_id, GroupRow *row);

} // namespace queen

#endif
