/*
 * timed_wait.cpp: lock waits with a bound of their own. See timed_wait.h.
 *
 * Raises what fn raises. Uses the server's own lock timeout (LockTimeout, which ProcSleep reads at each wait) and turns
 * its error into an answer. Runs in backends and workers.
 */
#include "server/timed_wait.h"

namespace queen
{

bool
run_with_timeout(int timeout_ms, bool respect_lock_timeout, void (*fn)(void *), void *arg)
{
	const int saved_timeout = LockTimeout;
	MemoryContext context = CurrentMemoryContext;
	const bool theirs_is_less =
		respect_lock_timeout && saved_timeout > 0 && (timeout_ms == 0 || saved_timeout < timeout_ms);
	volatile bool in_time = true;

	if (!theirs_is_less)
		LockTimeout = timeout_ms;
	PG_TRY();
	{
		fn(arg);
	}
	PG_CATCH();
	{
		LockTimeout = saved_timeout;
		if (theirs_is_less || geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		in_time = false;
	}
	PG_END_TRY();
	LockTimeout = saved_timeout;
	return in_time;
}

} // namespace queen
