/*
 * maintain.h: everything that has to be cleaned up in logs, as steps of one transaction each.
 */
#ifndef QUEEN_LOG_MAINTAIN_H
#define QUEEN_LOG_MAINTAIN_H

#include "server/pg.h"

namespace queen
{

enum class MaintainPhase : int
{
	dropped,		/* what is left of dropped queues, purged logs, deleted partitions */
	retired_groups, /* cursors of groups that were unsubscribed */
	segments,		/* retention, and partitions that are empty for long */
	keys,			/* dedup_keys beyond their window */
	dead_letters,
	messages, /* of work queues, that have expired */
	end,
};

/* Phases as a set. */
constexpr uint32
maintain_phase(MaintainPhase phase)
{
	return 1U << (int) phase;
}
inline constexpr uint32 maintain_all = maintain_phase(MaintainPhase::end) - 1;

/* A pass over everything, or over some phases: where it stands. Copied at will, holds nothing. */
struct MaintainPass
{
	uint32 phases;
	MaintainPhase phase;
	TimestampTz began;	/* ages count from there, so that a pass ends under load */
	int64 id;			/* the next filing or queue to look at … */
	int64 partition_id; /* of the queue; among letters of no queue the last dead_id */
	BlockNumber block;
};

void maintain_begin(MaintainPass *pass, uint32 phases);

/*
 * One bounded step, of all tenants. Commit after it: it may hold a partition's lock. False when the pass is over. Raises;
 * waits for nothing but a partition's lock, at most queen.flush_timeout.
 */
bool maintain_step(MaintainPass *pass);

} // namespace queen

#endif
