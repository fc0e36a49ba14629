/*
 * hotlist_model_sessions.cpp: what sessions choose to do, as plans of steps. What a backend does at once, under the locks of its own
 * rows, is done when it is chosen.
 */
#include "hotlist_model.h"

#include <algorithm>

namespace queen::test
{

namespace hotlist = core::hotlist;

/* ---- plans ---- */

void
Model::plan(Session &session, std::initializer_list<Step> steps)
{
	session.plan.insert(session.plan.end(), std::rbegin(steps), std::rend(steps));
}

int
Model::draw_group()
{
	for (int tries = 0; tries < 8; tries++)
	{
		const int g = dice_.below(static_cast<int>(groups_.size()));

		if (groups_[g].live || dice_.chance(5))
			return g;
	}
	return dice_.below(static_cast<int>(groups_.size()));
}

int
Model::draw_queue()
{
	int q;

	do
		q = dice_.below(static_cast<int>(queues_.size()));
	while (!queues_[q].live);
	return q;
}

void
Model::finish(Session &session)
{
	if (dice_.chance(8))
		plan(session, {{Do::abort}});
	else
		plan(session, {{Do::visible}});
}

void
Model::choose(Session &session)
{
	const int kind = dice_.below(100);

	if (kind < 32)
		plan_push(session);
	else if (kind < 62)
		plan_pop(session);
	else if (kind < 90)
		plan_ack(session);
	else if (kind < 92)
		plan_seek(session);
	else if (kind < 96)
		plan_pinned(session);
	else if (kind < 98)
	{
		/* the keeper's walk: of a ring that somebody else made */
		session.group = draw_group();
		if (hotlist::ring_find(*pool_, groups_[session.group].key, &session.ring) != groups_[session.group].ring.exists)
			broken("contract", "ring_find says whether there is a ring");
		if (groups_[session.group].ring.exists)
			plan(session, {{Do::begin_walk}, {Do::end}});
	}
	else
		plan_changes(session);
}

void
Model::plan_push(Session &session)
{
	finish(session);
	if (session.plan.back().what == Do::visible && dice_.chance(6))
		session.plan.back().what = Do::prepare;
	session.tx.overflowed = dice_.chance(5);
	pick_partitions(session);
}

void
Model::pick_partitions(Session &session)
{
	const int q = draw_queue();

	for (int n = dice_.chance(70) ? 1 : dice_.from(2, 5); n > 0; n--)
		plan(session, {{Do::append, dice_.chance(90) ? q : draw_queue(), dice_.below(shape_.parts), dice_.from(1, 4)}});
}

void
Model::plan_pop(Session &session)
{
	session.group = draw_group();
	session.auto_ack = dice_.chance(40);
	session.nacks_too = dice_.chance(4);
	session.refreshes = dice_.chance(50);
	session.budget = dice_.chance(50) ? dice_.from(1, 6) : 1000;
	plan(session, {{Do::pop}, {Do::register_ring}});
}

/* The transaction has changed cursors, and perhaps pops, too. */
void
Model::pop_or_finish(Session &session)
{
	if (dice_.chance(85))
	{
		finish(session);
		return;
	}
	plan_pop(session);
	if (dice_.chance(70))
		session.group = session.tx.changes.empty() ? session.group : session.tx.changes.back().group;
}

/* The transaction changes something of its own after a pop. */
void
Model::work(Session &session)
{
	const int kind = dice_.below(100);

	finish(session);
	if (kind < 10)
		pick_partitions(session);
	else if (kind < 18)
	{
		session.group = dice_.chance(50) ? session.group : draw_group();
		plan(session, {{Do::pop}, {Do::register_ring}, {Do::work}});
		session.plan.erase(session.plan.end() - 4); /* it finishes after the other pop */
	}
}

void
Model::plan_ack(Session &session)
{
	if (leases_.empty())
		return;
	const std::size_t at = static_cast<std::size_t>(dice_.below(static_cast<int>(leases_.size())));
	const Lease lease = leases_[at];
	Cursor cursor = cursor_of(session, lease.group, lease.part);
	const int kind = dice_.below(100);
	TellOf tell{TellOf::What::mark_ring, lease.group, lease.part};
	bool over = true;

	if (cursor.lease != lease.lease || cursor.lease_until <= now_ || !groups_[lease.group].live)
	{
		leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(at));
		return;
	}
	if (!lock(session, lease.group, lease.part))
		return;
	if (kind < 70)
	{
		cursor.next = cursor.lease_end;
		tell.what = TellOf::What::promote;
		tell.lease = lease.lease;
	}
	else if (kind < 78) /* some of it */
	{
		cursor.next += dice_.below(static_cast<int>(cursor.lease_end - cursor.next));
		tell.what = TellOf::What::unpark;
		over = false;
	}
	else if (kind < 86) /* nack */
	{
		cursor.next += dice_.below(static_cast<int>(cursor.lease_end - cursor.next));
		cursor.blocked_until = dice_.chance(50) ? now_ + dice_.from(1, 2000) * millisecond : 0;
	}
	else if (kind < 92) /* extend */
	{
		cursor.lease_until = now_ + shape_.lease;
		tell.what = TellOf::What::unpark;
		over = false;
	}
	if (over)
	{
		cursor.lease = 0;
		leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(at));
	}
	change(session, lease.group, lease.part, cursor);
	session.tx.tells.push_back(tell);
	pop_or_finish(session);
}

