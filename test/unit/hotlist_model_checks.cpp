/*
 * hotlist_model_checks.cpp: what must hold: after every step, now and then, and when nobody pushes any more.
 */
#include "hotlist_model.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace queen::test
{

namespace hotlist = core::hotlist;
using hotlist::never;
using hotlist::Owes;
using State = ModelSlot::State;

namespace
{

/* Whoever asks whether an owner lives has no argument for whom to ask. */
thread_local const Row<Session> *sessions_alive;

} // namespace

Shape
Shape::drawn(std::uint64_t seed)
{
	Dice dice(seed);
	Shape shape;

	shape.seed = dice.next();
	shape.databases = dice.from(1, 2);
	shape.queues = dice.from(1, 2);
	shape.parts = dice.from(1, 8);
	shape.groups = dice.from(1, 3);
	shape.sessions = dice.from(2, 8);
	shape.shards = dice.chance(40) ? 1 : static_cast<std::uint32_t>(dice.from(2, 8));
	shape.window_batch = static_cast<std::uint32_t>(dice.from(2, 12));
	shape.tiny = dice.chance(15);
	shape.defers = dice.chance(40);
	shape.vanishes = dice.chance(20);
	shape.drops = dice.chance(30);
	shape.lease = dice.chance(30) ? 300 * second : dice.from(20, 6000) * millisecond;
	if (shape.tiny)
		shape.parts = 60;
	return shape;
}

Model::Model(const Shape &shape, bool judge_contract)
	: shape_(shape), dice_(shape.seed), judge_contract_(judge_contract)
{
	const hotlist::PoolOptions options = {shape.shards, shape.window_batch};

	pool_ = std::make_unique<TestPool>(shape.tiny ? 0 : std::size_t{1} << 20, options);
	for (int database = 1; database <= shape.databases; database++)
		for (int q = 1; q <= shape.queues; q++)
		{
			const int queue = add_queue(static_cast<std::uint32_t>(database), 100, q);

			for (int group = 0; group < shape.groups; group++)
				add_group(queue, false);
		}
	sessions_.resize(static_cast<std::size_t>(shape.sessions));
	sessions_alive = &sessions_;
}

Model::~Model()
{
	sessions_alive = nullptr;
}

bool
Model::alive(Owner owner) noexcept
{
	return (*sessions_alive)[owner.process].serial == owner.transaction;
}

Owner
Model::owner_of(const Session &session) const
{
	return {static_cast<std::uint32_t>(&session - sessions_.data()), session.serial};
}

/* ---- what is said of a failure ---- */

void
Model::broken(const char *judge, const char *format, ...) const
{
	char text[1000];
	va_list arguments;

	if (!judge_contract_ && judge[0] == 'c')
		return;
	const int head = std::snprintf(text, sizeof text, "%s: ", judge);

	va_start(arguments, format);
	std::vsnprintf(text + head, sizeof text - static_cast<std::size_t>(head), format, arguments);
	va_end(arguments);
	throw Broken(text);
}

void
Model::record(const char *what, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d)
{
	std::move(events_.begin() + 1, events_.end(), events_.begin());
	events_.back() = {what, running_, now_, a, b, c, d};
}

/* A cursor and what is in its log. */
std::string
Model::described(const Group &group, int part) const
{
	static constexpr const char *fates[] = {"running", "prepared", "committed", "aborted"};
	const Cursor &cursor = group.cursors[part];
	char text[160];

	std::snprintf(text, sizeof text, "next %ld, lease %lu until %ld ms, log:", static_cast<long>(cursor.next),
				  static_cast<unsigned long>(cursor.lease),
				  static_cast<long>((cursor.lease_until - 1000 * second) / millisecond));
	std::string all = text;

	for (const Segment &segment : queues_[group.queue].parts[part].log)
		if (segment.end > cursor.next)
		{
			std::snprintf(text, sizeof text, " %ld-%ld %s at %ld ms", static_cast<long>(segment.first),
						  static_cast<long>(segment.end), fates[static_cast<std::size_t>(segment.fate)],
						  static_cast<long>((segment.settled - 1000 * second) / millisecond));
			all += text;
		}
	return all;
}

std::string
Model::last_events() const
{
	std::string text;
	char line[200];

	for (const Event &event : events_)
		if (event.what != nullptr)
		{
			std::snprintf(line, sizeof line, "  %10.3f ms  session %2d  %-14s %ld %ld %ld %ld\n",
						  static_cast<double>(event.at - 1000 * second) / 1e3, event.session, event.what,
						  static_cast<long>(event.a), static_cast<long>(event.b), static_cast<long>(event.c),
						  static_cast<long>(event.d));
			text += line;
		}
	return text;
}

/* ---- after every step ---- */

void
Model::touch(int group, int part)
{
	touched_.emplace_back(group, part);
}

/* Somebody has committed, and not told yet. */
bool
Model::exempt(const Group &group, int part) const
{
	const Queue &queue = queues_[group.queue];

	return group.unowed > 0 || group.unmarked[part] > 0 || queue.parts[part].unmarked > 0;
}

/* A ring that owes nothing holds what is pending. */
void
Model::check_pair(int g, int part)
{
	const Group &group = groups_[g];

	compare_slot(group, part);
	if (!group.live || !group.ring.exists || !pending(group, part) || exempt(group, part))
		return;
	if (hotlist::owes(*pool_, group.ring.ref, now_, 0) != Owes::nothing)
	{
		counts_.unchecked++;
		return;
	}
	counts_.checks++;
	if (!hotlist::holds(*pool_, group.ring.ref, queues_[group.queue].parts[part].id))
		broken("database", "partition %d is pending for group %d, not held, and the ring owes nothing\n%s", part, g,
			   described(group, part).c_str());
}

void
Model::check_everything()
{
	for (std::size_t g = 0; g < groups_.size(); g++)
		for (int part = 0; part < shape_.parts; part++)
			check_pair(static_cast<int>(g), part);
	if (counts_.steps % inconsistent_every_ == 0)
		if (const char *what = hotlist::inconsistency(*pool_); what != nullptr)
			broken("database", "inconsistent: %s", what);
}

/* The statistics, and what a take would name. */
void
Model::check_statistics()
{
	std::uint32_t rings = 0;

	for (const Group &group : groups_)
	{
		const ModelRing &ring = group.ring;
		hotlist::RingStatistics statistics;
		std::array<std::uint64_t, 4> states{};
		std::array<Taken, 200> named;

		if (!ring.exists)
			continue;
		rings++;
		if (!hotlist::ring_statistics(*pool_, ring.ref.index, &statistics) || !(statistics.key == group.key) ||
			statistics.ring.id != ring.ref.id)
		{
			broken("contract", "the statistics of a ring are another's");
			continue;
		}
		for (const ModelSlot &slot : ring.slots)
			states[static_cast<std::size_t>(slot.state)]++;
		if (ring.exact &&
			(statistics.ready != states[1] || statistics.parked != states[2] || statistics.checked_out != states[3]))
			broken("contract", "counted ready %lu parked %lu checked out %lu, and there are %lu %lu %lu",
				   static_cast<unsigned long>(statistics.ready), static_cast<unsigned long>(statistics.parked),
				   static_cast<unsigned long>(statistics.checked_out), static_cast<unsigned long>(states[1]),
				   static_cast<unsigned long>(states[2]), static_cast<unsigned long>(states[3]));
		if ((statistics.oldest_ready != 0) != (statistics.ready != 0))
			broken("contract", "ready are %lu, since %ld", static_cast<unsigned long>(statistics.ready),
				   static_cast<long>(statistics.oldest_ready));
		const std::uint32_t n = hotlist::candidates(*pool_, ring.ref, named.size(), named.data());

		if (n < statistics.ready)
			broken("contract", "candidates names %u of %lu", n, static_cast<unsigned long>(statistics.ready));
		for (std::uint32_t i = 0; i < n; i++)
		{
			const ModelSlot &slot = ring.slots[part_of(group, named[i].partition_id)];

			if (slot.state != State::ready && (slot.state != State::parked || slot.deadline > now_))
				broken("contract", "candidates names one in state %d", static_cast<int>(slot.state));
		}
	}
	hotlist::PoolStatistics pool;

	hotlist::pool_statistics(*pool_, &pool);
	if (pool.rings_used != rings || pool.shards != shape_.shards)
		broken("contract", "counted %lu rings of %u", static_cast<unsigned long>(pool.rings_used), rings);
}

/*
 * A take got all that the ring would give: whatever has been there to be had for longer than any wait that is allowed, with nothing that
 * happened to it meanwhile, must be among it.
 */
void
Model::check_timely(int g, const Row<Taken> &taken)
{
	const Group &group = groups_[g];
	const Queue &queue = queues_[group.queue];
	const Micros bound =
		hotlist::lease_park_cap + hotlist::pad + std::max(queue.most_deferred, group.ring.most_deferred);

	if (!group.live || hotlist::owes(*pool_, group.ring.ref, now_, 0) != Owes::nothing)
		return;
	for (int part = 0; part < shape_.parts; part++)
	{
		const ModelSlot &slot = group.ring.slots[part];
		const Micros since = claimable_since(group, part);

		if (since == never || slot.state == State::checked_out || exempt(group, part))
			continue;
		if (std::any_of(taken.begin(), taken.end(),
						[&](const Taken &one) { return one.partition_id == queue.parts[part].id; }))
			continue;
		counts_.checks++;
		if (const Micros quiet = now_ - std::max(since, slot.touched); quiet > bound)
			broken("database", "partition %d could be had for %ld us, and was not ready", part,
				   static_cast<long>(quiet));
	}
}

/* ---- when nobody pushes any more ---- */

void
Model::end_prepared(std::size_t at, Fate fate)
{
	record("end prepared", fate == Fate::committed);
	commits_++;
	for (const PushOf &push : prepared_[at].pushes)
		settle(push, fate);
	prepared_.erase(prepared_.begin() + static_cast<std::ptrdiff_t>(at));
}

void
Model::walk_whole(int g)
{
	Session &session = sessions_[0];
	const Group &group = groups_[g];

	session.group = g;
	session.ring = group.ring.ref;
	if (!call_begin_walk(session))
		broken("database", "a walk is refused, and nobody walks");
	for (int part = 0; part < shape_.parts; part++)
		if (pending(group, part))
			call_row(session, queues_[group.queue].parts[part].id);
	call_end_walk(session, true, 0);
}

/* Take all, claim all, commit. */
bool
Model::consume(int g)
{
	Session &session = sessions_[0];
	const Group &group = groups_[g];

	session.group = g;
	session.ring = group.ring.ref;
	session.options = queues_[group.queue].options;
	const Row<Taken> taken = call_take(session, g, 64, UINT64_MAX);

	for (const Taken &one : taken)
	{
		const int part = part_of(group, one.partition_id);
		const Claim claim = look(session, g, part, commits_, 1'000'000);
		Outcome outcome;

		outcome.verdict = claim.verdict;
		outcome.may_clear = true;
		outcome.drained = claim.drained;
		outcome.until = claim.until;
		counts_.probes++;
		if (claim.verdict == Verdict::took)
		{
			counts_.delivered += static_cast<std::uint64_t>(claim.messages);
			groups_[g].cursors[part].next = claim.cursor.next;
			groups_[g].cursors[part].lease = 0;
		}
		call_check_in(g, part, session.ring, one, outcome);
	}
	return !taken.empty();
}

/* Until nothing is taken any more and no deadline comes. */
void
Model::consume_all()
{
	std::array<std::uint64_t, core::verdict_count> before = counts_.verdicts;
	std::uint64_t slots = 0, leases = 0, segments = 0;

	for (std::size_t g = 0; g < groups_.size(); g++)
	{
		Group &group = groups_[g];
		int checked_out = 0;

		if (!group.live)
			continue;
		if (!call_register(sessions_[0], static_cast<int>(g)))
			continue;
		call_defer(static_cast<int>(g), group.ring.ref, queues_[group.queue].options);
		for (const ModelSlot &slot : group.ring.slots)
		{
			slots += slot.state != State::idle;
			checked_out += slot.state == State::checked_out;
		}
		/* without being asked to, where the ring claims to be whole */
		if (checked_out > 0 || hotlist::owes(*pool_, group.ring.ref, now_, 0) != Owes::nothing)
			walk_whole(static_cast<int>(g));
		for (int part = 0; part < shape_.parts; part++)
		{
			const Cursor &cursor = group.cursors[part];

			slots += pending(group, part);
			if (cursor.lease != 0 && cursor.lease_until > now_)
				leases += static_cast<std::uint64_t>((cursor.lease_until - now_) / hotlist::lease_park_cap + 3);
			for (const Segment &segment : queues_[group.queue].parts[part].log)
				segments += segment.end > cursor.next;
		}
	}
	for (int rounds = 0;; rounds++)
	{
		bool any = false, incomplete = false;

		touched_.clear();
		if (rounds > 20'000)
			broken("database", "there is always another deadline");
		for (std::size_t g = 0; g < groups_.size(); g++)
			if (groups_[g].live && groups_[g].ring.exists)
			{
				while (consume(static_cast<int>(g)))
					any = true;
				incomplete = incomplete || hotlist::owes(*pool_, groups_[g].ring.ref, now_, 0) != Owes::nothing;
			}
		if (any)
			continue;
		listen();
		const Micros next = hotlist::drain(*pool_, UINT32_MAX, now_, listener_);

		drained_due(nullptr);
		if (next != never)
			now_ = std::max(now_, next);
		else if (!incomplete)
			break;
		else
		{
			/* what has no place for lack of slots gets those of rings that nobody serves */
			now_ += 300 * second;
			call_sweep();
		}
		/* what is waited for is walked for, too, where not everything fitted */
		for (std::size_t g = 0; incomplete && g < groups_.size(); g++)
			if (groups_[g].live && groups_[g].ring.exists &&
				hotlist::owes(*pool_, groups_[g].ring.ref, now_, 0) != Owes::nothing)
				walk_whole(static_cast<int>(g));
	}
	for (std::size_t v = 0; v < before.size(); v++)
		before[v] = counts_.verdicts[v] - before[v];
	const auto of = [&](Verdict verdict) { return before[static_cast<std::size_t>(verdict)]; };

	if (of(Verdict::locked) + of(Verdict::behind_push) > 0)
		broken("database", "locked, or behind a push, and nobody is there");
	/* walks for what did not fit look at everything again */
	if (shape_.tiny)
		return;
	if (of(Verdict::empty) > slots + of(Verdict::took) || of(Verdict::leased) > leases ||
		of(Verdict::deferred) > 2 * segments)
		broken("database", "too many probes: %lu empty of %lu, %lu leased of %lu, %lu deferred of %lu, %lu took",
			   static_cast<unsigned long>(of(Verdict::empty)), static_cast<unsigned long>(slots),
			   static_cast<unsigned long>(of(Verdict::leased)), static_cast<unsigned long>(leases),
			   static_cast<unsigned long>(of(Verdict::deferred)), static_cast<unsigned long>(2 * segments),
			   static_cast<unsigned long>(of(Verdict::took)));
}

void
Model::expect_idle()
{
	for (std::size_t g = 0; g < groups_.size(); g++)
	{
		const Group &group = groups_[g];
		hotlist::RingStatistics statistics;

		if (!group.live || !group.ring.exists)
			continue;
		for (int part = 0; part < shape_.parts; part++)
			if (pending(group, part))
				broken("database", "partition %d of group %zu is never delivered", part, g);
		hotlist::ring_statistics(*pool_, group.ring.ref.index, &statistics);
		if (statistics.ready + statistics.parked != 0)
			broken("database", "nothing is pending, and group %zu has %lu ready and %lu parked", g,
				   static_cast<unsigned long>(statistics.ready), static_cast<unsigned long>(statistics.parked));
		std::uint64_t dead = 0;

		for (const ModelSlot &slot : group.ring.slots)
			dead += slot.state == State::checked_out && !alive(slot.owner);
		if (statistics.checked_out != dead)
			broken("database", "nobody is there, and %lu are checked out",
				   static_cast<unsigned long>(statistics.checked_out));
	}
}

/* A push, its delivery under a lease, the acknowledgement: one claim, and nothing is left. */
void
Model::expect_one_probe(int g)
{
	Session &session = sessions_[0];
	Group &group = groups_[g];
	const int part = dice_.below(shape_.parts);
	Row<PushOf> pushes;

	session.tx = {};
	append(session, group.queue, part, 1);
	pushes = session.tx.pushes;
	session.tx = {};
	commits_++;
	settle(pushes[0], Fate::committed);
	call_mark(group.queue, pushes);
	for (const int other : queues_[group.queue].groups) /* what others have not read is not our business */
		if (other != g && groups_[other].live)
			groups_[other].cursors[part].next = queues_[group.queue].parts[part].tail;

	session.group = g;
	session.ring = group.ring.ref;
	session.options = queues_[group.queue].options;
	/* the list waits for the delay, and then the claim for the window */
	const int most = session.options.delay > 0 && session.options.window > session.options.delay ? 2 : 1;

	for (int probes = 0;;)
	{
		const Row<Taken> taken = call_take(session, g, 64, UINT64_MAX);

		if (taken.empty())
		{
			listen();
			const Micros next = hotlist::drain(*pool_, UINT32_MAX, now_, listener_);

			drained_due(nullptr);
			if (next == never)
				broken("database", "one push is never delivered");
			now_ = std::max(now_, next);
			continue;
		}
		if (++probes > most || taken.size() > 1)
			broken("database", "one push, and %d probes", probes);
		const Claim claim = look(session, g, part, commits_, 100);
		Outcome outcome;

		outcome.verdict = claim.verdict;
		outcome.until = claim.verdict == Verdict::took ? now_ + 10 * second : claim.until;
		outcome.lease = true;
		outcome.lease_number = ++leases_made_;
		outcome.drained = claim.drained;
		outcome.may_clear = true;
		call_check_in(g, part, session.ring, taken[0], outcome);
		if (claim.verdict != Verdict::took)
			continue;
		group.cursors[part].next = claim.cursor.next;
		call_promote(g, part, leases_made_);
		if (hotlist::holds(*pool_, group.ring.ref, queues_[group.queue].parts[part].id))
			broken("database", "acknowledged whole, drained, not marked, and still held");
		break;
	}
}

/* Rings that nobody uses go, and what they held is given back. */
void
Model::expect_swept()
{
	hotlist::PoolStatistics statistics;

	for (int i = 0; i < 4; i++)
	{
		now_ += 300 * second;
		call_sweep();
	}
	hotlist::pool_statistics(*pool_, &statistics);
	int kept = 0;

	for (const Group &group : groups_)
		kept +=
			group.ring.exists && std::any_of(group.ring.slots.begin(), group.ring.slots.end(),
											 [](const ModelSlot &slot) { return slot.state == State::checked_out; });
	if (statistics.rings_used != static_cast<std::uint64_t>(kept) || (kept == 0 && statistics.slots_used != 0))
		broken("database", "swept, and %lu rings and %lu slots are used",
			   static_cast<unsigned long>(statistics.rings_used), static_cast<unsigned long>(statistics.slots_used));
}

void
Model::quiesce()
{
	const auto busy = [](const Session &session) { return !session.plan.empty(); };

	quiet_ = true;
	for (int steps = 0; std::any_of(sessions_.begin(), sessions_.end(), busy); steps++)
	{
		step();
		if (steps > 1'000'000)
			broken("database", "sessions do not end");
	}
	running_ = -1;
	while (!prepared_.empty())
		end_prepared(prepared_.size() - 1, Fate::committed);
	for (Queue &queue : queues_) /* from here on with what is configured now */
		queue.most_deferred = std::max(queue.options.delay, queue.options.window);
	consume_all();
	check_everything();
	expect_idle();
	if (!shape_.tiny)
		for (std::size_t g = 0; g < groups_.size(); g++)
			if (groups_[g].live && groups_[g].ring.exists)
			{
				expect_one_probe(static_cast<int>(g));
				consume_all();
			}
	expect_idle();
	expect_swept();
	if (const char *what = hotlist::inconsistency(*pool_); what != nullptr)
		broken("database", "inconsistent: %s", what);
}

} // namespace queen::test
