/*
 * segment_builder.cpp: frames into segments. See segment_builder.h.
 *
 * Raises. Locks: what append_segment takes. Runs in backends, in PRE_COMMIT.
 */
#include "log/segment_builder.h"

#include "log/event_counts.h"
#include "server/settings.h"
#include "server/timed_wait.h"

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

/*
 * Memory of one segment, likewise kept: what an ordinary one needs (a block, its compressed form) is not asked of malloc
 * at each commit, which would give it back to the system each time.
 */
constinit core::Frame *frames_memory = nullptr;
constinit MemoryContext scratch_memory = nullptr;
constexpr Size scratch_keeps = 192 * 1024;

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

void
wait_for_changer(void *arg)
{
	XactLockTableWait(*(const TransactionId *) arg, nullptr, nullptr, XLTW_None);
}

/* Append under whatever the names stand for by now. */
void
append_somewhere(SegmentBuilder *builder, Datum blob)
{
	FlushTarget *target = builder->target;
	TransactionId changer = InvalidTransactionId;

	for (;;)
	{
		const bool known = builder->written_log == target->known.log_id;

		CHECK_FOR_INTERRUPTS();
		switch (append_segment(&builder->appender, target, builder->count, blob, known, &changer))
		{
			case Append::done:
				event_note_log(RelationGetRelid(builder->appender.segments), target->known.queue_id, Event::added,
							   builder->count);
				event_note_log(RelationGetRelid(builder->appender.segments), target->known.queue_id, Event::bytes,
							   builder->content);
				builder->written_log = target->known.log_id;
				return;
			case Append::gone:
				target_resolve_again(target, builder->preparing);
				break;
			case Append::changing:
				if (!run_with_timeout(setting_flush_timeout, false, wait_for_changer, &changer))
					ereport(ERROR,
							(errcode(errcode_flush_timeout),
							 errmsg("queue \"%s\" is being dropped or purged by a transaction that has not ended",
									name_to_cstring(target->buffered->queue->name)),
							 errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout),
							 errhint("Try again, or commit the transaction that drops it sooner.")));
				break;
		}
	}
}

/* Append the segment that was collected. Compressed before the partition's lock is taken. */
void
finish_segment(SegmentBuilder *builder)
{
	MemoryContext caller;

	if (builder->count == 0)
		return;
	caller = MemoryContextSwitchTo(builder->scratch);
	append_somewhere(builder, encode({builder->frames, builder->count}, builder->target->known.compression));
	MemoryContextSwitchTo(caller);
	MemoryContextReset(builder->scratch);
	builder->count = 0;
	builder->raw = 0;
	builder->content = 0;
}

} // namespace

void
segment_builder_open(SegmentBuilder *builder, bool preparing)
{
	builder->preparing = preparing;
	builder->target = nullptr;
	builder->written_log = 0;
	builder->count = 0;
	builder->raw = 0;
	builder->content = 0;
	if (frames_memory == nullptr)
		frames_memory =
			(core::Frame *) MemoryContextAlloc(TopMemoryContext, sizeof(core::Frame) * core::segment_max_frames);
	if (scratch_memory == nullptr)
		scratch_memory = GenerationContextCreate(TopMemoryContext, "queen flush segment", 0, scratch_keeps,
												 ALLOCSET_DEFAULT_MAXSIZE);
	builder->frames = frames_memory;
	builder->scratch = scratch_memory;
	appender_open(&builder->appender);
}

void
segment_builder_room(SegmentBuilder *builder, FlushTarget *target, const core::Frame *frame)
{
	CHECK_FOR_INTERRUPTS();
	if (builder->target != target || builder->count == core::segment_max_frames ||
		builder->raw + core::frame_raw_bound(*frame) > core::segment_target_raw)
		finish_segment(builder);
	builder->target = target;
}

void
segment_builder_add(SegmentBuilder *builder, const core::Frame *frame)
{
	builder->frames[builder->count++] = *frame;
	builder->raw += core::frame_raw_bound(*frame);
	builder->content += frame->payload.size() + frame->headers.size();
}

void
segment_builder_close(SegmentBuilder *builder)
{
	finish_segment(builder);
	appender_close(&builder->appender);
}

void
segment_builder_forget()
{
	if (scratch_memory != nullptr)
		MemoryContextReset(scratch_memory);
}

} // namespace queen
