/*
 * timer_rows.h: rows of queen.log_timers: messages that are not in the log yet. What is done with them is src/timers' matter.
 */
#ifndef QUEEN_LOG_TIMER_ROWS_H
#define QUEEN_LOG_TIMER_ROWS_H

#include "core/types.h"
#include "server/errors.h"
#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"

namespace queen
{

/* Columns of queen.log_timers, from 0. */
enum TimerColumn : int
{
	timer_col_tenant,
	timer_col_queue,
	timer_col_key,
	timer_col_partition,
	timer_col_deliver_at,
	timer_col_retry_at,
	timer_col_visible_at,
	timer_col_message_id,
	timer_col_message,
	timer_col_payload,
	timer_col_headers,
	timer_col_attempts,
	timer_col_last_error,
	timer_col_created_at,
	timer_col_updated_at,
	timer_cols,
};

struct TimerTable
{
	Relation table;
	Relation by_key;
	Relation by_time;
	Relation by_queue; /* and time */
};

struct TimerName
{
	const pg_uuid_t *tenant;
	Name queue;
	Name key;
};

/* What a timer will push, and when. */
struct TimerMessage
{
	core::Uuid id;
	Name partition;
	TimestampTz deliver_at;
	bool raw;
	Datum content;	/* jsonb, raw: bytea */
	Jsonb *headers; /* may be null */
};

/* A row's columns, copied. */
struct TimerRow
{
	ItemPointerData tid;
	Datum values[timer_cols];
	bool nulls[timer_cols];
};

/* A new row: no attempts, created now. */
void timer_row_fill(const TimerName *name, const TimerMessage *message, TimerRow *row);

void timer_table_open(TimerTable *timers, LOCKMODE mode);
void timer_table_close(TimerTable *timers);

/* A scan over a queue's timers in the order of their keys, from one on (data null: from the first); index_scan_close ends it. */
void timer_scan_keys(IndexScan *scan, const TimerTable *timers, Snapshot snapshot, const pg_uuid_t *tenant, Name queue,
					 Name from);

/* The row of a scan's slot, copied to the current memory context. */
void timer_row_from_slot(TupleTableSlot *slot, TimerRow *row);

/* Find by name with the latest snapshot. */
bool timer_find(const TimerTable *timers, const TimerName *name, TimerRow *row);

/* Find the timer of a queue that has promised a message id. Looks at all of them, unless the id is the key as well. */
bool timer_find_message(const TimerTable *timers, const pg_uuid_t *tenant, Name queue, const core::Uuid &id,
						TimerRow *row);

enum class TimerLock
{
	absent,
	held,	/* its message is just being pushed: the answer comes at once, whatever becomes of that */
	locked, /* row is what is there */
};

/*
 * Find and lock a timer, in any isolation level the latest version, waiting for any other transaction than one that fires; wait
 * false: for none.
 */
TimerLock timer_lock(TimerTable *timers, const TimerName *name, TimerRow *row, bool wait = true);

/*
 * Insert a row, whose values tell all columns but visible_at. False when its name is taken: the caller looks again; a transaction that
 * has inserted it and not ended was waited for.
 */
bool timer_insert(TimerTable *timers, TimerRow *row);

/* Write a locked row over; visible_at follows from the others. */
void timer_update(TimerTable *timers, TimerRow *row);

/* Delete a locked row. */
void timer_delete(TimerTable *timers, TimerRow *row);

/* Delete all timers of a queue; waits for whoever is at one. Returns how many there were. */
int64 timers_delete_of_queue(const pg_uuid_t *tenant, Name queue);

/* From now to its end this transaction fires timers: whoever wants one that it holds is told so, and does not wait. */
void timer_fire_begin();

} // namespace queen

#endif
