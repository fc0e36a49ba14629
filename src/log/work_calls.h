/*
 * work_calls.h: what functions that serve both kinds of queues ask of src/workqueue, which this folder must not know.
 */
#ifndef QUEEN_LOG_WORK_CALLS_H
#define QUEEN_LOG_WORK_CALLS_H

#include "core/types.h"
#include "log/queues.h"
#include "log/state_gauges.h"
#include "server/pg.h"

namespace queen
{

/* A message that is put into a work queue. */
struct WorkMessage
{
	core::Uuid id;
	int16 priority; /* 0: medium */
	int64 ttl;		/* 0: as the queue says */
	bool raw;
	Datum content;	/* jsonb, raw: bytea */
	Jsonb *headers; /* may be null */
};

inline constexpr int priority_count = 3;

/* A work queue whose state is asked for; each array by priority, the lowest first. */
struct WorkQueueState
{
	int64 log_id;
	int32 limit; /* deliveries of a message */
	/* what is counted: as the rows say */
	int64 stored_ready[priority_count];
	int64 stored_in_flight[priority_count];
	/* messages that were met: those that time has changed and a few others, or all there are */
	int64 met_ready[priority_count];
	int64 met_in_flight[priority_count];
	bool met_all_ready[priority_count];
	bool met_all_in_flight[priority_count];
	StateGauges gauges[priority_count];
};

struct PutTarget;

/* All of these raise. */
struct WorkCalls
{
	/* Put messages into a tenant's queue, which must be there and a work queue. It is in the memory context of put_open; put_close ends it. */
	PutTarget *(*put_open)(const pg_uuid_t *tenant, Name queue);
	void (*put)(PutTarget *target, const WorkMessage *message);
	void (*put_close)(PutTarget *target);

	const char *(*priority_text)(int16 priority);

	/* Is the message in the queue? With the snapshot; enqueued_at says since when. */
	bool (*find)(const QueueRow *queue, const core::Uuid &id, Snapshot snapshot, TimestampTz *enqueued_at);

	/* Delete messages of a log that is nobody's any more, up to *most, which is lowered, and to a time; never waits. True when none is left. */
	bool (*delete_log)(int64 log_id, TimestampTz end, int *most);

	/*
	 * Delete expired messages, of all tenants, in one bounded step of a pass, one at a time in a process. False when it is over; *next: when there may be
	 * more, DT_NOEND when nobody knows of any.
	 */
	bool (*expire_step)(bool first, TimestampTz *next);

	/*
	 * The state of work queues, which are sorted by log_id, as a snapshot sees them at a time. Meets what time has changed since it was written, and a
	 * message or two of each priority; or all of them, where that is less work. What is counted must be what was met, or more if that is not all.
	 */
	void (*states)(Snapshot snapshot, TimestampTz now, WorkQueueState *queues, int count);

	/* SQL writes the table of messages. */
	void (*loaded)(Oid tables);
};

/* Set once by _PG_init. */
extern const WorkCalls *work_calls;

} // namespace queen

#endif
