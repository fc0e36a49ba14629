/*
 * settings.cpp: definitions of the settings. See settings.h.
 *
 * settings_init raises on a conflict. No locks. Runs in every process that loads the library.
 */
#include "server/settings.h"

namespace queen
{

bool setting_auto_create = true;
int setting_collect_interval = 15;
int setting_flush_timeout = 10000;
bool setting_hotlist = true;
int setting_hotlist_idle_sweep_interval = 300;
int setting_hotlist_reseed_interval = 30;
int setting_hotlist_size = 64 * 1024;
int setting_hotlist_window_batch = 100;
bool setting_log_hotlist = false;
int setting_maintain_interval = 60;
int setting_partition_expiry = 7 * 24 * 60 * 60;
int setting_overdue_limit = 0;
int setting_push_buffer_size = 16384;
int setting_state_groups = 10000;
int setting_state_queues = 10000;
int setting_timer_batch = 1000;
bool setting_timers = true;
int setting_wake_interval = 5;
int setting_wait_poll_interval = 1000;

namespace
{

/* fewer bytes would leave a shard some dozens of candidates */
constexpr int hotlist_size_least = 1024;

constinit char *databases_text = nullptr;
constinit char *hotlist_trace_text = nullptr;
constinit char *tenant_text = nullptr;
constinit pg_uuid_t tenant = {};

/*
 * What was set before the library was loaded, and so unchecked, may be no tenant: nobody is served until one is set. Nor is
 * anybody when all that was set is refused: the options of a connection take the place of what ALTER ROLE ... SET pinned,
 * and once they are refused nothing is left of the pin.
 */
enum class EarlyTenant
{
	usable,
	no_uuid,
	refused,
};
constinit EarlyTenant early_tenant = EarlyTenant::usable;
constinit bool early_accepted = false; /* a value was, as the setting was defined */
constinit bool preloaded = false;

/* Parse the 36-character form that uuid_out prints (upper or lower case), without raising. */
bool
parse_uuid(const char *in, pg_uuid_t *out)
{
	int digits = 0;

	if (strlen(in) != 36)
		return false;
	for (int i = 0; i < 36; i++)
	{
		char c = in[i];
		int value;

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (c != '-')
				return false;
			continue;
		}
		if (c >= '0' && c <= '9')
			value = c - '0';
		else if (c >= 'a' && c <= 'f')
			value = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			value = c - 'A' + 10;
		else
			return false;
		if (digits % 2 == 0)
			out->data[digits / 2] = (unsigned char) (value << 4);
		else
			out->data[digits / 2] |= (unsigned char) value;
		digits++;
	}
	return true;
}

} // namespace

extern "C"
{
static bool
check_databases(char **newval, void **extra, GucSource source)
{
	char *copy = pstrdup(*newval);
	List *names = NIL;
	const bool is_list = SplitIdentifierString(copy, ',', &names);

	(void) extra;
	(void) source;
	if (!is_list)
		GUC_check_errdetail("It is a list of names, separated by commas.");
	list_free(names);
	pfree(copy);
	return is_list;
}

static bool
check_hotlist_size(int *newval, void **extra, GucSource source)
{
	(void) extra;
	(void) source;
	if (*newval == 0 || *newval >= hotlist_size_least)
		return true;
	GUC_check_errdetail("It is 0, for none, or at least %d kB.", hotlist_size_least);
	return false;
}

static bool
check_tenant(char **newval, void **extra, GucSource source)
{
	pg_uuid_t parsed;

	(void) extra;
	if (*newval == nullptr || **newval == '\0' || parse_uuid(*newval, &parsed))
	{
		early_accepted |= source > PGC_S_DEFAULT;
		return true;
	}
	GUC_check_errdetail("A tenant is a uuid, as 123e4567-e89b-12d3-a456-426614174000, or empty.");
	return false;
}

static void
assign_tenant(const char *newval, void *extra)
{
	(void) extra;
	if (newval == nullptr || !parse_uuid(newval, &tenant))
		tenant = {};
	else
		early_tenant = EarlyTenant::usable;
}
}

