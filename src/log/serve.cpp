/*
 * serve.cpp: a pop's candidates and what becomes of them. See serve.h.
 *
 * Raises; what is checked out of a ring is then given back. Locks: cursor rows, without waiting. Runs in backends.
 */
#include "log/serve.h"

#include "hotlist/notify.h"
#include "hotlist/upkeep.h"
#include "log/candidates.h"
#include "log/ring_walk.h"
#include "server/attended.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

/* A pop under way. */
struct Serving
{
	const ClaimRequest *request;
	const ServeLimits *limits;
	MessageSink *sink;
	ClaimTables tables;
	Oid own_tables;
	int64 budget;	  /* messages left */
	int64 partitions; /* taken */
	bool done;
	int looked_at; /* candidates, for the trace */
	hot::Micros until;
};

/*
 * A head that was delivered before must be its call's only delivery, so a call that has taken something passes it by. The
 * backend remembers it and begins its next walk there; otherwise it would wait until chance begins one there, behind all
 * partitions that are busy. The head behind it was mostly delivered before too: every second call begins there, and the
 * others go on. A hint: lost or stale, it costs nothing but fairness. (A ring has it in front by itself.)
 */
struct PassedHead
{
	int64 queue_id;
	int64 group_id;
	int64 partition_id;
	bool due; /* for the next call, not for the one after it */
};

constinit PassedHead passed_head = {};

void
remember_head(const ClaimRequest *request, const Candidate *candidate)
{
	passed_head = {request->queue->queue_id, request->group->group_id, candidate->partition_id,
				   candidate->verdict == Verdict::none};
}

/* Where the walk is to begin, or 0. */
int64
remembered_head(const ClaimRequest *request)
{
	int64 partition_id = 0;

	if (passed_head.queue_id == request->queue->queue_id && passed_head.group_id == request->group->group_id)
	{
		if (passed_head.due)
		{
			/* remembered anew if its head comes alone again */
			partition_id = passed_head.partition_id;
			passed_head = {};
		}
		else
			passed_head.due = true;
	}
	return partition_id;
}

void
report(const Candidate *candidate)
{
	const char *name = candidate->name != nullptr ? candidate->name : "";

	if (candidate->verdict == Verdict::leased || candidate->verdict == Verdict::deferred)
		ereport(DEBUG2,
				(errmsg_internal("queen: partition %lld \"%s\": %s until %s", (long long) candidate->partition_id, name,
								 verdict_name(candidate->verdict), timestamptz_to_str(candidate->until))));
	else
		ereport(DEBUG2,
				(errmsg_internal("queen: partition %lld \"%s\": %s%s, %lld messages",
								 (long long) candidate->partition_id, name, verdict_name(candidate->verdict),
								 candidate->verdict == Verdict::took && candidate->drained ? " and drained" : "",
								 (long long) candidate->messages)));
}

void
try_candidate(Serving *serving, Candidate *candidate)
{
	claim_partition(&serving->tables, serving->request, serving->budget, serving->partitions == 0, candidate,
					serving->sink);
	serving->looked_at++;
	serving->until = Min(serving->until, candidate_until(candidate));
	if (candidate->verdict == Verdict::took)
	{
		serving->budget -= candidate->messages;
		serving->partitions++;
		serving->done = candidate->alone || serving->budget == 0 || serving->partitions == serving->limits->partitions;
	}
	report(candidate);
	CHECK_FOR_INTERRUPTS();
}

/* ---- by the tables ---- */

void
serve_by_walk(Serving *serving)
{
	const ClaimRequest *request = serving->request;
	CandidateWalk *walk = (CandidateWalk *) palloc(sizeof(CandidateWalk));
	int count;

	candidate_walk_open(walk, request->queue->log_id, serving->limits->partition,
						serving->limits->partition != nullptr ? 0 : remembered_head(request));
	while (!serving->done && (count = candidate_walk_page(walk)) > 0)
	{
		for (int i = 0; i < count && !serving->done; i++)
		{
			Candidate *candidate = &walk->page[i];

			try_candidate(serving, candidate);
			if (candidate->verdict == Verdict::took)
				journal_touched(serving->own_tables, request->queue->queue_id, request->group->group_id,
								candidate->partition_id);
			if (candidate->alone)
				remember_head(request, candidate);
		}
	}
	candidate_walk_close(walk);
}

/* ---- by a ring ---- */

