/*
 * dead_letters.h: rows of queen.dead_letters.
 */
#ifndef QUEEN_LOG_DEAD_LETTERS_H
#define QUEEN_LOG_DEAD_LETTERS_H

#include "log/log_reader.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

/* What a dead letter says beside its message. */
struct DeadLetter
{
	const QueueRow *queue;
	int64 partition_id;
	const char *partition;
	const char *consumer_group;
	int64 msg_offset;
	int32 attempts;
	text *error; /* may be null */
};

/*
 * Copy the message at letter->msg_offset, in the reader's current segment, to the dead letters, in the caller's
 * transaction. Raises; XX001 when the segment is corrupt.
 */
void dead_letter_bury(const DeadLetter *letter, const LogReader *reader);

/* Delete a queue's dead letters that died before a time, up to 1,000. False when none is left. Never waits. */
bool dead_letters_expire_step(int64 queue_id, TimestampTz before);

} // namespace queen

#endif
