/*
 * segment_builder.h: frames into segments, while a flush streams them by partition.
 */
#ifndef QUEEN_LOG_SEGMENT_BUILDER_H
#define QUEEN_LOG_SEGMENT_BUILDER_H

#include "core/segment.h"
#include "log/append.h"
#include "log/push_buffer.h"
#include "log/targets.h"
#include "server/pg.h"

namespace queen
{

/*
 * Collects the frames of one segment and appends it when it is full (1,000 frames or 1 MB) or the partition changes. All
 * functions raise.
 */
struct SegmentBuilder
{
	Appender appender;
	FlushTarget *target;
	bool preparing;
	int64 written_log; /* the log of the segment that was appended last, or 0 */
	core::Frame *frames;
	uint32 count;
	Size raw;			   /* of the frames, before compression */
	Size content;		   /* of their messages, headers included */
	MemoryContext scratch; /* lives as long as the segment */
};

/* preparing: the transaction is; see targets_resolve */
void segment_builder_open(SegmentBuilder *builder, bool preparing);

/*
 * Make room for a frame of a partition: what does not go into the same segment is appended first. After this the frame's
 * bytes may be put into builder->scratch.
 */
void segment_builder_room(SegmentBuilder *builder, FlushTarget *target, const core::Frame *frame);

/* Add the frame for which there is room; its bytes must hold until the next segment_builder_room or _close. */
void segment_builder_add(SegmentBuilder *builder, const core::Frame *frame);

/* Append what is left. */
void segment_builder_close(SegmentBuilder *builder);

/* The transaction is over: give back what an error has left. Never raises. */
void segment_builder_forget();

} // namespace queen

#endif