/* What the claim of a candidate means to the ring. */
hot::Outcome
outcome_of(const Serving *serving, const Candidate *candidate)
{
	hot::Outcome outcome;

	outcome.verdict = candidate->verdict;
	/* the pop runs in READ COMMITTED, and its claim took the latest snapshot, behind the take */
	outcome.may_clear = !journal_has_changed();
	switch (candidate->verdict)
	{
		case Verdict::took:
			outcome.lease = !serving->request->auto_ack && candidate->messages > 0;
			outcome.drained = candidate->drained;
			if (outcome.lease)
			{
				outcome.until = hotlist_time(candidate->until);
				outcome.lease_number = candidate->lease_number;
			}
			break;
		case Verdict::leased:
		case Verdict::deferred:
			outcome.until = hotlist_time(candidate->until);
			break;
		default:
			break;
	}
	return outcome;
}

void
settle(const Serving *serving, NoteNumber note, const Candidate *candidate)
{
	hot::Outcome outcome = outcome_of(serving, candidate);

	if (candidate->verdict == Verdict::took)
		journal_settle_at_end(note, outcome);
	else if (candidate->own || journal_has_changed())
	{
		/* what it rests on may be rolled back, to where something is left, or to be waited for less */
		outcome = {};
		outcome.reached = true;
		journal_settle_at_end(note, outcome);
	}
	else
		journal_settle(note, outcome);
}

/*
 * Candidates that this transaction took before and gives back at its end: behind what it has completed of them there may be more. Its own
 * open leases answer leased.
 */
void
serve_own(Serving *serving, const ServedRing *served, NoteNumber end)
{
	for (NoteNumber note = 0; !serving->done && journal_next_own(served, &note) && note < end; note++)
	{
		Candidate candidate = {};

		candidate.partition_id = journal_partition(note);
		try_candidate(serving, &candidate);
		if (candidate.verdict == Verdict::took)
			journal_settle_at_end(note, outcome_of(serving, &candidate));
		else if (candidate.verdict == Verdict::empty)
		{
			candidate.verdict = Verdict::took;
			candidate.drained = true;
			journal_settle_at_end(note, outcome_of(serving, &candidate));
		}
	}
}

/* Candidates that the ring has ready. */
void
serve_ready(Serving *serving, const ServedRing *served, NoteNumber *left, uint32 *left_count)
{
	const uint32 most = (uint32) Min(Max(2 * serving->limits->partitions, 2), (int64) hotlist_most_taken);
	NoteNumber notes[hotlist_most_taken];
	uint32 count;

	while (!serving->done && (count = journal_take(served, most, (uint64) serving->budget, notes)) > 0)
	{
		for (uint32 i = 0; i < count; i++)
		{
			Candidate candidate = {};

			candidate.partition_id = journal_partition(notes[i]);
			candidate.likely = true;
			if (!serving->done)
				try_candidate(serving, &candidate);
			if (candidate.verdict != Verdict::none)
				settle(serving, notes[i], &candidate);
			else if (*left_count < hotlist_most_taken)
				/* kept until the call ends: it would be taken again at once */
				left[(*left_count)++] = notes[i];
			else
			{
				hot::Outcome tried;

				/* so many heads that must be alone: whoever comes next begins with those that are kept */
				tried.reached = true;
				journal_settle(notes[i], tried);
				serving->done = true;
			}
		}
	}
}

/*
 * The ring has nothing ready any more: walk if it owes that, and serve what was found. False: the tables are to be asked.
 */
bool
serve_what_is_owed(Serving *serving, const ServedRing *served, NoteNumber *left, uint32 *left_count)
{
	const hot::Micros interval = hotlist_serving_floor();

	while (!serving->done)
	{
		const int looked_at = serving->looked_at;

		switch (hot::owes(hotlist(), served->ring, hotlist_now(), interval))
		{
			case hot::Owes::nothing:
				return true;
			case hot::Owes::full:
				count_fallback(Fallback::full);
				return false;
			case hot::Owes::walk:
			case hot::Owes::floor:
			case hot::Owes::incomplete:
				break;
		}
		if (!ring_walk(serving->request->queue, serving->request->group, served))
		{
			count_fallback(Fallback::cold);
			return false;
		}
		serve_ready(serving, served, left, left_count);
		if (serving->looked_at == looked_at &&
			hot::owes(hotlist(), served->ring, hotlist_now(), 0) != hot::Owes::nothing)
		{
			/* what it found did not fit where it belongs */
			count_fallback(Fallback::full);
			return false;
		}
	}
	return true;
}

