/*
 * segment_hostile_test.cpp: bytes that were cut, flipped or forged, with right sums too, end in a status.
 */
#include <gtest/gtest.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "core/segment_format.h"
#include "support.h"

namespace queen::test
{
namespace
{

using core::Codec;
using core::Status;

/* A block to forge: what the directory says of it, and its bytes. */
struct Forged
{
	std::uint16_t frames;
	Codec codec;
	std::uint32_t raw_length;
	Bytes stored;
	std::int64_t stored_length = -1; /* what the directory says; -1: the truth */
};

/* A segment with right sums and any content. */
Bytes
forge(std::uint16_t frames, const std::vector<Forged> &blocks)
{
	Bytes blob(core::blocks_offset(blocks.size()));

	core::store_le(blob.data(), core::segment_magic);
	blob[core::header_version] = core::segment_version;
	blob[core::header_flags] = core::segment_native_flags;
	core::store_le(blob.data() + core::header_frames, frames);
	core::store_le(blob.data() + core::header_blocks, static_cast<std::uint16_t>(blocks.size()));
	for (std::size_t i = 0; i < blocks.size(); i++)
	{
		const Forged &block = blocks[i];
		const auto truth = static_cast<std::uint32_t>(block.stored.size());
		const auto length = block.stored_length < 0 ? truth : static_cast<std::uint32_t>(block.stored_length);

		core::store_entry(blob.data() + core::entry_offset(i),
						  {length, block.raw_length, block.frames, block.codec,
						   core::segment_checksum(block.stored.data(), block.stored.size())});
		blob.insert(blob.end(), block.stored.begin(), block.stored.end());
	}
	fix_directory_sum(blob);
	return blob;
}

Status
open_status(const Bytes &blob)
{
	core::SegmentReader reader;
	core::SegmentInfo info{};
	core::Frame frame{};
	const Status status = reader.open(blob, info);

	if (status != Status::ok)
	{
		EXPECT_EQ(reader.next(frame), status);
	}
	return status;
}

/* A segment of one stored block with these bytes. */
Bytes
forge_block(std::uint16_t frames, const Bytes &block)
{
	return forge(frames, {{frames, Codec::stored, static_cast<std::uint32_t>(block.size()), block}});
}

Status
block_status(std::uint16_t frames, const Bytes &block)
{
	std::vector<OwnedFrame> out;
	const Bytes blob = forge_block(frames, block);

	EXPECT_EQ(open_status(blob), Status::ok);
	return decode(blob, out);
}

/* Flags, an id of version 7, then the tail. */
Bytes
frame_bytes(std::uint8_t flags, const Bytes &tail)
{
	Bytes result(17);

	result[0] = flags;
	result[7] = 0x70;
	result[9] = 0x80;
	result.insert(result.end(), tail.begin(), tail.end());
	return result;
}

/* Samples: one small message; a few of every shape, compressed; three blocks of two codecs. */
std::vector<Bytes>
samples()
{
	std::vector<OwnedFrame> one(1), mixed = batch(12, 30, 1), blocks(4);

	one[0].payload = bytes("{}");
	blocks[0].payload.assign(40'000, 'a');
	blocks[1].payload.assign(40'000, 'b');
	blocks[2].payload.assign(40'000, 'c');
	blocks[3].payload = noise(50, 1);
	return {encode(one, 3), encode(mixed, 0), encode(mixed, 3), encode(blocks, 3)};
}

TEST(SegmentHostile, EveryTruncation)
{
	for (const Bytes &blob : samples())
		for (std::size_t length = 0; length < blob.size(); length++)
		{
			/* a buffer of its own, so that a read behind it is seen */
			const Bytes cut(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(length));
			ASSERT_EQ(open_status(cut), Status::truncated) << length << " of " << blob.size();
		}
}

TEST(SegmentHostile, EveryBitFlip)
{
	for (const Bytes &blob : samples())
		for (std::size_t bit = 0; bit < blob.size() * 8; bit++)
		{
			Bytes flipped = blob;
			std::vector<OwnedFrame> out;

			flipped[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
			const Status status = decode(flipped, out);
			ASSERT_NE(status, Status::end) << "bit " << bit;
			if (bit < 32)
			{
				ASSERT_EQ(status, Status::bad_magic);
			}
			else if (bit < 40)
			{
				ASSERT_EQ(status, Status::bad_version);
			}
			else if (bit < core::header_blocks * 8 || bit >= core::entry_offset(0) * 8)
			{
				ASSERT_EQ(status, Status::bad_checksum) << bit;
			}
		}
}

TEST(SegmentHostile, TrailingBytes)
{
	for (const Bytes &blob : samples())
		for (std::size_t more : {1u, 19u, 1000u})
		{
			Bytes longer = blob;

			longer.resize(blob.size() + more);
			EXPECT_EQ(open_status(longer), Status::bad_format);
		}
}

TEST(SegmentHostile, HeaderFieldsWithARightSum)
{
	const Bytes good = samples()[1];
	const auto changed = [&good](std::size_t offset, std::uint16_t value) {
		Bytes blob = good;

		core::store_le(blob.data() + offset, value);
		fix_directory_sum(blob);
		return open_status(blob);
	};

	EXPECT_EQ(changed(core::header_frames, 12), Status::ok);
	for (std::uint16_t frames : std::initializer_list<std::uint16_t>{0, 1, 11, 13, 1000, 1001, 65535})
		EXPECT_EQ(changed(core::header_frames, frames), Status::bad_format) << frames;

	for (unsigned flags = 0; flags < 256; flags++)
	{
		Bytes blob = good;

		blob[core::header_flags] = static_cast<std::uint8_t>(flags);
		fix_directory_sum(blob);
		const unsigned order = flags & ~static_cast<unsigned>(core::segment_flag_unordered);
		EXPECT_EQ(open_status(blob), order == core::segment_native_flags ? Status::ok
									 : order < 2						 ? Status::bad_version
																		 : Status::bad_format);
	}
}

TEST(SegmentHostile, BlockCount)
{
	const Bytes block = frame_bytes(0, {0});

	EXPECT_EQ(open_status(forge(0, {})), Status::bad_format);
	EXPECT_EQ(open_status(forge(1, {})), Status::bad_format);
	EXPECT_EQ(open_status(forge(1, {{1, Codec::stored, 18, block}})), Status::ok);
	EXPECT_EQ(open_status(forge(2, {{1, Codec::stored, 18, block}})), Status::bad_format);
	EXPECT_EQ(open_status(forge(1, {{1, Codec::stored, 18, block}, {0, Codec::stored, 0, {}}})), Status::bad_format);
	EXPECT_EQ(open_status(forge(2, {{1, Codec::stored, 18, block}, {0, Codec::stored, 0, {}}})), Status::bad_format);

	std::vector<Forged> many(1000, Forged{1, Codec::stored, 18, block});
	std::vector<OwnedFrame> out;
	EXPECT_EQ(decode(forge(1000, many), out), Status::end);
	many.push_back(many[0]);
	EXPECT_EQ(open_status(forge(1001, many)), Status::bad_format);
}

TEST(SegmentHostile, LengthsInTheDirectory)
{
	const Bytes noise_bytes = noise(1000, 1);
	const auto one = [&noise_bytes](Codec codec, std::uint32_t raw, std::int64_t stored, std::uint16_t frames = 1) {
		return open_status(forge(frames, {{frames, codec, raw, noise_bytes, stored}}));
	};

	EXPECT_EQ(one(Codec::stored, 1000, 1000), Status::ok);
	EXPECT_EQ(one(Codec::stored, 999, 1000), Status::bad_format) << "stored, but another length";
	EXPECT_EQ(one(Codec::stored, 999, 999), Status::bad_format) << "trailing byte";
	EXPECT_EQ(one(Codec::stored, 1001, 1001), Status::truncated);
	EXPECT_EQ(one(Codec::stored, UINT32_MAX, UINT32_MAX), Status::bad_format);

	EXPECT_EQ(one(Codec::zstd, 1001, 1000), Status::ok);
	EXPECT_EQ(one(Codec::zstd, 1000, 1000), Status::bad_format) << "not smaller";
	EXPECT_EQ(one(Codec::zstd, UINT32_MAX, 1000), Status::bad_format);
	EXPECT_EQ(one(Codec::zstd, 1000 * 32768, 1000), Status::ok) << "the ratio's limit";
	EXPECT_EQ(one(Codec::zstd, 1000 * 32768 + 1, 1000), Status::bad_format);
	EXPECT_EQ(one(Codec::zstd, 1, 0), Status::bad_format);

	EXPECT_EQ(one(Codec::zstd, core::block_max_raw, 1000, 2), Status::ok);
	EXPECT_EQ(one(Codec::zstd, core::block_max_raw + 1, 1000, 2), Status::bad_format);

	for (unsigned codec = 2; codec < 256; codec++)
		EXPECT_EQ(one(static_cast<Codec>(codec), 1000, 1000), Status::bad_format);
}

TEST(SegmentHostile, ScratchIsBounded)
{
	const auto largest = static_cast<std::uint32_t>(core::frame_max_payload + core::frame_overhead_max);
	const Bytes few = noise(largest / 32768 + 1, 1);
	core::SegmentReader reader;
	core::SegmentInfo info{};

	ASSERT_EQ(reader.open(forge(1, {{1, Codec::zstd, largest, few}}), info), Status::ok);
	EXPECT_EQ(info.scratch_size, largest);
	EXPECT_EQ(open_status(forge(1, {{1, Codec::zstd, largest + 1, few}})), Status::bad_format);

	/* and so is the sum of what many blocks claim */
	EXPECT_EQ(open_status(forge(2, {{1, Codec::zstd, largest - 64, few}, {1, Codec::zstd, largest - 64, few}})),
			  Status::ok);
	EXPECT_EQ(open_status(forge(2, {{1, Codec::zstd, largest, few}, {1, Codec::zstd, largest, few}})),
			  Status::bad_format);
}

TEST(SegmentHostile, FramesInABlock)
{
	EXPECT_EQ(block_status(1, frame_bytes(0, {0})), Status::end);
	EXPECT_EQ(block_status(1, frame_bytes(1, {3, 'a', 'b', 'c'})), Status::end);
	EXPECT_EQ(block_status(1, frame_bytes(2, {1, 2, 'h', 'p', 'p'})), Status::end);

	EXPECT_EQ(block_status(1, {}), Status::bad_format) << "no byte at all";
	EXPECT_EQ(block_status(2, frame_bytes(0, {0})), Status::bad_format) << "a frame is missing";
	EXPECT_EQ(block_status(1, frame_bytes(0, {0, 0})), Status::bad_format) << "a byte is left over";
	for (std::uint8_t bit = 0x08; bit != 0; bit = static_cast<std::uint8_t>(bit << 1))
		EXPECT_EQ(block_status(1, frame_bytes(bit, {0})), Status::bad_format) << "unknown flag";

	/* cut at every byte */
	const Bytes whole = frame_bytes(3, {0x81, 0x01, 2});
	for (std::size_t length = 0; length <= whole.size(); length++)
		EXPECT_EQ(block_status(1, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))),
				  Status::bad_format);
}

TEST(SegmentHostile, SkippingOverABadFrame)
{
	Bytes block = frame_bytes(0, {0});

	block.insert(block.end(), {0xff, 0, 0});
	std::vector<OwnedFrame> out;
	const Bytes blob = forge_block(3, block);
	EXPECT_EQ(decode(blob, out, 1), Status::bad_format);
	EXPECT_EQ(decode(blob, out, 2), Status::bad_format) << "on the way to a target in its block";
	EXPECT_EQ(decode(blob, out, 3), Status::end) << "with its whole block";
}

TEST(SegmentHostile, LengthsOfAFrame)
{
	EXPECT_EQ(block_status(1, frame_bytes(0, {1})), Status::bad_format);
	EXPECT_EQ(block_status(1, frame_bytes(0, {0x80, 0})), Status::bad_format) << "not the shortest form";
	EXPECT_EQ(block_status(1, frame_bytes(0, {0x80, 0x80, 0x80, 0x80, 0})), Status::bad_format);
	EXPECT_EQ(block_status(1, frame_bytes(0, {0x80, 0x80, 0x80, 0x80, 0x01})), Status::bad_format)
		<< "256 MiB, not there";
	EXPECT_EQ(block_status(1, frame_bytes(0, {0x81, 0x80, 0x80, 0x80, 0x01})), Status::bad_format) << "over the limit";
	EXPECT_EQ(block_status(1, frame_bytes(0, {0xff, 0xff, 0xff, 0xff, 0xff})), Status::bad_format);
	EXPECT_EQ(block_status(1, frame_bytes(0, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})),
			  Status::bad_format);
	EXPECT_EQ(block_status(1, frame_bytes(2, {0x80, 0x80, 0x80, 0x80, 0x01, 0x80, 0x80, 0x80, 0x80, 0x01})),
			  Status::bad_format);
}

TEST(SegmentHostile, Successors)
{
	Bytes block = frame_bytes(0, {0});

	block.insert(block.end(), {4, 0});
	EXPECT_EQ(block_status(2, block), Status::end);
	EXPECT_EQ(block_status(1, {4, 0}), Status::bad_format) << "of nothing";
	block[7] = 0x40;
	EXPECT_EQ(block_status(2, block), Status::bad_format) << "of an id that is not of version 7";
	block = frame_bytes(0, {0});
	std::fill(block.begin() + 7, block.begin() + 17, std::uint8_t{0xff});
	block[7] = 0x7f;
	block[9] = 0xbf;
	block.insert(block.end(), {4, 0});
	EXPECT_EQ(block_status(2, block), Status::bad_format) << "of the last id of a millisecond";

	/* the first frame of a later block has no previous one either */
	const Bytes first = frame_bytes(0, {0});
	std::vector<OwnedFrame> out;
	EXPECT_EQ(decode(forge(2, {{1, Codec::stored, 18, first}, {1, Codec::stored, 2, {4, 0}}}), out),
			  Status::bad_format);
	EXPECT_EQ(out.size(), 1u);
}

TEST(SegmentHostile, WhatZstdRefuses)
{
	const Bytes block = frame_bytes(0, {0x80, 0x08});
	Bytes raw = block;
	Bytes packed(2000);

	raw.resize(block.size() + 1024);
	packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 3));
	const auto length = static_cast<std::uint32_t>(raw.size());
	const auto status = [](std::uint32_t raw_length, const Bytes &stored) {
		std::vector<OwnedFrame> out;

		return decode(forge(1, {{1, Codec::zstd, raw_length, stored}}), out);
	};

	EXPECT_EQ(status(length, packed), Status::end);
	EXPECT_EQ(status(length - 1, packed), Status::bad_format) << "longer than the directory says";
	EXPECT_EQ(status(length + 1, packed), Status::bad_format) << "shorter";
	EXPECT_EQ(status(length, noise(100, 1)), Status::bad_format);
	Bytes tail = packed;
	tail.push_back(0);
	EXPECT_EQ(status(length, tail), Status::bad_format);
	tail = packed;
	tail.pop_back();
	EXPECT_EQ(status(length, tail), Status::bad_format);

	/* every bit of the compressed bytes, with the sum made right: an answer or a refusal, nothing else */
	for (std::size_t bit = 0; bit < packed.size() * 8; bit++)
	{
		Bytes flipped = packed;

		flipped[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
		const Status got = status(length, flipped);
		EXPECT_TRUE(got == Status::end || got == Status::bad_format) << bit;
	}
}

} // namespace
} // namespace queen::test
