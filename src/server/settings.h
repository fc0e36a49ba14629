/*
 * settings.h: the extension's settings (GUCs). settings_init raises on a conflict; reading never does.
 */
#ifndef QUEEN_SERVER_SETTINGS_H
#define QUEEN_SERVER_SETTINGS_H

#include "server/pg.h"

namespace queen
{

/* Create a queue that a push names and that is not there? */
extern bool setting_auto_create;

extern int setting_collect_interval; /* s, 0: never */

/* How long a commit's flush waits for a lock, milliseconds; 0 without a bound. */
extern int setting_flush_timeout;

/* The hot-list: see each one's description. */
extern bool setting_hotlist;
extern int setting_hotlist_idle_sweep_interval; /* s, 0: off */
extern int setting_hotlist_reseed_interval;		/* s, 0: off */
extern int setting_hotlist_size;				/* kilobytes, 0: none */
extern int setting_hotlist_window_batch;
extern bool setting_log_hotlist;
/* What the names of the traced queues begin with, "" for none. */
const char *setting_hotlist_trace();

extern int setting_maintain_interval; /* s, 0: off */

/* Which databases get background workers: a list of names, "" for all. */
const char *setting_databases();

extern int setting_partition_expiry; /* s, 0: never */

/* Memory for pushed messages before they go to a temporary file, kilobytes. */
extern int setting_push_buffer_size;

/* For how many the state is remembered. */
extern int setting_state_groups;
extern int setting_state_queues;

/* Timers: see each one's description. */
extern int setting_overdue_limit; /* s, 0: none */
extern int setting_timer_batch;
extern bool setting_timers;
/* Waiting: the least time between wakes at one place, and the longest that who waits does not look itself, milliseconds. */
extern int setting_wake_interval;
extern int setting_wait_poll_interval;

/*
 * The session's tenant (setting queen.tenant); the nil uuid when none is set. Raises 22023 when one was set that cannot be
 * read: an unchecked value must not open the nil tenant's queues.
 */
const pg_uuid_t *setting_tenant();

/* Was the library loaded by shared_preload_libraries? */
bool setting_preloaded();

/* Define all settings; called once by _PG_init. */
void settings_init();

} // namespace queen

#endif
