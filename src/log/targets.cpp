/*
 * targets.cpp: the partitions that a flush writes, from names to ids. See targets.h.
 *
 * Raises. Locks: births' unique keys, queues, then partitions, by name, to the end of the transaction. Runs in backends, in
 * PRE_COMMIT.
 */
#include "log/targets.h"

#include "hotlist/notify.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "server/relations.h"

namespace queen
{

namespace
{

[[noreturn]] void
refuse_birth(const char *what, Name name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that creates %s \"%s\" by a push", what, name_to_cstring(name)),
			 errhint("Push to it once in a transaction of its own, or commit in one phase.")));
	pg_unreachable();
}

/* The tables, and those of the queue that was met last. */
struct Resolver
{
	QueueTable queues;
	PartitionTable partitions;
	const BufferedQueue *last;
	QueueRow row; /* of last */
	bool preparing;
};

/* The options, and the log that the partition belongs to. */
const QueueRow *
resolve_queue(Resolver *resolver, FlushTarget *target)
{
	const BufferedQueue *queue = target->buffered->queue;
	const QueueOptions *options = &resolver->row.options;

	if (resolver->last != queue)
	{
		if (!resolver->preparing)
			queue_ensure(&resolver->queues, &queue->tenant, queue->name, queue->may_create, &resolver->row);
		else if (!queue_find(&resolver->queues, &queue->tenant, queue->name, &resolver->row))
			refuse_birth("queue", queue->name);
		queue_check_kind(&resolver->row, QueueKind::log, hint_for_push);
	}
	resolver->last = queue;
	target->known.queue_id = resolver->row.queue_id;
	target->known.log_id = resolver->row.log_id;
	target->known.compression = options->compression;
	target->known.dedup_window = options->dedup_window;
	target->known.dedup_error = options->dedup_error;
	target->known.channel = options->notify ? notify_channel(&queue->tenant, queue->name.data, queue->name.size) : 0;
	return &resolver->row;
}

void
resolve_partition(Resolver *resolver, int64 log_id, Name name, PartitionRow *row)
{
	if (!resolver->preparing)
		partition_ensure(&resolver->partitions, log_id, name, row);
	else if (!partition_find(&resolver->partitions, log_id, name, row))
		refuse_birth("partition", name);
}

/* Ask the tables for the targets whose partition is not known: all the queues before the first partition. */
void
resolve_by_tables(FlushTarget *targets, const uint64 *counts, int count, bool preparing)
{
	const uint64 generation = names_generation();
	bool *own_queue = (bool *) palloc_extended((Size) count, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	Resolver resolver = {};

	resolver.preparing = preparing;
	queue_table_open(&resolver.queues, RowExclusiveLock);
	partition_table_open(&resolver.partitions, RowExclusiveLock);
	for (int i = 0; i < count; i++)
		if (counts[i] > 0 && targets[i].known.partition_id == 0)
			own_queue[i] = resolve_queue(&resolver, &targets[i])->own;
	for (int i = 0; i < count; i++)
		if (counts[i] > 0 && targets[i].known.partition_id == 0)
		{
			FlushTarget *target = &targets[i];
			PartitionRow row;

			resolve_partition(&resolver, target->known.log_id, target->buffered->name, &row);
			target->known.partition_id = row.partition_id;
			/* what this transaction has written itself may be rolled back, and nobody would be told */
			if (!own_queue[i] && !row.own)
				known_name_put(target->buffered, &target->known, generation);
		}
	partition_table_close(&resolver.partitions);
	queue_table_close(&resolver.queues);
}

} // namespace

FlushTarget *
targets_resolve(BufferedPartition **sorted, const uint64 *counts, int count, bool preparing)
{
	FlushTarget *targets =
		(FlushTarget *) palloc_extended(sizeof(FlushTarget) * (Size) count, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	bool all_known = true;

	/* what others have committed before this flush counts */
	AcceptInvalidationMessages();
	for (int i = 0; i < count; i++)
	{
		targets[i].buffered = sorted[i];
		if (counts[i] > 0 && !known_name_find(sorted[i], &targets[i].known))
			all_known = false;
	}
	if (!all_known)
		resolve_by_tables(targets, counts, count, preparing);
	return targets;
}

void
target_resolve_again(FlushTarget *target, bool preparing)
{
	const int64 deleted = target->known.partition_id;
	constexpr uint64 one = 1;

	/* who pushes them again would not meet them where the message goes now */
	if (target->keyed)
		ereport(
			ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg(
				 "queue \"%s\" or its partition \"%s\" was dropped while messages with a dedup_key were being pushed",
				 name_to_cstring(target->buffered->queue->name), name_to_cstring(target->buffered->name)),
			 errhint("Try again.")));
	target->known.partition_id = 0;
	resolve_by_tables(target, &one, 1, preparing);
	if (target->known.partition_id == deleted)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("partition \"%s\" of queue \"%s\" is there and marked as deleted",
						name_to_cstring(target->buffered->name), name_to_cstring(target->buffered->queue->name))));
}

} // namespace queen
