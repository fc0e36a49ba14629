/*
 * process.cpp: the life of a worker: claim, connect, look, run, leave. See process.h.
 *
 * Raises until the loop runs, which ends the process. Locks: the registry's. Runs in workers.
 */
#include "worker/process.h"

#include "server/relations.h"

namespace queen
{

namespace
{

[[noreturn]] void
leave()
{
	registry_set_state(WorkerState::leaving);
	proc_exit(0);
}

/* Is the extension there, committed? */
bool
has_extension()
{
	bool has;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	has = OidIsValid(get_extension_oid("queen", true));
	CommitTransactionCommand();
	return has;
}

} // namespace

void
worker_main(WorkerKind kind, std::span<const Task> tasks, void (*begin)())
{
	Launch launch;
	uint64 looks;

	memcpy(&launch, MyBgworkerEntry->bgw_extra, sizeof(launch));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	/* given up as one that never came, or the server has no registry as it was when it was registered */
	if (!registry_there() || !registry_claim(&launch))
		proc_exit(0);
	if (registry_must_leave())
		leave();
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(launch.database, InvalidOid, 0);
	if (registry_must_leave())
		leave();
	pgstat_report_appname(MyBgworkerEntry->bgw_type);
	loop_pin_settings();
	looks = registry_looks();
	if (!has_extension())
	{
		registry_say_no_extension(looks);
		leave();
	}
	registry_set_state(WorkerState::running);
	if (begin != nullptr)
		begin();
	loop_run(kind, tasks, looks);
}

} // namespace queen
