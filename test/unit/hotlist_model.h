/*
 * hotlist_model.h: the hot-list between a database that is played and sessions that share it.
 *
 * ModelDatabase is the oracle: logs, cursors, leases and what transactions have not said yet. ModelRing is the contract's tables,
 * written down a second time and as plainly as can be, one slot for each partition that there is. Model owns both, calls
 * the list for its sessions, one call a step, and compares after each what the list says with both. The database
 * alone says whether the contract is right: the two are judged apart (Broken::what begins with "database: " or "contract: ").
 *
 * A session's work is a plan of steps; which session makes its next one is drawn. So everything that two backends can do
 * between two calls of one of them happens, in particular between the moment that a transaction is visible and its mark.
 */
#ifndef QUEEN_TEST_UNIT_HOTLIST_MODEL_H
#define QUEEN_TEST_UNIT_HOTLIST_MODEL_H

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hotlist_support.h"

namespace queen::test
{

using core::Verdict;
using core::hotlist::Deferral;
using core::hotlist::Micros;
using core::hotlist::Outcome;
using core::hotlist::Owes;
using core::hotlist::Owner;
using core::hotlist::QueueKey;
using core::hotlist::RingKey;
using core::hotlist::RingRef;
using core::hotlist::Taken;
using core::hotlist::Ticket;

/* In all of a run, with those that are dropped. */
inline constexpr std::size_t groups_made = 40, queues_made = 16;

inline constexpr Micros millisecond = 1'000;
inline constexpr Micros second = 1'000'000;

struct Broken : std::runtime_error
{
	using std::runtime_error::runtime_error;
};

/* A vector that any whole number indexes. */
template <class T>
struct Row : std::vector<T>
{
	using std::vector<T>::vector;

	T &
	operator[](std::integral auto i)
	{
		return this->data()[static_cast<std::size_t>(i)];
	}
	const T &
	operator[](std::integral auto i) const
	{
		return this->data()[static_cast<std::size_t>(i)];
	}
};

class Dice
{
  public:
	explicit Dice(std::uint64_t seed) : state_(seed)
	{
	}

	std::uint64_t
	next()
	{
		std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		return z ^ (z >> 31);
	}

	int
	below(int n)
	{
		return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
	}

	int
	from(int least, int most)
	{
		return least + below(most - least + 1);
	}

	bool
	chance(int percent)
	{
		return below(100) < percent;
	}

