/*
 * claim.h: the claim core, one piece of code for every pop, wherever its candidates come from.
 *
 * It never waits for a lock. It gives a verdict for each candidate; README.md says what each means.
 */
#ifndef QUEEN_LOG_CLAIM_H
#define QUEEN_LOG_CLAIM_H

#include "core/hotlist/verdict.h"
#include "log/cursors.h"
#include "log/groups.h"
#include "log/log_reader.h"
#include "log/messages.h"
#include "log/partitions.h"
#include "log/positions.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

using core::Verdict;

/* What one pop asks for. */
struct ClaimRequest
{
	const QueueRow *queue;
	const GroupRow *group;
	int64 lease_time; /* microseconds */
	bool auto_ack;
};

/* A partition that may have work, and what came of it. */
struct Candidate
{
	int64 partition_id;
	const char *name; /* null: not looked up yet */
	bool likely;	  /* it has probably something: no cheap look comes first */
	Verdict verdict;
	TimestampTz until;	 /* of leased and deferred, and of took with a lease */
	uint64 lease_number; /* of took with a lease: its token's nonce */
	bool drained;		 /* of took: no segment behind the batch in the claim's snapshot */
	bool own;			 /* this transaction wrote the cursor, so that what it says may be rolled back */
	int64 messages;		 /* of took: rows given; 0 when the head went to the dead letters */
	bool alone;			 /* of took and none: this must be the only delivery of its call */
};

/* Tables that a pop keeps open over its candidates. */
struct ClaimTables
{
	EraHandle cursors;
	SegmentTable segments;
	LogPositions positions; /* opened by the first contact with a partition */
	bool positions_open;
	PartitionTable partitions; /* opened for the first name that is looked up */
	bool partitions_open;
	MemoryContext context;
	SegmentFrames damage; /* trouble says what the first was that a claim met, see segment_frames_check */
};

void claim_tables_open(ClaimTables *tables);
void claim_tables_close(ClaimTables *tables);

/*
 * Try to claim a candidate: up to budget messages into sink; fills in the candidate's verdict. first_of_call says that
 * the call has delivered nothing yet: only then a head that was delivered before is taken. A corrupt
 * segment is noted in tables->damage, and the verdict is none.
 */
void claim_partition(ClaimTables *tables, const ClaimRequest *request, int64 budget, bool first_of_call,
					 Candidate *candidate, MessageSink *sink);

/*
 * Look without taking anything, or a lock: took means that a claim would take something now, locked that another transaction is at the
 * cursor.
 */
void claim_look(ClaimTables *tables, const ClaimRequest *request, Candidate *candidate);

const char *verdict_name(Verdict verdict);

} // namespace queen

#endif