/* False: the tables are to be asked for what is still wanted. */
bool
serve_by_ring(Serving *serving, const ServedRing *served)
{
	const hot::Micros interval = hotlist_serving_floor();
	const NoteNumber own_end = journal_begin_call();
	NoteNumber left[hotlist_most_taken];
	uint32 left_count = 0;
	bool served_all = true;

	if (hot::overdue(hotlist(), served->ring, hotlist_now(), interval))
		(void) ring_walk(serving->request->queue, serving->request->group, served);
	serve_ready(serving, served, left, &left_count);
	if (left_count == 0)
		served_all = serve_what_is_owed(serving, served, left, &left_count);
	if (!serving->done)
		serve_own(serving, served, own_end);
	/* in front of the ring again, in their order */
	while (left_count > 0)
		journal_settle(left[--left_count], {});
	return served_all;
}

bool
is_traced(const QueueRow *queue)
{
	const char *prefix = setting_hotlist_trace();

	return *prefix != '\0' && strncmp(queue->name, prefix, strlen(prefix)) == 0;
}

} // namespace

hot::Micros
candidate_until(const Candidate *candidate)
{
	switch (candidate->verdict)
	{
		case Verdict::leased:
		case Verdict::deferred:
			return hotlist_time(candidate->until);
		case Verdict::locked:
			return hotlist_now() + hot::locked_park;
		case Verdict::behind_push:
			return hotlist_now() + hot::behind_push_park;
		case Verdict::none:
		case Verdict::took:
		case Verdict::empty:
			break;
	}
	return hot::never;
}

bool
group_ring(const QueueRow *queue, const GroupRow *group, ServedRing *served, Fallback *why)
{
	hot::Deferral deferral;

	*why = Fallback::count;
	if (!hotlist_there())
		return false;
	if (!setting_hotlist)
	{
		*why = Fallback::off;
		return false;
	}
	served->key = hotlist_ring_key(own_tables(), queue->queue_id, group->group_id);
	if (!hot::ring_find(hotlist(), served->key, &served->ring))
	{
		if (group->own || queue->own)
		{
			*why = Fallback::uncommitted;
			return false;
		}
		if (hot::ring_register(hotlist(), served->key, hotlist_now(), &served->ring) == hot::Registered::full)
		{
			*why = Fallback::full;
			return false;
		}
	}
	deferral.delay = queue->options.delayed_processing;
	deferral.window = queue->options.window_buffer;
	if (!queue->own)
		hot::ring_defer(hotlist(), served->ring, deferral);
	notify_ring(served->ring.index,
				queue->options.notify ? notify_channel(&queue->tenant, queue->name, (int) strlen(queue->name)) : 0);
	return true;
}

bool
serve(const ClaimRequest *request, const ServeLimits *limits, MessageSink *sink, hot::Micros *until)
{
	Serving serving = {};
	ServedRing served = {};
	Fallback why = Fallback::count;
	bool by_ring;

	serving.request = request;
	serving.limits = limits;
	serving.sink = sink;
	serving.until = hot::never;
	serving.budget = limits->messages;
	serving.own_tables = own_tables();
	claim_tables_open(&serving.tables);
	by_ring = limits->partition == nullptr && group_ring(request->queue, request->group, &served, &why);
	if (why != Fallback::count)
		count_fallback(why);
	by_ring = by_ring && serve_by_ring(&serving, &served);
	if (!by_ring && !serving.done)
		serve_by_walk(&serving);
	/* never silently: but first whatever can be delivered */
	if (serving.partitions == 0)
		segment_frames_check(&serving.tables.damage);
	claim_tables_close(&serving.tables);
	if (!keeper_attends())
		(void) hotlist_upkeep();
	if (is_traced(request->queue))
		ereport(
			LOG,
			(errmsg("queen: hot-list trace: queue \"%s\", group \"%s\": served %lld messages of %lld partitions %s, "
					"%d candidates looked at",
					request->queue->name, request->group->name, (long long) (limits->messages - serving.budget),
					(long long) serving.partitions,
					limits->partition != nullptr ? "by name" : (by_ring ? "by the ring" : "by the tables"),
					serving.looked_at)));
	*until = serving.until;
	return serving.partitions > 0;
}

} // namespace queen
