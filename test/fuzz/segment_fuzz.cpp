/*
 * segment_fuzz.cpp: the libFuzzer target for the segment reader and writer. `make -C test/unit fuzz` runs it.
 */
#include "segment_harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

extern "C" int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	queen::fuzz::run_segment(data, size);
	return 0;
}
