/*
 * support.cpp: see support.h.
 */
#include "support.h"

#include <gtest/gtest.h>

#include "core/segment_format.h"

namespace queen::test
{

std::vector<core::Frame>
views(const std::vector<OwnedFrame> &frames)
{
	std::vector<core::Frame> result;

	result.reserve(frames.size());
	for (const OwnedFrame &frame : frames)
		result.push_back(frame.view());
	return result;
}

OwnedFrame
own(const core::Frame &frame)
{
	return OwnedFrame{frame.message_id, frame.raw, frame.has_headers, Bytes(frame.headers.begin(), frame.headers.end()),
					  Bytes(frame.payload.begin(), frame.payload.end())};
}

Bytes
bytes(const std::string &text)
{
	return Bytes(text.begin(), text.end());
}

Bytes
noise(std::size_t length, std::uint64_t seed)
{
	std::mt19937_64 random(seed);
	Bytes result(length);

	for (std::uint8_t &byte : result)
		byte = static_cast<std::uint8_t>(random());
	return result;
}

Bytes
prose(std::size_t length, std::uint64_t seed)
{
	std::mt19937_64 random(seed);
	std::string text;

	while (text.size() < length)
		text += "{\"order\": " + std::to_string(random() % 100000) + ", \"state\": \"paid\", \"items\": [1, 2]}";
	text.resize(length);
	return bytes(text);
}

std::vector<OwnedFrame>
batch(std::size_t count, std::size_t payload, std::uint64_t seed)
{
	core::Uuid7Source source;
	const Bytes random = noise(core::Uuid7Source::random_bytes, seed);
	std::vector<OwnedFrame> frames(count);

	for (std::size_t i = 0; i < count; i++)
	{
		frames[i].message_id =
			source.mint(1700000000000, std::span<const std::uint8_t, core::Uuid7Source::random_bytes>(random));
		frames[i].raw = i % 5 == 0;
		frames[i].has_headers = i % 3 == 0;
		if (frames[i].has_headers)
			frames[i].headers = prose(i % 40, seed + i);
		frames[i].payload = prose(payload, seed + i);
	}
	return frames;
}

Bytes
encode(const std::vector<OwnedFrame> &frames, int level)
{
	const std::vector<core::Frame> input = views(frames);
	const Buffer raw(core::segment_encode_raw_size(input));
	const Buffer workspace(core::segment_encode_workspace_size(level));
	const Buffer out(core::segment_encode_bound(input));
	std::size_t size = 0;

	EXPECT_EQ(core::segment_encode(input, level, {raw.span(), workspace.span()}, out.span(), size), core::Status::ok);
	EXPECT_LE(size, out.span().size());
	return Bytes(out.span().begin(), out.span().begin() + static_cast<std::ptrdiff_t>(size));
}

core::Status
decode(core::ByteView blob, std::vector<OwnedFrame> &out, std::uint32_t skip)
{
	core::SegmentReader reader;
	core::SegmentInfo info{};

	out.clear();
	if (const core::Status status = reader.open(blob, info); status != core::Status::ok)
		return status;

	const Buffer scratch(info.scratch_size);
	const Buffer workspace(core::segment_decode_workspace_size());
	reader.set_memory(scratch.span(), workspace.span());

	core::Status status = reader.skip(skip);
	core::Frame frame{};
	while (status == core::Status::ok)
	{
		EXPECT_EQ(reader.position(), skip + out.size());
		status = reader.next(frame);
		if (status == core::Status::ok)
			out.push_back(own(frame));
	}
	/* what a reader says first, it says for ever */
	EXPECT_EQ(reader.next(frame), status);
	EXPECT_EQ(reader.skip(1), status);
	return status;
}

void
fix_directory_sum(Bytes &blob)
{
	const std::size_t blocks = core::load_le<std::uint16_t>(blob.data() + core::header_blocks);
	const std::size_t offset = core::entry_offset(blocks);

	core::store_le(blob.data() + offset, core::segment_checksum(blob.data(), offset));
}

void
fix_block_sums(Bytes &blob)
{
	const std::size_t blocks = core::load_le<std::uint16_t>(blob.data() + core::header_blocks);
	std::size_t at = core::blocks_offset(blocks);

	for (std::size_t i = 0; i < blocks; i++)
	{
		std::uint8_t *line = blob.data() + core::entry_offset(i);
		core::BlockEntry entry = core::load_entry(line);

		entry.sum = core::segment_checksum(blob.data() + at, entry.stored_length);
		core::store_entry(line, entry);
		at += entry.stored_length;
	}
	fix_directory_sum(blob);
}

} // namespace queen::test
