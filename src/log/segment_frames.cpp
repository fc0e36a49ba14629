/*
 * segment_frames.cpp: the frames of one segment's blob. See log_reader.h.
 *
 * Raises XX001 (data corrupted) for anything that is not what the writer wrote. No locks. Runs in backends.
 */
#include "log/log_reader.h"

namespace queen
{

namespace
{

/* zstd's state, the same for every segment, kept for the backend's life */
constinit void *workspace = nullptr;
constinit core::Decompressor *decompressor = nullptr;

void
use_decompressor(core::SegmentReader *reader, core::ByteBuffer scratch)
{
	const Size size = core::segment_decode_workspace_size();

	if (workspace == nullptr)
		workspace = MemoryContextAlloc(TopMemoryContext, size);
	if (decompressor == nullptr)
		decompressor = core::decompressor_make({(uint8 *) workspace, size});
	reader->set_memory(scratch, {(uint8 *) workspace, size}, decompressor);
}

[[noreturn]] void
raise_corrupt(const SegmentFrames *frames, const char *reason)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("segment of queue \"%s\" partition \"%s\" at offset %lld is corrupt", frames->queue,
						   frames->partition, (long long) frames->base),
					errdetail("Reading the message at offset %lld: %s.", (long long) frames->next_offset, reason)));
	pg_unreachable();
}

void
check(const SegmentFrames *frames, core::Status status)
{
	if (status != core::Status::ok)
		raise_corrupt(frames, core::status_name(status));
}

} // namespace

void
segment_frames_open(SegmentFrames *frames, const LogReader *reader, int64 from, const char *queue,
					const char *partition)
{
	MemoryContext caller;
	core::SegmentInfo info;
	struct varlena *blob;
	void *scratch;

	frames->context = AllocSetContextCreate(CurrentMemoryContext, "queen segment", ALLOCSET_DEFAULT_SIZES);
	frames->queue = queue;
	frames->partition = partition;
	frames->base = reader->base;
	frames->next_offset = reader->base;
	frames->reader = {};
	caller = MemoryContextSwitchTo(frames->context);
	blob = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(reader->blob));
	check(frames, frames->reader.open({(const uint8 *) VARDATA_ANY(blob), VARSIZE_ANY_EXHDR(blob)}, info));
	if (info.frame_count != reader->end - reader->base + 1)
		raise_corrupt(frames, psprintf("it holds %u messages, its row says %lld", info.frame_count,
									   (long long) (reader->end - reader->base + 1)));
	scratch = palloc_extended(Max(info.scratch_size, 1), MCXT_ALLOC_HUGE);
	use_decompressor(&frames->reader, {(uint8 *) scratch, info.scratch_size});
	if (from > reader->base)
		check(frames, frames->reader.skip((uint32) (from - reader->base)));
	frames->next_offset = Max(from, reader->base);
	MemoryContextSwitchTo(caller);
}

bool
segment_frames_next(SegmentFrames *frames, core::Frame *frame, int64 *offset)
{
	core::Status status = frames->reader.next(*frame);

	if (status == core::Status::end)
		return false;
	check(frames, status);
	*offset = frames->next_offset++;
	return true;
}

void
segment_frames_close(SegmentFrames *frames)
{
	MemoryContextDelete(frames->context);
}

} // namespace queen
