/*
 * key_phase.h: the flush's phase between births and segments: taking the dedup_keys of what was pushed.
 *
 * All of them in the order of names and hashes, whatever the order of the pushes, so that two transactions that bring the
 * same keys wait for each other in one direction only.
 */
#ifndef QUEEN_LOG_KEY_PHASE_H
#define QUEEN_LOG_KEY_PHASE_H

#include "core/types.h"
#include "log/targets.h"
#include "server/pg.h"

namespace queen
{

/* Keys being collected, sorted within work_mem, on disk beyond. */
struct KeyPhase
{
	TupleDesc desc;
	Tuplesortstate *sort;
	TupleTableSlot *slot; /* what goes into the sort */
	uint8 *duplicates;	  /* a bit for each frame of the buffer */
};

/* frames: in the buffer. All functions raise. */
void key_phase_open(KeyPhase *phase, uint64 frames);

/*
 * A keyed frame: rank is its partition's place in (tenant, queue, partition) order, and its index in what key_phase_run
 * gets; frame is its number in the buffer.
 */
void key_phase_add(KeyPhase *phase, int rank, const core::Uuid *key_hash, const core::Uuid *message_id, uint64 frame);

/* Take the keys. 23505 where a queue wants duplicates to be errors, QN002 when another transaction has one for too long. */
void key_phase_run(KeyPhase *phase, FlushTarget *targets);

/* Is the frame not to be written? For a frame without a key: no. */
inline bool
key_phase_is_duplicate(const KeyPhase *phase, uint64 frame)
{
	return (phase->duplicates[frame / 8] >> (frame % 8)) & 1;
}

} // namespace queen

#endif
