/*
 * hotlist_support.h: what the tests of the hot-list share: a lock that processes may share, and a pool in memory of its own.
 */
#ifndef QUEEN_TEST_UNIT_HOTLIST_SUPPORT_H
#define QUEEN_TEST_UNIT_HOTLIST_SUPPORT_H

#include <atomic>
#include <cstdint>
#include <map>

#include "core/hotlist/hotlist.h"

namespace queen::test
{

/*
 * Readers and one writer, spinning, in one word on a cache line of its own. Taken by one compare-exchange and given back by one
 * subtraction, as the server's light-weight lock is. No address is in it, so processes can share it.
 */
struct alignas(64) SpinLock
{
	std::atomic<std::uint32_t> word;
};

extern const core::hotlist::LockCalls spin_locks;

/* How many locks this thread holds: a listener may be called with the directory's shared, and nothing else. */
extern thread_local int locks_held_exclusive;
extern thread_local int locks_held_shared;

/* A pool in memory of exactly `size` bytes (0: the least) that was full of rubbish before. */
class TestPool
{
  public:
	explicit TestPool(std::size_t size = 0, core::hotlist::PoolOptions options = {});
	~TestPool();
	TestPool(const TestPool &) = delete;
	TestPool &operator=(const TestPool &) = delete;

	operator const core::hotlist::Hotlist &() const
	{
		return hotlist_;
	}

	std::size_t
	size() const
	{
		return size_;
	}

  private:
	std::size_t size_;
	void *memory_;
	core::hotlist::Hotlist hotlist_;
};

/* A listener that keeps what it was told. */
struct Told
{
	std::map<std::uint32_t, std::uint64_t> ready; /* by ring index */
	int calls = 0;

	core::hotlist::Listener listener();
};

} // namespace queen::test

#endif
