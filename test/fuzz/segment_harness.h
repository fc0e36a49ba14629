/*
 * segment_harness.h: what one fuzz input does; shared by the fuzz target and the replay of the corpus.
 */
#ifndef QUEEN_TEST_FUZZ_SEGMENT_HARNESS_H
#define QUEEN_TEST_FUZZ_SEGMENT_HARNESS_H

#include <cstddef>
#include <cstdint>

namespace queen::fuzz
{

/* The first byte of an input, modulo mode_count, says how the rest is used. */
enum Mode : std::uint8_t
{
	as_it_is,	/* a blob */
	sums_fixed, /* a blob whose sums are made right first, so that the checks behind them are reached */
	as_block,	/* the frames of one stored block: byte 1 says how many, a directory with right sums is put around */
	as_zstd,	/* the same for a zstd block; bytes 2 to 4 are its raw length */
	round_trip, /* a script that builds frames: they must come out of encoder and reader unchanged */
	mode_count,
};

/* Run one input. Ends the process when something does not hold. */
void run_segment(const std::uint8_t *data, std::size_t size);

} // namespace queen::fuzz

#endif