void
Model::plan_seek(Session &session)
{
	const int g = draw_group();
	const Queue &queue = queues_[groups_[g].queue];
	const bool all = dice_.chance(50);
	bool owes = false;

	for (int part = 0; part < shape_.parts; part++)
	{
		const Part &log = queue.parts[part];

		if ((!all && !dice_.chance(25)) || log.log.empty() || !lock(session, g, part))
			continue;
		Cursor cursor = cursor_of(session, g, part);
		const std::int64_t oldest = log.log.front().first;
		const std::int64_t to = oldest + dice_.below(static_cast<int>(log.tail - oldest + 1));
		const bool back = to < cursor.next || cursor.lease != 0 || cursor.blocked_until > now_;

		cursor = {};
		cursor.next = to;
		change(session, g, part, cursor);
		if (all)
			owes = owes || back;
		else if (back)
			session.tx.tells.push_back({TellOf::What::mark_ring, g, part});
	}
	if (owes)
		session.tx.tells.push_back({TellOf::What::owe_ring, g, 0});
	pop_or_finish(session);
}

/* A pop of one partition, which asks the list for nothing. */
void
Model::plan_pinned(Session &session)
{
	const int g = draw_group();
	const int part = dice_.below(shape_.parts);
	Claim claim;

	session.options = queues_[groups_[g].queue].options;
	claim = look(session, g, part, commits_, dice_.from(1, 8));
	if (claim.verdict != Verdict::took || !lock(session, g, part))
		return;
	if (dice_.chance(50))
	{
		claim.cursor.lease = 0;
		claim.cursor.blocked_until = 0;
	}
	else
	{
		claim.cursor.lease_end = claim.cursor.next;
		claim.cursor.next = cursor_of(session, g, part).next;
		claim.cursor.lease = ++leases_made_;
		claim.cursor.lease_until = now_ + shape_.lease;
		leases_.push_back({g, part, claim.cursor.lease, claim.cursor.lease_end});
	}
	change(session, g, part, claim.cursor);
	session.tx.tells.push_back({TellOf::What::unpark, g, part});
	pop_or_finish(session);
}

void
Model::plan_changes(Session &session)
{
	const int kind = dice_.below(100);
	Transaction &tx = session.tx;

	if (kind < 35 && shape_.defers)
	{
		static constexpr Micros waits[] = {0, 0, 20 * millisecond, 300 * millisecond, 3 * second};

		tx.options_of = draw_queue();
		tx.options.delay = dice_.chance(50) ? 0 : waits[dice_.below(5)];
		tx.options.window = dice_.chance(40) ? 0 : waits[dice_.below(5)];
	}
	else if (kind < 50 && groups_.size() < groups_made)
		tx.births_group_of = draw_queue();
	else if (kind < 65)
		tx.drops_group = draw_group();
	else if (kind < 80 && shape_.drops && queues_.size() < queues_made)
	{
		tx.drops_queue = draw_queue();
		tx.drops_tables = dice_.chance(30);
	}
	else
		return;
	finish(session);
}

} // namespace queen::test
