/*
 * timer_news.cpp: who is told of a timer that is due sooner. See timer_news.h.
 *
 * Raises at the server's start only. Locks: none but atomics; a latch is set through its process's number, at worst another
 * process's by then, which a spare wake-up does not harm. Laid out in the postmaster; runs in every process that runs transactions.
 */
#include "log/timer_news.h"

#include <atomic>

#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* A database's place. Free while database is 0. */
struct Place
{
	std::atomic<uint32> database;
	std::atomic<int32> process; /* its number, -1: none */
	std::atomic<int64> told;	/* the earliest time since it was heard; DT_NOEND: none */
	std::atomic<int64> sleeps_to;
};
static_assert(std::atomic<int64>::is_always_lock_free);

constexpr int places = 64;

constinit Place *board = nullptr;
constinit int own_place = -1; /* of this database, as it was found last */
constinit bool attending = false;

/* What was noted, by sub-transaction, the innermost last. Ids ascend: what has begun behind one that still runs is inside of it. */
struct Noted
{
	SubTransactionId sub;
	TimestampTz at;
};

constexpr int most_noted = 64;

constinit Noted noted[most_noted] = {};
constinit int noted_count = 0;

void
lay_out(void *memory)
{
	Place *place = (Place *) CACHELINEALIGN(memory);

	memset((void *) place, 0, sizeof(Place) * places);
	for (int i = 0; i < places; i++)
	{
		place[i].process.store(-1, std::memory_order_relaxed);
		place[i].told.store(DT_NOEND, std::memory_order_relaxed);
	}
}

void
attach(void *memory)
{
	board = (Place *) CACHELINEALIGN(memory);
}

Place *
place_of_database()
{
	if (board == nullptr)
		return nullptr;
	if (own_place >= 0 && board[own_place].database.load(std::memory_order_acquire) == MyDatabaseId)
		return &board[own_place];
	for (int i = 0; i < places; i++)
		if (board[i].database.load(std::memory_order_acquire) == MyDatabaseId)
		{
			own_place = i;
			return &board[i];
		}
	return nullptr;
}

/* The lesser of the two stays. */
void
lower(std::atomic<int64> *time, int64 to)
{
	int64 before = time->load(std::memory_order_relaxed);

	while (to < before && !time->compare_exchange_weak(before, to, std::memory_order_seq_cst))
		;
}

void
tell(TimestampTz at)
{
	Place *place = place_of_database();
	int32 process;

	if (place == nullptr)
		return;
	lower(&place->told, at);
	/* told before it is asked how long it sleeps; there it is the other way round */
	if (at < place->sleeps_to.load(std::memory_order_seq_cst) &&
		(process = place->process.load(std::memory_order_acquire)) >= 0)
		SetLatch(&ProcGlobal->allProcs[process].procLatch);
}

void
ended(bool committed)
{
	TimestampTz first = DT_NOEND;

	(void) committed;
	for (int i = 0; i < noted_count; i++)
		first = Min(first, noted[i].at);
	if (noted_count > 0)
		tell(first);
	noted_count = 0;
}

void
sub_committed(SubTransactionId self, SubTransactionId parent)
{
	const int last = noted_count - 1;

	if (last < 0 || noted[last].sub != self)
		return;
	noted[last].sub = parent;
	if (last > 0 && noted[last - 1].sub == parent)
	{
		noted[last - 1].at = Min(noted[last - 1].at, noted[last].at);
		noted_count--;
	}
}

/* What it held is free from here on, whatever the transaction around it still does. */
void
sub_aborted(SubTransactionId self)
{
	/* of one that has found no place, perhaps */
	if (noted_count == most_noted)
		tell(noted[most_noted - 1].at);
	while (noted_count > 0 && noted[noted_count - 1].sub >= self)
		tell(noted[--noted_count].at);
}

void
leave(int code, Datum arg)
{
	Place *place = &board[DatumGetInt32(arg)];

	(void) code;
	place->process.store(-1, std::memory_order_release);
	place->told.store(DT_NOEND, std::memory_order_relaxed);
	place->database.store(0, std::memory_order_release);
}

} // namespace

const TransactionParticipant timer_news_participant = {nullptr, nullptr, ended, nullptr, sub_committed, sub_aborted};

void
timer_news_init()
{
	static constinit SharedPart part = {"queen timers", 0, lay_out, attach, nullptr};

	part.size = sizeof(Place) * places + PG_CACHE_LINE_SIZE;
	shared_memory_join(&part);
}

void
timer_news_note(TimestampTz at)
{
	const SubTransactionId self = GetCurrentSubTransactionId();

	/* deeper than that it is told with what is around it, and whenever a savepoint is rolled back */
	if (noted_count == most_noted || (noted_count > 0 && noted[noted_count - 1].sub == self))
		noted[noted_count - 1].at = Min(noted[noted_count - 1].at, at);
	else
		noted[noted_count++] = {self, at};
}

bool
timer_news_attend()
{
	if (board == nullptr || attending || place_of_database() != nullptr)
		return attending;
	for (int i = 0; i < places && !attending; i++)
	{
		uint32 nobody = 0;

		if (!board[i].database.compare_exchange_strong(nobody, MyDatabaseId, std::memory_order_acq_rel))
			continue;
		own_place = i;
		attending = true;
		board[i].sleeps_to.store(DT_NOEND, std::memory_order_relaxed);
		board[i].process.store(my_proc_number(), std::memory_order_release);
		before_shmem_exit(leave, Int32GetDatum(i));
	}
	return attending;
}

bool
timer_news_attends()
{
	return attending;
}

TimestampTz
timer_news_heard()
{
	return attending ? board[own_place].told.exchange(DT_NOEND, std::memory_order_seq_cst) : (TimestampTz) DT_NOEND;
}

bool
timer_news_there()
{
	return attending && board[own_place].told.load(std::memory_order_acquire) <
							board[own_place].sleeps_to.load(std::memory_order_relaxed);
}

bool
timer_news_sleep(TimestampTz until)
{
	if (!attending)
		return true;
	board[own_place].sleeps_to.store(until, std::memory_order_seq_cst);
	return board[own_place].told.load(std::memory_order_seq_cst) >= until;
}

} // namespace queen