  private:
	std::uint64_t state_;
};

/* ---- the database ---- */

enum class Fate : std::uint8_t
{
	running,
	prepared,
	committed,
	aborted,
};

struct Segment
{
	std::int64_t first;
	std::int64_t end;
	Micros created;
	std::uint64_t number;	  /* which, for whoever wrote it */
	std::uint64_t visible_at; /* the commit that it came with */
	Micros settled;			  /* when its fate was decided */
	Fate fate;
	bool was_prepared;
};

struct Part
{
	std::int64_t id;
	std::int64_t tail = 0;
	std::int64_t committed_end = 0;
	int unmarked = 0; /* committed pushes that have not marked yet */
	Row<Segment> log;
};

struct Cursor
{
	std::int64_t next = 0;
	std::int64_t lease_end = 0;
	std::uint64_t lease = 0; /* 0: none */
	Micros lease_until = 0;
	Micros blocked_until = 0;
	Micros moved = 0; /* when it last changed */
};

/* A slot as the contract has it. */
struct ModelSlot
{
	enum class State : std::uint8_t
	{
		idle,
		ready,
		parked,
		checked_out,
	};
	State state = State::idle;
	bool drained = false;
	bool behind = false; /* a push */
	bool leased = false;
	bool maybe_ready = false; /* parked, due, and a drain that had not to take all came by */
	std::uint64_t count = 0;
	std::uint64_t version = 0; /* moved by every mark; the epoch must do as this does */
	std::uint64_t taken_version = 0;
	std::uint64_t seen_version = 0, seen_epoch = 0;
	std::uint64_t token = 0;
	std::uint64_t lease = 0; /* parked: because of it; 0: of none that the ring was told of */
	Micros deadline = 0;
	Micros touched = 0; /* the last call that named it */
	Micros since = 0;	/* it is ready, or was when it was taken */
	std::uint64_t last_token = 0;
	bool again = false; /* checked out, and its row was freed meanwhile */
	Owner owner{};
};

struct ModelRing
{
	bool exists = false;
	RingRef ref;
	Deferral deferral;
	Micros most_deferred = 0; /* ever */
	int ready = 0;
	std::uint64_t debts = 1, paid = 0;
	std::int64_t resume_at = 0;
	bool exact = true; /* there is no candidate that may be ready or not */
	bool walking = false;
	Owner walker{};
	bool served = false; /* since the last sweep */
	bool fresh = true;	 /* made since then */
	Row<ModelSlot> slots;
};

struct Group
{
	RingKey key{};
	int queue = 0;
	bool live = true;
	int unowed = 0; /* commits that have not said yet that the ring owes a walk */
	Row<Cursor> cursors;
	Row<int> unmarked;		   /* the same of one partition */
	Row<std::uint64_t> locked; /* by which transaction, 0: none */
	ModelRing ring;
};

struct Queue
{
	QueueKey key{};
	bool live = true;
	int unowed = 0;
	Deferral options;
	Micros most_deferred = 0; /* ever */
	Row<Part> parts;
	Row<int> groups;
};

/* ---- sessions ---- */

enum class Do : std::uint8_t
{
	append,
	visible,
	abort,
	undo,
	prepare,
	mark,
	owe_queue,
	ring_calls,
	pop,
	register_ring,
	defer,
	begin_walk,
	walk_snapshot,
	walk_row,
	take,
	snapshot,
	claim,
	check_in_took,
	end_pop,
	work,
	forget,
	end,
};

struct Step
{
	Do what;
	int a = 0, b = 0, c = 0;
};

struct PushOf
{
	int queue, part;
	std::uint64_t number;
	std::uint32_t messages;
};

struct ChangeOf
{
	int group, part;
	Cursor cursor;
};

/* What a commit tells the list of a cursor. */
struct TellOf
{
	enum class What : std::uint8_t
	{
		mark_ring,
		promote,
		unpark,
		owe_ring,
	};
	What what;
	int group, part;
	std::uint64_t lease = 0;
};

struct TookOf
{
	int group, part;
	RingRef ring;
	Taken taken;
	Outcome outcome;
};

struct Transaction
{
	Row<PushOf> pushes;
	Row<ChangeOf> changes;
	Row<TellOf> tells;
	Row<TookOf> took;
	bool past = false;		 /* the point of no return */
	bool overflowed = false; /* too many partitions: owes walks instead of marks */
	int options_of = -1;
	Deferral options;
	int drops_group = -1, drops_queue = -1;
	int births_group_of = -1;
	bool drops_tables = false;
};

struct Prepared
{
	Row<PushOf> pushes;
};

struct Session
{
	std::uint32_t serial = 1; /* of its transaction */
	Row<Step> plan;			  /* the next step last */
	Transaction tx;

	/* a pop */
	int group = 0;
	RingRef ring;
	Deferral options; /* as it read them */
	Row<Taken> taken;
	Row<TookOf> found;
	std::size_t at = 0;
	std::uint64_t snapshot = 0;
	std::int64_t budget = 0;
	bool auto_ack = false;
	bool refreshes = false; /* its snapshot, before each claim */
	bool nacks_too = false; /* gives back what it took, before it commits */
	int sleeps = 0;

