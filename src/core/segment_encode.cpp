/*
 * segment_encode.cpp: the writer of segments. README.md has the layout; segment.h the contract.
 */
#include "core/segment_format.h"
#include "core/uuid7.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

namespace queen::core
{

namespace
{

/*
 * Below these, a block is not worth the attempt: measured, a single message of 200 bytes of JSON shrinks by 2 %, for 3.6 µs
 * of the writer, a quarter of all that its commit costs. Several messages repeat each other's keys and shrink much sooner.
 */
constexpr std::size_t compress_min_single = 1024;
constexpr std::size_t compress_min_several = 256;

constexpr std::size_t
compress_min(std::size_t frames) noexcept
{
	return frames > 1 ? compress_min_several : compress_min_single;
}

/* A compressed block must save raw length / compress_min_gain bytes, or reading it costs more than it saves. */
constexpr std::size_t compress_min_gain = 16;

/* Level of zstd for a level that a caller gives. */
int
clamp_level(int level) noexcept
{
	return level < 0 ? 0 : level > zstd_level_max ? zstd_level_max : level;
}

/*
 * Logarithms of the entries that the tables of the fast strategies have, 48 KB together. zstd's own are eight times as large,
 * find nothing more in a block of JSON (measured: between half a percent more and less), and are touched all over: a hundred
 * backends with tables of their own compress out of the memory instead of the cache, at half the speed.
 */
constexpr unsigned fast_hash_log = 13;
constexpr unsigned fast_chain_log = 12;

/* One parameter set for blocks of every length, so that a huge block runs in the workspace of an ordinary one. */
ZSTD_compressionParameters
block_parameters(int level) noexcept
{
	ZSTD_compressionParameters parameters = ZSTD_getCParams(level, block_target_raw, 0);

	if (parameters.strategy <= ZSTD_dfast)
	{
		parameters.hashLog = fast_hash_log;
		parameters.chainLog = fast_chain_log;
	}
	return parameters;
}

/* Bytes that a length takes as a varint. */
std::size_t
varint_size(std::size_t value) noexcept
{
	std::size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

std::uint8_t *
store_varint(std::uint8_t *to, std::size_t value) noexcept
{
	for (; value >= 0x80; value >>= 7)
		*to++ = static_cast<std::uint8_t>(value | 0x80);
	*to++ = static_cast<std::uint8_t>(value);
	return to;
}

std::uint8_t *
store_bytes(std::uint8_t *to, ByteView bytes) noexcept
{
	/* an empty view may have a null pointer, which memcpy does not take */
	if (!bytes.empty())
		std::memcpy(to, bytes.data(), bytes.size());
	return to + bytes.size();
}

/* Write one frame; previous is the frame before it in the block, or null. Returns the end. */
std::uint8_t *
store_frame(std::uint8_t *to, const Frame &frame, const Frame *previous) noexcept
{
	const bool successor = previous != nullptr && uuid7_follows(previous->message_id, frame.message_id);
	std::uint8_t flags = 0;

	if (frame.raw)
		flags |= frame_flag_raw;
	if (frame.has_headers)
		flags |= frame_flag_headers;
	if (successor)
		flags |= frame_flag_successor;

	*to++ = flags;
	if (!successor)
		to = store_bytes(to, ByteView(frame.message_id.bytes));
	if (frame.has_headers)
		to = store_varint(to, frame.headers.size());
	to = store_varint(to, frame.payload.size());
	if (frame.has_headers)
		to = store_bytes(to, frame.headers);
	return store_bytes(to, frame.payload);
}

/* The frames of one block, and the most that they take. */
struct Cut
{
	std::size_t frames;
	std::size_t raw_bound;
};

/*
 * How many of these frames the next block takes: as many as fit into block_target_raw, at least one. Whole ids are
 * counted, so the cut depends on sizes alone and every function here finds the same one.
 */
Cut
cut_block(const Frame *frames, std::size_t count) noexcept
{
	Cut cut{1, frame_raw_bound(*frames)};

	while (cut.frames < count)
	{
		const std::size_t more = frame_raw_bound(frames[cut.frames]);

		if (cut.raw_bound + more > block_target_raw)
			break;
		cut.raw_bound += more;
		cut.frames++;
	}
	return cut;
}

/* What the sizes of all blocks together come to. */
struct Plan
{
	std::size_t blocks = 0;
	std::size_t raw_total = 0;	 /* bound of all blocks' raw bytes */
	std::size_t raw_largest = 0; /* of the largest block's */
};

Plan
plan_blocks(std::span<const Frame> frames) noexcept
{
	Plan plan;

	for (std::size_t done = 0; done < frames.size();)
	{
		const Cut cut = cut_block(frames.data() + done, frames.size() - done);

		plan.blocks++;
		plan.raw_total += cut.raw_bound;
		if (plan.raw_largest < cut.raw_bound)
			plan.raw_largest = cut.raw_bound;
		done += cut.frames;
	}
	return plan;
}

/* Is each message id above the one before? */
bool
ids_ascend(std::span<const Frame> frames) noexcept
{
	for (std::size_t i = 1; i < frames.size(); i++)
		if (!uuid7_less(frames[i - 1].message_id, frames[i].message_id))
			return false;
	return true;
}

/* Are the frames within the format's limits? */
Status
check_frames(std::span<const Frame> frames) noexcept
{
	std::size_t total = 0;

	if (frames.empty())
		return Status::bad_format;
	if (frames.size() > segment_max_frames)
		return Status::too_large;
	for (const Frame &frame : frames)
	{
		const std::size_t headers = frame.has_headers ? frame.headers.size() : 0;

		if (headers > frame_max_payload || frame.payload.size() > frame_max_payload - headers)
			return Status::too_large;
		total += frame_raw_bound(frame);
	}
	return total > segment_max_raw ? Status::too_large : Status::ok;
}

/* The caller's compressor, or a new one, set up for a level; null when the workspace does not do. */
ZSTD_CCtx *
set_up_compressor(const EncodeMemory &memory, int level) noexcept
{
	if (memory.workspace.size() < segment_encode_workspace_size(level))
		return nullptr;

	Compressor *made = memory.compressor != nullptr ? memory.compressor : compressor_make(memory.workspace, level);
	auto *zstd = reinterpret_cast<ZSTD_CCtx *>(made);
	if (zstd == nullptr || ZSTD_isError(ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters)))
		return nullptr;

	const ZSTD_compressionParameters parameters = block_parameters(level);
	const struct
	{
		ZSTD_cParameter name;
		int value;
	} settings[] = {
		{ZSTD_c_compressionLevel, level},
		{ZSTD_c_windowLog, static_cast<int>(parameters.windowLog)},
		{ZSTD_c_chainLog, static_cast<int>(parameters.chainLog)},
		{ZSTD_c_hashLog, static_cast<int>(parameters.hashLog)},
		{ZSTD_c_searchLog, static_cast<int>(parameters.searchLog)},
		{ZSTD_c_minMatch, static_cast<int>(parameters.minMatch)},
		{ZSTD_c_targetLength, static_cast<int>(parameters.targetLength)},
		{ZSTD_c_strategy, static_cast<int>(parameters.strategy)},
		{ZSTD_c_contentSizeFlag, 0}, /* the directory has it */
	};
	for (const auto &setting : settings)
		if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, setting.name, setting.value)))
			return nullptr;
	return zstd;
}

