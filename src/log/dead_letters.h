/*
 * dead_letters.h: rows of queen.dead_letters.
 */
#ifndef QUEEN_LOG_DEAD_LETTERS_H
#define QUEEN_LOG_DEAD_LETTERS_H

#include "core/segment.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

struct DeadLetter
{
	const QueueRow *queue;
	int64 partition_id;
	const char *partition;
	const char *consumer_group;
	int64 msg_offset;
	TimestampTz enqueued_at;
	const core::Frame *frame;
	int32 attempts;
	text *error; /* may be null */
};

/* Insert one, in the caller's transaction. Raises. */
void dead_letter_add(const DeadLetter *letter);

} // namespace queen

#endif
