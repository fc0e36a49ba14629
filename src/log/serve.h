/*
 * serve.h: a pop's candidates and what becomes of them: from the ring, from the partition it names, or by a walk over the tables.
 */
#ifndef QUEEN_LOG_SERVE_H
#define QUEEN_LOG_SERVE_H

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

/* Claim candidates until the limits are reached or none is left; messages go into sink. */
void serve(const ClaimRequest *request, const ServeLimits *limits, MessageSink *sink);

} // namespace queen

#endif
