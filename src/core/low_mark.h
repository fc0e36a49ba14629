/*
 * low_mark.h: below which key of an index nothing is to be found, so that scans need not begin at the bottom: what was deleted there stays in the
 * index as long as some snapshot is held.
 *
 * A hint with a rule. Whoever makes a key appear (again) tells it when others can see it; a scan takes a ticket before its snapshot, and may
 * raise the mark to what it has left, but not above what was told since its ticket. From time to time a scan begins at the bottom. Memory
 * and time are handed in; whoever calls holds a lock on the mark. Nothing here waits.
 */
#ifndef QUEEN_CORE_LOW_MARK_H
#define QUEEN_CORE_LOW_MARK_H

#include "core/schedule.h"

namespace queen::core
{

inline constexpr std::int64_t mark_bottom = INT64_MIN;
inline constexpr std::int64_t mark_nothing = INT64_MAX; /* there is nothing at all */

/* A scan from the bottom comes that often, but takes no more than one part in bottom_share of the time. */
inline constexpr Micros bottom_interval = 5'000'000;
inline constexpr Micros bottom_share = 50;

/*
 * What was told is kept by windows of time. They are as wide as it takes for a ticket to come back before its window is given to another: a part in
 * window_share of what recent scans took. A ticket that is older raises nothing.
 */
inline constexpr std::uint32_t mark_windows = 8;
inline constexpr Micros window_share = 4;

struct LowMark
{
	std::int64_t mark;
	Micros bottom_at;	  /* when the next scan is to begin at the bottom */
	std::uint64_t birth;  /* of this mark: another number than that of any mark that was in its memory before */
	std::uint64_t window; /* its number; the newest */
	Micros window_at;	  /* it began */
	Micros took;		  /* recent scans, from their tickets on: the longest, which is forgotten bit by bit */
	std::int64_t told[mark_windows];
};

/* What a scan begins with. */
struct MarkTicket
{
	std::int64_t from;
	bool bottom; /* this is the scan from the bottom that was due */
	std::uint64_t birth;
	std::uint64_t window;
	Micros at;
};

/* Nothing is known yet. */
void mark_begin(LowMark &mark, std::uint64_t birth) noexcept;

/* Before the snapshot of the scan. */
MarkTicket mark_ticket(LowMark &mark, Micros now) noexcept;

/* A key can be found now, be it for the first time or again. */
void mark_tell(LowMark &mark, std::int64_t key) noexcept;

/* Where a scan would begin, were it to take a ticket now. */
std::int64_t mark_peek(const LowMark &mark, Micros now) noexcept;

/*
 * The scan has ended: below `left` it has left nothing, since what it met there will not be found any more unless somebody tells. It took so
 * long to reach the first that it could see.
 */
void mark_raise(LowMark &mark, const MarkTicket &ticket, std::int64_t left, Micros now, Micros reached) noexcept;

} // namespace queen::core

#endif
