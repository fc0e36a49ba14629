/*
 * bytes.h: integers in a fixed byte order at any address.
 *
 * Formats outlive machines, so nothing is stored in the byte order of the host. Private to the core.
 */
#ifndef QUEEN_CORE_BYTES_H
#define QUEEN_CORE_BYTES_H

#include <bit>
#include <cstring>

#include "core/types.h"

namespace queen::core
{

/* The value with its bytes reversed. */
template <typename T>
constexpr T
swap_bytes(T value) noexcept
{
	static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
	if constexpr (sizeof(T) == 2)
		return __builtin_bswap16(value);
	else if constexpr (sizeof(T) == 4)
		return __builtin_bswap32(value);
	else
		return __builtin_bswap64(value);
}

/* Read an unsigned integer stored in the given order. memcpy, because the address may be unaligned. */
template <typename T, std::endian order>
inline T
load(const std::uint8_t *from) noexcept
{
	T value;
	std::memcpy(&value, from, sizeof(value));
	if constexpr (order != std::endian::native)
		value = swap_bytes(value);
	return value;
}

/* Store an unsigned integer in the given order. */
template <typename T, std::endian order>
inline void
store(std::uint8_t *to, T value) noexcept
{
	if constexpr (order != std::endian::native)
		value = swap_bytes(value);
	std::memcpy(to, &value, sizeof(value));
}

template <typename T>
inline T
load_le(const std::uint8_t *from) noexcept
{
	return load<T, std::endian::little>(from);
}

template <typename T>
inline void
store_le(std::uint8_t *to, T value) noexcept
{
	store<T, std::endian::little>(to, value);
}

template <typename T>
inline T
load_be(const std::uint8_t *from) noexcept
{
	return load<T, std::endian::big>(from);
}

template <typename T>
inline void
store_be(std::uint8_t *to, T value) noexcept
{
	store<T, std::endian::big>(to, value);
}

} // namespace queen::core

#endif
