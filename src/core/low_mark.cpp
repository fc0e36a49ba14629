/*
 * low_mark.cpp: below which key of an index nothing is to be found. See low_mark.h.
 */
#include "core/low_mark.h"

#include <algorithm>

namespace queen::core
{

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
	MarkTicket ticket = {mark.mark, false, mark.birth, 0};

	/* what is told from now on is told apart from what was told before */
	if (mark.told[mark.window % mark_windows] != mark_nothing)
	{
		mark.window++;
		mark.told[mark.window % mark_windows] = mark_nothing;
	}
	ticket.window = mark.window;
	/* a clock that went back by more than the longest interval is not waited for */
	if (now >= mark.bottom_at || mark.bottom_at - now > bottom_interval * bottom_share)
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

void
mark_raise(LowMark &mark, const MarkTicket &ticket, std::int64_t left, Micros now, Micros took) noexcept
{
	if (mark.birth != ticket.birth)
		return;
	if (ticket.bottom)
		mark.bottom_at = now + std::max(bottom_interval, std::min(took, bottom_interval) * bottom_share);
	if (mark.window - ticket.window >= mark_windows)
		return;
	for (std::uint64_t window = ticket.window; window <= mark.window; window++)
		left = std::min(left, mark.told[window % mark_windows]);
	mark.mark = std::max(mark.mark, left);
}

} // namespace queen::core
