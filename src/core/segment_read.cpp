/*
 * segment_read.cpp: the reader of segments. README.md says what it guarantees for bytes that cannot be trusted.
 */
#include "core/segment_format.h"
#include "core/uuid7.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

namespace queen::core
{

namespace
{

/* Is a block's entry within the format's limits? */
bool
entry_valid(const BlockEntry &entry) noexcept
{
	const std::size_t raw_max = entry.frames == 1 ? frame_max_payload + frame_overhead_max : block_max_raw;

	if (entry.frames == 0 || entry.raw_length > raw_max)
		return false;
	switch (entry.codec)
	{
		case Codec::stored:
			return entry.stored_length == entry.raw_length;
		case Codec::zstd:
			return entry.stored_length < entry.raw_length && entry.raw_length <= entry.stored_length * zstd_max_ratio;
	}
	return false;
}

/*
 * Takes bytes off the front of a block. Once something was not there or not valid, ok is false and everything taken
 * after it is empty or zero, so the caller asks once at the end.
 */
struct Cursor
{
	ByteView left;
	bool ok = true;

	/* The next bytes, as a view. */
	ByteView
	take(std::size_t length) noexcept
	{
		if (!ok || left.size() < length)
		{
			ok = false;
			return {};
		}

		const ByteView taken(left.data(), length);
		left = ByteView(left.data() + length, left.size() - length);
		return taken;
	}

	/* One byte. */
	std::uint8_t
	take_byte() noexcept
	{
		const ByteView byte = take(1);

		return ok ? *byte.data() : std::uint8_t{0};
	}

