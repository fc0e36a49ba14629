/*
 * attended.cpp: which databases have a keeper. See attended.h.
 *
 * Raises at the server's start only. No locks: each place has one writer at a time. Runs in every process.
 */
#include "server/attended.h"

#include <atomic>

#include "server/shared_memory.h"

namespace queen
{

namespace
{

struct Board
{
	std::atomic<uint32> changes; /* goes up behind each change of a place */
	int places;
	std::atomic<Oid> databases[FLEXIBLE_ARRAY_MEMBER];
};
static_assert(std::atomic<uint32>::is_always_lock_free);

constinit Board *board = nullptr;
using Ring = void (*)(Oid database);
constinit Ring ring_keeper = nullptr;

void
lay_out(void *memory)
{
	Board *b = (Board *) memory;

	b->changes.store(1, std::memory_order_relaxed);
	b->places = max_worker_processes;
	for (int i = 0; i < b->places; i++)
		b->databases[i].store(InvalidOid, std::memory_order_relaxed);
}

void
attach(void *memory)
{
	board = (Board *) memory;
}

} // namespace

bool
keeper_attends()
{
	static constinit uint32 seen = 0;
	static constinit bool attended = false;
	uint32 now;

	if (board == nullptr)
		return false;
	now = board->changes.load(std::memory_order_acquire);
	if (now == seen)
		return attended;
	attended = false;
	for (int i = 0; i < board->places && !attended; i++)
		attended = board->databases[i].load(std::memory_order_relaxed) == MyDatabaseId;
	seen = now;
	return attended;
}

void
attended_set(int place, Oid database)
{
	board->databases[place].store(database, std::memory_order_relaxed);
	board->changes.fetch_add(1, std::memory_order_release);
}

void
keeper_ring()
{
	if (ring_keeper != nullptr && keeper_attends())
		ring_keeper(MyDatabaseId);
}

void
attended_set_ring(void (*ring)(Oid database))
{
	ring_keeper = ring;
}

void
attended_init()
{
	static constinit SharedPart part = {"queen attended", 0, lay_out, attach, nullptr};

	part.size = offsetof(Board, databases) + sizeof(std::atomic<Oid>) * (Size) max_worker_processes;
	shared_memory_join(&part);
}

} // namespace queen