	/* a walk */
	Ticket ticket{};
	std::uint64_t ticket_debts = 0;
	Row<std::int64_t> rows;
	std::size_t row = 0;
	std::size_t cut_at = 0;
	bool made_ready = false;
};

struct Lease
{
	int group, part;
	std::uint64_t lease;
	std::int64_t end;
};

/* What a run draws once. */
struct Shape
{
	std::uint64_t seed = 1;
	int databases = 1;
	int queues = 2;
	int parts = 6;
	int groups = 2;
	int sessions = 4;
	std::uint32_t shards = 4;
	std::uint32_t window_batch = 6;
	bool tiny = false; /* a pool in which not everything fits */
	bool defers = false;
	bool vanishes = false; /* sessions end and nobody tells */
	bool drops = false;
	Micros lease = 5 * second;

	static Shape drawn(std::uint64_t seed);
};

struct Claim
{
	Verdict verdict = Verdict::empty;
	bool drained = false;
	Micros until = 0;
	Cursor cursor;
	std::int64_t messages = 0;
};

struct ModelCounts
{
	std::uint64_t steps = 0, pushed = 0, delivered = 0, takes = 0, probes = 0, walks = 0, checks = 0, unchecked = 0;
	std::uint64_t reclaimed = 0, refused = 0, evicted = 0, swept = 0, overtaken = 0;
	std::array<std::uint64_t, core::verdict_count> verdicts{};
};

struct Event
{
	const char *what;
	int session;
	Micros at;
	std::int64_t a, b, c, d;
};

class Model
{
  public:
	Model(const Shape &shape, bool judge_contract);
	~Model();
	Model(const Model &) = delete;
	Model &operator=(const Model &) = delete;

	/* One step of one session, or of the world. Throws Broken. */
	void step();
	/* Nobody pushes any more: all of it must be delivered, in a bounded number of claims and a bounded time, and nothing is left. */
	void quiesce();
	const ModelCounts &
	counts() const
	{
		return counts_;
	}
	std::string last_events() const;

  private:
	/* hotlist_model_database.cpp */
	int add_queue(std::uint32_t database, std::uint32_t tables, std::int64_t id);
	int add_group(int queue, bool latest);
	bool pending(const Group &group, int part) const;
	Micros claimable_since(const Group &group, int part) const; /* never: it is not */
	Claim look(const Session &session, int group, int part, std::uint64_t snapshot, std::int64_t budget) const;
	void append(Session &session, int queue, int part, int messages);
	void settle(const PushOf &push, Fate fate);
	void make_visible(Session &session);
	void roll_back(Session &session);
	void unlock(Session &session);
	bool lock(Session &session, int group, int part);
	Cursor cursor_of(const Session &session, int group, int part) const;
	void change(Session &session, int group, int part, const Cursor &cursor);
	std::uint64_t transaction_of(const Session &session) const;
	void trim(Part &part);

	/* hotlist_model_sessions.cpp */
	void choose(Session &session);
	void plan(Session &session, std::initializer_list<Step> steps);
	void perform(Session &session, const Step &step);
	void plan_push(Session &session);
	void plan_pop(Session &session);
	void plan_ack(Session &session);
	void plan_seek(Session &session);
	void plan_pinned(Session &session);
	void plan_changes(Session &session);
	void finish(Session &session);
	void pop_or_finish(Session &session);
	void work(Session &session);
	void pick_partitions(Session &session);
	bool changed(const Session &session, int group, int part) const;
	void begin_pop(Session &session);
	void begin_walk(Session &session);
	void walk_snapshot(Session &session);
	void walk_row(Session &session);
	void claim(Session &session);
	void after_commit(Session &session);
	void give_up(Session &session);
	void end(Session &session);
	void vanish(Session &session);
	void world_step();
	int draw_group();
	int draw_queue();

