/*
 * pop.cpp: queen.pop and queen.peek.
 *
 * Raises. Locks: cursor rows, without waiting (pop); none (peek). pop runs in backends, peek on a standby too.
 */
#include "log/look.h"
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
	int64 wait;
};

void
pop_arguments(FunctionCallInfo fcinfo, PopArguments *args)
{
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
	args->wait = interval_in_range(PG_GETARG_INTERVAL_P(7), "wait", 0, wait_most);
}

/* A pop under way. */
struct Pop
{
	const PopArguments *args;
	Consumer consumer;
	MessageSink *sink;
	ConsumerPlace place;
	core::hotlist::Micros until;
};

/* Take what there is; false when that is nothing. */
bool
take(Pop *pop)
{
	const PopArguments *args = pop->args;
	ConsumerPlace *place = &pop->place;
	const ServeLimits limits = {args->max_messages, args->max_partitions, pop->consumer.partition};
	ClaimRequest request = {&place->queue, &place->group,
							args->lease_time != 0 ? args->lease_time : place->queue.options.lease_time, args->auto_ack};

	/* who asks in vain is active too */
	if (place->find == ConsumerFind::there)
		group_touch(&place->group);
	return consumer_may_take(place) && serve(&request, &limits, pop->sink, &pop->until);
}

WaitLook
look(void *arg)
{
	Pop *pop = (Pop *) arg;
	WaitLook found = {false, core::hotlist::never, {}};

	pop->until = core::hotlist::never;
	consumer_enter(&pop->consumer, &pop->place);
	found.ready = take(pop);
	/* a ring's candidates have their deadlines there */
	if (pop->place.has_ring)
		found.ring = pop->place.ring.ring;
	else
		found.until = pop->until;
	return found;
}

} // namespace

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
	Pop pop = {};

	guard_take("queen.pop()");
	pop_arguments(fcinfo, &args);
	message_sink_open(&sink, fcinfo, args.max_partitions > 1 && !args.pinned);

	pop.args = &args;
	pop.consumer = {args.queue, args.group, args.pinned ? &args.partition : nullptr};
	pop.sink = &sink;
	if (args.wait > 0)
	{
		const WaitCalls calls = {look, &pop, false};

		(void) wait_for_work(&calls, args.wait);
	}
	else
	{
		pop.place.find = consumer_find(&pop.consumer, &pop.place.queue, &pop.place.group);
		(void) take(&pop);
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
	queue_get_log(setting_tenant(), queue_name, hint_for_pop, &queue);
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
