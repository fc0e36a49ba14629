/*
 * skeleton.cpp: the calls of a pool that holds nothing, until they are built: every ring is refused.
 */
#include "core/hotlist/hotlist.h"

namespace queen::core::hotlist
{

std::size_t
least_size(const LockCalls *, const PoolOptions *) noexcept
{
	return 4096;
}
bool
lay_out(void *, std::size_t size, const LockCalls *, const PoolOptions *) noexcept
{
	return size >= 4096;
}
bool
attach(void *memory, const LockCalls *locks, Hotlist *h) noexcept
{
	*h = {static_cast<Pool *>(memory), locks};
	return true;
}
Registered
ring_register(const Hotlist &, const RingKey &, Micros, RingRef *) noexcept
{
	return Registered::full;
}
bool
ring_find(const Hotlist &, const RingKey &, RingRef *) noexcept
{
	return false;
}
bool
ring_is(const Hotlist &, RingRef) noexcept
{
	return false;
}
void
ring_defer(const Hotlist &, RingRef, const Deferral &) noexcept
{
}
void
forget_ring(const Hotlist &, const RingKey &) noexcept
{
}
void
forget_queue(const Hotlist &, const QueueKey &) noexcept
{
}
std::uint32_t
forget_tables(const Hotlist &, std::uint32_t, std::uint32_t) noexcept
{
	return 0;
}
std::uint32_t
sweep(const Hotlist &, Micros) noexcept
{
	return 0;
}
std::uint32_t
mark(const Hotlist &, const QueueKey &, std::span<const Mark>, Micros, const Listener &) noexcept
{
	return 0;
}
bool
mark_ring(const Hotlist &, const RingKey &, std::int64_t, Micros, const Listener &) noexcept
{
	return false;
}
void
promote(const Hotlist &, const RingKey &, std::int64_t, Micros, const Listener &) noexcept
{
}
void
owe_ring(const Hotlist &, const RingKey &, const Listener &) noexcept
{
}
void
owe_queue(const Hotlist &, const QueueKey &, const Listener &) noexcept
{
}
void
owe_tables(const Hotlist &, std::uint32_t, std::uint32_t, const Listener &) noexcept
{
}
std::uint32_t
take(const Hotlist &, RingRef, std::uint32_t, std::uint64_t, Micros, Owner, Taken *, const Listener &) noexcept
{
	return 0;
}
std::uint32_t
candidates(const Hotlist &, RingRef, std::uint32_t, Taken *) noexcept
{
	return 0;
}
bool
check_in(const Hotlist &, RingRef, const Taken &, const Outcome &, Micros, const Listener &) noexcept
{
	return false;
}
std::uint32_t
ready_count(const Hotlist &, RingRef) noexcept
{
	return 0;
}
Micros
drain(const Hotlist &, std::uint32_t, Micros, const Listener &) noexcept
{
	return never;
}
Owes
owes(const Hotlist &, RingRef, Micros, Micros) noexcept
{
	return Owes::nothing;
}
bool
reseed_begin(const Hotlist &, RingRef, Micros, Owner, Alive, Ticket *) noexcept
{
	return false;
}
bool
holds(const Hotlist &, RingRef, std::int64_t) noexcept
{
	return true;
}
Reseeded
reseed_row(const Hotlist &, Ticket *, std::int64_t, Micros, Alive) noexcept
{
	return Reseeded::gone;
}
void
reseed_end(const Hotlist &, const Ticket &, bool, std::int64_t, std::uint64_t, Micros, const Listener &) noexcept
{
}
std::uint32_t
ring_places(const Hotlist &) noexcept
{
	return 0;
}
bool
ring_statistics(const Hotlist &, std::uint32_t, RingStatistics *) noexcept
{
	return false;
}
void
pool_statistics(const Hotlist &, PoolStatistics *statistics) noexcept
{
	*statistics = {};
}
void
reset_statistics(const Hotlist &, std::uint32_t) noexcept
{
}
const char *
inconsistency(const Hotlist &) noexcept
{
	return nullptr;
}

void
unpark(const Hotlist &, const RingKey &, std::int64_t, Micros, const Listener &) noexcept
{
}
} // namespace queen::core::hotlist
