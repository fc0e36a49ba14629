/*
 * feed_test.cpp: the change feed: who reads what, who is told that something is lost, and many at once.
 */
#include "core/feed.h"

#include <shared_mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

using namespace queen;
using core::Change;

namespace
{

constexpr std::uint32_t database = 5;
constexpr std::uint32_t tables = 16400;

/* A feed in memory of exactly its size, which was full of rubbish before. */
class TestFeed
{
  public:
	explicit TestFeed(std::uint32_t capacity)
		: memory_(core::feed_size(capacity), 0xa5), feed_(core::feed_lay_out(memory_.data(), capacity))
	{
	}

	core::Feed &
	operator*() const
	{
		return *feed_;
	}

	void
	append(std::int64_t first, std::int64_t last, std::uint32_t of_database = database,
		   std::uint32_t of_tables = tables)
	{
		std::vector<Change> changes;

		for (std::int64_t i = first; i <= last; i++)
			changes.push_back({of_database, of_tables, 1, i});
		core::feed_append(*feed_, changes);
	}

  private:
	std::vector<std::uint8_t> memory_;
	core::Feed *feed_;
};

/* A reader with room for some changes at a time. */
struct Reader
{
	std::uint64_t position = 0;
	std::size_t room = 100;
	bool overrun = false;

