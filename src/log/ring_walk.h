/*
 * ring_walk.h: the reseed floor: a walk over a queue's partitions that tells its rings which ones are pending.
 */
#ifndef QUEEN_LOG_RING_WALK_H
#define QUEEN_LOG_RING_WALK_H

#include "hotlist/journal.h"
#include "log/groups.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

/*
 * Walk the queue for a ring, and along with it for those other rings of the queue that owe a walk; whatever they owe is paid, unless
 * candidates do not fit: then the next walk goes on there. False, at once, when another session walks for the ring.
 */
bool ring_walk(const QueueRow *queue, const GroupRow *group, const ServedRing *served);

} // namespace queen

#endif
