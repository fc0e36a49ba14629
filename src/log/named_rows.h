/*
 * named_rows.h: rows that are keyed by tenant, queue and a key: timers and the rules of recurring ones. Who finds one held by a fire is
 * told so and does not wait; src/timers/README.md says why.
 */
#ifndef QUEEN_LOG_NAMED_ROWS_H
#define QUEEN_LOG_NAMED_ROWS_H

#include "server/errors.h"
#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

inline constexpr int max_named_columns = 17;

/* The first three columns are the key, by_key is the index on them. */
struct NamedTable
{
	Relation table;
	Relation by_key;
	int columns;
};

struct TimerName
{
	const pg_uuid_t *tenant;
	Name queue;
	Name key;
};

/* A row's columns, copied. */
struct NamedRow
{
	ItemPointerData tid;
	Datum values[max_named_columns];
	bool nulls[max_named_columns];
};

inline void
named_row_put(NamedRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/* A row whose columns are null but for the key. */
void named_row_begin(const TimerName *name, NamedRow *row);

/* A scan over a queue's rows in the order of their keys, from one on (data null: from the first); index_scan_close ends it. */
void named_scan_start(IndexScan *scan, const NamedTable *table, Snapshot snapshot, const pg_uuid_t *tenant, Name queue,
					  Name from);

/* The key of the row in a scan's slot. */
Name named_row_key(TupleTableSlot *slot);

/* The row of a scan's slot, copied to the current memory context. */
void named_row_copy(const NamedTable *table, TupleTableSlot *slot, NamedRow *row);

/* Find by name with a registered snapshot. */
bool named_row_find(const NamedTable *table, const TimerName *name, Snapshot snapshot, NamedRow *row);

enum class TimerLock
{
	absent,
	held,	/* by a fire: the answer comes at once, whatever becomes of that */
	locked, /* row is what is there */
};

/* Which transactions a lock waits for. */
enum class RowWait
{
	nobody,
	users, /* and not for one that fires */
	everybody,
};

/* Find and lock a row, in any isolation level the latest version. Whom it does not wait for has it: held. */
TimerLock named_row_lock(const NamedTable *table, const TimerName *name, RowWait wait, NamedRow *row);

/* Insert a row. False when its name is taken: the caller looks again; a transaction that has inserted it and not ended was waited for. */
bool named_row_insert(const NamedTable *table, const NamedRow *row);

/* Write a locked row over. */
void named_row_update(const NamedTable *table, NamedRow *row);

/* From now to its end this transaction fires timers: whoever wants a row that it holds is told so, and does not wait. */
void timer_fire_begin();

} // namespace queen

#endif
