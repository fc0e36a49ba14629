/*
 * segment_frames.cpp: the frames of one segment's blob. See log_reader.h.
 *
 * Raises XX001 (data corrupted) for anything that is not what the writer wrote, in segment_frames_check only. No locks.
 * Runs in backends.
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

/* Take note of what the reader says; true when all is well. */
bool
note(SegmentFrames *frames, core::Status status)
{
	if (status != core::Status::ok)
		frames->trouble = core::status_name(status);
	return status == core::Status::ok;
}

/* Detoast, check, and step to the first frame that is wanted. */
void
begin(SegmentFrames *frames, const LogReader *reader, int64 from)
{
	struct varlena *blob = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(reader->blob));
	const int64 expected = reader->end - reader->base + 1;
	core::SegmentInfo info;
	void *scratch;

	if (!note(frames, frames->reader.open({(const uint8 *) VARDATA_ANY(blob), VARSIZE_ANY_EXHDR(blob)}, info)))
		return;
	if (info.frame_count != expected)
	{
		frames->trouble = psprintf("it holds %u messages, its row says %lld", info.frame_count, (long long) expected);
		return;
	}
	frames->ids_ascend = info.ids_ascend;
	scratch = palloc_extended(Max(info.scratch_size, 1), MCXT_ALLOC_HUGE);
	use_decompressor(&frames->reader, {(uint8 *) scratch, info.scratch_size});
	if (from > reader->base)
		note(frames, frames->reader.skip((uint32) (from - reader->base)));
}

} // namespace

void
segment_frames_open(SegmentFrames *frames, const LogReader *reader, int64 from, const char *queue,
					const char *partition)
{
	MemoryContext caller;

	*frames = {};
	frames->context = AllocSetContextCreate(CurrentMemoryContext, "queen segment", ALLOCSET_DEFAULT_SIZES);
	frames->queue = queue;
	frames->partition = partition;
	frames->base = reader->base;
	frames->next_offset = Max(from, reader->base);
	caller = MemoryContextSwitchTo(frames->context);
	begin(frames, reader, from);
	MemoryContextSwitchTo(caller);
}

bool
segment_frames_next(SegmentFrames *frames, core::Frame *frame, int64 *offset)
{
	core::Status status;

	if (frames->trouble != nullptr)
		return false;
	status = frames->reader.next(*frame);
	if (status == core::Status::end || !note(frames, status))
		return false;
	*offset = frames->next_offset++;
	return true;
}

void
segment_frames_check(const SegmentFrames *frames)
{
	if (frames->trouble != nullptr)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("segment of queue \"%s\" partition \"%s\" at offset %lld is corrupt", frames->queue,
							   frames->partition, (long long) frames->base),
						errdetail("Reading the message at offset %lld: %s.", (long long) frames->next_offset,
								  frames->trouble)));
}

void
segment_frames_close(SegmentFrames *frames)
{
	MemoryContextDelete(frames->context);
}

} // namespace queen
