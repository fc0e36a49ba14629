/*
 * partitions.h: rows of queen.log_partitions.
 */
#ifndef QUEEN_LOG_PARTITIONS_H
#define QUEEN_LOG_PARTITIONS_H

#include "server/errors.h"
#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"

namespace queen
{

struct PartitionTable
{
	Relation table;
	Relation by_name; /* (log_id, name) */
	Relation by_log;  /* (log_id, partition_id) */
	Relation by_id;
};

struct PartitionRow
{
	int64 partition_id;
	char *name; /* palloc'ed */
	TimestampTz created_at;
	int64 log_id;
	bool own; /* this transaction wrote it, and may still be rolled back */
};

void partition_table_open(PartitionTable *partitions, LOCKMODE mode);
void partition_table_close(PartitionTable *partitions);

/* Find with the latest snapshot; false when there is none. */
bool partition_find(PartitionTable *partitions, int64 log_id, Name name, PartitionRow *row);
bool partition_find_by_id(PartitionTable *partitions, int64 partition_id, PartitionRow *row);

/* Find or bring to life, waiting for a running birth as queue_ensure does. */
void partition_ensure(PartitionTable *partitions, int64 log_id, Name name, PartitionRow *row);

/*
 * Walk a log's partitions in id order: up to count rows with first <= partition_id <= last into rows, with the
 * snapshot given (registered, or dirty). Returns how many there are.
 */
int partition_page(PartitionTable *partitions, int64 log_id, int64 first, int64 last, Snapshot snapshot,
				   PartitionRow *rows, int count);

/* How many partitions a log has. */
int64 partition_count(PartitionTable *partitions, int64 log_id);

/* Least and greatest partition id of a log that the snapshot sees; false when it has none. */
bool partition_id_range(PartitionTable *partitions, int64 log_id, Snapshot snapshot, int64 *least, int64 *greatest);

/* Delete the row of a partition, whose lock is held. What others remember of it is void when this commits. */
void partition_delete(int64 partition_id);

} // namespace queen

#endif
