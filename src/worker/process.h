/*
 * process.h: the life of a worker of one database.
 */
#ifndef QUEEN_WORKER_PROCESS_H
#define QUEEN_WORKER_PROCESS_H

#include "worker/loop.h"

namespace queen
{

/*
 * Main of a worker: take its place in the registry, connect to its database, look whether the extension is there, run the tasks.
 *   begin   called once before the first task, may be null; may raise, which ends the process
 */
[[noreturn]] void worker_main(WorkerKind kind, std::span<const Task> tasks, void (*begin)());

} // namespace queen

/* The functions that the postmaster starts processes with. */
extern "C"
{
extern PGDLLEXPORT void queen_launcher_main(Datum arg);
extern PGDLLEXPORT void queen_keeper_main(Datum arg);
extern PGDLLEXPORT void queen_pulse_main(Datum arg);
}

#endif
