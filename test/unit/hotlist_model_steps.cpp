/*
 * hotlist_model_steps.cpp: the steps of sessions, one call of the list at most each, as src/hotlist/README.md has it for backends; and
 * what happens beside them.
 */
#include "hotlist_model.h"

#include <algorithm>

namespace queen::test
{

namespace hotlist = core::hotlist;
using hotlist::Owes;

/* ---- steps ---- */

void
Model::begin_walk(Session &session)
{
	if (call_begin_walk(session))
		plan(session, {{Do::walk_snapshot}});
}

/* All that is pending, and what a prepared transaction will make pending without another word; and some that is neither. */
void
Model::walk_snapshot(Session &session)
{
	const Group &group = groups_[session.group];
	const Queue &queue = queues_[group.queue];

	session.rows.clear();
	for (int part = 0; part < shape_.parts; part++)
	{
		bool named = pending(group, part) || dice_.chance(10);

		for (const Segment &segment : queue.parts[part].log)
			named = named || segment.fate == Fate::prepared;
		if (named)
			session.rows.push_back(queue.parts[part].id);
	}
	std::rotate(session.rows.begin(),
				std::lower_bound(session.rows.begin(), session.rows.end(), session.ticket.resume_at),
				session.rows.end());
	session.row = 0;
	session.cut_at = dice_.chance(10) ? static_cast<std::size_t>(dice_.below(shape_.parts)) : SIZE_MAX;
	plan(session, {{Do::walk_row}});
}

void
Model::walk_row(Session &session)
{
	if (session.row >= session.rows.size() || session.row >= session.cut_at)
	{
		const bool whole = session.row >= session.rows.size();

		call_end_walk(session, whole, whole ? 0 : session.rows[session.row]);
		return;
	}
	call_row(session, session.rows[session.row++]);
	plan(session, {{Do::walk_row}});
}

/* Did the transaction, before this moment, change what a claim of the partition sees? */
bool
Model::changed(const Session &session, int g, int part) const
{
	const Transaction &tx = session.tx;

	return std::any_of(tx.pushes.begin(), tx.pushes.end(),
					   [&](const PushOf &push) { return push.queue == groups_[g].queue; }) ||
		   std::any_of(tx.changes.begin(), tx.changes.end(),
					   [&](const ChangeOf &change) { return change.group == g && change.part == part; }) ||
		   std::any_of(tx.tells.begin(), tx.tells.end(), [&](const TellOf &tell) { return tell.group == g; });
}

void
Model::claim(Session &session)
{
	const Taken &taken = session.taken[session.at++];
	const int g = session.group;
	const int part = part_of(groups_[g], taken.partition_id);
	TookOf took{g, part, session.ring, taken, {}};
	Outcome &outcome = took.outcome;

	if (session.at < session.taken.size())
		plan(session, {{Do::claim}});
	if (session.budget <= 0)
	{
		session.found.push_back(took);
		return;
	}
	if (session.refreshes)
		session.snapshot = commits_;
	counts_.probes++;
	Claim claim = look(session, g, part, session.snapshot, session.budget);

	outcome.verdict = claim.verdict;
	outcome.until = claim.until;
	outcome.may_clear = !changed(session, g, part);
	if (dice_.chance(2)) /* an error, caught: its subtransaction rolls back */
	{
		outcome = {};
		outcome.reached = true;
	}
	else if (claim.verdict == Verdict::took)
	{
		Cursor &cursor = claim.cursor;

		lock(session, g, part);
		session.budget -= claim.messages;
		outcome.drained = claim.drained && !session.nacks_too;
		cursor.blocked_until = 0;
		if (session.nacks_too)
		{
			cursor = cursor_of(session, g, part);
			cursor.lease = 0;
			cursor.blocked_until = dice_.chance(50) ? now_ + dice_.from(1, 500) * millisecond : 0;
			session.tx.tells.push_back({TellOf::What::mark_ring, g, part});
		}
		else if (session.auto_ack)
			cursor.lease = 0;
		else
		{
			outcome.lease = true;
			outcome.lease_number = ++leases_made_;
			outcome.until = now_ + shape_.lease;
			cursor.lease_end = cursor.next;
			cursor.next = cursor_of(session, g, part).next;
			cursor.lease = outcome.lease_number;
			cursor.lease_until = outcome.until;
			if (leases_.size() > 64)
				leases_.erase(leases_.begin());
			leases_.push_back({g, part, cursor.lease, cursor.lease_end});
		}
		change(session, g, part, cursor);
		session.tx.took.push_back(took);
		return;
	}
	session.found.push_back(took);
}

/* Visible; what the list must hear comes call by call, and others act in between. */
void
Model::after_commit(Session &session)
{
	Transaction &tx = session.tx;
	Row<int> queues;

	plan(session, {{Do::end}});
	if (tx.drops_group >= 0 || tx.drops_queue >= 0)
		plan(session, {{Do::forget}});
	for (int i = static_cast<int>(tx.tells.size()) - 1; i >= 0; i--)
		plan(session, {{Do::ring_calls, i}});
	for (int i = static_cast<int>(tx.took.size()) - 1; i >= 0; i--)
		plan(session, {{Do::check_in_took, i}});
	for (const PushOf &push : tx.pushes)
		if (std::find(queues.begin(), queues.end(), push.queue) == queues.end())
		{
			queues.push_back(push.queue);
			plan(session, {{tx.overflowed ? Do::owe_queue : Do::mark, push.queue}});
		}
	if (tx.births_group_of >= 0 && queues_[tx.births_group_of].live && groups_.size() < groups_made)
		add_group(tx.births_group_of, dice_.chance(30));
	if (tx.drops_group >= 0)
		groups_[tx.drops_group].live = false;
	if (tx.drops_queue < 0)
		return;

	const QueueKey dropped = queues_[tx.drops_queue].key;

	for (std::size_t q = 0, n = queues_.size(); q < n; q++)
		if (queues_[q].live &&
			(tx.drops_tables ? queues_[q].key.database == dropped.database && queues_[q].key.tables == dropped.tables
							 : static_cast<int>(q) == tx.drops_queue))
		{
			const QueueKey key = queues_[q].key;

			queues_[q].live = false;
			for (const int g : queues_[q].groups)
				groups_[g].live = false;
			/* what is made again has other keys, though parts of them are what they were */
			add_group(add_queue(key.database, key.tables + tx.drops_tables * 10,
								tx.drops_tables ? key.queue_id : static_cast<std::int64_t>(queues_.size()) + 1),
					  false);
		}
}

/* An error ends the transaction before it was visible: whatever is checked out goes back. */
void
Model::give_up(Session &session)
{
	session.plan.clear();
	plan(session, {{Do::undo}});
	roll_back(session);
}

/* It is gone, and told nobody. */
void
Model::vanish(Session &session)
{
	record("vanish");
	roll_back(session);
	session.plan.clear();
	end(session);
}

void
Model::end(Session &session)
{
	session.serial++;
	session.at = 0;
	session.tx = {};
	session.taken.clear();
	session.found.clear();
}

void
Model::perform(Session &session, const Step &step)
{
	Transaction &tx = session.tx;

	switch (step.what)
	{
		case Do::append:
			append(session, step.a, step.b, step.c);
			record("append", step.a, step.b, step.c);
			break;
		case Do::visible:
			record("visible");
			make_visible(session);
			after_commit(session);
			break;
		case Do::abort:
			record("abort");
			give_up(session);
			break;
		case Do::undo:
		{
			TookOf one;

			if (session.at < session.taken.size())
			{
				const Taken &taken = session.taken[session.at++];

				one = {session.group, part_of(groups_[session.group], taken.partition_id), session.ring, taken, {}};
			}
			else if (Row<TookOf> &left = session.found.empty() ? tx.took : session.found; !left.empty())
			{
				one = left.back();
				left.pop_back();
				one.outcome = {};
				one.outcome.reached = true;
			}
			else if (!tx.tells.empty())
			{
				const TellOf tell = tx.tells.back();

				/* whoever met the row locked looks again */
				tx.tells.pop_back();
				plan(session, {{Do::undo}});
				call_unpark(tell.group, tell.part);
				break;
			}
			else if (!tx.pushes.empty())
			{
				/* whoever waits behind them goes on */
				const int queue = tx.pushes.back().queue;
				Row<PushOf> pushes = tx.pushes;

				std::erase_if(pushes, [&](const PushOf &push) { return push.queue != queue; });
				std::erase_if(tx.pushes, [&](const PushOf &push) { return push.queue == queue; });
				plan(session, {{Do::undo}});
				call_mark(queue, pushes);
				break;
			}
			else
			{
				end(session);
				break;
			}
			plan(session, {{Do::undo}});
			call_check_in(one.group, one.part, one.ring, one.taken, one.outcome);
			break;
		}
		case Do::prepare:
			record("prepare");
			tx.past = true;
			for (const PushOf &push : tx.pushes)
				settle(push, Fate::prepared);
			prepared_.push_back({tx.pushes});
			for (const PushOf &push : tx.pushes)
				queues_[push.queue].parts[push.part].unmarked++;
			after_commit(session);
			break;
		case Do::mark:
		case Do::owe_queue:
			if (step.what == Do::mark)
			{
				Row<PushOf> pushes = tx.pushes;

				std::erase_if(pushes, [&](const PushOf &push) { return push.queue != step.a; });
				call_mark(step.a, pushes);
			}
			else
				call_owe_queue(step.a);
			for (const PushOf &push : tx.pushes)
				if (push.queue == step.a)
					queues_[push.queue].parts[push.part].unmarked--;
			break;
		case Do::ring_calls:
		{
			const TellOf tell = tx.tells[step.a];

			if (tell.what == TellOf::What::owe_ring)
			{
				call_owe(tell);
				groups_[tell.group].unowed--;
				break;
			}
			if (tell.what == TellOf::What::promote)
				call_promote(tell.group, tell.part, tell.lease);
			else if (tell.what == TellOf::What::unpark)
				call_unpark(tell.group, tell.part);
			else
				call_mark_ring(tell.group, tell.part);
			groups_[tell.group].unmarked[tell.part]--;
			break;
		}
		case Do::pop:
			session.options = queues_[groups_[session.group].queue].options;
			session.taken.clear();
			session.at = 0;
			break;
		case Do::register_ring:
			if (!call_register(session, session.group))
			{
				finish(session);
				break;
			}
			plan(session, {{Do::defer}, {Do::take}});
			break;
		case Do::defer:
			call_defer(session.group, session.ring, session.options);
			if (hotlist::owes(*pool_, session.ring, now_, dice_.chance(50) ? 0 : 30 * second) != Owes::nothing &&
				dice_.chance(70))
				plan(session, {{Do::begin_walk}});
			break;
		case Do::begin_walk:
			begin_walk(session);
			break;
		case Do::walk_snapshot:
			walk_snapshot(session);
			break;
		case Do::walk_row:
			walk_row(session);
			break;
		case Do::take:
			session.taken =
				call_take(session, session.group, static_cast<std::uint32_t>(dice_.chance(40) ? 64 : dice_.from(1, 4)),
						  dice_.chance(70) ? UINT64_MAX : static_cast<std::uint64_t>(dice_.from(1, 8)));
			session.at = 0;
			plan(session, {{Do::end_pop}});
			if (!session.taken.empty())
				plan(session, {{Do::snapshot}, {Do::claim}});
			break;
		case Do::snapshot:
			session.snapshot = commits_;
			break;
		case Do::claim:
			claim(session);
			break;
		case Do::end_pop:
			if (session.found.empty())
				work(session);
			else
			{
				const TookOf one = session.found.back();

				session.found.pop_back();
				plan(session, {{Do::end_pop}});
				call_check_in(one.group, one.part, one.ring, one.taken, one.outcome);
			}
			break;
		case Do::work:
			work(session);
			break;
		case Do::check_in_took:
		{
			TookOf &took = tx.took[step.a];

			took.outcome.may_clear =
				took.outcome.may_clear && std::none_of(tx.tells.begin(), tx.tells.end(),
													   [&](const TellOf &tell) { return tell.group == took.group; });
			call_check_in(took.group, took.part, took.ring, took.taken, took.outcome);
			groups_[took.group].unmarked[took.part]--;
			break;
		}
		case Do::forget:
			if (tx.drops_group >= 0)
				call_forget(tx.drops_group);
			else if (tx.drops_tables)
				call_forget_tables(queues_[tx.drops_queue].key.database, queues_[tx.drops_queue].key.tables);
			else
				call_forget_queue(tx.drops_queue);
			break;
		case Do::end:
			end(session);
			break;
	}
}

/* ---- the world ---- */

void
Model::world_step()
{
	const int kind = dice_.below(100);

	if (kind < 60)
		now_ += dice_.chance(99) ? dice_.from(1, 3000) : dice_.from(1, 700) * millisecond;
	else if (kind < 80)
		call_drain(dice_.chance(80) ? 1000 : 1);
	else if (kind < 90 && !prepared_.empty())
	{
		const std::size_t at = static_cast<std::size_t>(dice_.below(static_cast<int>(prepared_.size())));

		/* not while whoever prepared it has not marked */
		for (const PushOf &push : prepared_[at].pushes)
			if (queues_[push.queue].parts[push.part].unmarked > 0)
				return;
		end_prepared(at, dice_.chance(80) ? Fate::committed : Fate::aborted);
	}
	else if (kind < 92)
	{
		if (dice_.chance(4))
			call_sweep();
	}
	else
		check_statistics();
}

void
Model::step()
{
	counts_.steps++;
	if (dice_.chance(8))
	{
		running_ = -1;
		world_step();
	}
	else
	{
		running_ = dice_.below(shape_.sessions);
		Session &session = sessions_[static_cast<std::size_t>(running_)];

		if (session.sleeps > 0 && !quiet_)
		{
			session.sleeps--;
			return;
		}
		if (session.plan.empty())
		{
			if (!quiet_)
				choose(session);
			return;
		}
		if (!session.tx.past && dice_.chance(1))
		{
			const bool undoing = session.plan.back().what == Do::undo;

			if (shape_.vanishes && dice_.chance(20) && session.plan.back().what != Do::end)
			{
				vanish(session);
				return;
			}
			if (!undoing && session.plan.back().what != Do::end)
			{
				record("error");
				give_up(session);
				return;
			}
		}
		const Step step = session.plan.back();

		if (dice_.chance(session.tx.changes.empty() ? 1 : 5)) /* others do much meanwhile */
			session.sleeps = dice_.from(10, 200);
		session.plan.pop_back();
		perform(session, step);
	}
	for (const auto &[group, part] : touched_)
		check_pair(group, part);
	touched_.clear();
	if (counts_.steps % 64 == 0)
		check_everything();
}

} // namespace queen::test
