/*
 * registry.h: shared memory of the background processes: which there are, what they have done, who is told what.
 *
 * Only when preloaded; without, registry_there() is false and nothing else may be called but what says so. Nothing here raises
 * or waits for more than its lock. See README.md for states and messages.
 */
#ifndef QUEEN_WORKER_REGISTRY_H
#define QUEEN_WORKER_REGISTRY_H

#include "core/schedule.h"
#include "server/pg.h"

namespace queen
{

enum class WorkerKind : int
{
	keeper,
	pulse,
	launcher, /* one for all databases, not in an entry */
};
inline constexpr int kinds_of_database = 2;

const char *worker_name(WorkerKind kind);

enum class WorkerState : int
{
	absent,
	starting,
	running,
	leaving,
};

inline constexpr int most_tasks = 8;

/* What a task has done since its process started. Times of the wall clock; 0 for none. */
struct TaskRecord
{
	char name[32];
	uint64 runs;
	uint64 errors;
	TimestampTz last_run;
	int64 last_took; /* microseconds, as the next */
	int64 longest;
	int64 total;
	TimestampTz next_run; /* DT_NOEND: not before something happens */
	TimestampTz last_error;
	int last_sqlstate;
	char last_message[160];
};

struct ProcessRecord
{
	WorkerState state;
	bool no_slot;  /* the last launch found the postmaster without room */
	uint64 launch; /* the number of the last launch */
	int pid;	   /* 0: has not come, or has gone */
	int procno;
	uint64 rung;			 /* times that it was told something */
	TimestampTz since;		 /* of the state */
	core::Micros changed;	 /* the same by the loop's clock */
	uint32 failures;		 /* in a row */
	core::Micros rest_until; /* no launch before */
	int task_count;
	TaskRecord tasks[most_tasks];
};

/* A database with a process, or with one to come. */
struct RegistryEntry
{
	Oid database; /* InvalidOid: the place is free */
	bool evicted;
	bool dismissed;
	bool no_extension; /* says the keeper */
	uint64 looks;	   /* times that the workers were told to look for the extension */
	ProcessRecord processes[kinds_of_database];
};

/* What the launcher gives a worker along (bgw_extra). */
struct Launch
{
	Oid database;
	int place;
	WorkerKind kind;
	uint64 number;
};
static_assert(sizeof(Launch) <= BGW_EXTRALEN);

/* The state in a word. entry is null for the launcher. */
const char *process_state(const RegistryEntry *entry, const ProcessRecord *process);

bool registry_there();
int registry_places();

/* Copies: false for a free place. */
bool registry_entry(int place, RegistryEntry *entry);
bool registry_entry_of(Oid database, RegistryEntry *entry);
void registry_launcher(ProcessRecord *process);

/* ---- the launcher ---- */

/* The place of a database, a new one if there is room; -1 if not. */
int registry_admit(Oid database);
void registry_free(int place);
void registry_dismiss(int place, bool dismissed);
/* Nobody evicts any more. Call with the lock of evict.h. */
void registry_readmit(int place);
/* A launch begins; its number. */
uint64 registry_launch(int place, WorkerKind kind);
/* It has failed, unless the worker has come after all. */
void registry_launch_failed(int place, WorkerKind kind, uint64 launch, bool no_slot);
/* What there was to be told since the last call: of which databases, or of all. The number of databases. */
inline constexpr int most_pokes = 32;
int registry_take_pokes(Oid *databases, bool *all);

/* ---- whoever runs a loop ---- */

/*
 * Take the place that the launcher made; false when it is not this process's (any more). Undone when the process exits, whatever for; call it
 * before the process connects, so that it is gone from the ProcArray by then.
 */
bool registry_claim(const Launch *launch);
void registry_claim_launcher();
void registry_set_state(WorkerState state);
/* Looked for behind that many calls to look, it was not there. Nothing when there was another since. */
void registry_say_no_extension(uint64 looks);
bool registry_must_leave();
uint64 registry_looks();
/* Goes up with all that this process is told: a latch alone may have been reset by a wait for a lock. */
uint64 registry_rung();

void registry_name_task(int task, const char *name);
void registry_task_ran(int task, TimestampTz began, int64 took, core::Micros next_in);
void registry_task_failed(int task, TimestampTz began, int64 took, core::Micros next_in, int sqlstate,
						  const char *message);
/* It will run later than it said; that is all. */
void registry_task_next(int task, core::Micros next_in);

/* ---- backends; also in COMMIT and ABORT ---- */

void registry_poke(Oid database);
void registry_poke_all();
/* The launcher is to look at what it knows. */
void registry_poke_launcher();
/* The workers of a database are to look whether the extension is there. */
void registry_look(Oid database);
/* The keeper of a database is to ask its tasks whether there is something for them. */
void registry_ring_keeper(Oid database);
/* Tell the workers of a database to leave; how many there are still. */
int registry_evict(Oid database);
/* SIGTERM for those. */
void registry_terminate(Oid database);
/* Broadcast when a worker has gone. */
ConditionVariable *registry_gone();

/* Called once by _PG_init. */
void registry_init();

} // namespace queen

#endif
