/*
 * shard_rows.h: rows of queen.queue_priority_state_shard, an era table: the counts of a shard.
 *
 * All of these raise. Locks: the rows that are changed, from then to the end of the transaction.
 */
#ifndef QUEEN_STATE_SHARD_ROWS_H
#define QUEEN_STATE_SHARD_ROWS_H

#include "server/era_table.h"
#include "server/pg.h"
#include "state/rollup.h"
#include "state/spread.h"

namespace queen
{

/* Columns of queen.queue_priority_state_shard, from 0. */
enum ShardColumn : int
{
	shard_col_log_id,
	shard_col_priority,
	shard_col_shard,
	shard_col_era,
	shard_col_changes,
	shard_col_ready,
	shard_col_in_flight,
	shard_cols,
};

struct ShardWriter
{
	EraHandle rows;
	Oid tables;
	int64 spread_log; /* whose spread was looked at last, and what it was then */
	int16 spread;
};

void shard_writer_open(ShardWriter *writer, Oid tables);
void shard_writer_close(ShardWriter *writer);

/*
 * Add a change to a shard's counts. Waits for who changes them and has not committed, up to queen.flush_timeout (QN002).
 * QN003: a count would fall below zero. behind: what the transaction will add in other shards to the messages of the priority that are ready.
 */
void shard_writer_apply(ShardWriter *writer, const ShardCounts *change, int64 behind);

/* Show fn the counts of every shard, as a snapshot sees them. */
void shard_rows_each(Snapshot snapshot, void (*fn)(const ShardCounts *counts, void *arg), void *arg);

/*
 * Repair of a shard of which one half is gone: without counts it is given up; counts that nothing says are there are a queue's (is_queues, whose log
 * the caller holds) and get their identity, or are deleted. False when that is not so (any more). Never waits.
 */
bool shard_row_mend(int64 log_id, int16 priority, int16 shard, bool is_queues);

/* Delete the counts of a log of which no message is there, nor can be. False, when somebody is at one of them: later. */
bool shard_rows_delete(int64 log_id);

} // namespace queen

#endif
