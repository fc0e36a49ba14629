/*
 * leases.h: finding and locking the cursor row that a lease token names.
 */
#ifndef QUEEN_LOG_LEASES_H
#define QUEEN_LOG_LEASES_H

#include "log/cursors.h"
#include "log/groups.h"
#include "server/pg.h"

namespace queen
{

/* A lease that this transaction holds the row of. */
struct HeldLease
{
	EraHandle cursors;
	Cursor cursor;
	GroupRow group;
	int64 partition_id;
	uint64 number; /* the token's nonce */
	Snapshot snapshot;
};

enum class LeaseState
{
	held,	   /* the row is locked; write it with lease_store */
	completed, /* this very lease was completed last: nothing is locked */
};

/*
 * Find the row by the token alone, compare token and tenant, lock it. Waits for another transaction at the row only while
 * the lease runs. Raises 22023 for what never was a lease, QN001 when it is lost. Close with lease_close either way.
 */
LeaseState lease_open(HeldLease *held, const pg_uuid_t *lease);

/* Write held->cursor. */
void lease_store(HeldLease *held);

/* What was stored means, to who keeps candidates in memory, when the transaction commits: */
enum class LeaseNews
{
	acknowledged, /* all of its messages are completed */
	pending,	  /* it is given back: the partition can be claimed, at once or later */
	changed,	  /* it goes on otherwise */
};
void lease_tell(const HeldLease *held, LeaseNews news);

void lease_close(HeldLease *held);

/* QN001: others have its messages, or nobody will. */
[[noreturn]] void raise_lost(const pg_uuid_t *lease, const char *detail);

/* QN001: the lease was completed, there is nothing left to do to it. */
[[noreturn]] void raise_completed(const pg_uuid_t *lease);

/* Argument argno as a lease: not null. */
const pg_uuid_t *lease_argument(FunctionCallInfo fcinfo, int argno);

/* Partition and group of a token, for ordering; raises 22023 for what never was a lease. */
core::LeaseToken lease_unpack(const pg_uuid_t *lease);

} // namespace queen

#endif
