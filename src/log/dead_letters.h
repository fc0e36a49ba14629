/*
 * dead_letters.h: rows of queen.dead_letters.
 */
#ifndef QUEEN_LOG_DEAD_LETTERS_H
#define QUEEN_LOG_DEAD_LETTERS_H

#include "log/log_reader.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/pg.h"
#include "server/table_access.h"

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

/*
 * Insert a dead letter for a timer whose message never came into the log: values and nulls tell everything but dead_id and dead_at.
 */
void dead_letter_insert(Datum *values, bool *nulls);

/* Columns of queen.dead_letters, from 0. */
enum DeadColumn : int
{
	dead_col_dead_id,
	dead_col_tenant,
	dead_col_queue_id,
	dead_col_queue,
	dead_col_kind,
	dead_col_partition_id,
	dead_col_partition,
	dead_col_consumer_group,
	dead_col_msg_offset,
	dead_col_message_id,
	dead_col_message,
	dead_col_payload,
	dead_col_headers,
	dead_col_attempts,
	dead_col_error,
	dead_col_enqueued_at,
	dead_col_dead_at,
	dead_col_timer_key,
	dead_col_priority,
	dead_cols,
};

/* The queue of letters of timers that had none then. They stay so: they are of whatever queue of theirs has that name. */
inline constexpr int64 dead_of_no_queue = 0;

/* Which of a queue's dead letters. */
struct DeadChoice
{
	int64 queue_id; /* dead_of_no_queue: there is none of that name */
	const pg_uuid_t *tenant;
	Name queue;
	bool has_group;
	Name group;
	bool has_ids;
	const int64 *ids; /* ascending, each once */
	int id_count;
	int64 after; /* without ids: only those behind it */
};

/* Is a letter in a slot of this queue? */
bool dead_is_of(TupleTableSlot *slot, int64 queue_id, const pg_uuid_t *tenant, Name queue);

/* Letters under one queue_id, in dead_id order. */
struct DeadStream
{
	int64 queue_id;
	IndexScan scan;
	int64 dead_id; /* of the one in the scan's slot, when there is one */
	bool there;
};

/* Those that the latest snapshot sees, in dead_id order. */
struct DeadScan
{
	const DeadChoice *choice;
	Relation table;
	Relation index;
	Snapshot snapshot;
	DeadStream streams[2]; /* the queue's own, those of no queue; the latter alone where there is none */
	int stream_count;
	bool begun;
	int at;				  /* in choice->ids */
	TupleTableSlot *slot; /* the letter's */
};

/* mode: of the lock on the table */
void dead_scan_open(DeadScan *scan, const DeadChoice *choice, LOCKMODE mode);

/* The next one into scan->slot; false at the end. */
bool dead_scan_next(DeadScan *scan);
void dead_scan_close(DeadScan *scan);

/* Delete those of dead_of_no_queue with these names; waits for whoever is at one. Returns how many there were. */
int64 dead_letters_delete_of_no_queue(const pg_uuid_t *tenant, Name queue);

/* Are there any of dead_of_no_queue with these names? */
bool dead_letters_wait_for(const pg_uuid_t *tenant, Name queue);

/*
 * Find the queue whose letters are wanted. False where there is none, but letters wait for one of that name: row->queue_id is
 * dead_of_no_queue. 42704 where there are none either.
 */
bool dead_queue_find(const pg_uuid_t *tenant, Name name, QueueRow *row);

/* Are there any letters of that choice? kind, if not null: of the queue that they want, a work queue if one of them has a priority. */
bool dead_letters_any(const DeadChoice *choice, QueueKind *kind);

/* The first queue from an id on that has dead letters; false when none has. */
bool dead_letters_next_queue(int64 from, int64 *queue_id);

/* Delete a queue's dead letters that died before a time, up to 1,000. False when none is left. Never waits. */
bool dead_letters_expire_step(int64 queue_id, TimestampTz before);

/*
 * The same of dead_of_no_queue, by the options of the queue that has the name now: look at up to 1,000 behind *after, which moves on.
 * False at the end.
 */
bool dead_letters_expire_of_no_queue(int64 *after, TimestampTz now);

} // namespace queen

#endif
