/*
 * registry.cpp: shared memory of the background processes. See registry.h.
 *
 * Raises at the server's start only. Locks: its own LWLock, for some instructions; latches are set and signals sent under it, because
 * it is what keeps a process from giving its number to another. Laid out in the postmaster; runs in every process.
 */
#include "worker/registry.h"

#include <csignal>

#include "hotlist/pool.h"
#include "server/attended.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* a process that has run that long is well: earlier failures are forgotten */
constexpr core::Micros healthy_after = 60 * USECS_PER_SEC;

struct Registry
{
	int tranche;
	int places;
	LWLockPadded lock;
	ConditionVariable gone;
	uint64 launches;
	ProcessRecord launcher;
	Oid pokes[most_pokes];
	int poke_count;
	bool poke_all;
	RegistryEntry entries[FLEXIBLE_ARRAY_MEMBER];
};

constinit Registry *registry = nullptr;

/* this process's place, when it has one */
constinit ProcessRecord *mine = nullptr;
constinit RegistryEntry *my_entry = nullptr;

void
lock(LWLockMode mode)
{
	LWLockAcquire(&registry->lock.lock, mode);
}

void
unlock()
{
	LWLockRelease(&registry->lock.lock);
}

/* ---- under the lock ---- */

RegistryEntry *
find(Oid database)
{
	for (int i = 0; i < registry->places; i++)
		if (registry->entries[i].database == database)
			return &registry->entries[i];
	return nullptr;
}

void
ring(ProcessRecord *process)
{
	process->rung++;
	if (process->pid != 0)
		SetLatch(&ProcGlobal->allProcs[process->procno].procLatch);
}

void
ring_workers(RegistryEntry *entry)
{
	for (ProcessRecord &process : entry->processes)
		ring(&process);
}

void
enter(ProcessRecord *process, WorkerState state)
{
	process->state = state;
	process->since = GetCurrentTimestamp();
	process->changed = hotlist_now();
}

void
come(ProcessRecord *process)
{
	process->pid = MyProcPid;
	process->procno = my_proc_number();
	process->task_count = 0;
	mine = process;
}

void
rest(ProcessRecord *process)
{
	process->failures++;
	process->rest_until = hotlist_now() + core::back_off(process->failures);
}

/* The wall clock's time of something that is to happen so far from now. */
TimestampTz
time_in(core::Micros next_in)
{
	constexpr core::Micros at_most = 100 * 366 * USECS_PER_DAY;

	return next_in >= at_most ? DT_NOEND : GetCurrentTimestamp() + next_in;
}

/* ---- shared memory ---- */

void
lay_out(void *memory)
{
	Registry *r = (Registry *) CACHELINEALIGN(memory);

	memset((void *) r, 0, offsetof(Registry, entries) + sizeof(RegistryEntry) * (Size) max_worker_processes);
	r->tranche = LWLockNewTrancheId();
	r->places = max_worker_processes;
	LWLockInitialize(&r->lock.lock, r->tranche);
	ConditionVariableInit(&r->gone);
}

void
attach(void *memory)
{
	registry = (Registry *) CACHELINEALIGN(memory);
	LWLockRegisterTranche(registry->tranche, "queen_workers");
}

} // namespace

const char *
worker_name(WorkerKind kind)
{
	switch (kind)
	{
		case WorkerKind::keeper:
			return "keeper";
		case WorkerKind::pulse:
			return "pulse";
		case WorkerKind::launcher:
			return "launcher";
	}
	return "unknown";
}

const char *
process_state(const RegistryEntry *entry, const ProcessRecord *process)
{
	switch (process->state)
	{
		case WorkerState::starting:
			return "starting";
		case WorkerState::running:
			return "running";
		case WorkerState::leaving:
			return "leaving";
		case WorkerState::absent:
			break;
	}
	if (entry != nullptr && entry->evicted)
		return "evicted";
	if (process->no_slot)
		return "no slot";
	return process->rest_until > hotlist_now() ? "resting" : "absent";
}

bool
registry_there()
{
	return registry != nullptr;
}

int
registry_places()
{
	return registry->places;
}

bool
registry_entry(int place, RegistryEntry *entry)
{
	lock(LW_SHARED);
	*entry = registry->entries[place];
	unlock();
	return OidIsValid(entry->database);
}

bool
registry_entry_of(Oid database, RegistryEntry *entry)
{
	const RegistryEntry *found;

	lock(LW_SHARED);
	found = find(database);
	if (found != nullptr)
		*entry = *found;
	unlock();
	return found != nullptr;
}

void
registry_launcher(ProcessRecord *process)
{
	lock(LW_SHARED);
	*process = registry->launcher;
	unlock();
}

