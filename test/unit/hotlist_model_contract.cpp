/*
 * hotlist_model_contract.cpp: the tables of src/core/hotlist/README.md once more, for slots that lie side by side and never run out.
 *
 * Each function returns how many candidates became ready, which the listener must have been told.
 */
#include "hotlist_model.h"

#include <algorithm>

namespace queen::test
{

using core::hotlist::behind_push_park;
using core::hotlist::lease_park_cap;
using core::hotlist::locked_park;
using core::hotlist::pad;
using core::hotlist::Reseeded;
using State = ModelSlot::State;

bool
Model::defers(const ModelRing &ring) const
{
	return ring.deferral.delay > 0 || ring.deferral.window > 0;
}

bool
Model::windows(const ModelRing &ring) const
{
	return ring.deferral.window > 0 && ring.deferral.delay == 0;
}

int
Model::to_ready(ModelRing &ring, ModelSlot &slot, bool in_front)
{
	slot.state = State::ready;
	slot.behind = slot.leased = slot.maybe_ready = false;
	if (!in_front)
		slot.since = now_;
	ring.ready++;
	return 1;
}

void
Model::to_idle(ModelRing &, ModelSlot &slot)
{
	const ModelSlot old = slot;

	slot = ModelSlot{};
	slot.version = old.version + 1; /* whatever is made here again is not what was here */
	slot.seen_epoch = old.seen_epoch;
	slot.seen_version = old.seen_version;
	slot.last_token = old.last_token;
	slot.touched = now_;
}

int
Model::park(ModelRing &, ModelSlot &slot, Micros deadline)
{
	slot.state = State::parked;
	slot.deadline = deadline;
	slot.behind = slot.leased = slot.maybe_ready = false;
	slot.lease = 0;
	return 0;
}

int
Model::slot_mark(ModelRing &ring, int part, std::uint64_t messages)
{
	ModelSlot &slot = ring.slots[part];
	const bool full = slot.count + messages >= shape_.window_batch;

	slot.version++;
	slot.count += messages;
	slot.touched = now_;
	switch (slot.state)
	{
		case State::idle:
			if (ring.deferral.delay > 0)
				return park(ring, slot, now_ + ring.deferral.delay);
			if (ring.deferral.window > 0 && !full)
				return park(ring, slot, now_ + ring.deferral.window);
			return to_ready(ring, slot);
		case State::parked:
			if (slot.behind)
				return to_ready(ring, slot);
			if (windows(ring))
				return full && !slot.leased ? to_ready(ring, slot) : 0;
			if (!defers(ring) && slot.deadline <= now_ + pad)
				return to_ready(ring, slot);
			return 0;
		case State::ready:
		case State::checked_out:
			return 0;
	}
	return 0;
}

int
Model::slot_mark_ring(ModelRing &ring, int part)
{
	ModelSlot &slot = ring.slots[part];

	slot.touched = now_;
	return slot.state == State::idle ? to_ready(ring, slot) : look_again(ring, slot);
}

int
Model::look_again(ModelRing &ring, ModelSlot &slot)
{
	slot.touched = now_;
	if (slot.state == State::parked)
		return to_ready(ring, slot);
	if (slot.state == State::checked_out)
	{
		slot.version++;
		slot.again = true;
	}
	return 0;
}

int
Model::slot_promote(ModelRing &ring, int part, std::uint64_t lease)
{
	ModelSlot &slot = ring.slots[part];

	if (slot.state != State::parked || slot.lease != lease || slot.count != 0 || !slot.drained)
		return look_again(ring, slot);
	to_idle(ring, slot);
	return 0;
}

int
Model::slot_row(ModelRing &ring, int part, Reseeded seen, bool ease)
{
	ModelSlot &slot = ring.slots[part];

	slot.touched = now_;
	switch (slot.state)
	{
		case State::idle:
			if (seen == Reseeded::full && shape_.tiny)
				return 0;
			if (judge_contract_ && seen != Reseeded::added)
				broken("contract", "a row of an idle partition was answered %d", static_cast<int>(seen));
			return to_ready(ring, slot);
		case State::checked_out:
			if (!alive(slot.owner))
			{
				if (judge_contract_ && seen != Reseeded::reclaimed)
					broken("contract", "a dead owner's check-out was answered %d", static_cast<int>(seen));
				counts_.reclaimed++;
				return to_ready(ring, slot);
			}
			slot.version++; /* it was pending after the take, for all that is known */
			break;
		case State::parked:
			if (judge_contract_ && seen != Reseeded::held)
				broken("contract", "a parked row was answered %d", static_cast<int>(seen));
			return slot.behind || ease || !defers(ring) ? to_ready(ring, slot) : 0;
		case State::ready:
			break;
	}
	if (judge_contract_ && seen != Reseeded::held)
		broken("contract", "a held row was answered %d", static_cast<int>(seen));
	return 0;
}

int
Model::slot_check_in(ModelRing &ring, int part, const Taken &taken, const Outcome &outcome)
{
	ModelSlot &slot = ring.slots[part];

	if (slot.state != State::checked_out || slot.token != taken.token)
		return 0;
	const bool same = slot.version == slot.taken_version;
	const Micros leased_until = std::min(outcome.until + pad, now_ + lease_park_cap);

	slot.touched = now_;
	slot.owner = {};
	switch (outcome.verdict)
	{
		case Verdict::none:
			if (same)
				slot.count = 0;
			return to_ready(ring, slot, !outcome.reached);
		case Verdict::took:
			if (same)
				slot.count = 0;
			if (outcome.lease)
			{
				slot.drained = outcome.drained && outcome.may_clear && same;
				if (slot.again)
					return to_ready(ring, slot);
				park(ring, slot, leased_until);
				slot.leased = true;
				slot.lease = outcome.lease_number;
				return 0;
			}
			if (outcome.drained && outcome.may_clear && same)
			{
				to_idle(ring, slot);
				return 0;
			}
			return windows(ring) ? park(ring, slot, now_ + ring.deferral.window) : to_ready(ring, slot);
		case Verdict::empty:
			if (outcome.may_clear && same)
			{
				to_idle(ring, slot);
				return 0;
			}
			return to_ready(ring, slot);
		case Verdict::leased:
			if (slot.again)
				return to_ready(ring, slot);
			park(ring, slot, leased_until);
			slot.leased = true;
			return 0;
		case Verdict::deferred:
			if (slot.again || (windows(ring) && slot.count >= shape_.window_batch && !same))
				return to_ready(ring, slot);
			return park(ring, slot, outcome.until + pad);
		case Verdict::locked:
			return slot.again ? to_ready(ring, slot) : park(ring, slot, now_ + locked_park);
		case Verdict::behind_push:
			if (!same)
				return to_ready(ring, slot);
			park(ring, slot, now_ + behind_push_park);
			slot.behind = true;
			return 0;
	}
	return 0;
}

/* A slot could not be had: the ring is incomplete, and the partition is as it was. Only where the pool is too small. */
void
Model::not_idle_without_slot(Group &group, int part, bool was_idle)
{
	ModelSlot &slot = group.ring.slots[part];

	if (!shape_.tiny || !was_idle || slot.state == State::idle ||
		core::hotlist::holds(*pool_, group.ring.ref, queues_[group.queue].parts[part].id))
		return;
	counts_.refused++;
	if (slot.state == State::ready)
		group.ring.ready--;
	to_idle(group.ring, slot);
	if (core::hotlist::owes(*pool_, group.ring.ref, now_, 0) == Owes::nothing)
		broken("database", "a partition had no slot, and the ring owes nothing");
}

/* Deadlines have been drained, perhaps not all of them: what the list says decides how many were. */
void
Model::drained_due(const ModelRing *told_of)
{
	for (Group &group : groups_)
	{
		ModelRing &ring = group.ring;
		int due = 0;

		if (!ring.exists)
			continue;
		for (const ModelSlot &slot : ring.slots)
			due += slot.state == State::parked && slot.deadline <= now_;
		if (due == 0)
			continue;
		const int more = static_cast<int>(core::hotlist::ready_count(*pool_, ring.ref)) - ring.ready;

		if (judge_contract_ && (more < 0 || more > due))
			broken("contract", "%d candidates became ready, and %d were due", more, due);
		for (ModelSlot &slot : ring.slots)
			if (slot.state == State::parked && slot.deadline <= now_)
			{
				if (more == due)
					to_ready(ring, slot);
				else if (more > 0)
				{
					slot.maybe_ready = true;
					ring.exact = false;
				}
			}
		if (&ring != told_of)
			heard(ring, more, "a deadline");
	}
}

} // namespace queen::test
