/*
 * starts.h: rows of queen.log_starts: where a partition's log begins.
 */
#ifndef QUEEN_LOG_STARTS_H
#define QUEEN_LOG_STARTS_H

#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

/* log_start of a partition that was deleted: whoever still knows its id must not push to it. */
inline constexpr int64 log_start_deleted = PG_INT64_MAX;

/* Columns of queen.log_starts, from 0. */
enum StartColumn : int
{
	start_col_partition_id,
	start_col_log_start,
	start_col_last_created_at,
	start_cols,
};

struct LogStart
{
	int64 offset = 0;						  /* the first that is retained */
	TimestampTz last_created_at = DT_NOBEGIN; /* the newest segment's that was deleted */
	bool stored = false;
	ItemPointerData tid = {};
};

/* Find a partition's row with a scan on the table's key, whatever its snapshot; the default when there is none. */
void log_start_find(IndexScan *scan, int64 partition_id, LogStart *start);

/* Read with the latest snapshot; the default when there is no row. For what follows from it, hold the partition's lock. */
void log_start_read(int64 partition_id, LogStart *start);

/* Write over what was read under the partition's lock, which must then be held to the transaction's end. */
void log_start_write(int64 partition_id, const LogStart *start);

} // namespace queen

#endif