/*
 * Compress a block; 0 when that does not pay, which zstd says by not fitting into what would. Any other refusal by zstd
 * ends in the same place on purpose: a block that is stored as it is loses nothing. There is room for the raw block.
 */
std::size_t
compress_block(ZSTD_CCtx *zstd, ByteView raw, std::uint8_t *to) noexcept
{
	const std::size_t most = raw.size() - raw.size() / compress_min_gain;
	const std::size_t length = ZSTD_compress2(zstd, to, most, raw.data(), raw.size());

	return ZSTD_isError(length) ? 0 : length;
}

} // namespace

std::size_t
frame_raw_bound(const Frame &frame) noexcept
{
	std::size_t size = 1 + sizeof(Uuid) + varint_size(frame.payload.size()) + frame.payload.size();

	if (frame.has_headers)
		size += varint_size(frame.headers.size()) + frame.headers.size();
	return size;
}

std::size_t
segment_encode_raw_size(std::span<const Frame> frames) noexcept
{
	return plan_blocks(frames).raw_largest;
}

std::size_t
segment_encode_bound(std::span<const Frame> frames) noexcept
{
	const Plan plan = plan_blocks(frames);

	return blocks_offset(plan.blocks) + plan.raw_total;
}

std::size_t
segment_encode_workspace_size(int level) noexcept
{
	level = clamp_level(level);
	return level == 0 ? 0 : ZSTD_estimateCCtxSize_usingCParams(block_parameters(level));
}

