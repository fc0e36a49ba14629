/*
 * ack.cpp: queen.ack, ack_all, extend, release.
 *
 * Raises. Locks: the cursor rows of the leases, in (partition, group) order. Runs in backends, in every isolation level.
 */
#include "log/event_counts.h"
#include "log/leases.h"
#include "log/log_reader.h"
#include "log/queues.h"
#include "server/errors.h"
#include "server/guards.h"

namespace queen
{

namespace
{

/* How many messages under the lease lie behind an offset: none of those that retention has deleted. */
int64
count_left(const HeldLease *held, int64 up_to)
{
	SegmentTable segments;
	int64 count;

	segment_table_open(&segments);
	count = log_count_messages(&segments, held->partition_id, up_to + 1, held->cursor.batch_end);
	segment_table_close(&segments);
	return count;
}

/* Complete a lease's messages up to an offset, or all; returns how many. */
int64
complete(const pg_uuid_t *lease, bool all, int64 up_to)
{
	HeldLease held;
	Cursor *cursor = &held.cursor;
	int64 count = 0;

	if (lease_open(&held, lease) == LeaseState::held)
	{
		if (all)
			up_to = cursor->batch_end;
		if (up_to > cursor->batch_end)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("up_to %lld lies behind the messages under the lease", (long long) up_to),
							errdetail("The last of them has offset %lld.", (long long) cursor->batch_end),
							errhint("Pass the msg_offset of a message that the lease came with.")));
		if (up_to > cursor->committed)
		{
			const int64 left = up_to < cursor->batch_end ? count_left(&held, up_to) : 0;

			/* what was deleted counts as completed with the first ack, so that it is counted once */
			count = cursor->batch_count - left;
			cursor->batch_count = (int32) left;
			cursor_advance(cursor, left > 0 ? up_to : cursor->batch_end);
			if (left == 0)
				cursor_complete_lease(cursor);
			lease_store(&held);
			lease_tell(&held, left == 0 ? LeaseNews::acknowledged : LeaseNews::changed);
			event_note_group(own_tables(), held.group.queue_id, held.group.group_id, Event::completed, (uint64) count);
		}
		/* else these were completed before: 0 */
	}
	lease_close(&held);
	return count;
}

int
compare_leases(const void *left, const void *right)
{
	core::LeaseToken a = lease_unpack(DatumGetUUIDP(*(const Datum *) left));
	core::LeaseToken b = lease_unpack(DatumGetUUIDP(*(const Datum *) right));

	if (a.partition_id != b.partition_id)
		return a.partition_id < b.partition_id ? -1 : 1;
	if (a.group_id != b.group_id)
		return a.group_id < b.group_id ? -1 : 1;
	return 0;
}

/* The lease_time argument, or the queue's. */
int64
lease_time_argument(FunctionCallInfo fcinfo, int argno, const HeldLease *held)
{
	QueueTable queues;
	QueueRow queue;
	QueueOptions options;

	if (!PG_ARGISNULL(argno))
		return interval_in_range(PG_GETARG_INTERVAL_P(argno), "lease_time", lease_time_least, lease_time_most);
	queue_table_open(&queues, AccessShareLock);
	if (queue_find_by_id(&queues, held->group.queue_id, &queue))
		options = queue.options;
	queue_table_close(&queues);
	return options.lease_time;
}

} // namespace

QUEEN_FUNCTION(queen_ack)
QUEEN_FUNCTION(queen_ack_all)
QUEEN_FUNCTION(queen_extend)
QUEEN_FUNCTION(queen_release)

/* queen.ack(lease uuid, up_to bigint) returns bigint */
Datum
queen_ack(PG_FUNCTION_ARGS)
{
	const bool all = PG_ARGISNULL(1);
	const int64 up_to = all ? 0 : PG_GETARG_INT64(1);

	guard_write("queen.ack()");
	if (up_to < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("up_to %lld is out of range", (long long) up_to), errhint("Offsets begin at 0.")));
	return Int64GetDatum(complete(lease_argument(fcinfo, 0), all, up_to));
}

/* queen.ack_all(leases uuid[]) returns bigint */
Datum
queen_ack_all(PG_FUNCTION_ARGS)
{
	Datum *leases;
	bool *nulls;
	int count;
	int64 total = 0;

	guard_write("queen.ack_all()");
	if (PG_ARGISNULL(0))
		raise_null_argument("leases");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &leases, &nulls, &count);
	for (int i = 0; i < count; i++)
		if (nulls[i])
			raise_null_argument("an element of leases");
	/* one order for all: two batches that share partitions cannot deadlock */
	qsort(leases, (size_t) count, sizeof(Datum), compare_leases);
	for (int i = 0; i < count; i++)
		total += complete(DatumGetUUIDP(leases[i]), true, 0);
	return Int64GetDatum(total);
}

/* queen.extend(lease uuid, lease_time interval) returns timestamptz */
Datum
queen_extend(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *lease;
	HeldLease held;
	TimestampTz until;

	guard_write("queen.extend()");
	lease = lease_argument(fcinfo, 0);
	if (lease_open(&held, lease) == LeaseState::completed)
		raise_completed(lease);
	until = GetCurrentTimestamp() + lease_time_argument(fcinfo, 1, &held);
	held.cursor.lease_until = Max(held.cursor.lease_until, until);
	until = held.cursor.lease_until;
	lease_store(&held);
	lease_tell(&held, LeaseNews::changed);
	lease_close(&held);
	return TimestampTzGetDatum(until);
}

/* queen.release(lease uuid) returns boolean */
Datum
queen_release(PG_FUNCTION_ARGS)
{
	HeldLease held;
	bool released;

	guard_write("queen.release()");
	released = lease_open(&held, lease_argument(fcinfo, 0)) == LeaseState::held;
	if (released)
	{
		cursor_uncount_delivery(&held.cursor);
		held.cursor.leased = false;
		lease_store(&held);
		lease_tell(&held, LeaseNews::pending);
	}
	lease_close(&held);
	return BoolGetDatum(released);
}

} // namespace queen