const pg_uuid_t *
setting_tenant()
{
	if (early_tenant == EarlyTenant::refused)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("queen.tenant was set before the library was loaded, by a role that may not set it"),
						errhint("Connect again without setting it, or preload queen.")));
	if (early_tenant == EarlyTenant::no_uuid)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the value that queen.tenant was given before the library was loaded is not a uuid"),
						errhint("A superuser corrects it, with ALTER ROLE ... SET queen.tenant for example.")));
	return &tenant;
}

const char *
setting_databases()
{
	return databases_text == nullptr ? "" : databases_text;
}

const char *
setting_hotlist_trace()
{
	return hotlist_trace_text == nullptr ? "" : hotlist_trace_text;
}

bool
setting_preloaded()
{
	return preloaded;
}

static void
define_hotlist_settings()
{
	DefineCustomBoolVariable("queen.hotlist", "Lets pops ask the hot-list which partitions have work.",
							 "Off: they ask the tables. No result differs.", &setting_hotlist, /* bootValue= */ true,
							 PGC_SUSET, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("queen.hotlist_idle_sweep_interval",
							"Forgets what the hot-list knows of queues that nobody has used for that long.",
							"Twice as long at most. 0 keeps it until its place is needed.",
							&setting_hotlist_idle_sweep_interval, /* bootValue= */ 300, 0, INT_MAX / 1000, PGC_SIGHUP,
							GUC_UNIT_S, nullptr, nullptr, nullptr);
	DefineCustomIntVariable(
		"queen.hotlist_reseed_interval", "Walks a queue that often to find what the hot-list may have lost.",
		"Stretched so that walks take at most a hundredth of a core. 0: never.", &setting_hotlist_reseed_interval,
		/* bootValue= */ 30, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
	/* without preload there is none, whatever it says, and the server refuses settings of its start */
	DefineCustomIntVariable("queen.hotlist_size", "Memory for the hot-list, shared by all databases.",
							"0: none; pops then ask the tables.", &setting_hotlist_size, /* bootValue= */ 64 * 1024, 0,
							MAX_KILOBYTES, preloaded ? PGC_POSTMASTER : PGC_SIGHUP, GUC_UNIT_KB, check_hotlist_size,
							nullptr, nullptr);
	DefineCustomStringVariable("queen.hotlist_trace",
							   "Logs what the hot-list does for queues whose names begin like this.", "Empty: nothing.",
							   &hotlist_trace_text, /* bootValue= */ "", PGC_SUSET, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("queen.hotlist_window_batch",
							"Ends a window_buffer early when that many messages wait in a partition.", nullptr,
							&setting_hotlist_window_batch, /* bootValue= */ 100, 1, 1000000,
							preloaded ? PGC_POSTMASTER : PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	DefineCustomBoolVariable("queen.log_hotlist", "Logs the hot-list's busiest rings every 30 seconds.", nullptr,
							 &setting_log_hotlist, /* bootValue= */ false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

void
settings_init()
{
	/* a value that does not pass the check is dropped with a warning when the setting is defined: that would be no tenant */
	const char *early = GetConfigOption("queen.tenant", true, false);
	const bool is_early = early != nullptr;
	pg_uuid_t parsed;
	const bool is_uuid = !is_early || *early == '\0' || parse_uuid(early, &parsed);

	/* set in the postmaster, inherited by every process */
	preloaded = process_shared_preload_libraries_in_progress;
	DefineCustomBoolVariable("queen.auto_create", "Creates the queue that a push names when it is not there.",
							 "Off: such a push is an error.", &setting_auto_create, /* bootValue= */ true, PGC_USERSET,
							 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("queen.collect_interval", "Collects the state of queues that often.",
							"For pg_stat_queen_queues and pg_stat_queen_groups. Stretched so that it takes at most a "
							"tenth of a core. 0: never.",
							&setting_collect_interval, /* bootValue= */ 15, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S,
							nullptr, nullptr, nullptr);
	DefineCustomStringVariable("queen.databases", "The databases in which background workers run, a list of names.",
							   "Empty: all that have the extension.", &databases_text, /* bootValue= */ "", PGC_SIGHUP,
							   GUC_LIST_INPUT, check_databases, nullptr, nullptr);
	DefineCustomIntVariable("queen.flush_timeout", "Bounds each wait for a lock while a commit writes its pushes.",
							"statement_timeout does not run then. 0 waits without a bound.", &setting_flush_timeout,
							/* bootValue= */ 10000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
	define_hotlist_settings();
	DefineCustomIntVariable("queen.maintain_interval", "Cleans up that often, as queen.maintain() does.",
							"The background worker of each database does. 0: it does not.", &setting_maintain_interval,
							/* bootValue= */ 60, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("queen.partition_expiry", "Deletes partitions that have been empty that long.",
							"0 keeps them. A push to such a name makes a new one.", &setting_partition_expiry,
							/* bootValue= */ 7 * 24 * 60 * 60, 0, INT_MAX, PGC_SUSET, GUC_UNIT_S, nullptr, nullptr,
							nullptr);
	DefineCustomIntVariable(
		"queen.overdue_limit", "Drops timers that are overdue by more than that, with a line in the log.",
		"For copies of a database, which would push all that fell due meanwhile. 0: never.", &setting_overdue_limit,
		/* bootValue= */ 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("queen.push_buffer_size", "Memory for a transaction's pushed messages.",
							"What goes beyond waits for the commit in a temporary file.", &setting_push_buffer_size,
							/* bootValue= */ 16384, 64, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB, nullptr, nullptr,
							nullptr);
	DefineCustomIntVariable(
		"queen.state_groups", "Consumer groups, of all databases, for whose state there is memory.",
		"Some 850 bytes each. A database takes them by 64. Those for which there is none are left out.",
		&setting_state_groups,
		/* bootValue= */ 10000, 64, 1000000, preloaded ? PGC_POSTMASTER : PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable(
		"queen.state_queues", "Queues, of all databases, for whose state there is memory.",
		"Some 1,650 bytes each. A database takes them by 64. Those for which there is none are left out.",
		&setting_state_queues,
		/* bootValue= */ 10000, 64, 1000000, preloaded ? PGC_POSTMASTER : PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	DefineCustomStringVariable("queen.tenant", "The tenant whose queues this session sees, a uuid.",
							   "A superuser pins it with ALTER ROLE ... SET.", &tenant_text, /* bootValue= */ "",
							   PGC_SUSET, 0, check_tenant, assign_tenant, nullptr);
	DefineCustomIntVariable("queen.timer_batch", "Timers whose messages are pushed in one transaction.", nullptr,
							&setting_timer_batch, /* bootValue= */ 1000, 1, 10000, PGC_SIGHUP, 0, nullptr, nullptr,
							nullptr);
	DefineCustomBoolVariable("queen.timers", "Lets timers fire by themselves.",
							 "Off: they can be scheduled, and wait. queen.fire_timers() pushes them all the same.",
							 &setting_timers, /* bootValue= */ true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable(
		"queen.wait_poll_interval", "The longest that who waits for messages does not look itself.",
		"It begins with a tenth of that, and is told of what happens meanwhile if queen is preloaded.",
		&setting_wait_poll_interval, /* bootValue= */ 1000, 100, 3600 * 1000, PGC_SUSET, GUC_UNIT_MS, nullptr, nullptr,
		nullptr);
	DefineCustomIntVariable("queen.wake_interval",
							"While consumers that were woken have not looked yet, others are woken that often.",
							"0: at each commit.", &setting_wake_interval, /* bootValue= */ 5, 0, 1000, PGC_SIGHUP,
							GUC_UNIT_MS, nullptr, nullptr, nullptr);
	if (!is_uuid)
		early_tenant = EarlyTenant::no_uuid;
	else if (is_early && !early_accepted)
		early_tenant = EarlyTenant::refused;
	else
		early_tenant = EarlyTenant::usable;
	MarkGUCPrefixReserved("queen");
}

} // namespace queen
