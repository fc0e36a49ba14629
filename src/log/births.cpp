/*
 * births.cpp: waiting for another transaction's row under the same unique key. See births.h.
 *
 * Raises. Waits for a transaction, bounded. A waiter waits for one transaction id, so a hundred first pushes to a new
 * name wait side by side for the first of them, not in a chain. Runs in backends.
 */
#include "log/births.h"

#include "server/errors.h"
#include "server/settings.h"
#include "server/timed_wait.h"

namespace queen
{

namespace
{

struct WaitTarget
{
	TransactionId xid;
	uint32 token; /* of its speculative insertion, or 0 */
	Relation table;
	ItemPointerData tid;
};

void
wait_for_end(void *arg)
{
	WaitTarget *target = (WaitTarget *) arg;

	if (target->token != 0)
		SpeculativeInsertionWait(target->xid, target->token);
	else
		XactLockTableWait(target->xid, target->table, &target->tid, XLTW_InsertIndex);
}

} // namespace

bool
wait_for_owner(IndexScan *scan, const SnapshotData *dirty)
{
	const bool inserted = TransactionIdIsValid(dirty->xmin);
	WaitTarget target = {inserted ? dirty->xmin : dirty->xmax, inserted ? dirty->speculativeToken : 0, scan->table,
						 scan->slot->tts_tid};

	ExecClearTuple(scan->slot);
	return run_with_timeout(setting_flush_timeout, false, wait_for_end, &target);
}

Birth
look_for_birth(IndexScan *scan, SnapshotData *dirty, bool wait, const char *what, const char *name)
{
	for (;;)
	{
		index_scan_start(scan);
		if (!index_scan_next(scan, ForwardScanDirection))
			return Birth::absent;
		if (!TransactionIdIsValid(dirty->xmin))
			return Birth::committed;
		if (!wait)
			return Birth::running;

		if (!wait_for_owner(scan, dirty))
			ereport(ERROR, (errcode(errcode_flush_timeout),
							errmsg("%s \"%s\" is being created by a transaction that has not ended", what, name),
							errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout),
							errhint("Try again, or commit the transaction that creates it sooner.")));
	}
}

} // namespace queen
