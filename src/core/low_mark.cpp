/*
 * low_mark.cpp: below which key of an index nothing is to be found. See low_mark.h.
 */
#include "core/low_mark.h"

#include <algorithm>

namespace queen::core
{

namespace
{

/* Is it time for a scan from the bottom? A clock that went back by more than the longest interval is not waited for. */
bool
is_bottom_due(const LowMark &mark, Micros now) noexcept
{
	return now >= mark.bottom_at || mark.bottom_at - now > bottom_interval * bottom_share;
}

/* Is the newest window wide enough, by a clock that may go back? */
bool
is_wide(const LowMark &mark, Micros now) noexcept
{
	return now < mark.window_at || now - mark.window_at >= mark.took / window_share;
}

} // namespace

void
mark_begin(LowMark &mark, std::uint64_t birth) noexcept
{
	mark = {};
	mark.mark = mark_bottom;
	mark.bottom_at = 0;
	mark.birth = birth;
	mark.told[0] = mark_nothing;
}

MarkTicket
mark_ticket(LowMark &mark, Micros now) noexcept
{
	MarkTicket ticket = {mark.mark, false, mark.birth, 0, now};

	/* what is told from now on is told apart from what was told before */
	if (mark.told[mark.window % mark_windows] != mark_nothing && is_wide(mark, now))
	{
		mark.window++;
		mark.window_at = now;
		mark.told[mark.window % mark_windows] = mark_nothing;
	}
	ticket.window = mark.window;
	if (is_bottom_due(mark, now))
	{
		ticket.from = mark_bottom;
		ticket.bottom = true;
		/* the others go on from the mark meanwhile */
		mark.bottom_at = now + bottom_interval;
	}
	return ticket;
}

void
mark_tell(LowMark &mark, std::int64_t key) noexcept
{
	std::int64_t &told = mark.told[mark.window % mark_windows];

	told = std::min(told, key);
	mark.mark = std::min(mark.mark, key);
}

std::int64_t
mark_peek(const LowMark &mark, Micros now) noexcept
{
	return is_bottom_due(mark, now) ? mark_bottom : mark.mark;
}

void
mark_raise(LowMark &mark, const MarkTicket &ticket, std::int64_t left, Micros now, Micros reached) noexcept
{
	if (mark.birth != ticket.birth)
		return;
	mark.took = std::max(now - ticket.at, mark.took - mark.took / 16);
	if (ticket.bottom)
		mark.bottom_at = now + std::max(bottom_interval, std::min(reached, bottom_interval) * bottom_share);
	if (mark.window - ticket.window >= mark_windows)
		return;
	for (std::uint64_t window = ticket.window; window <= mark.window; window++)
		left = std::min(left, mark.told[window % mark_windows]);
	mark.mark = std::max(mark.mark, left);
}

} // namespace queen::core
