/*
 * dequeue.cpp: queen.dequeue.
 *
 * Raises. Locks: what take.h says. Runs in backends.
 */
#include "hotlist/waiting.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"
#include "workqueue/take.h"

namespace queen
{

namespace
{

constexpr int64 most_messages = 10000;

/* A dequeue under way. */
struct Dequeue
{
	Name queue;
	int64 most;
	int64 visibility; /* 0: the queue's */
	DeliverySink sink;
};

/* The queue, of the right kind; false when it is not there: its first message may be under way. */
bool
find_queue(Name name, QueueRow *row)
{
	QueueTable queues;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find(&queues, setting_tenant(), name, row);
	queue_table_close(&queues);
	if (found)
		queue_check_kind(row, QueueKind::work, "Take messages of a log queue with queen.pop().");
	return found;
}

/* Find it, and wait for what may happen to it from now on. */
bool
enter(Name name, QueueRow *row)
{
	const Oid tables = own_tables();
	WaitFor what;
	bool found;

	do
	{
		CHECK_FOR_INTERRUPTS();
		what = {};
		found = find_queue(name, row);
		if (!found)
			what.event = gate_key_of_name(tables, setting_tenant(), name.data, name.size);
		else
		{
			what.event = gate_key(News::queue_event, tables, row->queue_id);
			if (!row->paused)
				what.work = gate_key(News::queue, tables, row->queue_id);
		}
	} while (gates_enter(&what));
	return found;
}

/* Take what there is. */
Taken
take(Dequeue *dequeue, const QueueRow *queue)
{
	const TakeRequest request = {queue, dequeue->most,
								 dequeue->visibility != 0 ? dequeue->visibility : queue->options.visibility_timeout};
	Taken taken = {0, false, DT_NOEND};

	if (!queue->paused)
		take_messages(&request, &dequeue->sink, &taken);
	return taken;
}

WaitLook
look(void *arg)
{
	Dequeue *dequeue = (Dequeue *) arg;
	WaitLook found = {false, core::hotlist::never, {}};
	QueueRow queue;

	if (enter(dequeue->queue, &queue))
	{
		const Taken taken = take(dequeue, &queue);

		found.ready = taken.count > 0 || taken.buried;
		found.until = hotlist_time(taken.until);
	}
	return found;
}

} // namespace

QUEEN_FUNCTION(queen_dequeue)

/* queen.dequeue(queue, max_messages, visibility, wait) returns setof queen.delivery */
Datum
queen_dequeue(PG_FUNCTION_ARGS)
{
	Dequeue dequeue = {};
	QueueRow queue;
	int64 wait;

	guard_take("queen.dequeue()", "queen.acknowledge() and queen.reject()");
	dequeue.queue = name_argument(fcinfo, 0, "queue");
	dequeue.most = count_argument(fcinfo, 1, "max_messages", 1, most_messages);
	if (!PG_ARGISNULL(2))
		dequeue.visibility =
			interval_in_range(PG_GETARG_INTERVAL_P(2), "visibility", visibility_least, visibility_most);
	if (PG_ARGISNULL(3))
		raise_null_argument("wait");
	wait = interval_in_range(PG_GETARG_INTERVAL_P(3), "wait", 0, wait_most);
	delivery_sink_open(&dequeue.sink, fcinfo);
	if (wait > 0)
	{
		const WaitCalls calls = {look, &dequeue, false};

		(void) wait_for_work(&calls, wait);
	}
	else if (find_queue(dequeue.queue, &queue))
		(void) take(&dequeue, &queue);
	delivery_sink_close(&dequeue.sink);
	return (Datum) 0;
}

} // namespace queen
