/*
 * serve.h: a pop's candidates and what becomes of them: from the ring, from the partition it names, or by a walk over the tables.
 */
#ifndef QUEEN_LOG_SERVE_H
#define QUEEN_LOG_SERVE_H

#include "hotlist/journal.h"
#include "log/claim.h"

namespace queen
{

/* What a pop may take. */
struct ServeLimits
{
	int64 messages;
	int64 partitions;
	const Name *partition; /* the only one, or null */
};

/*
 * Claim candidates until the limits are reached or none is left; messages go into sink. False: it took nothing, nor buried a message; until says then
 * when one of those that it has looked at may have something.
 */
bool serve(const ClaimRequest *request, const ServeLimits *limits, MessageSink *sink, core::hotlist::Micros *until);

/* When to look again at a candidate that had nothing, by its verdict; `never` when nobody knows. */
core::hotlist::Micros candidate_until(const Candidate *candidate);

/*
 * The ring of a group, made if there is none; false when the tables have to be asked, and why. What the queue or the group is may be rolled back:
 * such a group gets no ring, but may have one.
 */
bool group_ring(const QueueRow *queue, const GroupRow *group, ServedRing *served, Fallback *why);

} // namespace queen

#endif
