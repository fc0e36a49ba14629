/*
 * flush.cpp: writing the push buffer, in PRE_COMMIT. See flush.h; the order is design.md section 3.
 *
 * flush_pushes raises. Locks, in this order: the own tables; births' unique keys (queues, then partitions, by name), to
 * the end; then one partition at a time, briefly. Runs in backends.
 */
#include "log/flush.h"

#include "log/append.h"
#include "log/partitions.h"
#include "log/push_buffer.h"
#include "log/queues.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* zstd's state, kept for the backend's life: making one costs more than compressing a small segment. */
struct CompressorCache
{
	void *workspace;
	Size size;
	core::Compressor *compressor;
};

constinit CompressorCache compressor_cache = {};

/* Memory for a level into what segment_encode takes. */
void
use_compressor(int level, core::EncodeMemory *memory)
{
	CompressorCache *cache = &compressor_cache;
	Size size = level == 0 ? 0 : core::segment_encode_workspace_size(level);

	if (size > cache->size)
	{
		void *old = cache->workspace;

		*cache = {};
		if (old != nullptr)
			pfree(old);
		cache->workspace = MemoryContextAlloc(TopMemoryContext, size);
		cache->size = size;
		cache->compressor = core::compressor_make({(uint8 *) cache->workspace, size}, level);
	}
	memory->workspace = {(uint8 *) cache->workspace, cache->size};
	memory->compressor = cache->compressor;
}

struct Target
{
	BufferedPartition *buffered;
	int64 partition_id;
	int compression;
};

/* Encode frames into a bytea, palloc'ed in the current context. */
Datum
encode(std::span<const core::Frame> frames, int level)
{
	core::EncodeMemory memory;
	Size bound = core::segment_encode_bound(frames);
	Size raw_size = core::segment_encode_raw_size(frames);
	struct varlena *blob = (struct varlena *) MemoryContextAllocHuge(CurrentMemoryContext, VARHDRSZ + bound);
	core::Status status;
	std::size_t size = 0;

	memory.raw = {(uint8 *) MemoryContextAllocHuge(CurrentMemoryContext, raw_size), raw_size};
	use_compressor(level, &memory);
	status = core::segment_encode(frames, level, memory, {(uint8 *) VARDATA(blob), bound}, size);
	if (status != core::Status::ok)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not encode a segment: %s", core::status_name(status))));
	SET_VARSIZE(blob, VARHDRSZ + size);
	return PointerGetDatum(blob);
}

/* Frames of one segment: as many as the limits take, at least one. */
uint32
cut_segment(const core::Frame *frames, uint32 count)
{
	Size raw = 0;
	uint32 n = 0;

	while (n < count && n < core::segment_max_frames)
	{
		raw += core::frame_raw_bound(frames[n]);
		if (n > 0 && raw > core::segment_target_raw)
			break;
		n++;
	}
	return n;
}

void
write_partition(Appender *appender, const Target *target, MemoryContext scratch)
{
	const BufferedPartition *buffered = target->buffered;
	uint32 count = buffered->count;
	core::Frame *frames = (core::Frame *) MemoryContextAllocHuge(CurrentMemoryContext, sizeof(core::Frame) * count);
	uint32 i = count;

	for (const BufferedFrame *f = buffered->last; f != nullptr; f = f->previous_of_partition)
		frames[--i] = f->frame;
	Assert(i == 0);

	while (i < count)
	{
		MemoryContext caller = MemoryContextSwitchTo(scratch);
		uint32 n = cut_segment(frames + i, count - i);
		/* compressed before the partition's lock is taken */
		Datum blob = encode({frames + i, n}, target->compression);

		append_segment(appender, target->partition_id, n, blob, name_to_cstring(buffered->queue->name),
					   name_to_cstring(buffered->name));
		MemoryContextSwitchTo(caller);
		MemoryContextReset(scratch);
		i += n;
	}
	pfree(frames);
}

/* Make sure of all queues, then of all partitions, in name order. */
Target *
bring_to_life(BufferedPartition **sorted, int count)
{
	QueueTable queues;
	PartitionTable partitions;
	Target *targets = (Target *) palloc(sizeof(Target) * (Size) count);
	int64 *queue_ids = (int64 *) palloc(sizeof(int64) * (Size) count);

	queue_table_open(&queues, RowExclusiveLock);
	partition_table_open(&partitions, RowExclusiveLock);
	for (int i = 0; i < count; i++)
	{
		const BufferedQueue *queue = sorted[i]->queue;

		targets[i].buffered = sorted[i];
		if (i > 0 && sorted[i - 1]->queue == queue)
		{
			queue_ids[i] = queue_ids[i - 1];
			targets[i].compression = targets[i - 1].compression;
		}
		else
		{
			QueueRow row;

			queue_ensure(&queues, &queue->tenant, queue->name, setting_auto_create, &row);
			queue_ids[i] = row.queue_id;
			targets[i].compression = row.options.compression;
		}
	}
	for (int i = 0; i < count; i++)
	{
		PartitionRow row;

		partition_ensure(&partitions, queue_ids[i], sorted[i]->name, &row);
		targets[i].partition_id = row.partition_id;
	}
	partition_table_close(&partitions);
	queue_table_close(&queues);
	return targets;
}

void
ended(bool committed)
{
	(void) committed;
	push_buffer_reset(false);
}

} // namespace

const TransactionParticipant push_participant = {
	flush_pushes,
	ended,
	push_buffer_sub_committed,
	push_buffer_sub_aborted,
};

void
flush_pushes()
{
	MemoryContext context;
	MemoryContext scratch;
	MemoryContext caller;
	BufferedPartition **sorted;
	Target *targets;
	Appender appender;
	int count;

	if (push_buffer_count() == 0)
		return;
	/* a push locks a table, so only this transaction itself can have dropped them: its messages are gone with them */
	if (!relations_exist())
	{
		push_buffer_reset(true);
		return;
	}
	for (Table table : {Table::queues, Table::log_partitions, Table::log_starts, Table::log_segments})
		lock_table(table, RowExclusiveLock);
	context = AllocSetContextCreate(TopTransactionContext, "queen flush", ALLOCSET_DEFAULT_SIZES);
	scratch = AllocSetContextCreate(context, "queen flush segment", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	/* toasting wants a snapshot to be there */
	PushActiveSnapshot(GetLatestSnapshot());

	sorted = push_buffer_sorted(&count);
	targets = bring_to_life(sorted, count);
	appender_open(&appender);
	for (int i = 0; i < count; i++)
		write_partition(&appender, &targets[i], scratch);
	appender_close(&appender);
	push_buffer_reset(true);
	/* a later read in this transaction must meet its own rows as seen */
	CommandCounterIncrement();

	PopActiveSnapshot();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

} // namespace queen
