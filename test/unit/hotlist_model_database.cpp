/*
 * hotlist_model_database.cpp: the oracle: logs, cursors and leases, what is visible to whom, and what a claim finds.
 */
#include "hotlist_model.h"

#include <algorithm>

namespace queen::test
{

using core::hotlist::never;

namespace
{

constexpr std::size_t log_kept = 24;

} // namespace

int
Model::add_queue(std::uint32_t database, std::uint32_t tables, std::int64_t id)
{
	Queue queue;

	queue.key = {database, tables, id};
	/* the same ids in all databases, and in all incarnations of a queue */
	for (int i = 0; i < shape_.parts; i++)
		queue.parts.push_back({.id = id * 1000 + i * 7 + 1, .log = {}});
	queues_.push_back(std::move(queue));
	return static_cast<int>(queues_.size()) - 1;
}

int
Model::add_group(int queue, bool latest)
{
	Queue &q = queues_[queue];
	Group group;

	/* ids as a sequence of each database gives them: equal ones in different databases */
	group.key = {q.key, static_cast<std::int64_t>(q.groups.size()) + 1};
	group.queue = queue;
	for (const Part &part : q.parts)
	{
		Cursor cursor;

		cursor.next = latest ? part.tail : 0;
		for (const Segment &segment : part.log) /* latest includes what its snapshot could not see */
			if (latest && (segment.fate == Fate::running || segment.fate == Fate::prepared))
				cursor.next = std::min(cursor.next, segment.first);
		cursor.moved = now_;
		group.cursors.push_back(cursor);
	}
	group.unmarked.resize(q.parts.size());
	group.locked.resize(q.parts.size());
	group.ring.slots.resize(q.parts.size());
	groups_.push_back(std::move(group));
	q.groups.push_back(static_cast<int>(groups_.size()) - 1);
	return q.groups.back();
}

std::uint64_t
Model::transaction_of(const Session &session) const
{
	const auto index = static_cast<std::uint64_t>(&session - sessions_.data());

	return (index + 1) << 32 | session.serial;
}

bool
Model::pending(const Group &group, int part) const
{
	return queues_[group.queue].parts[part].committed_end > group.cursors[part].next;
}

/* Since when a claim by whoever comes would take something; what it may be behind of is not asked for when nothing is running. */
Micros
Model::claimable_since(const Group &group, int part) const
{
	const Queue &queue = queues_[group.queue];
	const Part &log = queue.parts[part];
	const Cursor &cursor = group.cursors[part];
	Micros since = std::max({cursor.moved, cursor.blocked_until, cursor.lease != 0 ? cursor.lease_until : 0});
	Micros newest = 0;

	if (group.locked[part] != 0 || since > now_)
		return never;
	for (const Segment &segment : log.log)
	{
		if (segment.fate == Fate::committed)
			newest = segment.created;
		if (segment.end > cursor.next) /* what waited behind a push was told of nothing when it ended */
			since = std::max(since, segment.settled);
	}
	for (const Segment &segment : log.log)
	{
		if (segment.fate == Fate::aborted || segment.end <= cursor.next)
			continue;
		if (segment.fate != Fate::committed)
			return never;
		since = std::max(since, segment.created + queue.options.delay);
		if (queue.options.window > 0)
			since = std::max(since, newest + queue.options.window);
		return since <= now_ ? since : never;
	}
	return never;
}

Cursor
Model::cursor_of(const Session &session, int group, int part) const
{
	for (auto change = session.tx.changes.rbegin(); change != session.tx.changes.rend(); ++change)
		if (change->group == group && change->part == part)
			return change->cursor;
	return groups_[group].cursors[part];
}

bool
Model::lock(Session &session, int group, int part)
{
	std::uint64_t &locked = groups_[group].locked[part];

	if (locked != 0 && locked != transaction_of(session))
		return false;
	locked = transaction_of(session);
	return true;
}

void
Model::change(Session &session, int group, int part, const Cursor &cursor)
{
	session.tx.changes.push_back({group, part, cursor});
}

/*
 * What a claim finds: the cursor as it is now, the log as the snapshot has it and, where that ends, as a dirty look has it. It
 * locks nothing: the caller does, before.
 */
Claim
Model::look(const Session &session, int g, int p, std::uint64_t snapshot, std::int64_t budget) const
{
	const Group &group = groups_[g];
	const Queue &queue = queues_[group.queue];
	const Part &log = queue.parts[p];
	Claim claim;
	Micros newest = 0;

	if (!group.live || !queue.live)
		return claim;
	if (group.locked[p] != 0 && group.locked[p] != transaction_of(session))
	{
		claim.verdict = Verdict::locked;
		return claim;
	}
	claim.cursor = cursor_of(session, g, p);
	if (claim.cursor.lease != 0 && claim.cursor.lease_until > now_)
	{
		claim.verdict = Verdict::leased;
		claim.until = claim.cursor.lease_until;
		return claim;
	}
	if (claim.cursor.blocked_until > now_)
	{
		claim.verdict = Verdict::deferred;
		claim.until = claim.cursor.blocked_until;
		return claim;
	}
	std::int64_t waiting = 0, next = claim.cursor.next;

	/* A dirty look at the end of what it sees finds what is committed since, and the claim looks again. Here only where it
	 * must: who prepared marked then, and says nothing now. Of any other push the mark is still to come. */
	for (const Segment &segment : log.log)
		if (segment.end > next && segment.was_prepared && segment.fate == Fate::committed)
			snapshot = std::max(snapshot, segment.visible_at);
	const auto visible = [&](const Segment &segment) {
		return segment.fate == Fate::committed && segment.visible_at <= snapshot;
	};

	for (const Segment &segment : log.log)
		if (visible(segment) && segment.end > next)
		{
			newest = segment.created;
			waiting += segment.end - std::max(segment.first, next);
		}
	if (waiting > 0 && session.options.window > 0 && newest + session.options.window > now_ &&
		waiting < static_cast<std::int64_t>(shape_.window_batch))
	{
		claim.verdict = Verdict::deferred;
		claim.until = newest + session.options.window;
		return claim;
	}
	for (const Segment &segment : log.log)
	{
		if (segment.fate == Fate::aborted || segment.end <= next)
			continue;
		if (!visible(segment))
		{
			if (claim.messages == 0 && segment.fate != Fate::committed)
				claim.verdict = Verdict::behind_push;
			break;
		}
		if (segment.created + session.options.delay > now_)
		{
			if (claim.messages == 0)
			{
				claim.verdict = Verdict::deferred;
				claim.until = segment.created + session.options.delay;
			}
			break;
		}
		const std::int64_t from = std::max(segment.first, next);
		const std::int64_t most = std::min(segment.end - from, budget - claim.messages);

		claim.messages += most;
		next = claim.cursor.next = from + most;
		if (next < segment.end)
			break;
	}
	if (claim.messages > 0)
		claim.verdict = Verdict::took;
	claim.drained = claim.messages > 0 && std::none_of(log.log.begin(), log.log.end(), [&](const Segment &segment) {
						return segment.end > next && (visible(segment) || segment.fate == Fate::prepared);
					});
	return claim;
}

/* The push is in its log, at PRE_COMMIT; nobody sees it. */
void
Model::append(Session &session, int queue, int part, int messages)
{
	Part &log = queues_[queue].parts[part];
	const std::uint64_t number = ++numbers_;

	log.log.push_back({.first = log.tail,
					   .end = log.tail + messages,
					   .created = std::max(now_, log.log.empty() ? 0 : log.log.back().created),
					   .number = number,
					   .visible_at = 0,
					   .settled = now_,
					   .fate = Fate::running,
					   .was_prepared = false});
	log.tail += messages;
	session.tx.pushes.push_back({queue, part, number, static_cast<std::uint32_t>(messages)});
}

void
Model::settle(const PushOf &push, Fate fate)
{
	Part &log = queues_[push.queue].parts[push.part];

	for (auto segment = log.log.rbegin(); segment != log.log.rend(); ++segment)
		if (segment->number == push.number)
		{
			segment->fate = fate;
			segment->was_prepared = segment->was_prepared || fate == Fate::prepared;
			segment->visible_at = commits_;
			segment->settled = now_;
			if (fate == Fate::committed)
			{
				log.committed_end = std::max(log.committed_end, segment->end);
				counts_.pushed += push.messages;
			}
		}
	trim(log);
}

/* What no cursor can come back to is forgotten. Nothing that runs, and never the newest. */
void
Model::trim(Part &part)
{
	std::size_t gone = 0;

	if (part.log.size() <= log_kept * 2)
		return;
	while (part.log.size() - gone > log_kept &&
		   (part.log[gone].fate == Fate::committed || part.log[gone].fate == Fate::aborted) &&
		   part.log[gone].end < part.committed_end)
		gone++;
	part.log.erase(part.log.begin(), part.log.begin() + static_cast<std::ptrdiff_t>(gone));
}

void
Model::unlock(Session &session)
{
	const std::uint64_t me = transaction_of(session);

	for (Group &group : groups_)
		std::replace(group.locked.begin(), group.locked.end(), me, std::uint64_t{0});
}

/* The transaction has left the list of running ones: rows are visible and unlocked, and the list has heard nothing yet. */
void
Model::make_visible(Session &session)
{
	Transaction &tx = session.tx;

	commits_++;
	tx.past = true;
	for (const PushOf &push : tx.pushes)
	{
		settle(push, Fate::committed);
		queues_[push.queue].parts[push.part].unmarked++;
	}
	for (const ChangeOf &change : tx.changes)
	{
		Cursor &cursor = groups_[change.group].cursors[change.part];

		cursor = change.cursor;
		cursor.moved = now_;
	}
	for (const TellOf &tell : tx.tells)
	{
		if (tell.what == TellOf::What::owe_ring)
			groups_[tell.group].unowed++;
		else
			groups_[tell.group].unmarked[tell.part]++;
	}
	for (const TookOf &took : tx.took)
		groups_[took.group].unmarked[took.part]++;
	if (tx.options_of >= 0 && queues_[tx.options_of].live)
	{
		Queue &queue = queues_[tx.options_of];

		queue.options = tx.options;
		queue.most_deferred = std::max({queue.most_deferred, tx.options.delay, tx.options.window});
	}
	unlock(session);
	session.serial++; /* whoever asks finds its transaction gone, though it has check-outs to give back */
}

void
Model::roll_back(Session &session)
{
	for (const PushOf &push : session.tx.pushes)
		settle(push, Fate::aborted);
	unlock(session);
	session.serial++;
}

} // namespace queen::test
