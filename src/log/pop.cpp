/*
 * pop.cpp: queen.pop and queen.peek.
 *
 * Raises. Locks: cursor rows, without waiting (pop); none (peek). pop runs in backends, peek on a standby too.
 */
#include "log/serve.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

constexpr int64 most_messages = 100000;
constexpr int64 most_partitions = 1000;

/* Arguments of queen.pop, checked. */
struct PopArguments
{
	Name queue;
	Name group;
	int64 max_messages;
	bool pinned;
	Name partition;
	int64 max_partitions;
	int64 lease_time; /* 0: the queue's */
	bool auto_ack;
};

void
pop_arguments(FunctionCallInfo fcinfo, PopArguments *args)
{
	Interval *wait;

	args->queue = name_argument(fcinfo, 0, "queue");
	args->group = name_argument(fcinfo, 1, "consumer_group");
	args->max_messages = count_argument(fcinfo, 2, "max_messages", 1, most_messages);
	args->pinned = !PG_ARGISNULL(3);
	args->partition = {nullptr, 0};
	if (args->pinned)
		args->partition = name_argument(fcinfo, 3, "partition");
	args->max_partitions = count_argument(fcinfo, 4, "max_partitions", 1, most_partitions);
	args->lease_time = 0;
	if (PG_ARGISNULL(6))
		raise_null_argument("auto_ack");
	args->auto_ack = PG_GETARG_BOOL(6);
	if (!PG_ARGISNULL(5))
	{
		args->lease_time = interval_in_range(PG_GETARG_INTERVAL_P(5), "lease_time", lease_time_least, lease_time_most);
		if (args->auto_ack)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("lease_time has no meaning with auto_ack"),
							errhint("With auto_ack the messages are completed by the commit; there is no lease.")));
	}
	if (PG_ARGISNULL(7))
		raise_null_argument("wait");
	wait = PG_GETARG_INTERVAL_P(7);
	if (wait->month != 0 || wait->day != 0 || wait->time != 0)
		raise_unsupported_argument("wait", "Call queen.pop() again after a pause when it returns nothing.");
}

} // namespace

/*
 * The queue and its group, which is subscribed where it is not there yet. A drop or purge that ends between the two looks
 * would give us a log that is gone together with a group that has completed nothing of it. False: there is nothing to take.
 */
static bool
find_queue_and_group(const PopArguments *args, QueueRow *queue, GroupRow *group)
{
	QueueTable queues;
	QueueRow now;
	bool same = false;
	bool known = true;

	queue_table_open(&queues, AccessShareLock);
	while (known && !same)
	{
		CHECK_FOR_INTERRUPTS();
		/* an unknown queue is no error: its first push may be under way */
		known = queue_find(&queues, setting_tenant(), args->queue, queue) &&
				group_find_or_subscribe(setting_tenant(), queue->queue_id, args->group, group) == GroupFind::found;
		same = known && queue_find_by_id(&queues, queue->queue_id, &now) && now.log_id == queue->log_id;
	}
	queue_table_close(&queues);
	return known;
}

QUEEN_FUNCTION(queen_pop)
QUEEN_FUNCTION(queen_peek)

/*
 * queen.pop(queue, consumer_group, max_messages, partition, max_partitions, lease_time, auto_ack, wait)
 * returns setof queen.message
 */
Datum
queen_pop(PG_FUNCTION_ARGS)
{
	PopArguments args;
	MessageSink sink;
	QueueRow queue;
	GroupRow group;
	bool known;

	guard_take("queen.pop()");
	pop_arguments(fcinfo, &args);
	message_sink_open(&sink, fcinfo, args.max_partitions > 1 && !args.pinned);

	known = find_queue_and_group(&args, &queue, &group);
	/* who asks in vain is active too */
	if (known)
		group_touch(&group);
	if (known && !queue.paused && !group.paused)
	{
		const ServeLimits limits = {args.max_messages, args.max_partitions, args.pinned ? &args.partition : nullptr};
		ClaimRequest request = {&queue, &group, args.lease_time != 0 ? args.lease_time : queue.options.lease_time,
								args.auto_ack};

		serve(&request, &limits, &sink);
	}
	message_sink_close(&sink);
	return (Datum) 0;
}

/* queen.peek(queue, partition, from_offset, max_messages) returns setof message */
Datum
queen_peek(PG_FUNCTION_ARGS)
{
	Name queue_name = name_argument(fcinfo, 0, "queue");
	Name partition_name = name_argument(fcinfo, 1, "partition");
	int64 from = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2);
	int64 left = count_argument(fcinfo, 3, "max_messages", 1, most_messages);
	MessageSink sink;
	QueueRow queue;
	PartitionTable partitions;
	PartitionRow partition;
	bool known;

	if (from < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("from_offset %lld is out of range", (long long) from), errhint("Offsets begin at 0.")));
	message_sink_open(&sink, fcinfo, false);
	queue_get(setting_tenant(), queue_name, &queue);
	partition_table_open(&partitions, AccessShareLock);
	known = partition_find(&partitions, queue.log_id, partition_name, &partition);
	partition_table_close(&partitions);
	if (known)
	{
		MessageOrigin origin = {};
		SegmentTable segments;
		LogReader reader;

		origin.queue = queue.name;
		origin.partition = partition.name;
		segment_table_open(&segments);
		log_reader_open(&reader, &segments, partition.partition_id, from);
		while (left > 0 && log_reader_next(&reader) == ReadResult::segment)
		{
			SegmentFrames frames;
			core::Frame frame;
			int64 offset;

			segment_frames_open(&frames, &reader, Max(from, reader.base), queue.name, partition.name);
			for (; left > 0 && segment_frames_next(&frames, &frame, &offset); left--)
				message_sink_put(&sink, &origin, offset, reader.created_at, &frame);
			segment_frames_check(&frames);
			segment_frames_close(&frames);
			CHECK_FOR_INTERRUPTS();
		}
		log_reader_close(&reader);
		segment_table_close(&segments);
	}
	message_sink_close(&sink);
	return (Datum) 0;
}

} // namespace queen
