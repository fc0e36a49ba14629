/*
 * support.h: what the unit tests share: frames that own their bytes, and encode and decode with buffers of exactly the
 * size that the core asks for, so that a sanitizer sees a byte too far.
 */
#ifndef QUEEN_TEST_UNIT_SUPPORT_H
#define QUEEN_TEST_UNIT_SUPPORT_H

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/segment.h"
#include "core/uuid7.h"

namespace queen::test
{

using Bytes = std::vector<std::uint8_t>;

/* A buffer of exactly size bytes, not initialised, so that a memory checker sees reads of what nobody wrote. */
class Buffer
{
  public:
	explicit Buffer(std::size_t size) : bytes_(new std::uint8_t[size]), size_(size)
	{
	}

	core::ByteBuffer
	span() const
	{
		return {bytes_.get(), size_};
	}

  private:
	std::unique_ptr<std::uint8_t[]> bytes_;
	std::size_t size_;
};

struct OwnedFrame
{
	core::Uuid message_id{};
	bool raw = false;
	bool has_headers = false;
	Bytes headers;
	Bytes payload;

	bool operator==(const OwnedFrame &) const = default;

	core::Frame
	view() const
	{
		return core::Frame{message_id, raw, has_headers, headers, payload};
	}
};

/* Views of frames, in order. */
std::vector<core::Frame> views(const std::vector<OwnedFrame> &frames);

/* A copy of what a reader gave. */
OwnedFrame own(const core::Frame &frame);

/* Bytes of a string. */
Bytes bytes(const std::string &text);

/* length bytes that no compressor makes smaller. */
Bytes noise(std::size_t length, std::uint64_t seed);

/* length bytes of JSON-like text that compresses well. */
Bytes prose(std::size_t length, std::uint64_t seed);

/* count small frames with ids of one batch, headers on every third, raw on every fifth. */
std::vector<OwnedFrame> batch(std::size_t count, std::size_t payload, std::uint64_t seed);

/* Encode; fails the test and gives nothing when the encoder refuses. */
Bytes encode(const std::vector<OwnedFrame> &frames, int level);

/* Read a whole blob from skip frames on. Gives the first status that is not ok. */
core::Status decode(core::ByteView blob, std::vector<OwnedFrame> &out, std::uint32_t skip = 0);

/* Write the sum over header and directory again, and the sums of the blocks if asked, after a test changed bytes. */
void fix_directory_sum(Bytes &blob);
void fix_block_sums(Bytes &blob);

} // namespace queen::test

#endif
