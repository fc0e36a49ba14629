/*
 * queues.h: rows of queen.queues, and a queue's options.
 */
#ifndef QUEEN_LOG_QUEUES_H
#define QUEEN_LOG_QUEUES_H

#include "core/segment.h"
#include "server/errors.h"
#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"

namespace queen
{

inline constexpr int64 retry_exponential = -1;
inline constexpr int64 option_off = -1;

/* What a queue is: its functions are the kind's. */
enum class QueueKind
{
	log,
	work,
};

/* Options in force: a null column is its default. Durations in microseconds. */
struct QueueOptions
{
	int64 lease_time = 30 * USECS_PER_SEC;
	int32 max_deliveries = 5;
	int64 retry_delay = retry_exponential;		  /* or a fixed delay */
	int32 compression = core::zstd_level_default; /* zstd level, 0 stores */
	int64 delayed_processing = 0;				  /* a message is delivered no sooner after its push */
	int64 window_buffer = 0;					  /* a partition delivers when it was quiet that long */
	int64 dedup_window = 5 * USECS_PER_MINUTE;	  /* how long a dedup_key keeps others away; 0: for ever none */
	bool dedup_error = false;					  /* a duplicate is an error, not dropped */
	int64 retention = option_off;				  /* messages older than this go, consumed or not */
	int64 completed_retention = USECS_PER_DAY;	  /* older ones go when every group has passed them */
	int64 group_expiry = option_off;			  /* a group that was idle that long keeps nothing */
	int64 dead_retention = 14 * USECS_PER_DAY;	  /* dead letters older than this go */
	bool notify = false;						  /* who LISTENs is told, see notify.h */
	/* of work queues */
	int64 visibility_timeout = 30 * USECS_PER_SEC;
	int32 max_delivery_attempts = 5;
	int64 message_ttl = 7 * USECS_PER_DAY;
};

inline constexpr int64 lease_time_least = USECS_PER_SEC;
inline constexpr int64 lease_time_most = 12 * USECS_PER_HOUR;
inline constexpr int64 deferral_most = 7 * USECS_PER_DAY;
inline constexpr int64 dedup_window_most = 30 * USECS_PER_DAY;
inline constexpr int64 retention_most = 3650 * USECS_PER_DAY;
inline constexpr int64 delay_most = 365 * USECS_PER_DAY;
inline constexpr int64 visibility_least = USECS_PER_SEC;
inline constexpr int64 visibility_most = 6 * USECS_PER_HOUR;
inline constexpr int32 delivery_attempts_most = 100;
inline constexpr int64 ttl_least = USECS_PER_SEC;
inline constexpr int64 ttl_most = 30 * USECS_PER_DAY;

/* Columns of queen.queues, from 0. */
enum QueueColumn : int
{
	queue_col_id,
	queue_col_log_id,
	queue_col_tenant,
	queue_col_name,
	queue_col_kind,
	queue_col_created_at,
	queue_col_lease_time,
	queue_col_max_deliveries,
	queue_col_retry_delay,
	queue_col_compression,
	queue_col_delayed_processing,
	queue_col_window_buffer,
	queue_col_dedup_window,
	queue_col_dedup,
	queue_col_retention,
	queue_col_completed_retention,
	queue_col_group_expiry,
	queue_col_dead_retention,
	queue_col_notify,
	queue_col_visibility_timeout,
	queue_col_max_delivery_attempts,
	queue_col_message_ttl,
	queue_col_paused,
	queue_cols,
};

struct QueueRow
{
	int64 queue_id;
	int64 log_id; /* its partitions, or messages, belong to */
	QueueKind kind;
	pg_uuid_t tenant;
	char *name; /* palloc'ed */
	TimestampTz created_at;
	QueueOptions options;
	bool paused;
	ItemPointerData tid;
	bool own;				  /* this transaction wrote it, and may still be rolled back */
	Datum values[queue_cols]; /* copies: they outlive the scan */
	bool nulls[queue_cols];
};

/* queen.queues with its indexes. */
struct QueueTable
{
	Relation table;
	Relation by_name;
	Relation by_id;
	Relation by_log;
};

void queue_table_open(QueueTable *queues, LOCKMODE mode);
void queue_table_close(QueueTable *queues);

/* Find by name or id with the latest snapshot. False when there is none. */
bool queue_find(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row);
bool queue_find_by_id(QueueTable *queues, int64 queue_id, QueueRow *row);
bool queue_find_by_log(QueueTable *queues, int64 log_id, QueueRow *row);

/* The first from an id on, of any tenant, with the latest snapshot. False at the end. */
bool queue_find_from(QueueTable *queues, int64 queue_id, QueueRow *row);

/* Show fn all queues, of all tenants, as a snapshot sees them, in no order. */
void queues_each(Snapshot snapshot, void (*fn)(const QueueRow *row, void *arg), void *arg);

/* For a call that only reads the row: find it, or raise 42704. */
void queue_get(const pg_uuid_t *tenant, Name name, QueueRow *row);

/* The same for what is done with log queues; 42809 with a hint when it is another. */
void queue_get_log(const pg_uuid_t *tenant, Name name, const char *hint, QueueRow *row);

/* 42809 when the queue is not of a kind. hint: what is there for a queue of the other kind. */
void queue_check_kind(const QueueRow *row, QueueKind kind, const char *hint);

/* What there is for work queues in the place of … */
inline constexpr const char *hint_for_push =
	"Put messages into a work queue with queen.enqueue() or queen.enqueue_batch().";
inline constexpr const char *hint_for_pop =
	"Take messages of a work queue with queen.dequeue(), which also waits for some.";
inline constexpr const char *hint_for_groups =
	"A work queue has no consumer groups or partitions; queen.count_messages() says what is in it.";
inline constexpr const char *hint_for_seek = "A work queue has no positions: what is acknowledged is gone.";

/* Does a queue still have a log? */
enum class LogState
{
	alive,
	changing, /* a running transaction drops or purges the queue */
	gone,
};

/*
 * Look dirty, as a push does that knows the ids from before.
 *   changer: the transaction to wait for, when it is changing
 */
LogState queue_log_state(QueueTable *queues, int64 queue_id, int64 log_id, TransactionId *changer);

/* Fill row from a deformed row of queen.queues. */
void queue_row_from_slot(TupleTableSlot *slot, QueueRow *row);

/*
 * Find the queue, of whatever kind, or bring one of a kind to life; a birth by another transaction that has not ended is waited for, at most
 * queen.flush_timeout (QN002). Raises 42704 when it is missing and may_create is false.
 */
void queue_ensure(QueueTable *queues, const pg_uuid_t *tenant, Name name, bool may_create, QueueRow *row,
				  QueueKind kind = QueueKind::log);

/*
 * Merge options into a queue's, waiting for another transaction that changes them; row is what is in force then. 42704
 * when the queue is not there.
 */
void queue_configure(QueueTable *queues, const pg_uuid_t *tenant, Name name, Jsonb *options, QueueRow *row);

/* Pause or resume a queue, waiting as queue_configure does; was it otherwise before? 42704 when it is not there. */
bool queue_set_paused(QueueTable *queues, const pg_uuid_t *tenant, Name name, bool paused);

/*
 * Hold off whoever drops or purges the queue, and whoever configures it, until this transaction ends; waits for them, not
 * for others that do the same. False: it is gone.
 */
bool queue_hold(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row);

/*
 * Delete the queue's row, or give the queue a new and empty log; both wait for whoever changes the row. row is what was
 * there; false when nothing was.
 */
bool queue_delete(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row);
bool queue_renew_log(QueueTable *queues, const pg_uuid_t *tenant, Name name, QueueRow *row);

/* How many queues a tenant has. */
int64 count_queues(const pg_uuid_t *tenant);

/* Who waits at the queue is told at the end of this transaction that its row or its groups may be others. */
void queue_tell(int64 queue_id);

/* 42704: the queue is not there. */
[[noreturn]] void raise_unknown_queue(Name name);

/* Merge a JSON object of options into a row's values; raises on one that its kind does not have, type or range. */
void queue_options_merge(Jsonb *options, Datum *values, bool *nulls);

/* All options of the queue's kind in force, as a JSON object. */
Datum queue_options_jsonb(const QueueRow *row);

/* The delay before delivery number attempts + 1. */
int64 retry_delay_of(const QueueOptions *options, int32 attempts);

} // namespace queen

#endif
