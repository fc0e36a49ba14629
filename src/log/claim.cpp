/*
 * claim.cpp: the claim core. See claim.h.
 *
 * Raises. Locks: the cursor's row, without waiting, to the transaction's end. Runs in backends.
 */
#include "log/claim.h"

#include "log/aborted.h"
#include "log/dead_letters.h"
#include "log/event_counts.h"
#include "log/known_partitions.h"
#include "server/settings.h"

namespace queen
{

namespace
{

enum class Look
{
	take,	 /* the cursor is ours (or its birth is), the reader stands on the head's segment */
	give_up, /* the candidate has its verdict */
	again,	 /* the row changed since the snapshot */
};

/* A claim under way. */
struct Claim
{
	ClaimTables *tables;
	const ClaimRequest *request;
	Candidate *candidate;
	bool first_of_call;
	Cursor cursor;
	bool is_new; /* the cursor is not there yet */
	LogReader reader;
	int64 head;
	int32 deliveries; /* of the head, before this one */
	int32 aborted;	  /* of these, the ones that the cursor's row did not tell */
};

Look
give_up(Claim *claim, Verdict verdict)
{
	claim->candidate->verdict = verdict;
	return Look::give_up;
}

Look
not_before(Claim *claim, Verdict verdict, TimestampTz until)
{
	claim->candidate->until = until;
	return give_up(claim, verdict);
}

/* First contact: the group stands at its start. */
Look
look_at_start(Claim *claim, Snapshot snapshot)
{
	ClaimTables *tables = claim->tables;
	const GroupRow *group = claim->request->group;
	const int64 partition_id = claim->candidate->partition_id;
	PartitionEnds ends;

	claim->is_new = true;
	if (!tables->positions_open)
	{
		log_positions_open(&tables->positions, &tables->segments, &tables->cursors);
		tables->positions_open = true;
	}
	log_ends(&tables->positions, partition_id, snapshot, &ends);
	/* an idle partition is met at each walk: its messages of before the start are told from the newest alone */
	if (group->has_start && (!ends.any || ends.newest_at < group->start_at) &&
		log_surely_empty_after(&tables->segments, partition_id, ends.last))
		return give_up(claim, Verdict::empty);
	claim->cursor.committed = group_start_in(&tables->positions, partition_id, group, &ends, snapshot, true);
	return Look::take;
}

/* Read the cursor and decide from it alone whether the partition is available. */
Look
look_at_cursor(Claim *claim, Snapshot snapshot)
{
	TimestampTz now;

	claim->cursor = {};
	claim->is_new = false;
	switch (
		era_seek(&claim->tables->cursors, {claim->candidate->partition_id, claim->request->group->group_id}, snapshot))
	{
		case EraSeek::running:
			return give_up(claim, Verdict::locked);
		case EraSeek::stale:
			return Look::again;
		case EraSeek::absent:
			return look_at_start(claim, snapshot);
		case EraSeek::found:
			break;
	}
	cursor_read(&claim->tables->cursors, &claim->cursor);
	claim->candidate->own = row_is_own(claim->tables->cursors.scan.slot);
	if (claim->candidate->own && aborted_buried(RelationGetRelid(claim->tables->segments.table),
												claim->candidate->partition_id, claim->request->group->group_id))
		return give_up(claim, Verdict::none);
	now = GetCurrentTimestamp();
	if (claim->cursor.leased && claim->cursor.lease_until > now)
		return not_before(claim, Verdict::leased, claim->cursor.lease_until);
	if (claim->cursor.blocked && claim->cursor.blocked_until > now)
		return not_before(claim, Verdict::deferred, claim->cursor.blocked_until);
	return Look::take;
}

/* Until when the queue's options defer the reader's current segment. */
TimestampTz
deferred_until(const Claim *claim)
{
	const int64 delay = claim->request->queue->options.delayed_processing;

	/* without a delay the time does not matter: it may lie ahead, where the clock was once */
	return delay > 0 ? claim->reader.created_at + delay : DT_NOBEGIN;
}

/* Is the partition not quiet yet, and its batch not full? Sets until when. */
bool
in_window(Claim *claim, TimestampTz *until)
{
	const int64 window = claim->request->queue->options.window_buffer;
	TimestampTz newest;
	int64 end;

	if (window == 0 || !log_newest(&claim->tables->segments, claim->candidate->partition_id, &newest, &end))
		return false;
	*until = newest + window;
	return *until > GetCurrentTimestamp() && end - claim->cursor.committed < setting_hotlist_window_batch;
}

/* Find the head; the reader is open afterwards only for Look::take. */
Look
look_at_log(Claim *claim)
{
	Candidate *candidate = claim->candidate;
	TimestampTz until;
	Verdict verdict;

	/* a group's start is stored with it, so a partition that is deferred at first contact loses nothing */
	if (in_window(claim, &until))
		return not_before(claim, Verdict::deferred, until);
	if (!candidate->likely &&
		log_surely_empty_after(&claim->tables->segments, candidate->partition_id, claim->cursor.committed))
		return give_up(claim, Verdict::empty);
	log_reader_open(&claim->reader, &claim->tables->segments, candidate->partition_id, claim->cursor.committed + 1);
	switch (log_reader_next(&claim->reader))
	{
		case ReadResult::segment:
			if (deferred_until(claim) > GetCurrentTimestamp())
			{
				candidate->until = deferred_until(claim);
				verdict = Verdict::deferred;
				break;
			}
			claim->head = Max(claim->reader.base, claim->cursor.committed + 1);
			claim->aborted = aborted_add(RelationGetRelid(claim->tables->segments.table), candidate->partition_id,
										 claim->request->group->group_id, claim->head, candidate->own, &claim->cursor);
			claim->deliveries = cursor_deliveries(&claim->cursor, claim->head);
			if (claim->deliveries == 0 || claim->first_of_call)
				return Look::take;
			candidate->alone = true;
			verdict = Verdict::none;
			break;
		case ReadResult::end:
			verdict = Verdict::empty;
			break;
		default:
			verdict = Verdict::behind_push;
			break;
	}
	log_reader_close(&claim->reader);
	return give_up(claim, verdict);
}

/* Look the candidate's name up where it came without. A partition that is gone has nothing. */
Look
know_name(Claim *claim)
{
	ClaimTables *tables = claim->tables;
	Candidate *candidate = claim->candidate;
	const Oid own = RelationGetRelid(tables->segments.table);
	const char *known;
	uint64 generation;
	PartitionRow partition;

	if (candidate->name != nullptr)
		return Look::take;
	known = known_partition_find(own, candidate->partition_id);
	if (known != nullptr)
	{
		candidate->name = pstrdup(known);
		return Look::take;
	}
	if (!tables->partitions_open)
		partition_table_open(&tables->partitions, AccessShareLock);
	tables->partitions_open = true;
	generation = names_generation();
	if (!partition_find_by_id(&tables->partitions, candidate->partition_id, &partition))
		return give_up(claim, Verdict::empty);
	candidate->name = partition.name;
	if (!partition.own)
		known_partition_put(own, candidate->partition_id, partition.name, generation);
	return Look::take;
}

/* Make the cursor ours without waiting. */
Look
seize(Claim *claim)
{
	if (claim->is_new)
		return era_birth(&claim->tables->cursors) ? Look::take : give_up(claim, Verdict::locked);
	switch (era_lock(&claim->tables->cursors, false))
	{
		case EraLock::ok:
			return Look::take;
		case EraLock::changed:
			return Look::again;
		case EraLock::locked:
			break;
	}
	return give_up(claim, Verdict::locked);
}

void
store_cursor(Claim *claim)
{
	EraHandle *handle = &claim->tables->cursors;

	cursor_store(handle, &claim->cursor);
	if (claim->is_new)
		era_insert_state(handle);
	else
		era_update(handle);
}

/* What the delivery, or the burial when there is none, means to the count of those that roll back. */
void
note_delivery(const Claim *claim, int64 delivered_to)
{
	if (claim->candidate->messages > 0 || claim->aborted > 0)
		aborted_note(RelationGetRelid(claim->tables->segments.table), claim->candidate->partition_id,
					 claim->request->group->group_id, claim->head, delivered_to, claim->aborted);
}

void
note_event(const Claim *claim, Event event, int64 amount)
{
	event_note_group(RelationGetRelid(claim->tables->segments.table), claim->request->queue->queue_id,
					 claim->request->group->group_id, event, (uint64) amount);
}

/* The head has used up its deliveries: to the dead letters, and the partition goes on. Nothing is delivered. */
void
bury_head(Claim *claim)
{
	const ClaimRequest *request = claim->request;
	DeadLetter letter = {};

	letter.queue = request->queue;
	letter.partition_id = claim->candidate->partition_id;
	letter.partition = claim->candidate->name;
	letter.consumer_group = request->group->name;
	letter.msg_offset = claim->head;
	letter.attempts = claim->deliveries;
	letter.error = claim->cursor.attempt_offset == claim->head ? claim->cursor.last_error : nullptr;
	if (letter.error == nullptr)
		letter.error = cstring_to_text(claim->deliveries == 1
										   ? "delivered once and never acknowledged"
										   : psprintf("delivered %d times and never acknowledged", claim->deliveries));
	dead_letter_bury(&letter, &claim->reader);

	claim->cursor.leased = false;
	cursor_advance(&claim->cursor, claim->head);
	store_cursor(claim);
	claim->candidate->verdict = Verdict::took;
	claim->candidate->drained = false;
	claim->candidate->messages = 0;
	claim->candidate->alone = true;
	note_delivery(claim, claim->head - 1);
	note_event(claim, Event::dead, 1);
}

core::Uuid
new_lease(const Claim *claim)
{
	core::LeaseToken token = {};
	core::Uuid lease;

	token.partition_id = (uint64) claim->candidate->partition_id;
	token.group_id = (uint64) claim->request->group->group_id;
	if (!pg_strong_random(&token.nonce, sizeof(token.nonce)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes for a lease")));
	if (!core::lease_token_pack(token, lease))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("partition or consumer group id is too large")));
	return lease;
}

/* Keep what the first damage was, for the end of the call. */
void
note_damage(ClaimTables *tables, const SegmentFrames *frames)
{
	MemoryContext caller;

	if (tables->damage.trouble != nullptr || frames->trouble == nullptr)
		return;
	caller = MemoryContextSwitchTo(tables->context);
	tables->damage = *frames;
	tables->damage.queue = pstrdup(frames->queue);
	tables->damage.partition = pstrdup(frames->partition);
	tables->damage.trouble = pstrdup(frames->trouble);
	MemoryContextSwitchTo(caller);
}

/* Deliver up to limit messages from the head on; returns the last offset. */
int64
deliver(Claim *claim, int64 limit, const MessageOrigin *origin, MessageSink *sink)
{
	Candidate *candidate = claim->candidate;
	int64 last = claim->head;
	bool whole = true;
	bool corrupt = false;
	ReadResult next = ReadResult::segment;

	candidate->messages = 0;
	for (;;)
	{
		SegmentFrames frames;
		core::Frame frame;
		int64 offset;

		segment_frames_open(&frames, &claim->reader, Max(claim->head, claim->reader.base), origin->queue,
							origin->partition);
		while (candidate->messages < limit && segment_frames_next(&frames, &frame, &offset))
		{
			message_sink_put(sink, origin, offset, claim->reader.created_at, &frame);
			last = offset;
			candidate->messages++;
		}
		/* what lies before the damage, or elsewhere, is delivered; a call that finds nothing else tells */
		if (candidate->messages == 0)
			note_damage(claim->tables, &frames);
		corrupt = frames.trouble != nullptr;
		segment_frames_close(&frames);
		whole = last == claim->reader.end;
		if (candidate->messages >= limit || corrupt)
			break;
		next = log_reader_next(&claim->reader);
		if (next != ReadResult::segment)
			break;
		if (deferred_until(claim) > GetCurrentTimestamp())
		{
			whole = false;
			break;
		}
		CHECK_FOR_INTERRUPTS();
	}
	/* neither in sight nor on its way: of what is prepared nobody tells when it is committed */
	candidate->drained = whole && (next == ReadResult::end ||
								   (next == ReadResult::segment && !log_reader_has_more(&claim->reader) &&
									log_surely_empty_after(&claim->tables->segments, candidate->partition_id, last)));
	return last;
}

void
take(Claim *claim, int64 budget, MessageSink *sink)
{
	const ClaimRequest *request = claim->request;
	Candidate *candidate = claim->candidate;
	Cursor *cursor = &claim->cursor;
	MessageOrigin origin = {};
	core::Uuid lease = {};
	int64 last;

	candidate->alone = claim->deliveries > 0;
	origin.queue = request->queue->name;
	origin.partition = candidate->name;
	origin.consumer_group = request->group->name;
	origin.attempt = claim->deliveries + 1;
	if (!request->auto_ack)
	{
		core::LeaseToken token;

		lease = new_lease(claim);
		(void) core::lease_token_unpack(lease, token);
		candidate->lease_number = token.nonce;
		origin.lease = &lease;
		origin.lease_until = GetCurrentTimestamp() + request->lease_time;
	}
	candidate->until = origin.lease_until;
	/* from the first redelivery on the head comes alone, so that blame is exact */
	last = deliver(claim, candidate->alone ? 1 : budget, &origin, sink);
	if (candidate->messages == 0)
	{
		candidate->verdict = Verdict::none;
		candidate->alone = false;
		/* a birth that has begun must be ended */
		if (claim->is_new)
			store_cursor(claim);
		return;
	}

	cursor->blocked = false;
	cursor->leased = !request->auto_ack;
	if (request->auto_ack)
		cursor_advance(cursor, last);
	else
	{
		cursor->batch_end = last;
		cursor->batch_count = (int32) candidate->messages;
		cursor->lease = lease;
		cursor->lease_until = origin.lease_until;
		cursor->attempt_offset = claim->head;
		cursor->attempts = origin.attempt;
		if (!candidate->alone)
			cursor->delivered_to = last;
	}
	store_cursor(claim);
	candidate->verdict = Verdict::took;
	note_delivery(claim, last);
	note_event(claim, Event::delivered, candidate->messages);
	if (claim->deliveries > 0)
		note_event(claim, Event::redelivered, candidate->messages);
	if (request->auto_ack)
		note_event(claim, Event::completed, candidate->messages);
}

} // namespace

void
claim_tables_open(ClaimTables *tables)
{
	tables->context = CurrentMemoryContext;
	tables->damage = {};
	tables->positions_open = false;
	tables->partitions_open = false;
	segment_table_open(&tables->segments);
	era_open(&tables->cursors, &cursor_table);
}

void
claim_tables_close(ClaimTables *tables)
{
	if (tables->positions_open)
		log_positions_close(&tables->positions);
	if (tables->partitions_open)
		partition_table_close(&tables->partitions);
	era_close(&tables->cursors);
	segment_table_close(&tables->segments);
}

void
claim_partition(ClaimTables *tables, const ClaimRequest *request, int64 budget, bool first_of_call,
				Candidate *candidate, MessageSink *sink)
{
	constexpr int tries = 3;
	Claim claim = {};

	claim.tables = tables;
	claim.request = request;
	claim.candidate = candidate;
	claim.first_of_call = first_of_call;
	for (int i = 0; i < tries; i++)
	{
		Snapshot snapshot = register_latest_snapshot();
		Look look = look_at_cursor(&claim, snapshot);

		if (look == Look::take)
		{
			look = look_at_log(&claim);
			if (look == Look::take)
			{
				look = know_name(&claim);
				if (look == Look::take)
					look = seize(&claim);
				if (look == Look::take)
				{
					if (claim.deliveries >= request->queue->options.max_deliveries)
						bury_head(&claim);
					else
						take(&claim, budget, sink);
				}
				log_reader_close(&claim.reader);
			}
		}
		era_release_snapshot(&tables->cursors);
		UnregisterSnapshot(snapshot);
		if (look != Look::again)
			return;
	}
	candidate->verdict = Verdict::locked;
}

void
claim_look(ClaimTables *tables, const ClaimRequest *request, Candidate *candidate)
{
	constexpr int tries = 3;
	Claim claim = {};

	claim.tables = tables;
	claim.request = request;
	claim.candidate = candidate;
	claim.first_of_call = true;
	candidate->verdict = Verdict::locked;
	for (int i = 0; i < tries; i++)
	{
		Snapshot snapshot = register_latest_snapshot();
		Look look = look_at_cursor(&claim, snapshot);

		if (look == Look::take && !claim.is_new && row_is_locked(tables->cursors.scan.slot))
			look = give_up(&claim, Verdict::locked);
		if (look == Look::take)
			look = look_at_log(&claim);
		if (look == Look::take)
		{
			log_reader_close(&claim.reader);
			candidate->verdict = Verdict::took;
		}
		era_release_snapshot(&tables->cursors);
		UnregisterSnapshot(snapshot);
		if (look != Look::again)
			return;
	}
}

const char *
verdict_name(Verdict verdict)
{
	switch (verdict)
	{
		case Verdict::none:
			return "none";
		case Verdict::took:
			return "took";
		case Verdict::empty:
			return "empty";
		case Verdict::leased:
			return "leased";
		case Verdict::deferred:
			return "deferred";
		case Verdict::locked:
			return "locked";
		case Verdict::behind_push:
			return "behind a push";
	}
	return "unknown";
}

} // namespace queen