Compressor *
compressor_make(ByteBuffer workspace, int level) noexcept
{
	if (workspace.size() < segment_encode_workspace_size(level))
		return nullptr;
	return reinterpret_cast<Compressor *>(ZSTD_initStaticCCtx(workspace.data(), workspace.size()));
}

Status
segment_encode(std::span<const Frame> frames, int level, EncodeMemory memory, ByteBuffer out,
			   std::size_t &size) noexcept
{
	const Status checked = check_frames(frames);
	if (checked != Status::ok)
		return checked;

	const Plan plan = plan_blocks(frames);
	std::size_t used = blocks_offset(plan.blocks);
	/* out in full, also where less would do: whether a call succeeds does not depend on what the bytes compress to */
	if (memory.raw.size() < plan.raw_largest || out.size() < used + plan.raw_total)
		return Status::no_space;

	/* no block can reach the minimum, then zstd is not even woken */
	ZSTD_CCtx *zstd = nullptr;
	level = clamp_level(level);
	if (level != 0 && plan.raw_largest >= compress_min(frames.size()))
	{
		zstd = set_up_compressor(memory, level);
		if (zstd == nullptr)
			return Status::no_space;
	}

	std::uint8_t *const base = out.data();
	std::size_t done = 0;
	for (std::size_t block = 0; block < plan.blocks; block++)
	{
		const Cut cut = cut_block(frames.data() + done, frames.size() - done);
		std::uint8_t *end = memory.raw.data();

		for (std::size_t i = done; i < done + cut.frames; i++)
			end = store_frame(end, frames.data()[i], i > done ? frames.data() + i - 1 : nullptr);
		done += cut.frames;

		const ByteView raw(memory.raw.data(), end);
		std::size_t stored = 0;
		Codec codec = Codec::zstd;
		if (zstd != nullptr && raw.size() >= compress_min(cut.frames))
			stored = compress_block(zstd, raw, base + used);
		if (stored == 0)
		{
			store_bytes(base + used, raw);
			stored = raw.size();
			codec = Codec::stored;
		}
		store_entry(base + entry_offset(block),
					BlockEntry{static_cast<std::uint32_t>(stored), static_cast<std::uint32_t>(raw.size()),
							   static_cast<std::uint16_t>(cut.frames), codec, segment_checksum(base + used, stored)});
		used += stored;
	}

	store_le(base, segment_magic);
	base[header_version] = segment_version;
	base[header_flags] = segment_native_flags | (ids_ascend(frames) ? std::uint8_t{0} : segment_flag_unordered);
	store_le(base + header_frames, static_cast<std::uint16_t>(frames.size()));
	store_le(base + header_blocks, static_cast<std::uint16_t>(plan.blocks));
	store_le(base + entry_offset(plan.blocks), segment_checksum(base, entry_offset(plan.blocks)));
	size = used;
	return Status::ok;
}

} // namespace queen::core
