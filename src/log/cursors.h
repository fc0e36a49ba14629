/*
 * cursors.h: a consumer group's position and lease in a partition, one row of the era table log_consumers/log_cursors.
 *
 * README.md of this folder has the states and how deliveries are counted.
 */
#ifndef QUEEN_LOG_CURSORS_H
#define QUEEN_LOG_CURSORS_H

#include "core/lease_token.h"
#include "server/era_table.h"

namespace queen
{

extern const EraTable cursor_table;

struct Cursor
{
	int64 committed = -1; /* last completed offset */
	bool leased = false;
	int64 batch_end = -1;  /* last offset under lease */
	int32 batch_count = 0; /* messages under lease that are not completed */
	core::Uuid lease{};
	TimestampTz lease_until = 0;
	bool has_last_lease = false;
	core::Uuid last_lease{}; /* completed last */
	int64 attempt_offset = -1;
	int32 attempts = 0;		 /* deliveries of the message at attempt_offset */
	int64 delivered_to = -1; /* messages up to here, behind attempt_offset, were delivered once */
	bool blocked = false;
	TimestampTz blocked_until = 0;
	text *last_error = nullptr; /* may point into the handle's row */
};

/* The row that the last era_seek found. */
void cursor_read(const EraHandle *handle, Cursor *cursor);

/* A row of queen.log_cursors from any scan; keys receives partition id and group id. */
void cursor_read_slot(TupleTableSlot *slot, int64 *keys, Cursor *cursor);

/* The same of a row's columns. */
void cursor_read_columns(const Datum *values, const bool *nulls, int64 *keys, Cursor *cursor);

/* Put a cursor into the handle's values, for era_update or era_insert_state. */
void cursor_store(EraHandle *handle, const Cursor *cursor);

/*
 * The greatest committed of all groups' cursors in a partition, -1 without one: nothing up to there can still become
 * visible. handle may be open to read.
 */
int64 cursors_furthest(const EraHandle *handle, int64 partition_id, Snapshot snapshot);

/* Stand behind offset as if nothing had been delivered from there on: no lease, no count, not blocked. */
void cursor_move(Cursor *cursor, int64 offset);

/* How often the message at offset, the first that is not completed, was delivered and not completed. */
int32 cursor_deliveries(const Cursor *cursor, int64 offset);

/* The lease is over, its messages are completed: forget it, keep its token to recognize a repeated ack. */
void cursor_complete_lease(Cursor *cursor);

/* Complete up to offset: the budget of deliveries begins anew behind it. */
void cursor_advance(Cursor *cursor, int64 offset);

/* The message at offset, under the lease, failed: complete what lies below it, uncount what lies behind it. */
void cursor_fail(Cursor *cursor, int64 offset);

/* The lease is given back: its delivery does not count. */
void cursor_uncount_delivery(Cursor *cursor);

/*
 * The least committed that a group's cursor in a partition has, or gets when a running transaction that moves it back
 * commits; false when it has no cursor. Who holds the partition's seek lock misses no seek: they write under it.
 */
bool cursor_least(EraHandle *handle, int64 partition_id, int64 group_id, int64 *committed);

} // namespace queen

#endif
