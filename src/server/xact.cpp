/*
 * xact.cpp: the one file that registers transaction callbacks.
 *
 * PRE_COMMIT and PRE_PREPARE may raise. COMMIT, ABORT, PREPARE and the sub-transaction events never raise, allocate, wait or read a
 * catalog: an error in COMMIT takes the cluster down. Runs in every process that runs transactions and loaded the library.
 */
#include "server/xact.h"

namespace queen
{

namespace
{

constexpr int stages = (int) TransactionStage::count;

constinit const TransactionParticipant *participants[stages] = {};
constinit bool touched = false;
constinit bool flushing = false;

void
flush_all()
{
	flushing = true;
	for (const TransactionParticipant *p : participants)
		if (p != nullptr && p->flush != nullptr)
			p->flush();
}

void
end_all(bool committed)
{
	touched = false;
	flushing = false;
	for (const TransactionParticipant *p : participants)
		if (p != nullptr && p->ended != nullptr)
			p->ended(committed);
}

/*
 * What was taken, acknowledged or configured has effects at the end of the transaction that another session would have to
 * apply; pushes have none once they are written.
 */
void
prepare_all()
{
	if (touched)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has used queen for anything but pushes"),
						errhint("Commit it in one phase.")));
	flushing = true;
	for (const TransactionParticipant *p : participants)
		if (p != nullptr && p->prepare != nullptr)
			p->prepare();
}

} // namespace

extern "C"
{
static void
queen_xact_callback(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			flush_all();
			break;
		case XACT_EVENT_PRE_PREPARE:
			prepare_all();
			break;
		case XACT_EVENT_COMMIT:
			end_all(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			end_all(false);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* a parallel worker can have called nothing of ours that writes */
			break;
	}
}

static void
queen_resource_release(ResourceReleasePhase phase, bool committed, bool top_level, void *arg)
{
	(void) committed;
	(void) arg;
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !top_level)
		return;
	for (const TransactionParticipant *p : participants)
		if (p != nullptr && p->released != nullptr)
			p->released();
}

static void
queen_subxact_callback(SubXactEvent event, SubTransactionId self, SubTransactionId parent, void *arg)
{
	(void) arg;
	for (const TransactionParticipant *p : participants)
	{
		if (p == nullptr)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB && p->sub_committed != nullptr)
			p->sub_committed(self, parent);
		else if (event == SUBXACT_EVENT_ABORT_SUB && p->sub_aborted != nullptr)
			p->sub_aborted(self);
	}
}
}

void
transaction_init()
{
	RegisterResourceReleaseCallback(queen_resource_release, nullptr);
	RegisterXactCallback(queen_xact_callback, nullptr);
	RegisterSubXactCallback(queen_subxact_callback, nullptr);
}

void
transaction_join(TransactionStage stage, const TransactionParticipant *participant)
{
	participants[(int) stage] = participant;
}

void
transaction_touched()
{
	touched = true;
}

bool
transaction_flushing()
{
	return flushing;
}

} // namespace queen
