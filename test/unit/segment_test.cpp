/*
 * segment_test.cpp: what is encoded comes out again; sizes, limits, skipping, ids.
 */
#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "core/segment_format.h"
#include "support.h"

namespace queen::test
{
namespace
{

using core::Status;

void
expect_round_trip(const std::vector<OwnedFrame> &frames, int level)
{
	const Bytes blob = encode(frames, level);
	std::vector<OwnedFrame> back;

	EXPECT_EQ(decode(blob, back), Status::end);
	EXPECT_TRUE(back == frames) << frames.size() << " frames, level " << level;
}

/* The directory's entry of one block. */
core::BlockEntry
entry_of(const Bytes &blob, std::size_t block)
{
	return core::load_entry(blob.data() + core::entry_offset(block));
}

TEST(Segment, EmptyPayload)
{
	const std::vector<OwnedFrame> frames(1);

	for (int level : {0, 1, 3, 19})
		expect_round_trip(frames, level);
}

TEST(Segment, OverheadOfOneMessage)
{
	std::vector<OwnedFrame> frames(1);

	frames[0].payload = noise(100, 1);
	/* the frame itself: flags, id, one byte of length */
	EXPECT_EQ(encode(frames, 3).size(), 100u + 18 + 37);
}

TEST(Segment, HeadersAbsentEmptyAndFull)
{
	std::vector<OwnedFrame> frames(4);

	frames[1].has_headers = true;
	frames[2].has_headers = true;
	frames[2].headers = bytes("headers");
	frames[3].raw = true;
	frames[3].payload = bytes("payload");
	for (int level : {0, 3})
		expect_round_trip(frames, level);
}

TEST(Segment, HeadersThatAreNotThereAreNotStored)
{
	std::vector<OwnedFrame> frames(1), back;

	frames[0].headers = bytes("not looked at");
	EXPECT_EQ(encode(frames, 0).size(), encode({OwnedFrame{}}, 0).size());
	EXPECT_EQ(decode(encode(frames, 0), back), Status::end);
	EXPECT_TRUE(back[0].headers.empty());
}

TEST(Segment, EveryFrameCountAtAFewSizes)
{
	for (std::size_t count = 1; count <= core::segment_max_frames; count += count < 20 ? 1 : 49)
		for (std::size_t payload : {0u, 1u, 127u, 128u, 700u})
			expect_round_trip(batch(count, payload, count), 3);
	expect_round_trip(batch(core::segment_max_frames, 200, 1), 3);
}

TEST(Segment, EveryLevel)
{
	std::vector<OwnedFrame> frames = batch(400, 500, 5);

	frames.resize(402);
	frames[400].payload = prose(3 << 20, 6);
	frames[401].payload = bytes("last");
	for (int level = 0; level <= core::zstd_level_max; level++)
	{
		const Bytes blob = encode(frames, level);
		std::vector<OwnedFrame> back;

		EXPECT_EQ(decode(blob, back), Status::end);
		EXPECT_TRUE(back == frames);
		/* every block was compressed, the huge one too: the workspace is large enough for all lengths */
		const std::size_t blocks = core::load_le<std::uint16_t>(blob.data() + core::header_blocks);
		ASSERT_GT(blocks, 3u);
		for (std::size_t i = 0; i + 1 < blocks; i++)
			EXPECT_EQ(entry_of(blob, i).codec, level == 0 ? core::Codec::stored : core::Codec::zstd) << i;
		EXPECT_EQ(entry_of(blob, blocks - 1).codec, core::Codec::stored) << "too small to try";
	}
}

TEST(Segment, LevelOutOfRangeIsTheNearestEnd)
{
	const std::vector<OwnedFrame> frames = batch(50, 200, 5);

	EXPECT_EQ(core::segment_encode_workspace_size(0), 0u);
	EXPECT_EQ(core::segment_encode_workspace_size(-1), 0u);
	EXPECT_EQ(core::segment_encode_workspace_size(100), core::segment_encode_workspace_size(19));
	EXPECT_TRUE(encode(frames, -5) == encode(frames, 0));
	EXPECT_TRUE(encode(frames, 100) == encode(frames, 19));
}

TEST(Segment, WorkspacesStaySmall)
{
	for (int level = core::zstd_level_min; level <= core::zstd_level_max; level++)
		EXPECT_LE(core::segment_encode_workspace_size(level), std::size_t{4} << 20) << level;
	EXPECT_LE(core::segment_encode_workspace_size(3), std::size_t{1} << 20);
	EXPECT_LE(core::segment_decode_workspace_size(), std::size_t{1} << 20);
}

TEST(Segment, OverAMegabyte)
{
	std::vector<OwnedFrame> frames = batch(3, 100, 9);

	frames[1].payload = prose((1 << 20) + 77, 1);
	frames[2].has_headers = true;
	frames[2].headers = prose(300'000, 2);
	for (int level : {0, 1, 3, 12})
		expect_round_trip(frames, level);
}

TEST(Segment, HundredMegabytesInOneFrame)
{
	std::vector<OwnedFrame> frames(1);

	frames[0].raw = true;
	frames[0].payload = prose(100'000'000, 3);
	const Bytes blob = encode(frames, 3);
	EXPECT_LT(blob.size(), frames[0].payload.size() / 3);
	std::vector<OwnedFrame> back;
	EXPECT_EQ(decode(blob, back), Status::end);
	EXPECT_TRUE(back == frames);
}

TEST(Segment, IncompressibleIsStoredAndNeedsNoScratch)
{
	std::vector<OwnedFrame> frames(40);

	for (std::size_t i = 0; i < frames.size(); i++)
		frames[i].payload = noise(10'000, i);
	const Bytes blob = encode(frames, 3);
	core::SegmentReader reader;
	core::SegmentInfo info{};
	ASSERT_EQ(reader.open(blob, info), Status::ok);
	EXPECT_EQ(info.scratch_size, 0u);
	EXPECT_EQ(info.frame_count, 40u);
	EXPECT_EQ(info.block_count, 7u) << "six frames of 10 kB in a block";
	for (std::size_t i = 0; i < info.block_count; i++)
		EXPECT_EQ(entry_of(blob, i).codec, core::Codec::stored);

	/* no memory is needed then: views point into the blob */
	core::Frame frame{};
	ASSERT_EQ(reader.next(frame), Status::ok);
	EXPECT_GE(frame.payload.data(), blob.data());
	EXPECT_LE(frame.payload.data() + frame.payload.size(), blob.data() + blob.size());
	expect_round_trip(frames, 3);
}

TEST(Segment, BlocksAreCutAtTheTarget)
{
	std::vector<OwnedFrame> frames(10);

	/* a frame of exactly the target, then one byte more, fills a block of its own each time */
	for (std::size_t i = 0; i < frames.size(); i++)
		frames[i].payload = prose(core::block_target_raw - 20 + i % 2, i);
	EXPECT_EQ(core::frame_raw_bound(frames[0].view()), core::block_target_raw);
	core::SegmentReader reader;
	core::SegmentInfo info{};
	const Bytes blob = encode(frames, 1);
	ASSERT_EQ(reader.open(blob, info), Status::ok);
	EXPECT_EQ(info.block_count, 10u);
	EXPECT_EQ(info.scratch_size, core::block_target_raw + 1);

	/* two that fit together exactly */
	frames.assign(2, OwnedFrame{});
	frames[0].payload = noise(1000, 1);
	frames[1].payload = noise(core::block_target_raw - 1000 - 19 - 20, 2);
	ASSERT_EQ(reader.open(encode(frames, 0), info), Status::ok);
	EXPECT_EQ(info.block_count, 1u);
	frames[0].payload.push_back(0);
	ASSERT_EQ(reader.open(encode(frames, 0), info), Status::ok);
	EXPECT_EQ(info.block_count, 2u);
}

TEST(Segment, SuccessorIdsTakeNoSpace)
{
	std::vector<OwnedFrame> frames = batch(100, 10, 1), back;

	for (OwnedFrame &frame : frames)
		frame.has_headers = false, frame.headers.clear();
	const Bytes blob = encode(frames, 0);
	EXPECT_EQ(blob.size(), 37u + 16 + 100 * 12);
	EXPECT_EQ(decode(blob, back), Status::end);
	EXPECT_TRUE(back == frames);
}

TEST(Segment, SuccessorAcrossAMillisecondIsWrittenOut)
{
	const Bytes ones(core::Uuid7Source::random_bytes, 0xff);
	const std::span<const std::uint8_t, core::Uuid7Source::random_bytes> random(ones);
	core::Uuid7Source source;
	std::vector<OwnedFrame> frames(4), back;

	for (OwnedFrame &frame : frames)
		frame.message_id = source.mint(1'700'000'000'000, random);
	const Bytes blob = encode(frames, 0);
	/* frames 0 and 1 have whole ids, 2 and 3 follow */
	EXPECT_EQ(blob.size(), 37u + 2 * 18 + 2 * 2);
	EXPECT_EQ(decode(blob, back), Status::end);
	EXPECT_TRUE(back == frames);
}

TEST(Segment, SaysWhetherIdsAscend)
{
	const std::vector<OwnedFrame> ascending = batch(100, 2000, 1);
	const auto says = [](const std::vector<OwnedFrame> &frames) {
		const Bytes blob = encode(frames, 1);
		core::SegmentReader reader;
		core::SegmentInfo info;
		std::vector<OwnedFrame> back;

		EXPECT_EQ(reader.open(blob, info), Status::ok);
		EXPECT_GT(frames.size() < 2 ? 2u : info.block_count, 1u);
		EXPECT_EQ(decode(blob, back), Status::end);
		EXPECT_TRUE(back == frames);
		return info.ids_ascend;
	};

	EXPECT_TRUE(says(ascending));
	EXPECT_TRUE(says({ascending[0]}));
	/* neighbours, in one block and over the end of a block, and one twice */
	for (std::size_t i = 1; i < ascending.size(); i++)
	{
		std::vector<OwnedFrame> frames = ascending;

		std::swap(frames[i - 1].message_id, frames[i].message_id);
		EXPECT_FALSE(says(frames)) << i;
		frames[i - 1].message_id = frames[i].message_id;
		EXPECT_FALSE(says(frames)) << i;
	}
}

TEST(Segment, IdsOfNoVersionAreKept)
{
	std::vector<OwnedFrame> frames(3);

	for (std::size_t i = 0; i < frames.size(); i++)
	{
		frames[i].message_id.bytes[0] = 0xff;
		frames[i].message_id.bytes[15] = static_cast<std::uint8_t>(i);
	}
	expect_round_trip(frames, 0);
	expect_round_trip(frames, 3);
}

TEST(Segment, SameInputSameBytes)
{
	const std::vector<OwnedFrame> frames = batch(700, 300, 8);

	EXPECT_TRUE(encode(frames, 3) == encode(frames, 3));
}

TEST(SegmentLimits, CountOfFrames)
{
	std::size_t size = 77;
	std::uint8_t byte;
	const std::vector<core::Frame> frames(core::segment_max_frames + 1);

	EXPECT_EQ(core::segment_encode({}, 0, {}, {&byte, 1}, size), Status::bad_format);
	EXPECT_EQ(core::segment_encode(frames, 0, {}, {&byte, 1}, size), Status::too_large);
	EXPECT_EQ(size, 77u);
}

TEST(SegmentLimits, BytesOfAFrame)
{
	/* the sizes are checked before the bytes are looked at */
	std::uint8_t byte = 0;
	std::size_t size = 0;
	core::Frame frame{};

	frame.payload = core::ByteView(&byte, core::frame_max_payload + 1);
	EXPECT_EQ(core::segment_encode({&frame, 1}, 0, {}, {&byte, 1}, size), Status::too_large);
	frame.payload = core::ByteView(&byte, core::frame_max_payload - 5);
	frame.has_headers = true;
	frame.headers = core::ByteView(&byte, 6);
	EXPECT_EQ(core::segment_encode({&frame, 1}, 0, {}, {&byte, 1}, size), Status::too_large);
	frame.headers = core::ByteView(&byte, SIZE_MAX / 2);
	EXPECT_EQ(core::segment_encode({&frame, 1}, 0, {}, {&byte, 1}, size), Status::too_large);
	frame.headers = core::ByteView(&byte, 5);
	EXPECT_EQ(core::segment_encode({&frame, 1}, 0, {}, {&byte, 1}, size), Status::no_space)
		<< "the limit itself is fine";
	EXPECT_LE(core::frame_raw_bound(frame), core::frame_max_payload + core::frame_overhead_max);
}

TEST(SegmentLimits, BytesOfASegment)
{
	std::uint8_t byte = 0;
	std::size_t size = 0;
	std::vector<core::Frame> frames(3);

	for (core::Frame &frame : frames)
		frame.payload = core::ByteView(&byte, core::segment_max_raw / 3);
	EXPECT_EQ(core::segment_encode(frames, 0, {}, {&byte, 1}, size), Status::too_large);
	frames[2].payload = core::ByteView(&byte, core::segment_max_raw / 3 - 100);
	EXPECT_EQ(core::segment_encode(frames, 0, {}, {&byte, 1}, size), Status::no_space);
}

TEST(SegmentLimits, LargestFrame)
{
	std::vector<OwnedFrame> frames(1), back;

	frames[0].has_headers = true;
	frames[0].headers.assign(5, 'h');
	frames[0].payload.assign(core::frame_max_payload - 5, 'p');
	const Bytes blob = encode(frames, 1);
	EXPECT_LT(blob.size(), 100'000u) << "near the best ratio that zstd has";
	EXPECT_EQ(decode(blob, back), Status::end);
	EXPECT_TRUE(back == frames);
}

TEST(SegmentLimits, BuffersTooSmall)
{
	const std::vector<OwnedFrame> owned = batch(300, 400, 4);
	const std::vector<core::Frame> frames = views(owned);
	const std::size_t raw_size = core::segment_encode_raw_size(frames);
	const std::size_t workspace_size = core::segment_encode_workspace_size(3);
	const std::size_t bound = core::segment_encode_bound(frames);
	const Buffer raw(raw_size), workspace(workspace_size + 8), out(bound);
	std::size_t size = 77;

	EXPECT_EQ(core::segment_encode(frames, 3, {raw.span().first(raw_size - 1), workspace.span()}, out.span(), size),
			  Status::no_space);
	EXPECT_EQ(
		core::segment_encode(frames, 3, {raw.span(), workspace.span().first(workspace_size - 1)}, out.span(), size),
		Status::no_space);
	EXPECT_EQ(core::segment_encode(frames, 3, {raw.span(), workspace.span().subspan(1)}, out.span(), size),
			  Status::no_space)
		<< "not aligned";
	EXPECT_EQ(core::segment_encode(frames, 3, {raw.span(), workspace.span()}, out.span().first(bound - 1), size),
			  Status::no_space);
	EXPECT_EQ(core::segment_encode(frames, 3, {raw.span(), workspace.span()}, {}, size), Status::no_space);
	EXPECT_EQ(size, 77u);
	EXPECT_EQ(core::segment_encode(frames, 3, {raw.span(), workspace.span()}, out.span(), size), Status::ok);
	EXPECT_EQ(core::segment_encode(frames, 0, {raw.span(), {}}, out.span(), size), Status::ok);
}

TEST(Segment, OneCompressorAndDecompressorForMany)
{
	const Buffer workspace(core::segment_encode_workspace_size(19)),
		decode_workspace(core::segment_decode_workspace_size());
	core::Compressor *compressor = core::compressor_make(workspace.span(), 19);
	core::Decompressor *decompressor = core::decompressor_make(decode_workspace.span());

	ASSERT_NE(compressor, nullptr);
	ASSERT_NE(decompressor, nullptr);
	for (std::size_t i = 0; i < 200; i++)
	{
		/* what does not compress makes zstd give up in the middle of a block: the next one must not care */
		std::vector<OwnedFrame> owned = batch(1 + i % 40, 20 + i * 37, i);
		if (i % 3 == 0)
			owned[0].payload = noise(70'000, i);
		const int level = static_cast<int>(i % 20);
		const std::vector<core::Frame> frames = views(owned);
		const Buffer raw(core::segment_encode_raw_size(frames)), out(core::segment_encode_bound(frames));
		std::size_t size = 0;
		ASSERT_EQ(core::segment_encode(frames, level, {raw.span(), workspace.span(), compressor}, out.span(), size),
				  Status::ok);
		const core::ByteView blob = out.span().first(size);
		const Bytes fresh = encode(owned, level);
		ASSERT_TRUE(std::equal(blob.begin(), blob.end(), fresh.begin(), fresh.end())) << "as with a new one";

		core::SegmentReader reader;
		core::SegmentInfo info{};
		core::Frame frame{};
		ASSERT_EQ(reader.open(blob, info), Status::ok);
		const Buffer scratch(info.scratch_size);
		reader.set_memory(scratch.span(), decode_workspace.span(), decompressor);
		for (const OwnedFrame &expected : owned)
		{
			ASSERT_EQ(reader.next(frame), Status::ok);
			ASSERT_TRUE(own(frame) == expected);
		}
		ASSERT_EQ(reader.next(frame), Status::end);
	}
}

TEST(Segment, CompressorNeedsItsWorkspace)
{
	const std::size_t size = core::segment_encode_workspace_size(3),
					  decode_size = core::segment_decode_workspace_size();
	const Buffer workspace(size + 8), decode_workspace(decode_size + 8);

	EXPECT_EQ(core::compressor_make(workspace.span().first(size - 1), 3), nullptr);
	EXPECT_EQ(core::compressor_make(workspace.span().subspan(1), 3), nullptr);
	EXPECT_EQ(core::decompressor_make(decode_workspace.span().first(decode_size - 1)), nullptr);
	EXPECT_EQ(core::decompressor_make(decode_workspace.span().subspan(1)), nullptr);
}

TEST(Segment, ThreadsShareNothing)
{
	std::vector<std::thread> threads;

	for (std::uint64_t seed = 0; seed < 4; seed++)
		threads.emplace_back([seed] {
			for (int level : {0, 1, 3})
				expect_round_trip(batch(500, 300, seed), level);
		});
	for (std::thread &thread : threads)
		thread.join();
}

} // namespace
} // namespace queen::test
