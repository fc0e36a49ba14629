/*
 * event_counts_test.cpp: counts of events: whose they are, what goes when there is no room, and many who count at once.
 */
#include "core/event_counts.h"

#include <map>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace queen::test
{
namespace
{

using namespace core;

constexpr std::uint32_t database = 5;
constexpr std::uint32_t tables = 16400;

EventObject
object(std::int64_t queue_id, std::int64_t id = 0, EventScope scope = EventScope::log,
	   std::uint32_t of_database = database, std::uint32_t of_tables = tables)
{
	return {of_database, of_tables, scope, queue_id, id};
}

EventAmounts
amount(Event event, std::uint64_t n)
{
	EventAmounts amounts{};

	amounts.of[static_cast<std::uint32_t>(event)] = n;
	return amounts;
}

/* A table in memory of exactly its size, which was full of rubbish before. */
class Table
{
  public:
	explicit Table(std::uint32_t places) : memory_(event_table_size(places) / sizeof(Line)), table_(nullptr)
	{
		for (Line &line : memory_)
			for (std::uint8_t &byte : line.bytes)
				byte = 0xa5;
		table_ = event_table_lay_out(memory_.data(), places);
	}

	EventTable &
	operator*() const
	{
		return *table_;
	}

	void
	add(const EventObject &of, std::uint64_t n, std::int64_t now = 1, Event event = Event::added) const
	{
		event_add(*table_, of, amount(event, n), now, now);
	}

	/* What is counted of an object; -1: it has no place. */
	std::int64_t
	of(const EventObject &of, Event event = Event::added) const
	{
		EventCounts found;

		for (std::uint32_t at = 0; event_read(*table_, of.database, of.tables, &at, &found);)
			if (found.object == of)
				return static_cast<std::int64_t>(found.amounts.of[static_cast<std::uint32_t>(event)]);
		return -1;
	}

	std::int64_t
	since(const EventObject &of) const
	{
		EventCounts found;

		for (std::uint32_t at = 0; event_read(*table_, of.database, of.tables, &at, &found);)
			if (found.object == of)
				return found.since;
		return -1;
	}

	std::uint32_t
	used() const
	{
		return event_table_state(*table_).used;
	}

  private:
	struct alignas(64) Line
	{
		std::uint8_t bytes[64];
	};

	std::vector<Line> memory_;
	EventTable *table_;
};

TEST(EventCounts, AnObjectIsItsDatabaseTablesScopeQueueAndId)
{
	const Table t(64);
	const std::vector<EventObject> objects = {object(1),
											  object(2),
											  object(1, 1),
											  object(1, 0, EventScope::group),
											  object(1, 0, EventScope::work),
											  object(1, 0, EventScope::log, database + 1),
											  object(1, 0, EventScope::log, database, tables + 1)};

	for (std::size_t i = 0; i < objects.size(); i++)
	{
		EXPECT_FALSE(event_add_there(*t, objects[i], amount(Event::added, 1), 1));
		t.add(objects[i], i + 1);
		EXPECT_TRUE(event_add_there(*t, objects[i], amount(Event::added, 100), 1));
	}
	for (std::size_t i = 0; i < objects.size(); i++)
		EXPECT_EQ(t.of(objects[i]), static_cast<std::int64_t>(i + 101)) << i;
	EXPECT_EQ(t.used(), objects.size());
	EXPECT_EQ(t.of(object(3)), -1);
}

TEST(EventCounts, EachKindIsCountedByItself)
{
	const Table t(4);
	EventAmounts all{};

	for (std::uint32_t i = 0; i < event_kinds; i++)
		all.of[i] = i + 1;
	event_add(*t, object(1), all, 1, 1);
	event_add(*t, object(1), all, 1, 1);
	for (std::uint32_t i = 0; i < event_kinds; i++)
		EXPECT_EQ(t.of(object(1), static_cast<Event>(i)), 2 * static_cast<std::int64_t>(i + 1));
}

TEST(EventCounts, WithoutRoomTheOneThatWasUsedLongestAgoGoes)
{
	const Table t(8);

	for (std::int64_t i = 1; i <= 8; i++)
		t.add(object(i), 1, i);
	EXPECT_TRUE(event_add_there(*t, object(1), amount(Event::added, 1), 9));
	t.add(object(9), 7, 10);
	EXPECT_EQ(t.of(object(2)), -1) << "it had not changed for longest";
	EXPECT_EQ(t.of(object(9)), 7);
	EXPECT_EQ(t.of(object(1)), 2);
	EXPECT_EQ(event_table_state(*t).evicted, 1U);
	EXPECT_EQ(event_table_state(*t).last_evicted, 10);
	EXPECT_EQ(t.used(), 8U);
	t.add(object(2), 1, 11);
	EXPECT_EQ(t.of(object(2)), 1) << "it begins again";
	EXPECT_EQ(t.of(object(3)), -1);
	EXPECT_EQ(event_table_state(*t).evicted, 2U);
}

TEST(EventCounts, WhatIsTakenLeavesAPlaceThatBeginsAtNothing)
{
	const Table t(2);
	EventCounts taken;

	event_add(*t, object(1), amount(Event::delivered, 3), 5, 4);
	t.add(object(2), 1);
	EXPECT_TRUE(event_take(*t, object(1), &taken));
	EXPECT_EQ(taken.amounts.of[static_cast<std::uint32_t>(Event::delivered)], 3U);
	EXPECT_EQ(taken.since, 4);
	EXPECT_FALSE(event_take(*t, object(1), nullptr));
	EXPECT_EQ(t.used(), 1U);
	t.add(object(3), 1, 7);
	EXPECT_EQ(t.of(object(3), Event::delivered), 0);
	EXPECT_EQ(t.since(object(3)), 7);
	EXPECT_EQ(t.of(object(2)), 1);
	EXPECT_EQ(event_table_state(*t).evicted, 0U) << "there was a place";
}

TEST(EventCounts, OneIsFoundByItsObjectAlone)
{
	const Table t(64);
	EventCounts found;

	for (std::uint32_t i = 1; i <= 64; i++)
		t.add(object(i), i, i + 100);
	for (std::uint32_t i = 1; i <= 64; i++)
	{
		ASSERT_TRUE(event_find(*t, object(i), &found));
		EXPECT_EQ(found.object, object(i));
		EXPECT_EQ(found.amounts.of[static_cast<std::uint32_t>(Event::added)], i);
		EXPECT_EQ(found.since, i + 100);
	}
	EXPECT_FALSE(event_find(*t, object(65), &found));
	EXPECT_FALSE(event_find(*t, object(1, 1, EventScope::work), &found));
	EXPECT_FALSE(event_find(*t, object(1, 0, EventScope::log, database + 1), &found));
	EXPECT_TRUE(event_take(*t, object(1), nullptr));
	EXPECT_FALSE(event_find(*t, object(1), &found));
}

TEST(EventCounts, ResetIsOfAQueueWithItsGroupsOrOfAll)
{
	const Table t(16);
	const EventObject group = object(1, 7, EventScope::group);
	const EventObject elsewhere = object(1, 0, EventScope::log, database + 1);

	for (const EventObject &of : {object(1), group, object(2), elsewhere})
		t.add(of, 5, 10);
	event_reset(*t, database, tables, 1, 20);
	EXPECT_EQ(t.of(object(1)), 0);
	EXPECT_EQ(t.of(group), 0);
	EXPECT_EQ(t.since(group), 20);
	EXPECT_EQ(t.of(object(2)), 5);
	EXPECT_EQ(t.since(object(2)), 10);
	event_reset(*t, database, tables, 0, 30);
	EXPECT_EQ(t.of(object(2)), 0);
	EXPECT_EQ(t.since(object(2)), 30);
	EXPECT_EQ(t.of(elsewhere), 5);
	EXPECT_EQ(t.used(), 4U);
}

TEST(EventCounts, ADatabaseIsForgotten)
{
	const Table t(16);
	const EventObject elsewhere = object(1, 0, EventScope::log, database + 1);

	for (std::int64_t i = 1; i <= 10; i++)
		t.add(object(i), 1);
	t.add(elsewhere, 1);
	event_forget_database(*t, database);
	for (std::int64_t i = 1; i <= 10; i++)
		EXPECT_EQ(t.of(object(i)), -1);
	EXPECT_EQ(t.of(elsewhere), 1);
	EXPECT_EQ(t.used(), 1U);
	for (std::int64_t i = 1; i <= 15; i++)
		t.add(object(i), 2);
	EXPECT_EQ(event_table_state(*t).evicted, 0U) << "their places are free";
}

/* Against a model: whatever has a place has what was added since it got it, and only what is evicted goes. */
TEST(EventCounts, AgreesWithAModel)
{
	constexpr std::uint32_t places = 40;
	std::mt19937 random(1);
	const Table t(places);
	std::map<std::int64_t, std::int64_t> model;
	std::uint64_t evictions = 0;

	for (std::int64_t now = 1; now <= 20'000; now++)
	{
		const auto id = static_cast<std::int64_t>(random() % 60 + 1);

		switch (random() % 8)
		{
			case 0:
				ASSERT_EQ(event_take(*t, object(id), nullptr), model.erase(id) == 1);
				break;
			case 1:
				ASSERT_EQ(event_add_there(*t, object(id), amount(Event::added, 1), now), model.contains(id));
				if (model.contains(id))
					model[id]++;
				break;
			default:
				t.add(object(id), 1, now);
				model[id]++;
				break;
		}
		if (event_table_state(*t).evicted > evictions)
		{
			ASSERT_EQ(std::erase_if(model, [&t](const auto &entry) { return t.of(object(entry.first)) == -1; }), 1U);
			evictions++;
		}
		ASSERT_EQ(event_table_state(*t).evicted, evictions);
		ASSERT_EQ(t.used(), model.size());
		ASSERT_LE(t.used(), places);
		if (now % 100 == 0)
		{
			for (const auto &[key, n] : model)
				ASSERT_EQ(t.of(object(key)), n);
		}
	}
	EXPECT_GT(evictions, 100U);
}

TEST(EventCounts, AdditionsToOneObjectMeetAndNoneIsLost)
{
	constexpr std::uint64_t threads = 4;
	constexpr std::uint64_t rounds = 3'000'000;
	const Table t(4);
	std::vector<std::thread> all;

	t.add(object(1), 1);
	/* all of them hold the lock shared, so there is none */
	for (std::uint64_t i = 0; i < threads; i++)
		all.emplace_back([&t] {
			for (std::uint64_t round = 0; round < rounds; round++)
				(void) event_add_there(*t, object(1), amount(Event::added, 1), 2);
		});
	for (std::thread &thread : all)
		thread.join();
	EXPECT_EQ(t.of(object(1)), static_cast<std::int64_t>(threads * rounds + 1));
}

TEST(EventCounts, ManyCountAtOnceAndNothingIsLost)
{
	constexpr int threads = 4;
	constexpr int rounds = 20'000;
	constexpr std::int64_t objects = 24;
	const Table t(64);
	std::shared_mutex lock;
	std::vector<std::thread> all;

	for (int i = 0; i < threads; i++)
		all.emplace_back([&t, &lock, i] {
			for (int round = 0; round < rounds; round++)
			{
				const EventObject of = object((round * 7 + i) % objects + 1);
				bool done;

				{
					const std::shared_lock shared(lock);

					done = event_add_there(*t, of, amount(Event::added, 1), round);
				}
				if (!done)
				{
					const std::unique_lock exclusive(lock);

					event_add(*t, of, amount(Event::added, 1), round, round);
				}
				if (i == 0 && round % 100 == 0)
				{
					const std::shared_lock shared(lock);
					EventCounts found;

					for (std::uint32_t at = 0; event_read(*t, database, tables, &at, &found);)
						ASSERT_LE(found.amounts.of[0], std::uint64_t{threads} * rounds);
				}
			}
		});
	for (std::thread &thread : all)
		thread.join();

	std::int64_t sum = 0;

	for (std::int64_t i = 1; i <= objects; i++)
		sum += t.of(object(i));
	EXPECT_EQ(sum, threads * rounds);
}

} // namespace
} // namespace queen::test
