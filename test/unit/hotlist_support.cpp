/*
 * hotlist_support.cpp: see hotlist_support.h.
 */
#include "hotlist_support.h"

#include <cstdlib>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

namespace queen::test
{

thread_local int locks_held_exclusive = 0;
thread_local int locks_held_shared = 0;

namespace
{

constexpr std::uint32_t writer = 1U << 24;

std::atomic<std::uint32_t> &
word(void *lock)
{
	return static_cast<SpinLock *>(lock)->word;
}

void
init(void *lock) noexcept
{
	word(lock).store(0, std::memory_order_relaxed);
}

void
exclusive(void *lock) noexcept
{
	std::uint32_t expected = 0;

	while (!word(lock).compare_exchange_weak(expected, writer, std::memory_order_acquire, std::memory_order_relaxed))
	{
		if (expected != 0)
			std::this_thread::yield();
		expected = 0;
	}
	locks_held_exclusive++;
}

void
shared(void *lock) noexcept
{
	std::uint32_t expected = word(lock).load(std::memory_order_relaxed) & ~writer;

	while (
		!word(lock).compare_exchange_weak(expected, expected + 1, std::memory_order_acquire, std::memory_order_relaxed))
	{
		if (expected >= writer)
		{
			std::this_thread::yield();
			expected &= ~writer;
		}
	}
	locks_held_shared++;
}

void
release(void *lock) noexcept
{
	if (word(lock).load(std::memory_order_relaxed) >= writer)
	{
		locks_held_exclusive--;
		word(lock).fetch_sub(writer, std::memory_order_release);
	}
	else
	{
		locks_held_shared--;
		word(lock).fetch_sub(1, std::memory_order_release);
	}
}

void
became_ready(void *arg, std::uint32_t ring_index, std::uint32_t ready) noexcept
{
	Told *told = static_cast<Told *>(arg);

	EXPECT_EQ(locks_held_exclusive, 0);
	EXPECT_LE(locks_held_shared, 1);
	EXPECT_GT(ready, 0U);
	told->ready[ring_index] += ready;
	told->calls++;
}

} // namespace

const core::hotlist::LockCalls spin_locks = {sizeof(SpinLock), init, exclusive, shared, release};

TestPool::TestPool(std::size_t size, core::hotlist::PoolOptions options)
	: size_(size != 0 ? size : core::hotlist::least_size(&spin_locks, &options)),
	  memory_(std::aligned_alloc(64, (size_ + 63) / 64 * 64))
{
	std::memset(memory_, 0xa5, size_);
	EXPECT_TRUE(core::hotlist::lay_out(memory_, size_, &spin_locks, &options));
	EXPECT_TRUE(core::hotlist::attach(memory_, &spin_locks, &hotlist_));
}

TestPool::~TestPool()
{
	std::free(memory_);
}

core::hotlist::Listener
Told::listener()
{
	return {became_ready, this};
}

} // namespace queen::test
