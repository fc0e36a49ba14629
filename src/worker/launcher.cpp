/*
 * launcher.cpp: finds the databases, starts what is missing there, and has leave what is not wanted. See README.md.
 *
 * Raises, in its task. Locks: pg_database, AccessShareLock; evict.h's, conditionally; the registry's. Runs in the launcher, which is
 * connected to no database.
 */
#include "worker/launcher.h"

#include "hotlist/pool.h"
#include "server/settings.h"
#include "worker/evict.h"
#include "worker/process.h"

namespace queen
{

namespace
{

/* what nobody tells of: rows of pg_database that were changed by hand */
constexpr core::Micros look_at_least = 60 * USECS_PER_SEC;
/* how long a launch of which the handle was lost may take */
constexpr core::Micros launch_takes = 10 * USECS_PER_SEC;
/* how often a launch is asked for, when the postmaster has not got to it */
constexpr core::Micros launch_look = USECS_PER_SEC;
/* keepers that look whether their database has the extension at all, at a time */
constexpr int most_starting = 4;

struct Wanted
{
	Oid database;
	NameData name;
};

/* A list of databases that lives as long as the process. */
struct Databases
{
	Oid *items;
	int count;
	int room;
};

/* where a keeper found no extension, and nobody has said since that it may be there */
constinit Databases without_extension = {};

/* of launches of this launcher, for each place and kind */
constinit BackgroundWorkerHandle **handles = nullptr;

constinit bool told_of_no_slot = false;

BackgroundWorkerHandle **
handle_of(int place, WorkerKind kind)
{
	return &handles[place * kinds_of_database + (int) kind];
}

int
position(const Databases *databases, Oid database)
{
	for (int i = 0; i < databases->count; i++)
		if (databases->items[i] == database)
			return i;
	return -1;
}

void
add(Databases *databases, Oid database)
{
	if (position(databases, database) >= 0)
		return;
	if (databases->count == databases->room)
	{
		const int room = Max(databases->room * 2, 64);
		const Size size = sizeof(Oid) * (Size) room;

		databases->items = databases->items == nullptr ? (Oid *) MemoryContextAlloc(TopMemoryContext, size)
													   : (Oid *) repalloc(databases->items, size);
		databases->room = room;
	}
	databases->items[databases->count++] = database;
}

void
remove(Databases *databases, Oid database)
{
	const int at = position(databases, database);

	if (at >= 0)
		databases->items[at] = databases->items[--databases->count];
}

/* ---- which databases are to have workers ---- */

/* The names of queen.databases; empty: all. */
List *
named_databases()
{
	List *names = NIL;

	/* the setting was checked when it was set */
	(void) SplitIdentifierString(pstrdup(setting_databases()), ',', &names);
	return names;
}

bool
is_named(const List *names, const char *name)
{
	const ListCell *cell;

	if (names == NIL)
		return true;
	foreach (cell, names)
		if (strcmp((const char *) lfirst(cell), name) == 0)
			return true;
	return false;
}

/* An array of Wanted, palloc'ed; its length. */
int
wanted_databases(Wanted **wanted)
{
	List *names = named_databases();
	Relation rel = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(rel, 0, nullptr);
	int count = 0;
	int room = 64;
	HeapTuple tuple;

	*wanted = (Wanted *) palloc(sizeof(Wanted) * (Size) room);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != nullptr)
	{
		const FormData_pg_database *row = (const FormData_pg_database *) GETSTRUCT(tuple);

		if (row->datistemplate || !row->datallowconn || is_invalid_database(row) ||
			!is_named(names, NameStr(row->datname)))
			continue;
		if (count == room)
		{
			room *= 2;
			*wanted = (Wanted *) repalloc(*wanted, sizeof(Wanted) * (Size) room);
		}
		(*wanted)[count].database = row->oid;
		(*wanted)[count++].name = row->datname;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return count;
}

const Wanted *
find(const Wanted *wanted, int count, Oid database)
{
	for (int i = 0; i < count; i++)
		if (wanted[i].database == database)
			return &wanted[i];
	return nullptr;
}

/* ---- launches ---- */

bool
all_absent(const RegistryEntry *entry)
{
	for (const ProcessRecord &process : entry->processes)
		if (process.state != WorkerState::absent)
			return false;
	return true;
}

/* Have the postmaster start a worker; false when it has no room. The handle is kept. */
bool
register_worker(int place, WorkerKind kind, const Wanted *database, uint64 number)
{
	const Launch launch = {database->database, place, kind, number};
	BackgroundWorkerHandle **handle = handle_of(place, kind);
	BackgroundWorkerHandle *fresh = nullptr;
	BackgroundWorker worker = {};
	MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
	bool registered;

	(void) snprintf(worker.bgw_name, sizeof(worker.bgw_name), "queen %s: %s", worker_name(kind),
					NameStr(database->name));
	(void) snprintf(worker.bgw_type, sizeof(worker.bgw_type), "queen %s", worker_name(kind));
	(void) snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "queen_%s_main", worker_name(kind));
	strlcpy(worker.bgw_library_name, "queen", sizeof(worker.bgw_library_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	/* the launcher starts it anew, where it is still wanted */
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, &launch, sizeof(launch));
	registered = RegisterDynamicBackgroundWorker(&worker, &fresh);
	MemoryContextSwitchTo(caller);
	if (*handle != nullptr)
		pfree(*handle);
	*handle = registered ? fresh : nullptr;
	return registered;
}

/* Start a worker where nobody is about to drop, copy, rename or move the database. */
void
launch(int place, WorkerKind kind, const Wanted *database)
{
	uint64 number;

	if (!may_launch(database->database))
		return; /* the end of it pokes */
	/* it may have been dropped since the scan */
	AcceptInvalidationMessages();
	if (SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database->database)))
	{
		registry_readmit(place);
		number = registry_launch(place, kind);
		if (register_worker(place, kind, database, number))
			told_of_no_slot = false;
		else
		{
			registry_launch_failed(place, kind, number, true);
			if (!told_of_no_slot)
				ereport(
					LOG,
					(errmsg("queen: no slot for a background worker in database \"%s\"", NameStr(database->name)),
					 errdetail("It is tried again. pg_stat_queen_workers shows who waits."),
					 errhint(
						 "Increase max_worker_processes: queen needs one, and two for each database that has it.")));
			told_of_no_slot = true;
		}
	}
	end_launching(database->database);
}

