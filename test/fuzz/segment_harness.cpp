/*
 * segment_harness.cpp: see segment_harness.h. Buffers have exactly the size that the core asks for, on the heap, so
 * that AddressSanitizer sees a byte too far.
 */
#include "segment_harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/segment_format.h"
#include "core/uuid7.h"

namespace queen::fuzz
{

namespace
{

using core::Status;
using Bytes = std::vector<std::uint8_t>;

/* More than this is not allocated: the reader then has to say no_space. */
constexpr std::size_t scratch_cap = std::size_t{1} << 20;

#define REQUIRE(condition) require((condition), #condition, __LINE__)

void
require(bool holds, const char *what, int line)
{
	if (!holds)
	{
		std::fprintf(stderr, "segment_harness.cpp:%d: does not hold: %s\n", line, what);
		std::abort();
	}
}

/* What a frame was, without its bytes. */
struct Digest
{
	core::Uuid id;
	bool raw;
	bool has_headers;
	std::size_t headers_length;
	std::size_t payload_length;
	std::uint64_t headers_sum;
	std::uint64_t payload_sum;

	bool operator==(const Digest &) const = default;
};

/* Reads every byte, so a view that points outside is seen. */
Digest
digest(const core::Frame &frame)
{
	return Digest{frame.message_id,
				  frame.raw,
				  frame.has_headers,
				  frame.headers.size(),
				  frame.payload.size(),
				  core::segment_checksum(frame.headers.data(), frame.headers.size()),
				  core::segment_checksum(frame.payload.data(), frame.payload.size())};
}

/* Read all frames; then skip to some of them and get the same ones. Gives what the reader ended with. */
Status
consume(core::ByteView blob, std::vector<Digest> &frames)
{
	core::SegmentReader reader;
	core::SegmentInfo info{};
	core::Frame frame{};

	frames.clear();
	Status status = reader.open(blob, info);
	if (status != Status::ok)
	{
		REQUIRE(status != Status::end && status != Status::no_space && status != Status::too_large);
		REQUIRE(reader.next(frame) == status);
		return status;
	}
	REQUIRE(info.frame_count >= 1 && info.frame_count <= core::segment_max_frames);
	REQUIRE(info.block_count >= 1 && info.block_count <= info.frame_count);
	REQUIRE(info.scratch_size <= core::frame_max_payload + core::frame_overhead_max);
	REQUIRE(info.scratch_size <= blob.size() * core::zstd_max_ratio);

	const std::size_t scratch_size = std::min(info.scratch_size, scratch_cap);
	const std::size_t workspace_size = core::segment_decode_workspace_size();
	const std::unique_ptr<std::uint8_t[]> scratch(new std::uint8_t[scratch_size]);
	const std::unique_ptr<std::uint8_t[]> workspace(new std::uint8_t[workspace_size]);
	const core::ByteBuffer scratch_view(scratch.get(), scratch_size), workspace_view(workspace.get(), workspace_size);

	reader.set_memory(scratch_view, workspace_view);
	while ((status = reader.next(frame)) == Status::ok)
	{
		frames.push_back(digest(frame));
		REQUIRE(reader.position() == frames.size());
	}
	REQUIRE(frames.size() <= info.frame_count);
	REQUIRE((status == Status::end) == (frames.size() == info.frame_count));
	REQUIRE(status != Status::no_space || info.scratch_size > scratch_cap);
	REQUIRE(reader.next(frame) == status && reader.skip(1) == status);

	/* one decompressor for all the walks, whatever a refused block did to it */
	core::Decompressor *decompressor = core::decompressor_make(workspace_view);
	REQUIRE(decompressor != nullptr);
	for (std::size_t target = 0; target <= info.frame_count; target += 1 + target)
	{
		core::SegmentReader second;

		REQUIRE(second.open(blob, info) == Status::ok);
		second.set_memory(scratch_view, workspace_view, decompressor);
		const Status skipped = second.skip(static_cast<std::uint32_t>(target));
		if (target > frames.size())
			continue; /* behind the damage: found or passed, both are right */
		REQUIRE(skipped == Status::ok && second.position() == target);
		if (target < frames.size())
			REQUIRE(second.next(frame) == Status::ok && digest(frame) == frames[target]);
		else
			REQUIRE(second.next(frame) == status);
	}
	return status;
}

/* Make the sums right, as far as the header lets them be found. */
void
fix_sums(Bytes &blob)
{
	if (blob.size() < core::header_size)
		return;

	const std::size_t blocks = core::load_le<std::uint16_t>(blob.data() + core::header_blocks);
	std::size_t at = core::blocks_offset(blocks);
	if (blob.size() < at)
		return;
	for (std::size_t i = 0; i < blocks; i++)
	{
		std::uint8_t *line = blob.data() + core::entry_offset(i);
		core::BlockEntry entry = core::load_entry(line);

		if (entry.stored_length > blob.size() - at)
			break;
		entry.sum = core::segment_checksum(blob.data() + at, entry.stored_length);
		core::store_entry(line, entry);
		at += entry.stored_length;
	}
	core::store_le(blob.data() + core::entry_offset(blocks),
				   core::segment_checksum(blob.data(), core::entry_offset(blocks)));
}

/* A segment of one block around these bytes. */
Bytes
wrap_block(core::Codec codec, std::uint16_t frames, std::uint32_t raw_length, const std::uint8_t *data,
		   std::size_t size)
{
	Bytes blob(core::blocks_offset(1) + size);

	std::copy(data, data + size, blob.begin() + core::blocks_offset(1));
	core::store_le(blob.data(), core::segment_magic);
	blob[core::header_version] = core::segment_version;
	blob[core::header_flags] = core::segment_native_flags;
	core::store_le(blob.data() + core::header_frames, frames);
	core::store_le(blob.data() + core::header_blocks, std::uint16_t{1});
	core::store_entry(blob.data() + core::entry_offset(0),
					  core::BlockEntry{static_cast<std::uint32_t>(size), raw_length, frames, codec, 0});
	fix_sums(blob);
	return blob;
}

/* Build frames from a script of 4 bytes each, then encode them and read them back. */
void
check_round_trip(const std::uint8_t *data, std::size_t size)
{
	const int level = size > 0 ? data[0] % 8 : 0;
	Bytes pool(70'000);
	for (std::size_t i = 0; i < pool.size(); i++)
		pool[i] = size > 0 ? static_cast<std::uint8_t>(data[i % size] + (i >> 9)) : std::uint8_t{0};

	std::vector<core::Frame> frames;
	core::Uuid id{};
	for (std::size_t at = 1; at + 4 <= size && frames.size() < core::segment_max_frames; at += 4)
	{
		const std::uint8_t flags = data[at];
		const std::size_t payload = data[at + 1] * (flags & 8 ? 256u : 1u) + data[at + 2];
		const std::size_t headers = data[at + 3];

		if ((flags & 4) != 0)
			id = core::uuid7_next(id);
		else
			for (std::size_t i = 0; i < sizeof(id.bytes); i++)
				id.bytes[i] = pool[headers * 16 + i];
		frames.push_back(core::Frame{
			id, (flags & 1) != 0, (flags & 2) != 0, {pool.data() + flags, headers}, {pool.data() + headers, payload}});
	}

	const std::size_t raw_size = core::segment_encode_raw_size(frames);
	const std::size_t workspace_size = core::segment_encode_workspace_size(level);
	const std::size_t bound = core::segment_encode_bound(frames);
	const std::unique_ptr<std::uint8_t[]> raw(new std::uint8_t[raw_size]);
	const std::unique_ptr<std::uint8_t[]> workspace(new std::uint8_t[workspace_size]);
	Bytes blob(bound);
	std::size_t length = 0;
	const core::EncodeMemory memory{{raw.get(), raw_size}, {workspace.get(), workspace_size}};
	const Status encoded = core::segment_encode(frames, level, memory, blob, length);

	REQUIRE(encoded == (frames.empty() ? Status::bad_format : Status::ok));
	if (frames.empty())
		return;
	REQUIRE(length <= bound);
	blob.resize(length);
	blob.shrink_to_fit();

	std::vector<Digest> back;
	REQUIRE(consume(blob, back) == Status::end);
	REQUIRE(back.size() == frames.size());
	for (std::size_t i = 0; i < frames.size(); i++)
	{
		if (!frames[i].has_headers)
			frames[i].headers = {};
		REQUIRE(back[i] == digest(frames[i]));
	}
}

} // namespace

void
run_segment(const std::uint8_t *data, std::size_t size)
{
	std::vector<Digest> frames;

	if (size == 0)
		return;
	const int mode = data[0] % mode_count;
	Bytes rest(data + 1, data + size);

	switch (mode)
	{
		case as_it_is:
			consume(rest, frames);
			break;
		case sums_fixed:
			fix_sums(rest);
			consume(rest, frames);
			break;
		case as_block:
			if (size >= 2)
				consume(
					wrap_block(core::Codec::stored, data[1], static_cast<std::uint32_t>(size - 2), data + 2, size - 2),
					frames);
			break;
		case as_zstd:
			if (size >= 5)
				consume(wrap_block(core::Codec::zstd, data[1],
								   data[2] | static_cast<std::uint32_t>(data[3]) << 8 |
									   static_cast<std::uint32_t>(data[4]) << 16,
								   data + 5, size - 5),
						frames);
			break;
		default:
			check_round_trip(data + 1, size - 1);
			break;
	}
}

} // namespace queen::fuzz
