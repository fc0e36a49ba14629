/*
 * segment.h: the format in which the log stores messages, and its codec.
 *
 * A segment is the blob of one row of queen.log_segments: up to 1,000 messages (frames) with consecutive offsets. The
 * frames are cut into blocks of about 64 KB, each compressed on its own (zstd, when that pays) and checksummed (XXH3),
 * so many small frames compress together while a reader that wants the last frame decompresses one block, not all.
 * README.md has the layout byte by byte.
 *
 * Memory is handed in: the encoder and the reader never allocate (zstd runs in a static workspace).
 * Offsets, the partition and the time are not in the blob: they stand in the row.
 */
#ifndef QUEEN_CORE_SEGMENT_H
#define QUEEN_CORE_SEGMENT_H

#include "core/types.h"

namespace queen::core
{

/* Limits of the format. A segment holds at least one frame, however large up to frame_max_payload. */
inline constexpr std::uint32_t segment_max_frames = 1000;
inline constexpr std::size_t segment_target_raw = std::size_t{1} << 20;	 /* the writer cuts a segment here */
inline constexpr std::size_t block_target_raw = std::size_t{64} << 10;	 /* and a block here */
inline constexpr std::size_t block_max_raw = std::size_t{1} << 20;		 /* no reader takes more in several frames */
inline constexpr std::size_t segment_max_raw = std::size_t{512} << 20;	 /* all frames, so a blob stays under 1 GB */
inline constexpr std::size_t frame_max_payload = std::size_t{256} << 20; /* payload and headers together, bytes */
inline constexpr std::size_t frame_overhead_max = 32;					 /* flags, id, lengths */
inline constexpr int zstd_level_min = 1;
inline constexpr int zstd_level_max = 19;

/* On blocks of 64 KB of JSON, level 3 takes 20 to 40 % more time and gains nothing (between 2 % less and 1 % more). */
inline constexpr int zstd_level_default = 1;

struct Frame
{
	Uuid message_id;
	bool raw;		  /* the payload is bytes as the user gave them; otherwise a jsonb value's binary form */
	bool has_headers; /* an absent headers value is not an empty one */
	ByteView headers;
	ByteView payload;
};

/* Bytes that frame takes before compression, at most. */
std::size_t frame_raw_bound(const Frame &frame) noexcept;

/*
 * zstd's state inside a workspace, opaque. Making one costs microseconds (zstd asks the processor what it can do, and
 * that question traps in a virtual machine), so whoever handles many segments makes it once. It lives in the workspace:
 * no end to call, used by one call or reader at a time, gone when the workspace is.
 */
struct Compressor;
struct Decompressor;

/* Null when the workspace is too small (a compressor's: for that level) or not 8-byte aligned. */
Compressor *compressor_make(ByteBuffer workspace, int level) noexcept;
Decompressor *decompressor_make(ByteBuffer workspace) noexcept;

/* Memory for one encode call. */
struct EncodeMemory
{
	ByteBuffer raw;		  /* at least segment_encode_raw_size(frames) */
	ByteBuffer workspace; /* at least segment_encode_workspace_size(level), 8-byte aligned; unused when level is 0 */
	Compressor *compressor = nullptr; /* what was made in this workspace; null: the call makes one if it needs it */
};

/* Sizes of the buffers that segment_encode needs. */
std::size_t segment_encode_raw_size(std::span<const Frame> frames) noexcept;
std::size_t segment_encode_bound(std::span<const Frame> frames) noexcept; /* of out */
std::size_t segment_encode_workspace_size(int level) noexcept;

/*
 * Encode frames (1 … segment_max_frames) into out.
 *   level: 0 stores, zstd_level_min … zstd_level_max compresses each block and keeps the result only where that pays
 *   out:   at least segment_encode_bound(frames), also where less would do
 *   size:  the bytes used of out
 * Returns ok, too_large (a frame, the count or segment_max_raw exceeded; no frame at all is bad_format) or no_space.
 */
Status segment_encode(std::span<const Frame> frames, int level, EncodeMemory memory, ByteBuffer out,
					  std::size_t &size) noexcept;

struct SegmentInfo
{
	std::uint32_t frame_count;
	std::uint32_t block_count;
	std::size_t scratch_size; /* what SegmentReader::set_memory needs for this segment; 0 when nothing is compressed */
	bool ids_ascend;		  /* as the writer says: each message id is above the one before */
};

/* Size of the workspace for decompression, 8-byte aligned; the same for every segment. */
std::size_t segment_decode_workspace_size() noexcept;

/*
 * Reads the frames of one blob in order. The views in a frame point into the blob or the scratch buffer and hold until
 * the next call on the reader. Whatever the bytes are, no call reads outside the blob: hostile input is a status.
 */
class SegmentReader
{
  public:
	/* Check header, directory, their sum and the length. Any error makes every later call return the same status. */
	Status open(ByteView blob, SegmentInfo &info) noexcept;

	/*
	 * Hand in memory for decompression, after open(); needed before next() and skip() unless scratch_size is 0. Without
	 * a decompressor that was made in this workspace, the reader makes one when it needs it.
	 */
	void set_memory(ByteBuffer scratch, ByteBuffer workspace, Decompressor *decompressor = nullptr) noexcept;

	/*
	 * Step over count frames; blocks that lie wholly before the target are neither checked nor decompressed. End when
	 * fewer are left; the position is then the end.
	 */
	Status skip(std::uint32_t count) noexcept;

	/* The next frame, end after the last, or what is wrong. */
	Status next(Frame &frame) noexcept;

	/* Index in the segment of the frame that next() would give. */
	std::uint32_t
	position() const noexcept
	{
		return position_;
	}

  private:
	Status load_block() noexcept;
	Status fail(Status status) noexcept;

	ByteView blob_{};
	ByteBuffer scratch_{};
	ByteBuffer workspace_{};
	Decompressor *decompressor_ = nullptr;
	std::size_t next_block_ = 0;	 /* index in the directory of the block to load next */
	std::size_t next_bytes_ = 0;	 /* offset in the blob of that block's bytes */
	ByteView block_{};				 /* what is left of the current block, decompressed */
	std::uint32_t block_frames_ = 0; /* frames left in it */
	std::uint32_t position_ = 0;
	std::uint32_t frame_count_ = 0;
	bool have_previous_ = false; /* inside a block: an id may be the previous one's successor */
	Uuid previous_id_{};
	Status status_ = Status::bad_format;
};

} // namespace queen::core

#endif
