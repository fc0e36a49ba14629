/*
 * state_gauges.h: what the state of a queue, a priority of it or a consumer group is told in. src/state/README.md says what each of them means.
 */
#ifndef QUEEN_LOG_STATE_GAUGES_H
#define QUEEN_LOG_STATE_GAUGES_H

#include "server/pg.h"

namespace queen
{

struct StateGauges
{
	int64 ready = 0;
	int64 in_flight = 0;
	int64 blocked = 0;
	int64 exhausted = 0;
	int64 expired = 0;
	/* when what has been there for longest came; DT_NOEND: nothing is there */
	TimestampTz oldest_ready = DT_NOEND;
	TimestampTz oldest_in_flight = DT_NOEND;
};

} // namespace queen

#endif
