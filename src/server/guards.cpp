/*
 * guards.cpp: where a call may run. See guards.h.
 *
 * Raises. No locks. Runs in backends.
 */
#include "server/guards.h"

#include "server/relations.h"
#include "server/xact.h"

namespace queen
{

void
guard_push(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
	PreventCommandIfParallelMode(function);
	if (InSecurityRestrictedOperation())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("cannot execute %s within security-restricted operation", function)));
}

void
guard_write(const char *function)
{
	guard_push(function);
	lock_extension();
	transaction_touched();
}

void
guard_take(const char *function, const char *enders)
{
	guard_write(function);
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot execute %s in a transaction of isolation level %s", function,
						XactIsoLevel == XACT_REPEATABLE_READ ? "repeatable read" : "serializable"),
				 errhint("Take messages in a READ COMMITTED transaction; %s work in every isolation level.", enders)));
}

void
guard_procedure(FunctionCallInfo fcinfo, const char *procedure, const char *hint)
{
	const auto *call = (const CallContext *) fcinfo->context;

	if (call == nullptr || !IsA(call, CallContext) || call->atomic || IsSubTransaction())
		ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
						errmsg("%s cannot run inside a transaction block, or be called by a function", procedure),
						errhint("%s", hint)));
	if ((MyXactFlags & XACT_FLAGS_PIPELINING) != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
						errmsg("%s cannot run behind other statements of a pipeline", procedure),
						errdetail("It would commit what they have done."), errhint("%s", hint)));
}

} // namespace queen
