/*
 * births.h: waiting for another transaction's row under the same unique key.
 */
#ifndef QUEEN_LOG_BIRTHS_H
#define QUEEN_LOG_BIRTHS_H

#include "server/pg.h"
#include "server/table_access.h"

namespace queen
{

/*
 * A dirty look has met a row in scan that a running transaction inserts or changes: wait for its end, at most
 * queen.flush_timeout; false when that is over. Clears the scan's slot.
 */
bool wait_for_owner(IndexScan *scan, const SnapshotData *dirty);

enum class Birth
{
	absent,	   /* nobody has inserted the key */
	running,   /* a transaction that has not ended has */
	committed, /* it is there; a newer snapshot shows it */
};

/*
 * Look dirty at the key that scan carries (on a unique index, its snapshot being dirty). A running birth is waited for
 * when wait is set, at most queen.flush_timeout (QN002; what names the thing, as: queue "orders"), and then says
 * committed or absent by looking again.
 */
Birth look_for_birth(IndexScan *scan, SnapshotData *dirty, bool wait, const char *what, const char *name);

} // namespace queen

#endif
