/*
 * relations.h: the extension's own tables, their indexes and sequences.
 *
 * Tables are opened by name in schema queen through a cache of oids that relcache invalidation clears; indexes are asked
 * of the opened relation each time, so that REINDEX CONCURRENTLY never leaves a stale oid. Locks on tables are kept to
 * the end of the transaction.
 */
#ifndef QUEEN_SERVER_RELATIONS_H
#define QUEEN_SERVER_RELATIONS_H

#include "server/pg.h"

namespace queen
{

enum class Table : int
{
	queues,
	log_partitions,
	log_starts,
	log_dropped,
	log_segments,
	log_txns,
	log_groups,
	log_retired_groups,
	log_consumers,
	log_cursors,
	dead_letters,
	log_timers,
	log_timer_rules,
	messages,
	queue_priority_shards,
	queue_priority_state_shard,
	count,
};

enum class Sequence : int
{
	queue_ids,
	partition_ids,
	group_ids,
	dead_ids,
	dropped_ids,
	message_orders,
	count,
};

/* Called once by _PG_init. */
void relations_init();

/* Open and lock an own table; 42P01 with a hint when the extension is gone. Close with table_close(rel, NoLock). */
Relation open_table(Table table, LOCKMODE mode);

/*
 * Keep others from dropping the extension until the transaction ends: lock what DROP EXTENSION locks first (the object that
 * was created first), so that it waits there, before it holds anything that this transaction will need. 42P01 when the
 * extension is gone.
 */
void lock_extension();

/*
 * The same without a wait, for background workers: busy while somebody drops the extension or waits to. missing when there is
 * no extension; 42P01 when it has lost its tables.
 */
enum class ExtensionLock
{
	locked,
	busy,
	missing,
};
ExtensionLock try_lock_extension();

/*
 * Lock what writing pushes needs to the end of the transaction, tables and sequences; 42P01 when the extension is gone.
 * Returns what names this incarnation of the tables.
 */
Oid lock_for_push();

/* Locks may be gone: the transaction or a savepoint has ended. Never raises. */
void forget_push_locks();

/*
 * Goes up when what was read of queues and partitions may no longer hold: whoever changes a queue's row, or deletes a queue
 * or a partition, sends a relcache invalidation of queen.queues (invalidate_names). Never raises. News of other sessions
 * comes with each new lock on a relation, and with AcceptInvalidationMessages.
 */
uint64 names_generation();

/* Send it, when this transaction commits. queues is queen.queues, open. */
void invalidate_names(Relation queues);

/* What names the incarnation of the tables that are there now, as lock_for_push answers; 42P01 when they are not. */
Oid own_tables();

/*
 * Has this transaction dropped the tables that lock_for_push locked for it (nobody else can have), though it may have made
 * new ones since? 42P01 when they are not found for another reason.
 */
bool tables_were_dropped(Oid tables);

/*
 * Open the btree whose key is exactly these columns, ascending, in the columns' collations, without a predicate; unique
 * unless said otherwise. XX000 when there is none. Close with index_close(rel, NoLock).
 */
Relation open_index(Relation table, std::initializer_list<AttrNumber> key, LOCKMODE mode, bool unique = true);

/* The same for an index on the rows whose text column has a value, and only on those. Not unique. */
Relation open_partial_index(Relation table, std::initializer_list<AttrNumber> key, AttrNumber column, const char *value,
							LOCKMODE mode);

/* The next id of a sequence; raises 2200H when it is used up. */
int64 next_id(Sequence sequence);

} // namespace queen

#endif
