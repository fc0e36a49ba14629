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
constinit TimestampTz noted = DT_NOEND;

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
ended(bool committed)
{
	Place *place;
	int32 process;

	(void) committed;
	if (noted == DT_NOEND)
		return;
	place = place_of_database();
	if (place != nullptr)
	{
		lower(&place->told, noted);
		/* told before it is asked how long it sleeps; there it is the other way round */
		if (noted < place->sleeps_to.load(std::memory_order_seq_cst) &&
			(process = place->process.load(std::memory_order_acquire)) >= 0)
			SetLatch(&ProcGlobal->allProcs[process].procLatch);
	}
	noted = DT_NOEND;
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

const TransactionParticipant timer_news_participant = {nullptr, nullptr, ended, nullptr, nullptr, nullptr};

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
	noted = Min(noted, at);
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
