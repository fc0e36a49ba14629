/*
 * look.h: is there work for a group? Looks that take nothing, and where to wait when they find nothing.
 *
 * Raises. Locks: those of tables, and what subscribing a group locks (groups.h).
 */
#ifndef QUEEN_LOG_LOOK_H
#define QUEEN_LOG_LOOK_H

#include "hotlist/journal.h"
#include "hotlist/waiting.h"
#include "log/claim.h"
#include "log/groups.h"
#include "log/queues.h"

namespace queen
{

/* For whom a consumer asks. */
struct Consumer
{
	Name queue;
	Name group;
	const Name *partition; /* the only one, or null */
};

enum class ConsumerFind
{
	no_queue,
	running, /* another transaction subscribes the group */
	there,
};

/* The queue and its group, which is subscribed where it is not there yet. */
ConsumerFind consumer_find(const Consumer *consumer, QueueRow *queue, GroupRow *group);

/* What a consumer finds in whose place it waits. */
struct ConsumerPlace
{
	ConsumerFind find;
	QueueRow queue; /* unless there is none */
	GroupRow group; /* if it is there */
	bool has_ring;
	ServedRing ring;
	WaitFor wait_for;
};

/*
 * Find them, and wait for what may happen to them from now on: what is found is found again when it was not waited for before. Paused: the
 * place says so, and waits for events only.
 */
void consumer_enter(const Consumer *consumer, ConsumerPlace *place);

inline bool
consumer_may_take(const ConsumerPlace *place)
{
	return place->find == ConsumerFind::there && !place->queue.paused && !place->group.paused;
}

/* Look for work of one that may take some. Walks for a ring that owes that. */
WaitLook consumer_look(const Consumer *consumer, const ConsumerPlace *place);

} // namespace queen

#endif
