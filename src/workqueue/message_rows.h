/*
 * message_rows.h: rows of queen.messages: the one place where they are inserted, locked, changed and deleted. README.md says what their states mean.
 *
 * All of these raise. What is done to a row is noted for the end of the transaction (claim_marks.h).
 */
#ifndef QUEEN_WORKQUEUE_MESSAGE_ROWS_H
#define QUEEN_WORKQUEUE_MESSAGE_ROWS_H

#include "core/types.h"
#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"
#include "workqueue/claim_marks.h"

namespace queen
{

/* Columns of queen.messages, from 0. */
enum MessageColumn : int
{
	message_col_id,
	message_col_log_id,
	message_col_order,
	message_col_enqueued_at,
	message_col_expires_at,
	message_col_visible_at,
	message_col_delivered_at,
	message_col_receipt,
	message_col_priority,
	message_col_shard,
	message_col_attempts,
	message_col_state,
	message_col_message,
	message_col_payload,
	message_col_headers,
	message_col_last_error,
	message_cols,
};

inline constexpr int16 priority_low = 1;
inline constexpr int16 priority_medium = 2;
inline constexpr int16 priority_high = 3;

/* Values that a call gives from one of the sequence's. */
inline constexpr int64 orders_of_draw = 65536;

/* The table, its indexes, and what changes rows. */
struct MessageTable
{
	Oid tables; /* which incarnation: own_tables */
	Relation table;
	Relation by_id;
	Relation ready;
	Relation in_flight;
	Relation by_expiry;
	bool writing;
	bool
		has_writer; /* opened by the first row that is inserted or changed: it looks up all there is to write an index */
	TableWriter writer;
	RowBatch batch;		   /* of new rows */
	MemoryContext context; /* where it was opened */
};

/* A row. What its datums point to lives as long as what it was read from. */
struct MessageRow
{
	ItemPointerData tid;
	int64 log_id;
	int64 order;
	int16 priority;
	int32 attempts;
	bool in_flight;
	TimestampTz expires_at;
	TimestampTz visible_at; /* in flight */
	Datum values[message_cols];
	bool nulls[message_cols];
};

/* mode: RowExclusiveLock to write as well. Closing it makes what was written visible to the transaction's own later reads. */
void message_table_open(MessageTable *messages, LOCKMODE mode);
void message_table_close(MessageTable *messages);

/* The row in a slot. */
void message_row_read(TupleTableSlot *slot, MessageRow *row);

/* The index in which a row is looked for by who takes it, and its key there. */
MarkKey message_mark(const MessageTable *messages, const MessageRow *row);
int64 message_key(const MessageRow *row);

/* Insert a new message, ready; closing the table ends that. queue_id: whose consumers are told. */
void message_insert(MessageTable *messages, MessageRow *row, int64 queue_id);

/*
 * Write what row has now over what was read from it, before; in flight afterwards. now: it can be taken again at once.
 * unless_locked: false, at once, when somebody else is or was at the row. Without, this transaction has locked it.
 */
bool message_update_unless_locked(MessageTable *messages, const MessageRow *before, MessageRow *row, int64 queue_id);
void message_update(MessageTable *messages, const MessageRow *before, MessageRow *row, int64 queue_id, bool now);

/*
 * Lock a row that was found with the snapshot, waiting for whoever is at it; false when it was changed meanwhile. Who then leaves it as it is says so:
 * others have passed it by.
 */
bool message_lock(MessageTable *messages, const MessageRow *row, Snapshot snapshot, int64 queue_id);
void message_leave(MessageTable *messages, const MessageRow *row, int64 queue_id);

/* Delete a row. unless_locked, found with the snapshot: false, at once, when somebody, this transaction too, is or was at it. Without, it is locked. */
bool message_delete_unless_locked(MessageTable *messages, const MessageRow *row, Snapshot snapshot, int64 queue_id);
void message_delete(MessageTable *messages, const MessageRow *row, int64 queue_id);

/*
 * A scan of an index of a log's messages of one priority, from a key on; priority 0: of all, from the beginning. Of all logs, where the index is by
 * expiry. index_scan_close ends it.
 */
void message_scan_open(IndexScan *scan, const MessageTable *messages, MarkedIndex index, Snapshot snapshot);
void message_scan_start(IndexScan *scan, MarkedIndex index, int64 log_id, int16 priority, int64 from);

/* The same of the indexes by time, up to a key: what lies behind it, the dead entries too, is no part of it. */
void message_scan_start_until(IndexScan *scan, MarkedIndex index, int64 log_id, int16 priority, TimestampTz from,
							  TimestampTz until);

/* The same for one message: index_scan_next finds its row. The index is none of the marked ones. */
void message_scan_start_one(IndexScan *scan, const pg_uuid_t *message_id);

} // namespace queen

#endif
