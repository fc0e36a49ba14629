/*
 * segment_skip_test.cpp: skip lands where it should, reads no more than it must, and agrees with a plain vector.
 */
#include <gtest/gtest.h>

#include "core/segment_format.h"
#include "support.h"

namespace queen::test
{
namespace
{

using core::Status;

/* A reader with memory for one blob. */
struct Reader
{
	explicit Reader(const Bytes &blob)
	{
		EXPECT_EQ(reader.open(blob, info), Status::ok);
		scratch = std::make_unique<Buffer>(info.scratch_size);
		reader.set_memory(scratch->span(), workspace.span());
	}

	core::SegmentReader reader;
	core::SegmentInfo info{};
	Buffer workspace{core::segment_decode_workspace_size()};
	std::unique_ptr<Buffer> scratch;
};

/* Damage the stored bytes of one block. */
void
damage_block(Bytes &blob, std::size_t block)
{
	const std::size_t blocks = core::load_le<std::uint16_t>(blob.data() + core::header_blocks);
	std::size_t at = core::blocks_offset(blocks);

	for (std::size_t i = 0; i < block; i++)
		at += core::load_entry(blob.data() + core::entry_offset(i)).stored_length;
	blob[at] ^= 0x10;
}

std::uint32_t
frames_of_block(const Bytes &blob, std::size_t block)
{
	return core::load_entry(blob.data() + core::entry_offset(block)).frames;
}

TEST(SegmentSkip, ToEveryFrame)
{
	const std::vector<OwnedFrame> frames = batch(400, 900, 2);

	for (int level : {0, 3})
	{
		const Bytes blob = encode(frames, level);
		for (std::uint32_t i = 0; i < frames.size(); i++)
		{
			Reader r(blob);
			core::Frame frame{};

			ASSERT_GT(r.info.block_count, 4u);
			ASSERT_EQ(r.reader.skip(i), Status::ok);
			ASSERT_EQ(r.reader.position(), i);
			ASSERT_EQ(r.reader.next(frame), Status::ok);
			ASSERT_TRUE(own(frame) == frames[i]) << i;
		}
	}
}

TEST(SegmentSkip, TheEnd)
{
	const Bytes blob = encode(batch(100, 2000, 2), 3);
	core::Frame frame{};

	for (std::uint32_t first : {0u, 1u, 50u, 99u, 100u})
	{
		Reader exact(blob);
		ASSERT_EQ(exact.reader.skip(first), Status::ok);
		EXPECT_EQ(exact.reader.skip(100 - first), Status::ok);
		EXPECT_EQ(exact.reader.position(), 100u);
		EXPECT_EQ(exact.reader.next(frame), Status::end);
		EXPECT_EQ(exact.reader.skip(0), Status::ok);
		EXPECT_EQ(exact.reader.skip(1), Status::end);

		Reader over(blob);
		ASSERT_EQ(over.reader.skip(first), Status::ok);
		EXPECT_EQ(over.reader.skip(101 - first), Status::end);
		EXPECT_EQ(over.reader.position(), 100u);
		EXPECT_EQ(over.reader.next(frame), Status::end);

		Reader far(blob);
		ASSERT_EQ(far.reader.skip(first), Status::ok);
		EXPECT_EQ(far.reader.skip(UINT32_MAX), Status::end);
	}
}

TEST(SegmentSkip, PassedBlocksAreNotRead)
{
	const std::vector<OwnedFrame> frames = batch(400, 900, 2);
	Bytes blob = encode(frames, 3);
	const std::uint32_t first = frames_of_block(blob, 0);
	const std::uint32_t second = frames_of_block(blob, 1);
	core::Frame frame{};

	damage_block(blob, 0);
	damage_block(blob, 2);

	/* whole blocks are passed unseen, from the start and from within a block */
	Reader passing(blob);
	EXPECT_EQ(passing.reader.skip(first), Status::ok);
	ASSERT_EQ(passing.reader.next(frame), Status::ok);
	EXPECT_TRUE(own(frame) == frames[first]);
	EXPECT_EQ(passing.reader.skip(second - 1 + frames_of_block(blob, 2)), Status::ok);
	ASSERT_EQ(passing.reader.next(frame), Status::ok);
	EXPECT_TRUE(own(frame) == frames[first + second + frames_of_block(blob, 2)]);

	/* but a target inside a damaged block is not reached */
	for (std::uint32_t target : {1u, first - 1})
	{
		Reader r(blob);
		EXPECT_EQ(r.reader.skip(target), Status::bad_checksum);
		EXPECT_EQ(r.reader.next(frame), Status::bad_checksum);
	}
	Reader third(blob);
	EXPECT_EQ(third.reader.skip(first + second), Status::ok) << "in front of it, nothing is loaded yet";
	EXPECT_EQ(third.reader.next(frame), Status::bad_checksum);
	EXPECT_EQ(third.reader.skip(1), Status::bad_checksum);

	std::vector<OwnedFrame> back;
	EXPECT_EQ(decode(blob, back), Status::bad_checksum);
}

TEST(SegmentSkip, PassingWholeBlocksNeedsNoMemory)
{
	const std::vector<OwnedFrame> frames = batch(400, 900, 2);
	const Bytes blob = encode(frames, 3);
	core::SegmentReader reader;
	core::SegmentInfo info{};
	core::Frame frame{};

	ASSERT_EQ(reader.open(blob, info), Status::ok);
	EXPECT_EQ(reader.skip(frames_of_block(blob, 0)), Status::ok);
	EXPECT_EQ(reader.skip(1), Status::no_space);
	EXPECT_EQ(reader.next(frame), Status::no_space);
}

TEST(SegmentSkip, MemoryTooSmallOrMisaligned)
{
	const Bytes blob = encode(batch(100, 900, 2), 3);
	core::SegmentInfo info{};
	core::Frame frame{};
	core::SegmentReader reader;

	ASSERT_EQ(reader.open(blob, info), Status::ok);
	const std::size_t workspace_size = core::segment_decode_workspace_size();
	const Buffer scratch(info.scratch_size), workspace(workspace_size + 8);

	reader.set_memory(scratch.span().first(info.scratch_size - 1), workspace.span());
	/* the largest block may not be the first: some call has to say it */
	Status status = Status::ok;
	while (status == Status::ok)
		status = reader.next(frame);
	EXPECT_EQ(status, Status::no_space);

	for (const core::ByteBuffer &wrong : {workspace.span().first(workspace_size - 1), workspace.span().subspan(1)})
	{
		ASSERT_EQ(reader.open(blob, info), Status::ok);
		reader.set_memory(scratch.span(), wrong);
		EXPECT_EQ(reader.next(frame), Status::no_space);
	}
}

TEST(SegmentSkip, ReaderIsReusable)
{
	const std::vector<OwnedFrame> frames = batch(10, 50, 2);
	const Bytes blob = encode(frames, 0);
	core::SegmentReader reader;
	core::SegmentInfo info{};
	core::Frame frame{};

	EXPECT_EQ(reader.next(frame), Status::bad_format) << "never opened";
	EXPECT_EQ(reader.skip(0), Status::bad_format);
	EXPECT_EQ(reader.open({}, info), Status::truncated);
	ASSERT_EQ(reader.open(blob, info), Status::ok);
	EXPECT_EQ(reader.skip(9), Status::ok);
	EXPECT_EQ(reader.next(frame), Status::ok);
	ASSERT_EQ(reader.open(blob, info), Status::ok);
	EXPECT_EQ(reader.position(), 0u);
	ASSERT_EQ(reader.next(frame), Status::ok);
	EXPECT_TRUE(own(frame) == frames[0]);
}

/* One frame of the model test: any shape, most often small, sometimes larger than a block. */
OwnedFrame
random_frame(std::mt19937_64 &dice, core::Uuid7Source &source, std::uint64_t &clock)
{
	OwnedFrame frame;
	const Bytes random = noise(core::Uuid7Source::random_bytes, dice());
	const std::size_t limits[] = {1, 10, 200, 3000, 100'000};
	const std::size_t length = dice() % limits[std::min(dice() % 5, dice() % 5)];

	if (dice() % 10 == 0)
		clock += dice() % 3;
	frame.message_id = source.mint(clock, std::span<const std::uint8_t, core::Uuid7Source::random_bytes>(random));
	if (dice() % 20 == 0)
		frame.message_id.bytes[dice() % 16] ^= 1;
	frame.raw = dice() % 2 == 0;
	frame.has_headers = dice() % 3 == 0;
	if (frame.has_headers)
		frame.headers = prose(dice() % 150, dice());
	frame.payload = dice() % 3 == 0 ? noise(length, dice()) : prose(length, dice());
	return frame;
}

TEST(SegmentModel, RandomWalksAgreeWithAVector)
{
	std::mt19937_64 dice(20240229);

	for (int round = 0; round < 300; round++)
	{
		core::Uuid7Source source;
		std::uint64_t clock = 1'700'000'000'000;
		std::vector<OwnedFrame> frames(1 + dice() % (dice() % 10 == 0 ? core::segment_max_frames : 60));
		for (OwnedFrame &frame : frames)
			frame = random_frame(dice, source, clock);

		const Bytes blob = encode(frames, static_cast<int>(dice() % 6));
		for (int walk = 0; walk < 5; walk++)
		{
			Reader r(blob);
			std::size_t position = 0;

			for (;;)
			{
				core::Frame frame{};
				const auto step = static_cast<std::uint32_t>(dice() % 4 == 0 ? dice() % frames.size() : dice() % 3);

				if (dice() % 2 == 0)
				{
					const bool over = step > frames.size() - position;
					ASSERT_EQ(r.reader.skip(step), over ? Status::end : Status::ok);
					position = over ? frames.size() : position + step;
				}
				ASSERT_EQ(r.reader.position(), position);
				if (position == frames.size())
				{
					ASSERT_EQ(r.reader.next(frame), Status::end);
					break;
				}
				ASSERT_EQ(r.reader.next(frame), Status::ok);
				ASSERT_TRUE(own(frame) == frames[position]) << round << ": " << position;
				position++;
			}
		}
	}
}

} // namespace
} // namespace queen::test