	/* hotlist_model_contract.cpp: what a call does to the slots, by the tables of the README */
	int slot_mark(ModelRing &ring, int part, std::uint64_t messages);
	int slot_mark_ring(ModelRing &ring, int part);
	int slot_promote(ModelRing &ring, int part, std::uint64_t lease);
	int look_again(ModelRing &ring, ModelSlot &slot);
	int slot_row(ModelRing &ring, int part, core::hotlist::Reseeded seen, bool ease);
	int slot_check_in(ModelRing &ring, int part, const Taken &taken, const Outcome &outcome);
	int to_ready(ModelRing &ring, ModelSlot &slot, bool in_front = false);
	void to_idle(ModelRing &ring, ModelSlot &slot);
	int park(ModelRing &ring, ModelSlot &slot, Micros deadline);
	bool defers(const ModelRing &ring) const;
	bool windows(const ModelRing &ring) const;
	void not_idle_without_slot(Group &group, int part, bool was_idle);
	void drained_due(const ModelRing *told_of);

	/* hotlist_model_calls.cpp: calls of the list, each compared */
	bool call_register(Session &session, int group);
	void call_mark(int queue, const Row<PushOf> &pushes);
	void call_mark_ring(int group, int part);
	void call_promote(int group, int part, std::uint64_t lease);
	void call_unpark(int group, int part);
	void call_owe(const TellOf &tell);
	void call_owe_queue(int queue);
	Row<Taken> call_take(Session &session, int group, std::uint32_t most, std::uint64_t want);
	void call_check_in(int group, int part, RingRef ring, const Taken &taken, const Outcome &outcome);
	void call_drain(std::uint32_t most);
	void call_sweep();
	void call_defer(int group, RingRef ring, const Deferral &deferral);
	bool call_begin_walk(Session &session);
	void call_row(Session &session, std::int64_t partition);
	void call_end_walk(Session &session, bool whole, std::int64_t stopped_at);
	void call_forget(int group);
	void call_forget_queue(int queue);
	void call_forget_tables(std::uint32_t database, std::uint32_t tables);
	void gone(Group &group);
	int survivors();
	void listen();
	void heard(const ModelRing &ring, int ready, const char *where);
	void heard_nothing_else(const char *where);
	void compare_ring(Group &group);
	void compare_slot(const Group &group, int part);
	void compare_take(Session &session, Group &group, const Row<Taken> &taken, std::uint32_t most, std::uint64_t want);
	int part_of(const Group &group, std::int64_t partition) const;

	/* hotlist_model_checks.cpp */
	void check_pair(int group, int part);
	std::string described(const Group &group, int part) const;
	void check_everything();
	void check_statistics();
	void check_timely(int group, const Row<Taken> &taken);
	void touch(int group, int part);
	bool exempt(const Group &group, int part) const;
	void end_prepared(std::size_t at, Fate fate);
	void walk_whole(int group);
	bool consume(int group);
	void consume_all();
	void expect_idle();
	void expect_one_probe(int group);
	void expect_swept();
	void broken(const char *judge, const char *format, ...) const __attribute__((format(printf, 3, 4)));
	void record(const char *what, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0);

	static bool alive(Owner owner) noexcept;
	Owner owner_of(const Session &session) const;

	Shape shape_;
	Dice dice_;
	std::unique_ptr<TestPool> pool_;
	bool judge_contract_;
	Micros now_ = 1000 * second;
	std::uint64_t commits_ = 1;
	std::uint64_t numbers_ = 0;
	std::uint64_t leases_made_ = 0;
	std::int64_t ids_ = 0;
	Row<Queue> queues_;
	Row<Group> groups_;
	Row<Session> sessions_;
	Row<Lease> leases_;
	Row<Prepared> prepared_;
	std::vector<std::pair<int, int>> touched_;
	int running_ = -1; /* whose step it is */
	std::uint64_t inconsistent_every_ = 512;
	bool quiet_ = false;
	struct
	{
		std::array<std::pair<std::uint32_t, std::uint32_t>, 64> told; /* ring, ready */
		std::size_t calls;
	} heard_{};
	core::hotlist::Listener listener_;
	ModelCounts counts_;
	std::array<Event, 256> events_{};
};

} // namespace queen::test

#endif
