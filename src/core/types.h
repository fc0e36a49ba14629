/*
 * types.h: the value types that the core's modules share.
 *
 * The core is plain C++20: no PostgreSQL header, no exception, no heap; memory and time are handed in by the caller.
 * Every function is noexcept and reports through Status.
 */
#ifndef QUEEN_CORE_TYPES_H
#define QUEEN_CORE_TYPES_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace queen::core
{

/* 16 bytes in network order, exactly as PostgreSQL's uuid type stores them */
struct Uuid
{
	std::uint8_t bytes[16];

	friend constexpr bool
	operator==(const Uuid &a, const Uuid &b) noexcept
	{
		for (int i = 0; i < 16; i++)
			if (a.bytes[i] != b.bytes[i])
				return false;
		return true;
	}
};

using ByteView = std::span<const std::uint8_t>;
using ByteBuffer = std::span<std::uint8_t>;

enum class Status : std::uint8_t
{
	ok,
	end,		  /* no frame is left */
	truncated,	  /* fewer bytes than the format says */
	bad_magic,	  /* not a segment */
	bad_version,  /* a segment of a format that this code does not read */
	bad_checksum, /* the bytes are not those that were written */
	bad_format,	  /* the checksum holds, but a field is out of its range */
	too_large,	  /* the input is over a limit of the format */
	no_space,	  /* the buffer handed in is too small */
};

/* A short English word for a status, for an error's detail. */
const char *status_name(Status status) noexcept;

} // namespace queen::core

#endif
