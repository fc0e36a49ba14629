/*
 * notify.h: channels that the pulse is to notify, in shared memory: a set of fixed size. Empty where no pulse would come.
 *
 * Never raises, allocates or waits, but for an LWLock of bounded holds; notify_flag may be called where a transaction has ended.
 */
#ifndef QUEEN_HOTLIST_NOTIFY_H
#define QUEEN_HOTLIST_NOTIFY_H

#include "server/pg.h"

namespace queen
{

/* What stands for a queue's channel; never 0. Its name is made of it (notify_channel_name). */
uint64 notify_channel(const pg_uuid_t *tenant, const char *queue, int size);

/* A channel of this database is to be notified with the pulse's next tick. */
void notify_flag(uint64 channel);

/* Candidates that become ready at a ring's place are told on a channel; 0: on none. */
void notify_ring(uint32 ring_index, uint64 channel);

/* Is any channel of this database flagged? */
bool notify_pending();

inline constexpr uint32 notify_room = 1024;

/* Take all of this database's, notify_room at most. overrun: others did not fit, and nobody knows which. */
uint32 notify_take(uint64 *channels, bool *overrun);

} // namespace queen

#endif
