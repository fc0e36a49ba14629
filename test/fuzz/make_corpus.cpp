/*
 * make_corpus.cpp: writes the seed inputs of the fuzz target into a directory: one of every kind of segment, block and
 * script. `make -C test/unit corpus` runs it; inputs that fuzzing found are kept beside, under names of their own.
 */
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <zstd.h>

#include "core/segment.h"
#include "core/uuid7.h"
#include "segment_harness.h"

namespace
{

using namespace queen;
using Bytes = std::vector<std::uint8_t>;

std::string directory;

/* Write one input: its mode, then the bytes. */
void
write(const std::string &name, fuzz::Mode mode, const Bytes &bytes)
{
	std::ofstream file(directory + "/" + name, std::ios::binary);

	file.put(static_cast<char>(mode));
	file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
	if (!file.flush())
		std::perror(name.c_str());
}

/* count frames of payload bytes each; ids of one batch; every second one has headers, every third is raw. */
Bytes
segment(std::size_t count, std::size_t payload, int level)
{
	const Bytes text(payload, 'x');
	const Bytes random(core::Uuid7Source::random_bytes, 0x55);
	core::Uuid7Source source;
	std::vector<core::Frame> frames;

	for (std::size_t i = 0; i < count; i++)
		frames.push_back(core::Frame{
			source.mint(1700000000000 + i / 7, std::span<const std::uint8_t, core::Uuid7Source::random_bytes>(random)),
			i % 3 == 0, i % 2 == 0, core::ByteView(text.data(), i % 2 == 0 ? payload / 4 : 0), text});

	Bytes raw(core::segment_encode_raw_size(frames));
	std::vector<std::uint64_t> workspace(core::segment_encode_workspace_size(level) / 8 + 1);
	Bytes out(core::segment_encode_bound(frames));
	std::size_t size = 0;
	core::segment_encode(frames, level,
						 {raw, {reinterpret_cast<std::uint8_t *>(workspace.data()), workspace.size() * 8}}, out, size);
	out.resize(size);
	return out;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc != 2)
	{
		std::fputs("usage: make_corpus DIRECTORY\n", stderr);
		return 1;
	}
	directory = argv[1];

	const struct
	{
		const char *name;
		std::size_t count;
		std::size_t payload;
		int level;
	} kinds[] = {
		{"one_empty", 1, 0, 0},			 {"one_small", 1, 40, 3},	   {"few_stored", 5, 12, 0},
		{"few_zstd", 20, 100, 3},		 {"blocks_zstd", 30, 9000, 3}, {"huge_frame", 2, 300'000, 1},
		{"many_tiny_stored", 300, 1, 0}, {"full_zstd", 1000, 70, 1},
	};
	for (const auto &kind : kinds)
	{
		const Bytes blob = segment(kind.count, kind.payload, kind.level);

		write(std::string("blob_") + kind.name, fuzz::as_it_is, blob);
		write(std::string("fixed_") + kind.name, fuzz::sums_fixed, blob);
	}

	/* five bytes short: of the last block's, once its sum is made right */
	Bytes cut = segment(30, 9000, 3);
	cut.resize(cut.size() - 5);
	write("fixed_cut", fuzz::sums_fixed, cut);
	write("blob_cut", fuzz::as_it_is, cut);

	/* blocks: the frames of a stored segment begin behind 37 bytes */
	for (std::size_t count : {1u, 3u, 9u})
	{
		const Bytes blob = segment(count, 6, 0);
		Bytes block(blob.begin() + 37, blob.end());
		Bytes packed(ZSTD_compressBound(block.size() + 200));

		block.insert(block.begin(), static_cast<std::uint8_t>(count));
		write("block_" + std::to_string(count), fuzz::as_block, block);

		block.resize(block.size() + 200);
		packed.resize(ZSTD_compress(packed.data(), packed.size(), block.data() + 1, block.size() - 1, 3));
		packed.insert(packed.begin(), {static_cast<std::uint8_t>(count), static_cast<std::uint8_t>(block.size() - 1),
									   static_cast<std::uint8_t>((block.size() - 1) >> 8), 0});
		write("zstd_" + std::to_string(count), fuzz::as_zstd, packed);
	}

	/* scripts: a level, then four bytes a frame (flags, length, length, headers) */
	write("script_plain", fuzz::round_trip, {0, 0, 0, 5, 0, 1, 0, 200, 0, 2, 0, 9, 30});
	write("script_batch", fuzz::round_trip, {3, 0, 0, 90, 0, 4, 0, 90, 0, 4, 0, 90, 0, 6, 0, 90, 10, 7, 1, 90, 0});
	write("script_blocks", fuzz::round_trip, {3, 8, 200, 0, 0, 12, 200, 0, 0, 10, 255, 255, 255, 0, 0, 1, 0});
	return 0;
}
