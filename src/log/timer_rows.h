/*
 * timer_rows.h: rows of queen.log_timers: messages that are not in the log yet. What is done with them is src/timers' matter.
 */
#ifndef QUEEN_LOG_TIMER_ROWS_H
#define QUEEN_LOG_TIMER_ROWS_H

#include "core/types.h"
#include "log/named_rows.h"
#include "server/pg.h"
#include "server/relations.h"

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
	timer_col_priority,
	timer_col_ttl,
	timer_cols,
};

static_assert(timer_cols <= max_named_columns);

struct TimerTable : NamedTable
{
	Relation by_time;
	Relation by_queue; /* and time */
};

using TimerRow = NamedRow;

/* Keys that begin with this byte, which no user can give, are of occurrences of rules; all others sort from here on. */
inline constexpr char occurrence_mark = '\x01';
inline constexpr Name first_timer_key = {"\x02", 1};

inline bool
is_occurrence(Name key)
{
	return key.data[0] == occurrence_mark;
}

/* The partition of what names none. */
inline constexpr Name default_partition = {"Default", 7};

inline bool
is_default_partition(Name partition)
{
	return partition.size == default_partition.size &&
		   memcmp(partition.data, default_partition.data, (Size) partition.size) == 0;
}

/* What a timer will push, and when. */
struct TimerMessage
{
	core::Uuid id;
	Name partition;
	TimestampTz deliver_at;
	bool raw;
	Datum content;	/* jsonb, raw: bytea */
	Jsonb *headers; /* may be null */
	int16 priority; /* it goes to a work queue; 0: to what is there, or a log queue */
	int64 ttl;		/* there; 0: as the queue says */
};

/* A new row: no attempts, created now. */
void timer_row_fill(const TimerName *name, const TimerMessage *message, TimerRow *row);

void timer_table_open(TimerTable *timers, LOCKMODE mode);
void timer_table_close(TimerTable *timers);

/* Find the timer of a queue that has promised a message id. Looks at all of them, unless the id is the key as well. */
bool timer_find_message(const TimerTable *timers, const pg_uuid_t *tenant, Name queue, const core::Uuid &id,
						TimerRow *row);

/* named_row_lock; whoever has locked a timer tells so when the transaction ends. */
TimerLock timer_lock(TimerTable *timers, const TimerName *name, TimerRow *row, RowWait wait = RowWait::users);

/*
 * Insert a row, whose values tell all columns but visible_at. False when its name is taken: the caller looks again; a transaction that
 * has inserted it and not ended was waited for.
 */
bool timer_insert(TimerTable *timers, TimerRow *row);

/* Write a locked row over; visible_at follows from the others. */
void timer_update(TimerTable *timers, TimerRow *row);

/* Delete a locked row. */
void timer_delete(TimerTable *timers, TimerRow *row);

/* Delete all timers of a queue but for occurrences, moved ones too; waits for whoever is at one. Returns how many there were. */
int64 timers_delete_of_queue(const pg_uuid_t *tenant, Name queue);

} // namespace queen

#endif
