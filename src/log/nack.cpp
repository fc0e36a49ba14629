/*
 * nack.cpp: queen.nack.
 *
 * Raises. Locks: the cursor row of the lease. Runs in backends, in every isolation level.
 */
#include "log/dead_letters.h"
#include "log/event_counts.h"
#include "log/leases.h"
#include "log/log_reader.h"
#include "log/partitions.h"
#include "log/queues.h"
#include "log/starts.h"
#include "server/errors.h"
#include "server/guards.h"

namespace queen
{

namespace
{

constexpr int most_error_bytes = 1000; /* of an error kept in the cursor; a dead letter keeps all of it */

struct NackArguments
{
	bool first; /* no offset given */
	int64 offset;
	bool own_delay;
	int64 delay;
	text *error; /* may be null */
	bool dead;
};

void
nack_arguments(FunctionCallInfo fcinfo, NackArguments *args)
{
	args->first = PG_ARGISNULL(1);
	args->offset = args->first ? 0 : PG_GETARG_INT64(1);
	args->own_delay = !PG_ARGISNULL(2);
	args->delay = args->own_delay ? interval_in_range(PG_GETARG_INTERVAL_P(2), "delay", 0, delay_most) : 0;
	args->error = PG_ARGISNULL(3) ? nullptr : PG_GETARG_TEXT_PP(3);
	if (PG_ARGISNULL(4))
		raise_null_argument("dead");
	args->dead = PG_GETARG_BOOL(4);
}

text *
shortened(text *error)
{
	int size;

	if (error == nullptr)
		return nullptr;
	size = (int) VARSIZE_ANY_EXHDR(error);
	if (size <= most_error_bytes)
		return error;
	return cstring_to_text_with_len(VARDATA_ANY(error), pg_mbcliplen(VARDATA_ANY(error), size, most_error_bytes));
}

/* The lease begins with the head that it came with, or behind what was acknowledged of it. */
int64
first_under_lease(const Cursor *cursor)
{
	return Max(cursor->committed + 1, cursor->attempt_offset);
}

/*
 * Stand on the message that failed. False when retention has deleted it: *offset is then the last one under the lease that
 * is gone. Raises when the lease never had one there.
 */
bool
find_message(const HeldLease *held, const NackArguments *args, LogReader *reader, SegmentTable *segments, int64 *offset)
{
	const Cursor *cursor = &held->cursor;
	const int64 first = first_under_lease(cursor);

	*offset = args->first ? first : args->offset;
	log_reader_open(reader, segments, held->partition_id, *offset);
	if (*offset >= first && *offset <= cursor->batch_end)
	{
		const bool found = log_reader_next(reader) == ReadResult::segment && reader->base <= cursor->batch_end;
		LogStart start;

		if (found && reader->base <= *offset)
			return true;
		/* read after the segments: where those were deleted, it says so */
		log_start_read(held->partition_id, &start);
		if (start.offset > *offset)
		{
			*offset = Min(start.offset - 1, cursor->batch_end);
			return false;
		}
		if (found && args->first)
		{
			*offset = reader->base;
			return true;
		}
	}
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("no message at offset %lld is under the lease", (long long) *offset),
					errdetail("Its messages that are not completed lie between %lld and %lld.", (long long) first,
							  (long long) cursor->batch_end),
					errhint("Pass the msg_offset of a message that the lease came with.")));
	pg_unreachable();
}

/* Copy the message to the dead letters. */
void
bury(const HeldLease *held, const QueueRow *queue, const LogReader *reader, int64 offset, text *error)
{
	PartitionTable partitions;
	PartitionRow partition;
	DeadLetter letter = {};

	partition_table_open(&partitions, AccessShareLock);
	if (!partition_find_by_id(&partitions, held->partition_id, &partition))
		partition.name = psprintf("%lld", (long long) held->partition_id);
	partition_table_close(&partitions);
	letter.queue = queue;
	letter.partition_id = held->partition_id;
	letter.partition = partition.name;
	letter.consumer_group = held->group.name;
	letter.msg_offset = offset;
	letter.attempts = held->cursor.attempts;
	letter.error = error;
	dead_letter_bury(&letter, reader);
}

enum class Outcome
{
	retry,
	dead,
	gone, /* retention has deleted it */
};

/* completed: messages below the one that failed. */
void
note_events(const HeldLease *held, Outcome outcome, int64 completed)
{
	const Oid tables = own_tables();
	const int64 queue_id = held->group.queue_id;
	const int64 group_id = held->group.group_id;

	event_note_group(tables, queue_id, group_id, Event::completed, (uint64) completed);
	event_note_group(tables, queue_id, group_id, Event::rejected, outcome != Outcome::gone ? 1 : 0);
	event_note_group(tables, queue_id, group_id, Event::dead, outcome == Outcome::dead ? 1 : 0);
}

/* The message failed: the lease ends. */
Outcome
fail(HeldLease *held, const pg_uuid_t *lease, const NackArguments *args)
{
	Cursor *cursor = &held->cursor;
	Outcome outcome = Outcome::retry;
	SegmentTable segments;
	QueueTable queues;
	QueueRow queue;
	LogReader reader;
	int64 offset;
	int64 completed = 0;

	queue_table_open(&queues, AccessShareLock);
	if (!queue_find_by_id(&queues, held->group.queue_id, &queue))
		raise_lost(lease, "Its queue was dropped.");
	queue_table_close(&queues);
	segment_table_open(&segments);
	if (!find_message(held, args, &reader, &segments, &offset))
		outcome = Outcome::gone;
	else if (!args->first)
		completed = log_count_messages(&segments, held->partition_id, first_under_lease(cursor), offset - 1);

	cursor_fail(cursor, offset);
	if (outcome == Outcome::retry && (args->dead || cursor->attempts >= queue.options.max_deliveries))
	{
		outcome = Outcome::dead;
		bury(held, &queue, &reader, offset, args->error != nullptr ? args->error : cursor->last_error);
	}
	if (outcome == Outcome::retry)
	{
		int64 delay = args->own_delay ? args->delay : retry_delay_of(&queue.options, cursor->attempts);

		cursor->leased = false;
		cursor->blocked = delay > 0;
		cursor->blocked_until = GetCurrentTimestamp() + delay;
		if (args->error != nullptr)
			cursor->last_error = shortened(args->error);
	}
	else
	{
		cursor_advance(cursor, offset);
		/* the lease has done its work: repeating the nack is recognized */
		cursor_complete_lease(cursor);
	}
	lease_store(held);
	lease_tell(held, LeaseNews::pending);
	note_events(held, outcome, completed);
	log_reader_close(&reader);
	segment_table_close(&segments);
	return outcome;
}

const char *
name_of(Outcome outcome)
{
	switch (outcome)
	{
		case Outcome::retry:
			break;
		case Outcome::dead:
			return "dead";
		case Outcome::gone:
			return "gone";
	}
	return "retry";
}

} // namespace

QUEEN_FUNCTION(queen_nack)

/* queen.nack(lease uuid, msg_offset bigint, delay interval, error text, dead boolean) returns text */
Datum
queen_nack(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *lease;
	NackArguments args;
	HeldLease held;
	Outcome outcome;

	guard_write("queen.nack()");
	lease = lease_argument(fcinfo, 0);
	nack_arguments(fcinfo, &args);
	if (lease_open(&held, lease) == LeaseState::completed)
		raise_completed(lease);
	outcome = fail(&held, lease, &args);
	lease_close(&held);
	return CStringGetTextDatum(name_of(outcome));
}

} // namespace queen