/* ---- the launcher ---- */

int
registry_admit(Oid database)
{
	RegistryEntry *entry;

	lock(LW_EXCLUSIVE);
	entry = find(database);
	if (entry == nullptr)
	{
		entry = find(InvalidOid);
		if (entry != nullptr)
		{
			*entry = {};
			entry->database = database;
		}
	}
	unlock();
	return entry == nullptr ? -1 : (int) (entry - registry->entries);
}

void
registry_free(int place)
{
	lock(LW_EXCLUSIVE);
	registry->entries[place] = {};
	unlock();
}

void
registry_dismiss(int place, bool dismissed)
{
	RegistryEntry *entry = &registry->entries[place];

	lock(LW_EXCLUSIVE);
	entry->dismissed = dismissed;
	ring_workers(entry);
	unlock();
}

void
registry_readmit(int place)
{
	lock(LW_EXCLUSIVE);
	registry->entries[place].evicted = false;
	unlock();
}

uint64
registry_launch(int place, WorkerKind kind)
{
	RegistryEntry *entry = &registry->entries[place];
	ProcessRecord *process = &entry->processes[(int) kind];
	uint64 number;

	lock(LW_EXCLUSIVE);
	number = ++registry->launches;
	if (kind == WorkerKind::keeper)
		entry->no_extension = false;
	process->launch = number;
	process->pid = 0;
	process->no_slot = false;
	process->task_count = 0;
	enter(process, WorkerState::starting);
	unlock();
	return number;
}

void
registry_launch_failed(int place, WorkerKind kind, uint64 launch, bool no_slot)
{
	ProcessRecord *process = &registry->entries[place].processes[(int) kind];

	lock(LW_EXCLUSIVE);
	if (process->launch == launch && process->state == WorkerState::starting && process->pid == 0)
	{
		process->launch = ++registry->launches; /* should it come yet, it finds itself late */
		process->no_slot = no_slot;
		enter(process, WorkerState::absent);
		rest(process);
	}
	unlock();
}

int
registry_take_pokes(Oid *databases, bool *all)
{
	int count;

	lock(LW_EXCLUSIVE);
	count = registry->poke_count;
	for (int i = 0; i < count; i++)
		databases[i] = registry->pokes[i];
	*all = registry->poke_all;
	registry->poke_count = 0;
	registry->poke_all = false;
	unlock();
	return count;
}

/* ---- whoever runs a loop ---- */

namespace
{

/* The process goes. failed: it did not mean to. */
void
leave(bool failed)
{
	ProcessRecord *process = mine;

	if (process == nullptr || process->pid != MyProcPid)
		return;
	mine = nullptr;
	lock(LW_EXCLUSIVE);
	if (process->state == WorkerState::running && hotlist_now() - process->changed >= healthy_after)
		process->failures = 0;
	process->pid = 0;
	enter(process, WorkerState::absent);
	if (failed)
		rest(process);
	else
		process->failures = 0;
	if (my_entry != nullptr)
	{
		if (process == &my_entry->processes[(int) WorkerKind::keeper])
			attended_set((int) (my_entry - registry->entries), InvalidOid);
		ring(&registry->launcher);
	}
	unlock();
	ConditionVariableBroadcast(&registry->gone);
}

} // namespace

extern "C"
{
static void
queen_process_exit(int code, Datum arg)
{
	(void) arg;
	leave(code != 0);
}
}

bool
registry_claim(const Launch *launch)
{
	RegistryEntry *entry = &registry->entries[launch->place];
	ProcessRecord *process = &entry->processes[(int) launch->kind];
	bool claimed;

	on_shmem_exit(queen_process_exit, (Datum) 0);
	lock(LW_EXCLUSIVE);
	claimed = entry->database == launch->database && process->launch == launch->number &&
			  process->state == WorkerState::starting && process->pid == 0;
	if (claimed)
	{
		come(process);
		my_entry = entry;
	}
	unlock();
	return claimed;
}

void
registry_claim_launcher()
{
	ProcessRecord *process = &registry->launcher;

	on_shmem_exit(queen_process_exit, (Datum) 0);
	lock(LW_EXCLUSIVE);
	come(process);
	process->launch = ++registry->launches;
	enter(process, WorkerState::running);
	unlock();
}

void
registry_set_state(WorkerState state)
{
	lock(LW_EXCLUSIVE);
	enter(mine, state);
	if (my_entry != nullptr && mine == &my_entry->processes[(int) WorkerKind::keeper])
		attended_set((int) (my_entry - registry->entries),
					 state == WorkerState::running ? my_entry->database : InvalidOid);
	ring(&registry->launcher);
	unlock();
}

