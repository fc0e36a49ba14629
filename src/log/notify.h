/*
 * notify.h: the option notify: who LISTENs is told that a queue may have work, by the pulse and never by the push.
 */
#ifndef QUEEN_LOG_NOTIFY_H
#define QUEEN_LOG_NOTIFY_H

#include "hotlist/pool.h"
#include "server/pg.h"

namespace queen
{

/*
 * A task of the pulse, called outside of a transaction whenever it was woken: one NOTIFY for each queue that has news, in a transaction of its own, no
 * more often than queen.wake_interval. Returns when to come again. Raises.
 */
core::hotlist::Micros notify_tick();

} // namespace queen

#endif
