/*
 * upkeep.h: what is to be done for the hot-list now and then, by whoever comes by.
 */
#ifndef QUEEN_HOTLIST_UPKEEP_H
#define QUEEN_HOTLIST_UPKEEP_H

#include "hotlist/pool.h"

namespace queen
{

/*
 * Sweep what nobody uses, and log the busiest rings, each when it is time (settings); when it will be time again. Raises only what
 * logging raises.
 */
core::hotlist::Micros hotlist_upkeep();

/* queen.hotlist_reseed_interval; 0: there is no floor. */
core::hotlist::Micros hotlist_floor();

/*
 * After how long without a walk whoever serves, or waits, has to walk for a ring: hotlist_floor(); 0, never, where a keeper
 * does that.
 */
core::hotlist::Micros hotlist_serving_floor();

} // namespace queen

#endif