/* A worker that was launched and has not come. When to look again. */
core::Micros
see_to_launch(int place, WorkerKind kind, const ProcessRecord *process, core::Micros now)
{
	BackgroundWorkerHandle *handle = *handle_of(place, kind);
	pid_t pid;

	if (handle != nullptr)
	{
		if (GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED)
			registry_launch_failed(place, kind, process->launch, false);
		return now + launch_look;
	}
	if (now >= process->changed + launch_takes)
		registry_launch_failed(place, kind, process->launch, false);
	return process->changed + launch_takes;
}

/* One kind of worker of a database that is to have it. When to look again. */
core::Micros
see_to(int place, WorkerKind kind, const Wanted *database, const RegistryEntry *entry, core::Micros now)
{
	const ProcessRecord *process = &entry->processes[(int) kind];

	if (process->state == WorkerState::starting && process->pid == 0)
		return see_to_launch(place, kind, process, now);
	if (process->state != WorkerState::absent)
		return core::never;
	if (now < process->rest_until)
		return process->rest_until;
	launch(place, kind, database);
	return core::never;
}

/* ---- the task ---- */

/* What the launcher was told since it last looked. */
void
take_pokes()
{
	Oid databases[most_pokes];
	bool all;
	const int count = registry_take_pokes(databases, &all);

	for (int i = 0; i < count; i++)
		remove(&without_extension, databases[i]);
	if (all)
		without_extension.count = 0;
}

/* Places of databases that are not wanted, or have no extension: free when nobody is there any more. */
void
give_up(const Wanted *wanted, int count)
{
	RegistryEntry entry;

	for (int place = 0; place < registry_places(); place++)
	{
		if (!registry_entry(place, &entry))
			continue;
		const bool is_wanted = find(wanted, count, entry.database) != nullptr;

		if (entry.no_extension)
			add(&without_extension, entry.database);
		if (all_absent(&entry) && (!is_wanted || entry.no_extension))
			registry_free(place);
		else if (entry.dismissed == is_wanted)
			registry_dismiss(place, !is_wanted);
	}
	/* an oid may come to another database */
	for (int i = without_extension.count; i-- > 0;)
		if (find(wanted, count, without_extension.items[i]) == nullptr)
			remove(&without_extension, without_extension.items[i]);
}

int
starting_keepers()
{
	RegistryEntry entry;
	int starting = 0;

	for (int place = 0; place < registry_places(); place++)
		starting +=
			registry_entry(place, &entry) && entry.processes[(int) WorkerKind::keeper].state == WorkerState::starting;
	return starting;
}

/* Compare what there is with what is wanted. */
core::Micros
see_to_databases(const TaskRun *run)
{
	core::Micros next = run->now + look_at_least;
	Wanted *wanted;
	int count;
	int starting;

	take_pokes();
	count = wanted_databases(&wanted);
	give_up(wanted, count);
	starting = starting_keepers();
	for (int i = 0; i < count; i++)
	{
		const Wanted *database = &wanted[i];
		RegistryEntry entry;
		int place;

		CHECK_FOR_INTERRUPTS();
		if (position(&without_extension, database->database) >= 0)
			continue;
		/* those that start tell when they are through */
		if (!registry_entry_of(database->database, &entry) && starting >= most_starting)
			continue;
		place = registry_admit(database->database);
		if (place < 0 || !registry_entry(place, &entry) || entry.dismissed)
			continue;
		if (entry.processes[(int) WorkerKind::keeper].state == WorkerState::absent)
			starting++;
		next = Min(next, see_to(place, WorkerKind::keeper, database, &entry, run->now));
		if (entry.processes[(int) WorkerKind::keeper].state == WorkerState::running)
			next = Min(next, see_to(place, WorkerKind::pulse, database, &entry, run->now));
		if (registry_entry(place, &entry))
			for (const ProcessRecord &process : entry.processes)
				if (process.state == WorkerState::absent && process.rest_until > run->now)
					next = Min(next, process.rest_until);
	}
	return next;
}

constexpr Task tasks[] = {
	{"databases", TaskNeeds::transaction, false, [] { return true; }, see_to_databases},
};

} // namespace

void
launcher_init()
{
	BackgroundWorker worker = {};

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	strlcpy(worker.bgw_name, "queen launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "queen launcher", sizeof(worker.bgw_type));
	strlcpy(worker.bgw_library_name, "queen", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "queen_launcher_main", sizeof(worker.bgw_function_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

} // namespace queen

void
queen_launcher_main(Datum arg)
{
	using namespace queen;

	(void) arg;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	registry_claim_launcher();
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
	pgstat_report_appname(MyBgworkerEntry->bgw_type);
	loop_pin_settings();
	handles = (BackgroundWorkerHandle **) MemoryContextAllocZero(
		TopMemoryContext, sizeof(BackgroundWorkerHandle *) * (Size) (registry_places() * kinds_of_database));
	loop_run(WorkerKind::launcher, tasks, 0);
}
