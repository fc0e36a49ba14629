/*
 * hotlist_fixture.cpp: see hotlist_fixture.h.
 */
#include "hotlist_fixture.h"

#include <algorithm>
#include <ostream>

namespace queen::test
{

namespace
{

thread_local std::vector<hot::Owner> buried;

} // namespace

bool
alive(hot::Owner owner) noexcept
{
	return std::none_of(buried.begin(), buried.end(), [owner](hot::Owner b) {
		return b.process == owner.process && b.transaction == owner.transaction;
	});
}

void
bury(hot::Owner owner)
{
	buried.push_back(owner);
}

void
bury_nobody()
{
	buried.clear();
}

void
PrintTo(Place place, std::ostream *out)
{
	constexpr const char *names[] = {"idle", "ready", "parked", "checked out"};

	*out << names[static_cast<int>(place)];
}

hot::Outcome
outcome(Verdict verdict, Micros until)
{
	hot::Outcome what;

	what.verdict = verdict;
	what.until = until;
	return what;
}

hot::Outcome
sure(Verdict verdict)
{
	hot::Outcome what = outcome(verdict);

	what.may_clear = true;
	return what;
}

hot::Outcome
took(bool drained)
{
	hot::Outcome what = sure(Verdict::took);

	what.drained = drained;
	return what;
}

hot::Outcome
leased(bool drained, Micros until, std::uint64_t number)
{
	hot::Outcome what = took(drained);

	what.lease = true;
	what.until = until;
	what.lease_number = number;
	return what;
}

HotlistTest::HotlistTest(std::size_t size, hot::PoolOptions options) : pool(size, options), ring(make_ring(key))
{
}

HotlistTest::~HotlistTest()
{
	bury_nobody();
	EXPECT_STREQ(hot::inconsistency(pool), nullptr);
	EXPECT_EQ(locks_held_exclusive, 0);
	EXPECT_EQ(locks_held_shared, 0);
}

hot::RingRef
HotlistTest::make_ring(const hot::RingKey &of)
{
	hot::RingRef made;

	EXPECT_EQ(hot::ring_register(pool, of, now, &made), hot::Registered::created);
	EXPECT_EQ(hot::owes(pool, made, now, 0), hot::Owes::walk);
	walk(made);
	EXPECT_EQ(hot::owes(pool, made, now, 0), hot::Owes::nothing);
	return made;
}

void
HotlistTest::walk(hot::RingRef walked)
{
	hot::Ticket ticket{};

	ASSERT_TRUE(hot::reseed_begin(pool, walked, now, me, alive, &ticket));
	hot::reseed_end(pool, ticket, true, 0, 0, now, told.listener());
}

std::uint32_t
HotlistTest::mark(std::int64_t partition, std::uint32_t messages)
{
	const hot::Mark one = {partition, messages};

	return hot::mark(pool, key.queue, {&one, 1}, now, told.listener());
}

bool
HotlistTest::mark_ring(std::int64_t partition)
{
	return hot::mark_ring(pool, key, partition, now, told.listener());
}

void
HotlistTest::unpark(std::int64_t partition)
{
	hot::unpark(pool, key, partition, now, told.listener());
}

void
HotlistTest::promote(std::int64_t partition, std::uint64_t lease)
{
	hot::promote(pool, key, partition, lease, now, told.listener());
}

std::vector<hot::Taken>
HotlistTest::take(std::uint32_t most, std::uint64_t want, hot::Owner owner)
{
	std::vector<hot::Taken> taken(most);

	taken.resize(hot::take(pool, ring, most, want, now, owner, taken.data(), told.listener()));
	return taken;
}

hot::Taken
HotlistTest::take_one(hot::Owner owner)
{
	const std::vector<hot::Taken> taken = take(2, UINT64_MAX, owner);

	EXPECT_EQ(taken.size(), 1U);
	return taken.empty() ? hot::Taken{} : taken[0];
}

bool
HotlistTest::check_in(const hot::Taken &taken, const hot::Outcome &what)
{
	return hot::check_in(pool, ring, taken, what, now, told.listener());
}

void
HotlistTest::serve(std::int64_t partition, const hot::Outcome &what)
{
	mark(partition);
	check_in(take_one(), what);
}

void
HotlistTest::defer(Micros delay, Micros window)
{
	hot::ring_defer(pool, ring, {delay, window});
}

Micros
HotlistTest::deadline()
{
	return hot::drain(pool, 0, now, told.listener());
}

void
HotlistTest::drain_at(Micros then)
{
	now = then;
	hot::drain(pool, UINT32_MAX, now, told.listener());
}

hot::RingStatistics
HotlistTest::statistics()
{
	return statistics(ring);
}

hot::RingStatistics
HotlistTest::statistics(hot::RingRef of)
{
	hot::RingStatistics found{};

	EXPECT_TRUE(hot::ring_statistics(pool, of.index, &found));
	EXPECT_EQ(found.ring.id, of.id);
	return found;
}

Place
HotlistTest::place()
{
	const hot::RingStatistics found = statistics();

	EXPECT_LE(found.ready + found.parked + found.checked_out, 1U);
	if (found.ready > 0)
		return Place::ready;
	if (found.parked > 0)
		return Place::parked;
	return found.checked_out > 0 ? Place::out : Place::idle;
}

} // namespace queen::test
