/*
 * dedup.h: rows of queen.log_txns: who pushed last with a dedup_key.
 */
#ifndef QUEEN_LOG_DEDUP_H
#define QUEEN_LOG_DEDUP_H

#include "core/types.h"
#include "server/errors.h"
#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

/* Columns of queen.log_txns, from 0. */
enum TxnColumn : int
{
	txn_col_partition_id,
	txn_col_key_hash,
	txn_col_message_id,
	txn_col_pushed_at,
	txn_cols,
};

/* The push that a key stands for. */
struct KeyOwner
{
	core::Uuid message_id;
	TimestampTz pushed_at;
};

struct DedupTable
{
	Relation table;
	Relation index;
	TableWriter writer;
};

/* Open for dedup_take. */
void dedup_open(DedupTable *dedup);
void dedup_close(DedupTable *dedup);

/*
 * Take a key for a message: true, it is this message's until this transaction ends, and then for the window. False: owner
 * has it, within the window. Of an older owner it is taken over, by one of those who try. Waits for a transaction that has
 * the key and has not ended; queue_name and partition_name for the error (QN002). All of it sees the latest rows, so it
 * works in every isolation level.
 *   window: microseconds, more than 0
 */
bool dedup_take(DedupTable *dedup, int64 partition_id, const core::Uuid *key_hash, const core::Uuid *message_id,
				int64 window, const char *queue_name, const char *partition_name, KeyOwner *owner);

/* What a push call wants to know of keys that it will take only at its commit. Takes no key, waits for nobody. */
struct DedupReader
{
	int64 window;  /* of the queue, or what a new one will have */
	bool is_error; /* so the queue's option says of a duplicate */
	bool open;	   /* there is a partition, so there may be keys */
	int64 partition_id;
	Relation table;
	Relation index;
	Snapshot snapshot;
	IndexScan scan;
};

void dedup_reader_open(DedupReader *reader, const pg_uuid_t *tenant, Name queue, Name partition);
void dedup_reader_close(DedupReader *reader);

/* Has a committed push taken the key, within the window? */
bool dedup_find(DedupReader *reader, const core::Uuid *key_hash, KeyOwner *owner);

/*
 * Delete keys that are older than their queue's window, in a bounded piece of the table from block *next on, which is
 * moved. False at the table's end. Never waits.
 */
bool dedup_expire_step(BlockNumber *next);

/* pushed_at of an owner in the same transaction */
inline constexpr TimestampTz pushed_just_now = DT_NOEND;

/* 23505. what: the message or key that came too late, as: dedup_key "a" */
[[noreturn]] void raise_duplicate(const char *queue_name, const char *partition_name, const char *what,
								  const KeyOwner *owner);

} // namespace queen

#endif