void
registry_say_no_extension(uint64 looks)
{
	lock(LW_EXCLUSIVE);
	my_entry->no_extension = my_entry->looks == looks;
	unlock();
}

bool
registry_must_leave()
{
	bool must;

	if (my_entry == nullptr)
		return false;
	lock(LW_SHARED);
	must = my_entry->evicted || my_entry->dismissed;
	unlock();
	return must;
}

uint64
registry_looks()
{
	uint64 looks;

	if (my_entry == nullptr)
		return 0;
	lock(LW_SHARED);
	looks = my_entry->looks;
	unlock();
	return looks;
}

uint64
registry_rung()
{
	uint64 rung;

	lock(LW_SHARED);
	rung = mine->rung;
	unlock();
	return rung;
}

void
registry_name_task(int task, const char *name)
{
	lock(LW_EXCLUSIVE);
	mine->tasks[task] = {};
	strlcpy(mine->tasks[task].name, name, sizeof(mine->tasks[task].name));
	mine->task_count = Max(mine->task_count, task + 1);
	unlock();
}

void
registry_task_ran(int task, TimestampTz began, int64 took, core::Micros next_in)
{
	TaskRecord *record = &mine->tasks[task];

	lock(LW_EXCLUSIVE);
	record->runs++;
	record->last_run = began;
	record->last_took = took;
	record->longest = Max(record->longest, took);
	record->total += took;
	record->next_run = time_in(next_in);
	unlock();
}

void
registry_task_failed(int task, TimestampTz began, int64 took, core::Micros next_in, int sqlstate, const char *message)
{
	TaskRecord *record = &mine->tasks[task];

	registry_task_ran(task, began, took, next_in);
	lock(LW_EXCLUSIVE);
	record->errors++;
	record->last_error = began;
	record->last_sqlstate = sqlstate;
	strlcpy(record->last_message, message, sizeof(record->last_message));
	unlock();
}

void
registry_task_next(int task, core::Micros next_in)
{
	lock(LW_EXCLUSIVE);
	mine->tasks[task].next_run = time_in(next_in);
	unlock();
}

/* ---- backends ---- */

void
registry_poke(Oid database)
{
	bool known = false;

	lock(LW_EXCLUSIVE);
	for (int i = 0; i < registry->poke_count && !known; i++)
		known = registry->pokes[i] == database;
	if (!known && registry->poke_count < most_pokes)
		registry->pokes[registry->poke_count++] = database;
	else
		registry->poke_all |= !known;
	ring(&registry->launcher);
	unlock();
}

void
registry_poke_all()
{
	lock(LW_EXCLUSIVE);
	registry->poke_all = true;
	ring(&registry->launcher);
	unlock();
}

void
registry_poke_launcher()
{
	lock(LW_EXCLUSIVE);
	ring(&registry->launcher);
	unlock();
}

void
registry_look(Oid database)
{
	RegistryEntry *entry;

	lock(LW_EXCLUSIVE);
	entry = find(database);
	if (entry != nullptr)
	{
		entry->looks++;
		entry->no_extension = false;
		ring_workers(entry);
	}
	unlock();
}

void
registry_ring_keeper(Oid database)
{
	RegistryEntry *entry;

	lock(LW_EXCLUSIVE);
	entry = find(database);
	if (entry != nullptr)
		ring(&entry->processes[(int) WorkerKind::keeper]);
	unlock();
}

int
registry_evict(Oid database)
{
	RegistryEntry *entry;
	int left = 0;

	lock(LW_EXCLUSIVE);
	entry = find(database);
	if (entry != nullptr)
	{
		entry->evicted = true;
		ring_workers(entry);
		for (const ProcessRecord &process : entry->processes)
			left += process.state != WorkerState::absent;
	}
	unlock();
	return left;
}

void
registry_terminate(Oid database)
{
	const RegistryEntry *entry;

	lock(LW_EXCLUSIVE);
	entry = find(database);
	for (int i = 0; entry != nullptr && i < kinds_of_database; i++)
		if (entry->processes[i].pid != 0)
			(void) kill(entry->processes[i].pid, SIGTERM);
	unlock();
}

ConditionVariable *
registry_gone()
{
	return &registry->gone;
}

void
registry_init()
{
	static constinit SharedPart part = {"queen workers", 0, lay_out, attach, nullptr};

	part.size = offsetof(Registry, entries) + sizeof(RegistryEntry) * (Size) max_worker_processes + PG_CACHE_LINE_SIZE;
	shared_memory_join(&part);
	attended_set_ring(registry_ring_keeper);
}

} // namespace queen
