/*
 * rollup.h: the counts of work queues' messages, as a transaction changes them. README.md has the protocol.
 *
 * Whoever changes a row of queen.messages notes it; what the notes sum up to is written when the transaction commits.
 */
#ifndef QUEEN_STATE_ROLLUP_H
#define QUEEN_STATE_ROLLUP_H

#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

extern const TransactionParticipant rollup_participant;

/* Columns of queen.messages, from 0, that say where a message is counted; it is in flight when it has a visible_at. src/workqueue has them all. */
inline constexpr int counted_col_log_id = 1;
inline constexpr int counted_col_order = 2;
inline constexpr int counted_col_visible_at = 5;
inline constexpr int counted_col_priority = 8;
inline constexpr int counted_col_shard = 9;
inline constexpr int counted_col_state = 11;

/* Counts of a shard, or a change of them. */
struct ShardCounts
{
	int64 log_id;
	int16 priority;
	int16 shard;
	int64 ready;
	int64 in_flight;
};

/* This transaction has changed counts. tables: own_tables. Raises for memory only. */
void rollup_note(Oid tables, const ShardCounts &change);

/* Behind notes: writes them at once where the transaction's flush is over. Raises as a commit does. */
void rollup_settle();

/* What this transaction has noted and not written, one for each shard, in their order; palloc'ed. Raises for memory only. */
ShardCounts *rollup_pending(Oid tables, int *count);

/* The order in which shards are locked. Never raises. */
int shard_order(const ShardCounts *left, const ShardCounts *right);

} // namespace queen

#endif
