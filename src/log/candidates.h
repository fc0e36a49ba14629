/*
 * candidates.h: where a pop's candidates come from when no ring names them: the partition it names, or a walk over all
 * partitions of the queue.
 */
#ifndef QUEEN_LOG_CANDIDATES_H
#define QUEEN_LOG_CANDIDATES_H

#include "log/claim.h"
#include "log/partitions.h"

namespace queen
{

inline constexpr int candidate_page_size = 64;

/*
 * A walk over a queue's partitions in id order, from a random one on and around, so that concurrent consumers start
 * apart and no partition waits behind a busy one.
 */
struct CandidateWalk
{
	PartitionTable partitions;
	int64 log_id;
	/* what is left to walk: [next, last], then [wrap_first, wrap_last] when it is not empty */
	int64 next;
	int64 last;
	int64 wrap_first;
	int64 wrap_last;
	PartitionRow rows[candidate_page_size];
	Candidate page[candidate_page_size];
	MemoryContext page_context; /* the page's names */
};

/*
 * Begin a walk; partition may be null for all. first, when not 0, is the id of the partition to begin with instead of a
 * random one.
 */
void candidate_walk_open(CandidateWalk *walk, int64 log_id, const Name *partition, int64 first);

/* The next page into walk->page, 0 at the end. The page before is gone. */
int candidate_walk_page(CandidateWalk *walk);

void candidate_walk_close(CandidateWalk *walk);

} // namespace queen

#endif
