/*
 * put.h: messages into a work queue: what all ways to enqueue share.
 */
#ifndef QUEEN_WORKQUEUE_PUT_H
#define QUEEN_WORKQUEUE_PUT_H

#include "log/queues.h"
#include "log/work_calls.h"
#include "server/xact.h"
#include "workqueue/message_rows.h"

namespace queen
{

extern const TransactionParticipant put_participant;

/* A queue that messages are put into. */
struct PutTarget
{
	QueueRow queue;
	MessageTable messages;
	int16 shard;
	int64 next_order;
	int64 orders; /* left of a draw */
	TimestampTz now;
};

/*
 * Find the queue, or bring it to life where that may be, and hold off who drops or purges it until the transaction ends; waits for them, at most
 * queen.flush_timeout. 42704, 42809, QN002.
 */
void put_open(PutTarget *target, const pg_uuid_t *tenant, Name queue, bool may_create);
void put_message(PutTarget *target, const WorkMessage *message);
void put_close(PutTarget *target);

/* WorkCalls' put_open. */
PutTarget *put_open_existing(const pg_uuid_t *tenant, Name queue);

/* A priority as text: high, medium or low (22004, 22023). */
int16 priority_argument(FunctionCallInfo fcinfo, int argno);
const char *priority_text(int16 priority);

/* A time to live in microseconds; 0 when it is null. 22023. */
int64 ttl_argument(FunctionCallInfo fcinfo, int argno);

} // namespace queen

#endif
