/*
 * hotlist_model_calls.cpp: the calls of the list that sessions make, each compared with the contract.
 */
#include "hotlist_model.h"

#include <algorithm>

namespace queen::test
{

using core::hotlist::Registered;
using core::hotlist::Reseeded;
using State = ModelSlot::State;

constexpr int hotlist_steps = core::hotlist::steps_per_hold;

int
Model::part_of(const Group &group, std::int64_t partition) const
{
	const Queue &queue = queues_[group.queue];
	const std::int64_t part = (partition - queue.parts[0].id) / 7;

	if (part < 0 || part >= static_cast<std::int64_t>(queue.parts.size()) || queue.parts[part].id != partition)
		broken("database", "a partition that the queue has not: %ld", static_cast<long>(partition));
	return static_cast<int>(part);
}

/* ---- the listener ---- */

void
Model::listen()
{
	heard_.calls = 0;
	listener_ = {[](void *arg, std::uint32_t ring, std::uint32_t ready) noexcept {
					 Model *model = static_cast<Model *>(arg);

					 if (model->heard_.calls < model->heard_.told.size())
						 model->heard_.told[model->heard_.calls++] = {ring, ready};
				 },
				 this};
}

/* The ring was told once of as many, or not at all of none. */
void
Model::heard(const ModelRing &ring, int ready, const char *where)
{
	std::uint32_t told = 0;
	int calls = 0;

	for (std::size_t i = 0; i < heard_.calls; i++)
		if (heard_.told[i].first == ring.ref.index)
		{
			told += heard_.told[i].second;
			calls++;
			heard_.told[i] = heard_.told[--heard_.calls];
			i--;
		}
	if (judge_contract_ && ring.exact && (told != static_cast<std::uint32_t>(ready) || calls > (ready > 0)))
		broken("contract", "%s: %d became ready, the listener was told of %u in %d calls", where, ready, told, calls);
}

void
Model::heard_nothing_else(const char *where)
{
	if (judge_contract_ && heard_.calls > 0)
		broken("contract", "%s: told of a ring that it does not concern", where);
}

/* ---- comparisons ---- */

void
Model::compare_ring(Group &group)
{
	ModelRing &ring = group.ring;

	if (!judge_contract_ || !ring.exists)
		return;
	const int ready = static_cast<int>(core::hotlist::ready_count(*pool_, ring.ref));
	const Owes owes = core::hotlist::owes(*pool_, ring.ref, now_, 0);
	const bool owed = ring.debts > ring.paid;
	int maybe = 0;

	if (!ring.exact)
		for (const ModelSlot &slot : ring.slots)
			maybe += slot.maybe_ready;
	ring.exact = ring.exact || (ready == 0 && maybe == 0);
	if (ready < ring.ready || ready > ring.ready + maybe)
		broken("contract", "%d are ready, and should be %d", ready, ring.ready);
	if ((shape_.tiny && owes >= Owes::incomplete) ? owed && owes == Owes::incomplete
												  : owed != (owes == Owes::walk) || owes >= Owes::incomplete)
		broken("contract", "the ring owes %d, with %lu debts of which %lu are paid", static_cast<int>(owes),
			   static_cast<unsigned long>(ring.debts), static_cast<unsigned long>(ring.paid));
}

void
Model::compare_slot(const Group &group, int part)
{
	const ModelRing &ring = group.ring;

	if (!judge_contract_ || !ring.exists)
		return;
	const bool held = core::hotlist::holds(*pool_, ring.ref, queues_[group.queue].parts[part].id);

	if (held != (ring.slots[part].state != State::idle))
		broken("contract", "partition %d is %s, and should be in state %d", part, held ? "held" : "not held",
			   static_cast<int>(ring.slots[part].state));
}

void
Model::compare_take(Session &session, Group &group, const Row<Taken> &taken, std::uint32_t most, std::uint64_t want)
{
	ModelRing &ring = group.ring;
	std::uint64_t messages = 0;
	int waiting = 0, due = 0;
	const auto servable = [this](const ModelSlot &slot) {
		return slot.state == State::ready || (slot.state == State::parked && slot.deadline <= now_);
	};
	for (const Group &other : groups_)
		if (other.ring.exists)
			for (const ModelSlot &slot : other.ring.slots)
				due += slot.state == State::parked && slot.deadline <= now_;
	for (const ModelSlot &slot : ring.slots)
		waiting += servable(slot);
	/* a shard's candidates lie in the order in which they became ready; what comes back in front is not looked for a place further */
	const bool in_order = shape_.shards == 1 && ring.exact && waiting + due < hotlist_steps;
	Micros last = 0;

	for (std::size_t i = 0; i < taken.size(); i++)
	{
		ModelSlot &slot = ring.slots[part_of(group, taken[i].partition_id)];

		if (slot.state == State::checked_out)
			broken("database", "a candidate is checked out twice");
		if (judge_contract_ && !servable(slot))
			broken("contract", "took a candidate in state %d, due in %ld us", static_cast<int>(slot.state),
				   static_cast<long>(slot.deadline - now_));
		if (judge_contract_ && i > 0 && messages >= want)
			broken("contract", "took more than was wanted");
		if (taken[i].token <= slot.last_token || taken[i].epoch > taken[i].token)
			broken("contract", "a token that is not new");
		if (judge_contract_ && slot.seen_epoch != 0 &&
			(taken[i].epoch == slot.seen_epoch) != (slot.version == slot.seen_version))
			broken("contract", "the epoch %s, and the candidate was %s",
				   taken[i].epoch == slot.seen_epoch ? "did not move" : "moved",
				   slot.version == slot.seen_version ? "not marked" : "marked");
		if (taken[i].ready_since <= 0 || taken[i].ready_since > now_)
			broken("contract", "ready since %ld, at %ld", static_cast<long>(taken[i].ready_since),
				   static_cast<long>(now_));
		if (ring.exact && taken[i].ready_since != (slot.state == State::ready ? slot.since : now_))
			broken("contract", "ready since %ld, and should be since %ld", static_cast<long>(taken[i].ready_since),
				   static_cast<long>(slot.state == State::ready ? slot.since : now_));
		if (in_order && taken[i].ready_since < last)
			broken("contract", "out of turn");
		last = taken[i].ready_since;
		messages += slot.count > 0 ? slot.count : 1;
		slot.last_token = taken[i].token;
		if (slot.state == State::ready)
			ring.ready--;
		slot.state = State::checked_out;
		slot.behind = slot.leased = slot.maybe_ready = slot.drained = slot.again = false;
		slot.since = taken[i].ready_since;
		slot.token = taken[i].token;
		slot.seen_epoch = taken[i].epoch;
		slot.seen_version = slot.taken_version = slot.version;
		slot.touched = now_;
		slot.owner = owner_of(session);
	}
	if (in_order)
		for (const ModelSlot &slot : ring.slots)
			if (slot.state == State::ready && slot.since < last)
				broken("contract", "one that was ready for longer was left");
	if (taken.size() < most && messages < want)
		for (const ModelSlot &slot : ring.slots)
			if (slot.state == State::ready || (servable(slot) && due < hotlist_steps))
				broken("contract", "took %zu of %u, and left one that is ready", taken.size(), most);
}

/* ---- rings ---- */

void
Model::gone(Group &group)
{
	const std::size_t parts = group.ring.slots.size();

	group.ring = ModelRing{};
	group.ring.slots.resize(parts);
}

/* Which rings are no more, that nobody asked to be forgotten. */
int
Model::survivors()
{
	int lost = 0;

	for (Group &group : groups_)
		if (group.ring.exists && !core::hotlist::ring_is(*pool_, group.ring.ref))
		{
			for (const ModelSlot &slot : group.ring.slots)
				if (judge_contract_ && slot.state == State::checked_out)
					broken("contract", "a ring with a candidate checked out was given up");
			gone(group);
			lost++;
		}
	return lost;
}

bool
Model::call_register(Session &session, int g)
{
	Group &group = groups_[g];
	const bool existed = group.ring.exists;
	const std::uint64_t id = group.ring.ref.id;
	const Registered registered = core::hotlist::ring_register(*pool_, group.key, now_, &session.ring);

	record("register", g, static_cast<int>(registered), session.ring.index, static_cast<std::int64_t>(session.ring.id));
	if (registered == Registered::full)
		return false;
	if (existed != (registered == Registered::found) || (existed && session.ring.id != id))
		broken("contract", "the ring was %s", existed ? "there, and made again" : "not there, and found");
	if (registered == Registered::created)
	{
		counts_.evicted += static_cast<std::uint64_t>(survivors());
		if (session.ring.id <= static_cast<std::uint64_t>(ids_))
			broken("contract", "a ring's id is not new");
		ids_ = static_cast<std::int64_t>(session.ring.id);
		group.ring.exists = true;
		group.ring.ref = session.ring;
	}
	compare_ring(group);
	return true;
}

void
Model::call_defer(int g, RingRef ref, const Deferral &deferral)
{
	Group &group = groups_[g];
	ModelRing &ring = group.ring;

	record("defer", g, deferral.delay, deferral.window);
	core::hotlist::ring_defer(*pool_, ref, deferral);
	if (ring.exists && ring.ref.id == ref.id)
	{
		if (deferral.delay < ring.deferral.delay || deferral.window < ring.deferral.window)
			ring.debts++;
		ring.deferral = deferral;
		ring.most_deferred = std::max({ring.most_deferred, deferral.delay, deferral.window});
	}
	compare_ring(group);
}

void
Model::call_forget(int g)
{
	Group &group = groups_[g];

	record("forget", g);
	core::hotlist::forget_ring(*pool_, group.key);
	if (group.ring.exists)
	{
		if (core::hotlist::ring_is(*pool_, group.ring.ref))
			broken("contract", "a forgotten ring is still there");
		gone(group);
	}
}

void
Model::call_forget_queue(int q)
{
	record("forget queue", q);
	core::hotlist::forget_queue(*pool_, queues_[q].key);
	for (const int g : queues_[q].groups)
		if (groups_[g].ring.exists)
			gone(groups_[g]);
	survivors();
}

void
Model::call_forget_tables(std::uint32_t database, std::uint32_t tables)
{
	std::uint32_t expected = 0;

	record("forget tables", database, tables);
	for (Group &group : groups_)
		if (group.ring.exists && group.key.queue.database == database &&
			(tables == 0 || group.key.queue.tables == tables))
		{
			gone(group);
			expected++;
		}
	if (core::hotlist::forget_tables(*pool_, database, tables) != expected || survivors() != 0)
		broken("contract", "forgot other rings than those of the tables");
}

void
Model::call_sweep()
{
	Row<int> needed;

	record("sweep");
	for (std::size_t g = 0; g < groups_.size(); g++)
		if (groups_[g].ring.exists && groups_[g].ring.served)
			needed.push_back(static_cast<int>(g));
	const std::uint32_t swept = core::hotlist::sweep(*pool_, now_);

	if (survivors() != static_cast<int>(swept))
		broken("contract", "says that it forgot %u rings", swept);
	for (const int g : needed)
		if (judge_contract_ && !groups_[g].ring.exists)
			broken("contract", "swept a ring that was served");
	counts_.swept += swept;
	for (Group &group : groups_)
		group.ring.served = group.ring.fresh = false;
}

/* ---- marks ---- */

void
Model::call_mark(int q, const Row<PushOf> &pushes)
{
	const Queue &queue = queues_[q];
	std::vector<core::hotlist::Mark> marks;
	std::uint32_t rings = 0;

	for (const PushOf &push : pushes)
		if (push.queue == q)
			marks.push_back({queue.parts[push.part].id, push.messages});
	record("mark", q, static_cast<std::int64_t>(marks.size()), pushes[0].part, pushes[0].messages);
	listen();
	const std::uint32_t marked = core::hotlist::mark(*pool_, queue.key, marks, now_, listener_);

	for (const int g : queue.groups)
	{
		Group &group = groups_[g];
		int ready = 0;

		if (!group.ring.exists)
			continue;
		rings++;
		for (const PushOf &push : pushes)
		{
			if (push.queue != q)
				continue;
			const bool was_idle = group.ring.slots[push.part].state == State::idle;
			const int before = group.ring.ready;

			slot_mark(group.ring, push.part, push.messages);
			not_idle_without_slot(group, push.part, was_idle);
			ready += group.ring.ready - before;
			touch(g, push.part);
		}
		heard(group.ring, ready, "mark");
		compare_ring(group);
	}
	heard_nothing_else("mark");
	if (marked != rings)
		broken("contract", "marked %u rings of %u", marked, rings);
}

void
Model::call_mark_ring(int g, int part)
{
	Group &group = groups_[g];

	record("mark_ring", g, part);
	listen();
	if (core::hotlist::mark_ring(*pool_, group.key, queues_[group.queue].parts[part].id, now_, listener_) !=
		group.ring.exists)
		broken("contract", "mark_ring says whether there is a ring");
	if (group.ring.exists)
	{
		const bool was_idle = group.ring.slots[part].state == State::idle;
		const int before = group.ring.ready;

		slot_mark_ring(group.ring, part);
		not_idle_without_slot(group, part, was_idle);
		heard(group.ring, group.ring.ready - before, "mark_ring");
	}
	heard_nothing_else("mark_ring");
	compare_ring(group);
	touch(g, part);
}

void
Model::call_promote(int g, int part, std::uint64_t lease)
{
	Group &group = groups_[g];

	record("promote", g, part, static_cast<std::int64_t>(lease));
	listen();
	core::hotlist::promote(*pool_, group.key, queues_[group.queue].parts[part].id, lease, now_, listener_);
	if (group.ring.exists)
	{
		ModelSlot &slot = group.ring.slots[part];

		/* it was ready already, where it is held though promote would have cleared it */
		if (slot.maybe_ready && core::hotlist::holds(*pool_, group.ring.ref, queues_[group.queue].parts[part].id))
			to_ready(group.ring, slot);
		heard(group.ring, slot_promote(group.ring, part, lease), "promote");
	}
	heard_nothing_else("promote");
	compare_ring(group);
	touch(g, part);
}

void
Model::call_unpark(int g, int part)
{
	Group &group = groups_[g];

	record("unpark", g, part);
	listen();
	core::hotlist::unpark(*pool_, group.key, queues_[group.queue].parts[part].id, now_, listener_);
	if (group.ring.exists)
		heard(group.ring, look_again(group.ring, group.ring.slots[part]), "unpark");
	heard_nothing_else("unpark");
	compare_ring(group);
	touch(g, part);
}

void
Model::call_owe(const TellOf &tell)
{
	Group &group = groups_[tell.group];

	record("owe", tell.group);
	listen();
	core::hotlist::owe_ring(*pool_, group.key, listener_);
	group.ring.debts += group.ring.exists;
	compare_ring(group);
}

void
Model::call_owe_queue(int q)
{
	record("owe queue", q);
	listen();
	core::hotlist::owe_queue(*pool_, queues_[q].key, listener_);
	for (const int g : queues_[q].groups)
	{
		groups_[g].ring.debts += groups_[g].ring.exists;
		compare_ring(groups_[g]);
	}
}

/* ---- serving ---- */

Row<Taken>
Model::call_take(Session &session, int g, std::uint32_t most, std::uint64_t want)
{
	Group &group = groups_[g];
	Row<Taken> taken(most);

	listen();
	taken.resize(
		core::hotlist::take(*pool_, session.ring, most, want, now_, owner_of(session), taken.data(), listener_));
	record("take", g, most, static_cast<std::int64_t>(want), static_cast<std::int64_t>(taken.size()));
	counts_.takes++;
	if (!group.ring.exists || group.ring.ref.id != session.ring.id)
	{
		if (!taken.empty())
			broken("contract", "took from a ring that is no more");
		drained_due(nullptr);
		return taken;
	}
	group.ring.served = true;
	compare_take(session, group, taken, most, want);
	if (taken.size() < most && want == UINT64_MAX)
		check_timely(g, taken);
	drained_due(&group.ring);
	compare_ring(group);
	for (const Taken &one : taken)
		touch(g, part_of(group, one.partition_id));
	return taken;
}

void
Model::call_check_in(int g, int part, RingRef ref, const Taken &taken, const Outcome &outcome)
{
	Group &group = groups_[g];
	ModelRing &ring = group.ring;
	const bool there = ring.exists && ring.ref.id == ref.id;
	int ready = 0;

	record("check in", g, part, static_cast<int>(outcome.verdict),
		   outcome.drained + 2 * outcome.may_clear + 4 * outcome.lease + 8 * outcome.reached);
	listen();
	const bool is_ready = core::hotlist::check_in(*pool_, ref, taken, outcome, now_, listener_);

	counts_.verdicts[static_cast<std::size_t>(outcome.verdict)]++;
	if (there)
		ready = slot_check_in(ring, part, taken, outcome);
	if (judge_contract_ && is_ready != (ready > 0))
		broken("contract", "check_in says that it is%s ready", is_ready ? "" : " not");
	if (there)
		heard(ring, ready, "check_in");
	heard_nothing_else("check_in");
	compare_ring(group);
	touch(g, part);
}

void
Model::call_drain(std::uint32_t most)
{
	Micros first = core::hotlist::never;

	record("drain", most);
	listen();
	const Micros next = core::hotlist::drain(*pool_, most, now_, listener_);

	drained_due(nullptr);
	heard_nothing_else("drain");
	for (const Group &group : groups_)
		if (group.ring.exists)
			for (const ModelSlot &slot : group.ring.slots)
				if (slot.state == State::parked && !slot.maybe_ready)
					first = std::min(first, slot.deadline);
	/* what is garbage may be due earlier */
	if (judge_contract_ && next > std::max(first, now_))
		broken("contract", "the next deadline is %ld us late", static_cast<long>(next - first));
}

/* ---- walks ---- */

bool
Model::call_begin_walk(Session &session)
{
	Group &group = groups_[session.group];
	ModelRing &ring = group.ring;
	const bool there = ring.exists && ring.ref.id == session.ring.id;
	const bool settled = there && core::hotlist::owes(*pool_, ring.ref, now_, 0) == Owes::nothing;
	const bool begun =
		core::hotlist::reseed_begin(*pool_, session.ring, now_, owner_of(session), alive, &session.ticket);

	record("begin walk", session.group, begun, session.ticket.resume_at);
	if (begun != (there && (!ring.walking || !alive(ring.walker))))
		broken("contract", "a walk %s", begun ? "began beside another, or of no ring" : "was refused");
	if (!begun)
		return false;
	if (session.ticket.ease != (ring.debts > ring.paid))
		broken("contract", "the ticket eases: %d", session.ticket.ease);
	if (session.ticket.settled != settled || session.ticket.resume_at != ring.resume_at)
		broken("contract", "the ticket is settled: %d, and goes on at %ld", session.ticket.settled,
			   static_cast<long>(session.ticket.resume_at));
	counts_.overtaken += ring.walking;
	counts_.walks++;
	ring.walking = true;
	ring.walker = owner_of(session);
	session.ticket_debts = ring.debts;
	session.made_ready = false;
	return true;
}

void
Model::call_row(Session &session, std::int64_t partition)
{
	Group &group = groups_[session.group];
	const bool there = group.ring.exists && group.ring.ref.id == session.ring.id;
	const Reseeded seen = core::hotlist::reseed_row(*pool_, &session.ticket, partition, now_, alive);

	record("row", session.group, partition, static_cast<int>(seen));
	if (there != (seen != Reseeded::gone))
		broken("contract", "a row of a ring that is %s", there ? "there" : "gone");
	if (!there)
		return;
	const int part = part_of(group, partition);

	if (slot_row(group.ring, part, seen, session.ticket.ease) > 0)
		session.made_ready = true;
	if (seen == Reseeded::full)
		counts_.refused++;
	compare_ring(group);
	touch(session.group, part);
}

void
Model::call_end_walk(Session &session, bool whole, std::int64_t stopped_at)
{
	Group &group = groups_[session.group];
	ModelRing &ring = group.ring;
	const bool there = ring.exists && ring.ref.id == session.ring.id;

	record("end walk", session.group, whole, stopped_at);
	listen();
	core::hotlist::reseed_end(*pool_, session.ticket, whole, stopped_at, 0, now_, listener_);
	if (!there)
		return;
	ring.walking = false;
	ring.resume_at = whole ? 0 : stopped_at;
	if (whole)
		ring.paid = std::max(ring.paid, session.ticket_debts);
	if (session.made_ready && ring.ready > 0 && heard_.calls == 0)
		broken("contract", "a walk made candidates ready, and nobody is told");
	compare_ring(group);
	for (std::size_t part = 0; part < group.cursors.size(); part++)
		touch(session.group, static_cast<int>(part));
}

} // namespace queen::test
