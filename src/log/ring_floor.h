/*
 * ring_floor.h: walks for rings that nobody has walked for in queen.hotlist_reseed_interval, by one process for all of its database.
 */
#ifndef QUEEN_LOG_RING_FLOOR_H
#define QUEEN_LOG_RING_FLOOR_H

#include "server/pg.h"

namespace queen
{

/*
 * Walk for the ring whose floor is due for longest, if any is. Returns in how many microseconds to come again: when the next is due, but after
 * a walk not before a hundred times what it took, so that however many rings there are, floors take a hundredth of a core.
 */
int64 ring_floor_step();

} // namespace queen

#endif
