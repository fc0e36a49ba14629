/*
 * low_mark_test.cpp: below which key nothing is to be found: the rule's cases, and random histories against a set of keys.
 */
#include "core/low_mark.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace queen::test
{
namespace
{

using namespace core;

constexpr Micros second = 1'000'000;

LowMark
fresh()
{
	LowMark mark;

	mark_begin(mark, 1);
	return mark;
}

/* A mark whose scan from the bottom is done. */
LowMark
settled(std::int64_t at, Micros now)
{
	LowMark mark = fresh();
	const MarkTicket ticket = mark_ticket(mark, now);

	mark_raise(mark, ticket, at, now, 0);
	return mark;
}

TEST(LowMark, BeginsAtTheBottom)
{
	LowMark mark = fresh();
	const MarkTicket ticket = mark_ticket(mark, second);

	EXPECT_EQ(ticket.from, mark_bottom);
	EXPECT_TRUE(ticket.bottom);
}

TEST(LowMark, RisesToWhatWasLeft)
{
	LowMark mark = settled(7, second);

	EXPECT_EQ(mark_ticket(mark, second).from, 7);
	EXPECT_FALSE(mark_ticket(mark, second).bottom);
}

TEST(LowMark, IsLoweredByWhatIsTold)
{
	LowMark mark = settled(7, second);

	mark_tell(mark, 3);
	mark_tell(mark, 5);
	EXPECT_EQ(mark_ticket(mark, second).from, 3);
}

TEST(LowMark, DoesNotRiseAboveWhatWasToldSinceTheTicket)
{
	LowMark mark = settled(7, second);
	const MarkTicket ticket = mark_ticket(mark, second);

	mark_tell(mark, 8);
	mark_raise(mark, ticket, 20, second, 0);
	EXPECT_EQ(mark_ticket(mark, second).from, 8);
}

TEST(LowMark, RisesAboveWhatWasToldBeforeTheTicket)
{
	LowMark mark = settled(7, second);

	mark_tell(mark, 8);

	const MarkTicket ticket = mark_ticket(mark, second);

	/* what comes far behind does not keep it down */
	mark_tell(mark, 100);
	mark_raise(mark, ticket, 20, second, 0);
	EXPECT_EQ(mark_ticket(mark, second).from, 20);
}

TEST(LowMark, OfTwoScansTheOlderIsBoundByMore)
{
	LowMark mark = settled(7, second);
	const MarkTicket older = mark_ticket(mark, second);

	mark_tell(mark, 9);

	const MarkTicket newer = mark_ticket(mark, second);

	mark_tell(mark, 50);
	mark_raise(mark, older, 30, second, 0);
	EXPECT_EQ(mark.mark, 9);
	mark_raise(mark, newer, 30, second, 0);
	EXPECT_EQ(mark.mark, 30);
}

TEST(LowMark, AnOldTicketRaisesNothing)
{
	LowMark mark = settled(7, second);
	const MarkTicket ticket = mark_ticket(mark, second);

	for (std::uint32_t i = 0; i < mark_windows; i++)
	{
		mark_tell(mark, 100);
		(void) mark_ticket(mark, second);
	}
	mark_raise(mark, ticket, 20, second, 0);
	EXPECT_EQ(mark.mark, 7);
}

/* Each ticket follows something told, and far more scans are under way than there are windows: the marks rise all the same. */
TEST(LowMark, ManySlowScansRaise)
{
	constexpr int consumers = 32;
	constexpr Micros slow = 20'000;
	LowMark mark = settled(1000, second);
	MarkTicket tickets[consumers];
	std::int64_t newest = 1'000'000;
	Micros now = second;

	mark_tell(mark, 7);
	for (MarkTicket &ticket : tickets)
		ticket = mark_ticket(mark, now);
	for (int scan = 0; scan < 20 * consumers; scan++)
	{
		MarkTicket &ticket = tickets[scan % consumers];

		now += slow / consumers;
		mark_raise(mark, ticket, 1000, now, slow);
		mark_tell(mark, newest++);
		ticket = mark_ticket(mark, now);
	}
	EXPECT_EQ(mark.mark, 1000);
	/* and when they are quick again, the windows are narrow again */
	for (int scan = 0; scan < 1000; scan++)
	{
		now += 10;
		mark_raise(mark, mark_ticket(mark, now - 5), newest, now, 5);
		mark_tell(mark, newest++);
	}
	EXPECT_GE(mark.mark, newest - 20);
}

TEST(LowMark, PeekingTakesNoTurn)
{
	LowMark mark = settled(7, second);

	EXPECT_EQ(mark_peek(mark, second), 7);
	EXPECT_EQ(mark_peek(mark, second + bottom_interval), mark_bottom);
	EXPECT_TRUE(mark_ticket(mark, second + bottom_interval).bottom);
	EXPECT_EQ(mark_peek(mark, second + bottom_interval), 7);
}

TEST(LowMark, ATicketOfAnotherMarkRaisesNothing)
{
	LowMark mark = fresh();
	const MarkTicket ticket = mark_ticket(mark, second);

	mark_begin(mark, 2);
	mark_raise(mark, ticket, 20, second, 0);
	EXPECT_EQ(mark.mark, mark_bottom);
}

TEST(LowMark, GoesToTheBottomAgainAndAgainButOneScanAtATime)
{
	LowMark mark = settled(7, 10 * second);

	EXPECT_FALSE(mark_ticket(mark, 10 * second + bottom_interval - 1).bottom);
	EXPECT_TRUE(mark_ticket(mark, 10 * second + bottom_interval).bottom);
	EXPECT_FALSE(mark_ticket(mark, 10 * second + bottom_interval).bottom);
	/* … as long as it takes */
	EXPECT_TRUE(mark_ticket(mark, 10 * second + 2 * bottom_interval).bottom);
}

TEST(LowMark, ALongScanFromTheBottomIsRare)
{
	LowMark mark = fresh();
	const MarkTicket ticket = mark_ticket(mark, 0);

	mark_raise(mark, ticket, 7, second, second);
	EXPECT_FALSE(mark_ticket(mark, second + bottom_share * second - 1).bottom);
	EXPECT_TRUE(mark_ticket(mark, second + bottom_share * second).bottom);
}

TEST(LowMark, AClockThatWentBackIsNotWaitedFor)
{
	LowMark mark = settled(7, 1'000'000 * second);

	EXPECT_TRUE(mark_ticket(mark, second).bottom);
}

/*
 * A world of keys: visible ones, those that a transaction is about to make visible (and tells), and those that one has taken and may give back (and
 * tells). Scans take a ticket, then a snapshot, and take every second key that they meet. At no time may a visible key that was told lie below
 * the mark, unless somebody has it.
 */
TEST(LowMark, NoVisibleKeyIsBelowTheMark)
{
	for (unsigned seed = 1; seed <= 200; seed++)
	{
		std::mt19937 random(seed);
		const auto draw = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
		LowMark mark = fresh();
		std::set<std::int64_t> visible;
		std::vector<std::int64_t> taken;
		struct Scan
		{
			MarkTicket ticket;
			std::set<std::int64_t> snapshot;
			std::int64_t at;
			std::int64_t left;
		};
		std::vector<Scan> scans;
		Micros now = second;

		for (int step = 0; step < 3000; step++)
		{
			now += draw(3000);
			switch (draw(6))
			{
				case 0: /* a commit: visible, then told, before anything else happens */
				{
					const std::int64_t key = draw(1000);

					visible.insert(key);
					mark_tell(mark, key);
					break;
				}
				case 1: /* a scan begins */
					if (scans.size() < 6)
					{
						const MarkTicket ticket = mark_ticket(mark, now);

						scans.push_back({ticket, visible, ticket.from, mark_nothing});
					}
					break;
				case 2: /* one goes on by a key of its snapshot */
				case 3:
				{
					if (scans.empty())
						break;

					const auto number = static_cast<std::size_t>(draw(static_cast<int>(scans.size())));
					Scan &scan = scans[number];
					const auto key = scan.snapshot.lower_bound(scan.at);

					if (key == scan.snapshot.end() || draw(8) == 0)
					{
						if (key != scan.snapshot.end())
							scan.left = std::min(scan.left, *key);
						mark_raise(mark, scan.ticket, scan.left, now, 0);
						scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(number));
						break;
					}
					if (draw(4) == 0)
						scan.left = std::min(scan.left, *key);
					else if (visible.erase(*key) > 0)
						taken.push_back(*key);
					scan.at = *key + 1;
					break;
				}
				case 4: /* what was taken is given back */
					if (!taken.empty())
					{
						visible.insert(taken.back());
						mark_tell(mark, taken.back());
						taken.pop_back();
					}
					break;
				case 5: /* … or gone */
					if (!taken.empty())
						taken.pop_back();
					break;
			}
			ASSERT_TRUE(visible.empty() || mark.mark <= *visible.begin()) << "seed " << seed << ", step " << step;
		}
	}
}

} // namespace
} // namespace queen::test
