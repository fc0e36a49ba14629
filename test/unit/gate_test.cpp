/*
 * gate_test.cpp: how many of those who wait are woken, and when: the rules one by one, and a crowd that draws what it does.
 */
#include "core/gate.h"

#include <random>

#include "gtest/gtest.h"

using namespace queen;

namespace
{

constexpr std::int64_t interval = 5000;

/* So many candidates became ready: as a teller does it. */
std::uint32_t
ready(core::Gate &gate, std::uint32_t count, std::int64_t now)
{
	return core::gate_promise(gate, core::gate_room(gate, count), now, interval);
}

core::Gate
waited_at(std::uint32_t count)
{
	core::Gate gate{};

	for (std::uint32_t i = 0; i < count; i++)
		core::gate_enter(gate);
	return gate;
}

TEST(Gate, WakesAsManyAsThereIsWork)
{
	core::Gate gate = waited_at(200);

	EXPECT_EQ(ready(gate, 1, 100), 1u);
	EXPECT_EQ(gate.waiting, 199u);
	EXPECT_EQ(gate.woken, 1u);
	EXPECT_EQ(core::gate_answer(gate, 150), 0u);
	EXPECT_EQ(ready(gate, 3, 200), 3u);
	EXPECT_EQ(gate.waiting, 196u);
}

TEST(Gate, WakesNoMoreThanWait)
{
	core::Gate gate = waited_at(2);

	EXPECT_EQ(ready(gate, UINT32_MAX, 100), 2u);
	EXPECT_EQ(ready(gate, 5, 100), 0u);
	EXPECT_EQ(gate.due, 0u);
}

TEST(Gate, NobodyWaits)
{
	core::Gate gate{};

	EXPECT_EQ(ready(gate, 7, 100), 0u);
	EXPECT_EQ(core::gate_tick(gate, 100000, interval), 0u);
	EXPECT_EQ(core::gate_tick_at(gate, interval), INT64_MAX);
	core::gate_enter(gate);
	EXPECT_EQ(core::gate_tick(gate, 100000, interval), 0u) << "what came before it did it has seen itself";
}

TEST(Gate, AnAnsweredWakeDelaysNobody)
{
	core::Gate gate = waited_at(10);

	for (std::int64_t now = 100; now < 108; now++)
	{
		EXPECT_EQ(ready(gate, 1, now), 1u);
		EXPECT_EQ(core::gate_answer(gate, now), 0u);
	}
}

TEST(Gate, AnUnansweredOneDoesUntilTheIntervalIsOver)
{
	core::Gate gate = waited_at(10);

	EXPECT_EQ(ready(gate, 1, 100), 1u);
	EXPECT_EQ(ready(gate, 2, 101), 0u);
	EXPECT_EQ(gate.due, 2u);
	EXPECT_EQ(core::gate_tick_at(gate, interval), 5100);
	EXPECT_EQ(core::gate_tick(gate, 5099, interval), 0u);
	EXPECT_EQ(core::gate_tick(gate, 5100, interval), 2u);
	EXPECT_EQ(core::gate_tick_at(gate, interval), INT64_MAX);
	EXPECT_EQ(ready(gate, 1, 5101), 0u);
	EXPECT_EQ(ready(gate, 1, 10100), 2u) << "news do what the tick does";
}

TEST(Gate, TheLastAnswerWakesThoseWhoAreDue)
{
	core::Gate gate = waited_at(10);

	EXPECT_EQ(ready(gate, 2, 100), 2u);
	EXPECT_EQ(ready(gate, 3, 101), 0u);
	EXPECT_EQ(core::gate_answer(gate, 102), 0u);
	EXPECT_EQ(core::gate_answer(gate, 103), 3u);
	EXPECT_EQ(gate.woken, 3u);
	EXPECT_EQ(gate.last_wake, 103);
}

TEST(Gate, WhoLeavesIsNotDueAnyMore)
{
	core::Gate gate = waited_at(2);

	EXPECT_EQ(ready(gate, 1, 100), 1u);
	EXPECT_EQ(ready(gate, 1, 100), 0u);
	core::gate_leave(gate, true);
	EXPECT_EQ(gate.waiting, 0u);
	EXPECT_EQ(core::gate_answer(gate, 101), 0u);
	EXPECT_EQ(core::gate_tick(gate, 100000, interval), 0u);
}

TEST(Gate, NoInterval)
{
	core::Gate gate = waited_at(3);

	EXPECT_EQ(core::gate_promise(gate, 1, 100, 0), 1u);
	EXPECT_EQ(core::gate_promise(gate, 1, 100, 0), 1u);
}

/*
 * Waiters take one candidate each; some are told and go away without, and pass it on. Whatever is drawn: no candidate lies there while somebody sleeps
 * whom nobody will wake, and there are no more wakes than candidates and passings on.
 */
TEST(Gate, ACrowdLosesNoWake)
{
	for (unsigned seed = 1; seed <= 200; seed++)
	{
		std::mt19937 random(seed);
		core::Gate gate{};
		std::uint32_t candidates = 0; /* that nobody was woken for */
		std::uint64_t allowed = 0;
		std::uint64_t wakes = 0;
		std::int64_t now = 1;
		const auto woke = [&](std::uint32_t count) {
			wakes += count;
			candidates -= count < candidates ? count : candidates;
		};
		const auto draw = [&](std::uint32_t to) { return static_cast<std::uint32_t>(random() % to); };

		for (int step = 0; step < 2000; step++)
		{
			now += draw(2000);
			switch (draw(5))
			{
				case 0:
					/* who enters looks, and takes what is there */
					if (candidates > 0)
						candidates--;
					else
						core::gate_enter(gate);
					break;
				case 1:
				{
					const std::uint32_t count = 1 + draw(3);

					allowed += count;
					candidates += count;
					woke(ready(gate, count, now));
					break;
				}
				case 2:
					if (gate.woken > 0)
						woke(core::gate_answer(gate, now));
					break;
				case 3:
					/* cancelled with a wake in hand */
					if (gate.woken > 0)
					{
						allowed++;
						candidates++;
						woke(core::gate_answer(gate, now));
						woke(ready(gate, 1, now));
					}
					break;
				default:
					if (now >= core::gate_tick_at(gate, interval))
						woke(core::gate_tick(gate, now, interval));
					break;
			}
			ASSERT_LE(gate.due, gate.waiting) << "seed " << seed;
			ASSERT_LE(wakes, allowed) << "seed " << seed;
			if (gate.woken == 0)
			{
				ASSERT_EQ(gate.due, 0u) << "nobody is on the way who would wake them, seed " << seed;
			}
			if (candidates > gate.due)
			{
				ASSERT_EQ(gate.waiting, gate.due) << "somebody sleeps beside a candidate, seed " << seed;
			}
		}
	}
}

} // namespace
