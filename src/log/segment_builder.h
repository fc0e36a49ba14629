/*
 * segment_builder.h: frames into segments, while a flush streams them by partition.
 */
#ifndef QUEEN_LOG_SEGMENT_BUILDER_H
#define QUEEN_LOG_SEGMENT_BUILDER_H

#include "core/segment.h"
#include "log/append.h"
#include "log/push_buffer.h"
#include "server/pg.h"

namespace queen
{

/* A partition that is being written. */
struct FlushTarget
{
	const BufferedPartition *buffered;
	int64 partition_id;
	int compression; /* zstd level, 0 stores */
	int64 dedup_window;
	bool dedup_error;
};

/*
 * Collects the frames of one segment and appends it when it is full (1,000 frames or 1 MB) or the partition changes. All
 * functions raise.
 */
struct SegmentBuilder
{
	Appender appender;
	const FlushTarget *target;
	core::Frame *frames;
	uint32 count;
	Size raw;			   /* of the frames, before compression */
	MemoryContext scratch; /* lives as long as the segment */
};

void segment_builder_open(SegmentBuilder *builder);

/*
 * Make room for a frame of a partition: what does not go into the same segment is appended first. After this the frame's
 * bytes may be put into builder->scratch.
 */
void segment_builder_room(SegmentBuilder *builder, const FlushTarget *target, const core::Frame *frame);

/* Add the frame for which there is room; its bytes must hold until the next segment_builder_room or _close. */
void segment_builder_add(SegmentBuilder *builder, const core::Frame *frame);

/* Append what is left. */
void segment_builder_close(SegmentBuilder *builder);

} // namespace queen

#endif
