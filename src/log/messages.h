/*
 * messages.h: rows of type queen.message, from frames.
 */
#ifndef QUEEN_LOG_MESSAGES_H
#define QUEEN_LOG_MESSAGES_H

#include "core/segment.h"
#include "server/pg.h"

namespace queen
{

/* The columns of a message that do not come from its frame. Null pointers are null columns. */
struct MessageOrigin
{
	const char *queue;
	const char *partition;
	const char *consumer_group;
	const core::Uuid *lease;
	TimestampTz lease_until;
	int32 attempt; /* 0: null */
};

/*
 * Collects the rows of a set-returning function: in the order in which they come, or sorted by (partition, msg_offset)
 * where several partitions give some.
 */
struct MessageSink
{
	ReturnSetInfo *rsinfo;
	Tuplesortstate *sort;
	TupleTableSlot *slot;
	MemoryContext per_row;
};

void message_sink_open(MessageSink *sink, FunctionCallInfo fcinfo, bool sorted);
void message_sink_put(MessageSink *sink, const MessageOrigin *origin, int64 offset, TimestampTz enqueued_at,
					  const core::Frame *frame);
void message_sink_close(MessageSink *sink);

/* A frame's parts as datums in the current memory context; null flags as the frame says. */
struct FrameDatums
{
	Datum message_id;
	Datum message;
	bool message_null;
	Datum payload;
	bool payload_null;
	Datum headers;
	bool headers_null;
};
void frame_datums(const core::Frame *frame, FrameDatums *out);

} // namespace queen

#endif