	std::vector<std::int64_t>
	read(const core::Feed &feed)
	{
		std::vector<Change> out(room);
		const core::FeedRead read = core::feed_read(feed, database, tables, position, out);
		std::vector<std::int64_t> partitions;

		overrun = read.overrun;
		for (std::uint32_t i = 0; i < read.count; i++)
			partitions.push_back(out[i].partition_id);
		return partitions;
	}
};

using Partitions = std::vector<std::int64_t>;

TEST(Feed, EachReaderReadsAllFromItsPosition)
{
	TestFeed feed(8);
	Reader early;
	Reader late;

	EXPECT_EQ(early.read(*feed), Partitions{});
	feed.append(1, 2);
	late.position = core::feed_end(*feed);
	feed.append(3, 3);
	EXPECT_EQ(early.read(*feed), (Partitions{1, 2, 3}));
	EXPECT_EQ(late.read(*feed), (Partitions{3}));
	EXPECT_EQ(early.read(*feed), Partitions{});
	EXPECT_EQ(late.read(*feed), Partitions{});
	feed.append(4, 4);
	EXPECT_EQ(early.read(*feed), (Partitions{4}));
	EXPECT_EQ(late.read(*feed), (Partitions{4}));
	EXPECT_FALSE(early.overrun || late.overrun);
}

TEST(Feed, OthersTablesAreLeftOut)
{
	TestFeed feed(8);
	Reader reader;

	feed.append(1, 1);
	feed.append(2, 2, database + 1);
	feed.append(3, 3, database, tables + 1);
	feed.append(4, 4);
	EXPECT_EQ(reader.read(*feed), (Partitions{1, 4}));
	EXPECT_EQ(reader.position, 4u);
}

TEST(Feed, LittleRoomIsFilledAndTheRestComesNext)
{
	TestFeed feed(8);
	Reader reader;

	reader.room = 2;
	feed.append(1, 5);
	EXPECT_EQ(reader.read(*feed), (Partitions{1, 2}));
	EXPECT_EQ(reader.read(*feed), (Partitions{3, 4}));
	EXPECT_EQ(reader.read(*feed), (Partitions{5}));
	EXPECT_EQ(reader.read(*feed), Partitions{});
	reader.room = 0;
	feed.append(6, 6);
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_EQ(reader.position, 5u);
}

TEST(Feed, ManyOfOthersArePassedInSteps)
{
	TestFeed feed(4096);
	Reader reader;

	feed.append(1, 2 * core::feed_most_looked_at, database + 1);
	feed.append(7, 7);
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_EQ(reader.position, core::feed_most_looked_at);
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_EQ(reader.read(*feed), (Partitions{7}));
}

TEST(Feed, GoesRoundManyTimes)
{
	TestFeed feed(8);
	Reader reader;

	for (std::int64_t i = 0; i < 1000; i += 5)
	{
		feed.append(i, i + 4);
		EXPECT_EQ(reader.read(*feed), (Partitions{i, i + 1, i + 2, i + 3, i + 4}));
		EXPECT_FALSE(reader.overrun);
	}
}

TEST(Feed, TheFullFeedIsReadAndOneMoreIsOverrun)
{
	TestFeed feed(8);
	Reader just;
	Reader overrun;

	feed.append(1, 8);
	EXPECT_EQ(just.read(*feed), (Partitions{1, 2, 3, 4, 5, 6, 7, 8}));
	EXPECT_FALSE(just.overrun);
	feed.append(9, 9);
	EXPECT_EQ(overrun.read(*feed), Partitions{});
	EXPECT_TRUE(overrun.overrun);
	EXPECT_EQ(overrun.position, 9u);
	/* told once, and then it goes on from the end */
	feed.append(10, 10);
	EXPECT_EQ(overrun.read(*feed), (Partitions{10}));
	EXPECT_FALSE(overrun.overrun);
	EXPECT_EQ(just.read(*feed), (Partitions{9, 10}));
}

TEST(Feed, OthersOverrunToo)
{
	TestFeed feed(8);
	Reader reader;

	feed.append(1, 1);
	feed.append(2, 9, database + 1);
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_TRUE(reader.overrun);
}

TEST(Feed, MoreThanItHoldsAtOnceIsOverrun)
{
	TestFeed feed(8);
	Reader reader;

	feed.append(1, 30);
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_TRUE(reader.overrun);
	reader.position = core::feed_end(*feed) - 8;
	EXPECT_EQ(reader.read(*feed), (Partitions{23, 24, 25, 26, 27, 28, 29, 30}));
}

TEST(Feed, APositionOfAnotherFeedIsOverrun)
{
	TestFeed feed(8);
	Reader reader;

	feed.append(1, 3);
	reader.position = 4;
	EXPECT_EQ(reader.read(*feed), Partitions{});
	EXPECT_TRUE(reader.overrun);
	EXPECT_EQ(reader.position, 3u);
}

/*
 * Writers count up in a partition each, readers follow. What a reader sees of a writer ascends, and leaves nothing out but where it was
 * told. Some readers are slow, so that they are told.
 */
TEST(Feed, ManyAtOnce)
{
	constexpr int writers = 4;
	constexpr std::int64_t each = 20000;
	TestFeed feed(256);
	std::shared_mutex lock;
	std::atomic<int> writing = writers;
	std::vector<std::thread> threads;
	std::atomic<int> told = 0;

	for (int w = 0; w < writers; w++)
		threads.emplace_back([&, w] {
			for (std::int64_t i = 1; i <= each;)
			{
				const std::size_t count = static_cast<std::size_t>(i % 7 + 1);
				std::vector<Change> changes;

				for (std::size_t n = 0; n < count && i <= each; n++, i++)
					changes.push_back({database, tables, w, i});
				const std::unique_lock hold(lock);
				core::feed_append(*feed, changes);
			}
			writing--;
		});
	for (int r = 0; r < 3; r++)
		threads.emplace_back([&, r] {
			std::vector<Change> out(static_cast<std::size_t>(r) * 40 + 20);
			std::int64_t seen[writers] = {};
			bool lost = false;
			std::uint64_t position = 0;

			for (bool last = false; !last || position < core::feed_end(*feed);)
			{
				last = writing == 0;
				core::FeedRead read;
				{
					const std::shared_lock hold(lock);
					read = core::feed_read(*feed, database, tables, position, out);
				}
				if (read.overrun)
				{
					lost = true;
					told++;
					/* as a reader's walk does */
					for (std::int64_t &s : seen)
						s = -1;
				}
				for (std::uint32_t i = 0; i < read.count; i++)
				{
					std::int64_t &s = seen[out[i].queue_id];

					ASSERT_TRUE(s < 0 || out[i].partition_id == s + 1);
					s = out[i].partition_id;
				}
				if (r == 2)
					std::this_thread::sleep_for(std::chrono::microseconds(200));
			}
			for (const std::int64_t s : seen)
				ASSERT_TRUE(s == each || (lost && s == -1));
		});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(core::feed_end(*feed), static_cast<std::uint64_t>(writers * each));
	EXPECT_GT(told, 0);
}

} // namespace
