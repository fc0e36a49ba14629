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
	TimestampTz created_at;
	bool has_start;		  /* false: starts at the beginning … */
	TimestampTz start_at; /* … else there, in a partition where it has no cursor; see group_start_in */
	bool paused;
	TimestampTz active_at;
	bool own; /* this transaction wrote it, and may still be rolled back */
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

/*
 * Subscribe a group that starts at a time, or at the beginning (start_at null), unless it is there: then false, and it
 * stays as it is. A running subscription is waited for, at most queen.flush_timeout (QN002).
 */
bool group_subscribe(const pg_uuid_t *tenant, int64 queue_id, Name name, const TimestampTz *start_at, GroupRow *row);

/* Find by name or id with the latest snapshot. */
bool group_find(int64 queue_id, Name name, GroupRow *row);
bool group_find_by_id(int64 group_id, GroupRow *row);

/* All groups of a queue, by name, that the snapshot sees; palloc'ed. */
GroupRow *group_list(int64 queue_id, Snapshot snapshot, int *count);

/* Show fn all groups of all queues, as a snapshot sees them, in no order. */
void groups_each(Snapshot snapshot, void (*fn)(const GroupRow *row, void *arg), void *arg);

/* A pop of the group: note the time in its row, once a minute and only where nobody else is at the row. */
void group_touch(const GroupRow *group);

/*
 * Pause or resume a group, or delete its row; both wait for whoever changes it. Whether something changed; row is what was
 * found, queue names it in the error 42704 of the first, the second answers false then.
 */
bool group_set_paused(const char *queue, int64 queue_id, Name name, bool paused);
bool group_delete(int64 queue_id, Name name, GroupRow *row);

/*
 * Delete all groups of a queue, or give them new ids, so that cursors and leases of the old ones count for nothing; both
 * wait for whoever changes one.
 */
void group_delete_all(int64 queue_id);
void group_renew_all(int64 queue_id);

/* 42704: the queue has no such group. */
[[noreturn]] void raise_unknown_group(const char *queue, Name name);

} // namespace queen

#endif
