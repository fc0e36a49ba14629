/*
 * timer_news.h: what a transaction's end tells the process that fires timers: that one is due sooner than it knows.
 *
 * In shared memory, preloaded only. A process that fires takes a place for its database and says until when it means to sleep; whoever has
 * inserted, moved or held a timer tells the earliest time of them when the transaction ends, however it ends, or the savepoint is rolled
 * back: what a cancel that was undone held is due again, and the fire may have passed it by.
 */
#ifndef QUEEN_LOG_TIMER_NEWS_H
#define QUEEN_LOG_TIMER_NEWS_H

#include "server/pg.h"
#include "server/xact.h"

namespace queen
{

extern const TransactionParticipant timer_news_participant;

/* Called once by _PG_init. */
void timer_news_init();

/* This transaction touches a timer that is, or was, or will be due then. Never raises. */
void timer_news_note(TimestampTz at);

/*
 * For the process that fires. attend: take this database's place, which is left when the process exits (or not taken, where there is no
 * memory for it or another process has it: false, and nobody tells). heard: the earliest time that was told since the last call, DT_NOEND for
 * none; to be asked before a snapshot is taken. sleep: until when it means to sleep; false when something earlier was told since heard,
 * so that it must not.
 */
bool timer_news_attend();
bool timer_news_there();   /* was something told that is sooner than it means to wake? */
bool timer_news_attends(); /* is this process the one that is told? */
TimestampTz timer_news_heard();
bool timer_news_sleep(TimestampTz until);

} // namespace queen

#endif
