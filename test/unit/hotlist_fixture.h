/*
 * hotlist_fixture.h: a pool with one ring, and short ways to bring a partition into a state and to see in which one it is.
 */
#ifndef QUEEN_TEST_UNIT_HOTLIST_FIXTURE_H
#define QUEEN_TEST_UNIT_HOTLIST_FIXTURE_H

#include <vector>

#include <gtest/gtest.h>

#include "hotlist_support.h"

namespace queen::test
{

namespace hot = core::hotlist;
using core::Verdict;
using hot::Micros;

constexpr Micros second = 1'000'000;

/* Who holds check-outs and walks: those who were buried are gone. Of one thread. */
bool alive(hot::Owner owner) noexcept;
void bury(hot::Owner owner);
void bury_nobody();

constexpr hot::Owner me = {1, 1};
constexpr hot::Owner other = {2, 7};

/* Where a partition is. */
enum class Place
{
	idle,
	ready,
	parked,
	out,
};
void PrintTo(Place place, std::ostream *out);

hot::Outcome outcome(Verdict verdict, Micros until = 0);
/* A claim that is sure: it may clear. */
hot::Outcome sure(Verdict verdict);
hot::Outcome took(bool drained);
hot::Outcome leased(bool drained, Micros until, std::uint64_t number);

class HotlistTest : public ::testing::Test
{
  protected:
	explicit HotlistTest(std::size_t size = std::size_t{1} << 20, hot::PoolOptions options = {});
	~HotlistTest() override;

	/* A ring that has just been walked: it owes nothing. */
	hot::RingRef make_ring(const hot::RingKey &key);
	void walk(hot::RingRef ring);

	std::uint32_t mark(std::int64_t partition, std::uint32_t messages = 1);
	bool mark_ring(std::int64_t partition);
	void unpark(std::int64_t partition);
	void promote(std::int64_t partition, std::uint64_t lease);

	std::vector<hot::Taken> take(std::uint32_t most, std::uint64_t want = UINT64_MAX, hot::Owner owner = me);
	/* The only candidate that there is to take. */
	hot::Taken take_one(hot::Owner owner = me);
	bool check_in(const hot::Taken &taken, const hot::Outcome &what);
	/* Mark, take, check in. */
	void serve(std::int64_t partition, const hot::Outcome &what);

	void defer(Micros delay, Micros window);
	/* The next deadline; nothing is drained. */
	Micros deadline();
	/* Let time pass until then, and drain. */
	void drain_at(Micros then);

	hot::RingStatistics statistics();
	hot::RingStatistics statistics(hot::RingRef ring);
	/* Where the ring's only partition is. */
	Place place();

	/* the ring comes last: it is made with the others */
	Micros now = 100 * second;
	Told told;
	TestPool pool;
	hot::RingKey key = {{1, 2, 3}, 4};
	hot::RingRef ring;
};

} // namespace queen::test

#endif