	/* A length in its shortest form, at most frame_max_payload. */
	std::size_t
	take_length() noexcept
	{
		std::size_t value = 0;

		for (std::size_t i = 0; i < varint_max_size; i++)
		{
			const std::uint8_t byte = take_byte();

			value |= std::size_t{byte & 0x7fu} << (7 * i);
			if (byte < 0x80)
			{
				if ((byte == 0 && i > 0) || value > frame_max_payload)
					ok = false;
				return ok ? value : 0;
			}
		}
		ok = false;
		return 0;
	}
};

} // namespace

std::size_t
segment_decode_workspace_size() noexcept
{
	return ZSTD_estimateDCtxSize();
}

Decompressor *
decompressor_make(ByteBuffer workspace) noexcept
{
	/* zstd itself checks the size and the alignment */
	return reinterpret_cast<Decompressor *>(ZSTD_initStaticDCtx(workspace.data(), workspace.size()));
}

Status
SegmentReader::open(ByteView blob, SegmentInfo &info) noexcept
{
	*this = SegmentReader{};

	const std::uint8_t *base = blob.data();
	if (blob.size() < sizeof(segment_magic))
		return fail(Status::truncated);
	if (load_le<std::uint32_t>(base) != segment_magic)
		return fail(Status::bad_magic);
	if (blob.size() < header_size)
		return fail(Status::truncated);
	if (base[header_version] != segment_version)
		return fail(Status::bad_version);

	const std::size_t frames = load_le<std::uint16_t>(base + header_frames);
	const std::size_t blocks = load_le<std::uint16_t>(base + header_blocks);
	if (blob.size() < blocks_offset(blocks))
		return fail(Status::truncated);
	if (load_le<std::uint64_t>(base + entry_offset(blocks)) != segment_checksum(base, entry_offset(blocks)))
		return fail(Status::bad_checksum);

	/* From here on, these are the bytes that somebody wrote; whether that was the encoder is still open. */
	if ((base[header_flags] & ~(segment_flag_big_endian | segment_flag_unordered)) != 0)
		return fail(Status::bad_format);
	if ((base[header_flags] & segment_flag_big_endian) != segment_native_flags)
		return fail(Status::bad_version);
	if (frames == 0 || frames > segment_max_frames || blocks > frames)
		return fail(Status::bad_format);

	std::size_t frames_seen = 0;
	std::uint64_t raw_total = 0;
	std::uint64_t length = blocks_offset(blocks);
	std::size_t scratch_size = 0;
	for (std::size_t i = 0; i < blocks; i++)
	{
		const BlockEntry entry = load_entry(base + entry_offset(i));

		if (!entry_valid(entry))
			return fail(Status::bad_format);
		frames_seen += entry.frames;
		raw_total += entry.raw_length;
		length += entry.stored_length;
		if (entry.codec == Codec::zstd && scratch_size < entry.raw_length)
			scratch_size = entry.raw_length;
	}
	if (frames_seen != frames || raw_total > segment_max_raw || length < blob.size())
		return fail(Status::bad_format);
	if (length > blob.size())
		return fail(Status::truncated);

	blob_ = blob;
	frame_count_ = static_cast<std::uint32_t>(frames);
	next_bytes_ = blocks_offset(blocks);
	status_ = Status::ok;
	info = SegmentInfo{frame_count_, static_cast<std::uint32_t>(blocks), scratch_size,
					   (base[header_flags] & segment_flag_unordered) == 0};
	return status_;
}

void
SegmentReader::set_memory(ByteBuffer scratch, ByteBuffer workspace, Decompressor *decompressor) noexcept
{
	scratch_ = scratch;
	workspace_ = workspace;
	decompressor_ = decompressor;
}

Status
SegmentReader::skip(std::uint32_t count) noexcept
{
	if (status_ != Status::ok)
		return status_;
	if (count > frame_count_ - position_)
	{
		position_ = frame_count_;
		block_frames_ = 0;
		return Status::end;
	}

	while (count > 0)
	{
		std::uint32_t passed = block_frames_;

		if (passed == 0)
		{
			/* between two blocks: pass the next one whole, or load it */
			const BlockEntry entry = load_entry(blob_.data() + entry_offset(next_block_));

			if (entry.frames > count)
			{
				if (load_block() != Status::ok)
					return status_;
				continue;
			}
			next_block_++;
			next_bytes_ += entry.stored_length;
			passed = entry.frames;
		}
		else if (passed > count)
		{
			/* the target lies in this block */
			Frame frame;

			if (next(frame) != Status::ok)
				return status_;
			count--;
			continue;
		}
		block_frames_ = 0;
		position_ += passed;
		count -= passed;
	}
	return Status::ok;
}

Status
SegmentReader::next(Frame &frame) noexcept
{
	if (status_ != Status::ok)
		return status_;
	if (position_ == frame_count_)
		return Status::end;
	if (block_frames_ == 0 && load_block() != Status::ok)
		return status_;

	Cursor cursor{block_};
	const std::uint8_t flags = cursor.take_byte();
	Uuid id = previous_id_;

	if ((flags & ~frame_flags_known) != 0)
		return fail(Status::bad_format);
	if ((flags & frame_flag_successor) != 0)
	{
		id = uuid7_next(id);
		if (!have_previous_ || !uuid7_follows(previous_id_, id))
			return fail(Status::bad_format);
	}
	else if (const ByteView bytes = cursor.take(sizeof(id.bytes)); cursor.ok)
		std::memcpy(id.bytes, bytes.data(), sizeof(id.bytes));

	const bool has_headers = (flags & frame_flag_headers) != 0;
	const std::size_t headers_length = has_headers ? cursor.take_length() : 0;
	const std::size_t payload_length = cursor.take_length();
	const ByteView headers = cursor.take(headers_length);
	const ByteView payload = cursor.take(payload_length);

	if (!cursor.ok || headers_length + payload_length > frame_max_payload)
		return fail(Status::bad_format);
	if (block_frames_ == 1 && !cursor.left.empty())
		return fail(Status::bad_format);

	block_ = cursor.left;
	block_frames_--;
	position_++;
	previous_id_ = id;
	have_previous_ = true;
	frame = Frame{id, (flags & frame_flag_raw) != 0, has_headers, headers, payload};
	return Status::ok;
}

/* Check the next block's bytes and make its frames readable; it exists. */
Status
SegmentReader::load_block() noexcept
{
	const BlockEntry entry = load_entry(blob_.data() + entry_offset(next_block_));
	const std::uint8_t *stored = blob_.data() + next_bytes_;

	if (segment_checksum(stored, entry.stored_length) != entry.sum)
		return fail(Status::bad_checksum);

	if (entry.codec == Codec::stored)
		block_ = ByteView(stored, entry.raw_length);
	else
	{
		if (scratch_.size() < entry.raw_length || workspace_.size() < segment_decode_workspace_size())
			return fail(Status::no_space);
		if (decompressor_ == nullptr)
			decompressor_ = decompressor_make(workspace_);
		if (decompressor_ == nullptr)
			return fail(Status::no_space);

		auto *zstd = reinterpret_cast<ZSTD_DCtx *>(decompressor_);
		if (ZSTD_decompressDCtx(zstd, scratch_.data(), entry.raw_length, stored, entry.stored_length) !=
			entry.raw_length)
			return fail(Status::bad_format);
		block_ = ByteView(scratch_.data(), entry.raw_length);
	}
	next_block_++;
	next_bytes_ += entry.stored_length;
	block_frames_ = entry.frames;
	have_previous_ = false;
	return Status::ok;
}

/* Remember an error, so that every later call returns it too. */
Status
SegmentReader::fail(Status status) noexcept
{
	status_ = status;
	return status;
}

} // namespace queen::core
