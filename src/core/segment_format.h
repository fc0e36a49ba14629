/*
 * segment_format.h: the layout of a segment, shared by the writer and the reader. Private to the core.
 *
 * README.md has the same in tables, and the reasons. A change here is a new format version.
 */
#ifndef QUEEN_CORE_SEGMENT_FORMAT_H
#define QUEEN_CORE_SEGMENT_FORMAT_H

#include <bit>

#include "core/bytes.h"
#include "core/segment.h"

namespace queen::core
{

/* Header */
inline constexpr std::uint32_t segment_magic = 0x47455351; /* "QSEG" */
inline constexpr std::uint8_t segment_version = 1;
inline constexpr std::uint8_t segment_flag_big_endian = 0x01;
inline constexpr std::uint8_t segment_flag_unordered = 0x02;
inline constexpr std::uint8_t segment_native_flags =
	std::endian::native == std::endian::big ? segment_flag_big_endian : 0;
inline constexpr std::size_t header_size = 10;
inline constexpr std::size_t header_version = 4;
inline constexpr std::size_t header_flags = 5;
inline constexpr std::size_t header_frames = 6;
inline constexpr std::size_t header_blocks = 8;

/* Directory, and the sum behind it */
inline constexpr std::size_t entry_size = 19;
inline constexpr std::size_t sum_size = 8;

/* What zstd can reach at most: 128 KB from a run-length block of 4 bytes */
inline constexpr std::uint64_t zstd_max_ratio = (std::uint64_t{128} << 10) / 4;

enum class Codec : std::uint8_t
{
	stored = 0,
	zstd = 1,
};

/* Flags of a frame */
inline constexpr std::uint8_t frame_flag_raw = 0x01;
inline constexpr std::uint8_t frame_flag_headers = 0x02;
inline constexpr std::uint8_t frame_flag_successor = 0x04;
inline constexpr std::uint8_t frame_flags_known = frame_flag_raw | frame_flag_headers | frame_flag_successor;

inline constexpr std::size_t varint_max_size = 5;
static_assert(1 + sizeof(Uuid) + 2 * varint_max_size <= frame_overhead_max);

/* One block's line in the directory */
struct BlockEntry
{
	std::uint32_t stored_length;
	std::uint32_t raw_length;
	std::uint16_t frames;
	Codec codec; /* unchecked after load_entry */
	std::uint64_t sum;
};

inline BlockEntry
load_entry(const std::uint8_t *from) noexcept
{
	return BlockEntry{load_le<std::uint32_t>(from), load_le<std::uint32_t>(from + 4), load_le<std::uint16_t>(from + 8),
					  static_cast<Codec>(from[10]), load_le<std::uint64_t>(from + 11)};
}

inline void
store_entry(std::uint8_t *to, const BlockEntry &entry) noexcept
{
	store_le(to, entry.stored_length);
	store_le(to + 4, entry.raw_length);
	store_le(to + 8, entry.frames);
	to[10] = static_cast<std::uint8_t>(entry.codec);
	store_le(to + 11, entry.sum);
}

/* Where a block's entry begins; for index == blocks, where the directory's sum stands. */
constexpr std::size_t
entry_offset(std::size_t index) noexcept
{
	return header_size + index * entry_size;
}

/* Where the first block begins. */
constexpr std::size_t
blocks_offset(std::size_t blocks) noexcept
{
	return entry_offset(blocks) + sum_size;
}

/* XXH3, 64 bits, seed 0. */
std::uint64_t segment_checksum(const std::uint8_t *bytes, std::size_t length) noexcept;

} // namespace queen::core

#endif
