/*
 * log_states.cpp: the state of log queues and their groups. See log_states.h.
 *
 * Raises. No locks but the tables'. Runs in the keeper, which remembers what it found, and in backends, also on a standby. Work: a pass over all
 * cursors; over all partitions in memory; a seek for each cursor that lags somewhere in the middle of its partition, and only when it has moved.
 */
#include "log/log_states.h"

#include "log/changes.h"
#include "log/cursors.h"
#include "log/ends_watch.h"
#include "log/positions.h"
#include "log/queues.h"

namespace queen
{

namespace
{

/* Groups of a queue whose cursors are remembered, in WatchedEnds::groups, until the end of the pass; those of others are sought. */
constexpr int most_bits = 64;

struct PairKey
{
	int64 partition_id;
	int64 group_id;
};

/* What is remembered of a group in a partition. */
struct Pair
{
	PairKey key;
	int64 behind;	/* an offset … */
	TimestampTz at; /* … and when what comes behind it was pushed */
	bool has_start;
	int64 start; /* where the group begins, without a cursor */
	uint32 pass; /* that has asked for it last */
};

struct Memory
{
	MemoryContext context;
	HTAB *pairs;
	uint32 pass;
	uint64 cursor_changes; /* when what had changed was read last */
	/* the last pass: it holds as long as none of these is another, and until its time */
	bool known;
	uint64 known_cursors;
	uint64 known_ends;
	uint64 known_names;
	TimestampTz known_until;
	MemoryContext known_context;
	LogQueueState *known_queues;
	LogGroupState *known_groups;
};

constinit Memory memory = {};

struct Group
{
	GroupRow row;
	LogGroupState *state;
	int64 log_id;
	int bit;
};

/* By an id, which of an array it is. */
struct Place
{
	int64 id; /* key */
	int place;
};

struct States
{
	Snapshot snapshot;
	TimestampTz now;
	TimestampTz until; /* when time changes something: a lease ends, or a head's wait */
	LogQueueState *queues;
	int queue_count;
	HTAB *queue_of_log;
	Group *groups; /* by queue_id */
	int group_count;
	int group_room;
	int *first_group; /* of each queue, one more than there are queues */
	HTAB *group_of_id;
	SegmentTable segments;
	EraHandle cursors;
	LogPositions positions;
};

HTAB *
make_table(const char *name, Size key_size, Size entry_size, MemoryContext context)
{
	HASHCTL control = {};

	control.keysize = key_size;
	control.entrysize = entry_size;
	control.hcxt = context;
	return hash_create(name, 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
put_place(HTAB *table, int64 id, int place)
{
	bool found;

	((Place *) hash_search(table, &id, HASH_ENTER, &found))->place = place;
}

/* -1: there is none */
int
place_of(HTAB *table, int64 id)
{
	const auto *entry = (const Place *) hash_search(table, &id, HASH_FIND, nullptr);

	return entry == nullptr ? -1 : entry->place;
}

Pair *
pair_of(int64 partition_id, int64 group_id)
{
	const PairKey key = {partition_id, group_id};
	bool found;
	auto *pair = (Pair *) hash_search(memory.pairs, &key, HASH_ENTER, &found);

	if (!found)
	{
		pair->at = 0;
		pair->has_start = false;
	}
	pair->pass = memory.pass;
	return pair;
}

/* ---- a group in a partition ---- */

/* When the first message behind an offset was pushed; false when there is none. */
bool
time_behind(States *s, const Group *group, const WatchedEnds *ends, int64 offset, TimestampTz *at)
{
	Pair *pair;

	if (offset >= ends->last)
		return false;
	if (offset + 1 >= ends->last_base)
	{
		*at = ends->last_at;
		return true;
	}
	if (offset + 1 == ends->first && ends->first_at != 0)
	{
		*at = ends->first_at;
		return true;
	}
	pair = pair_of(ends->partition_id, group->row.group_id);
	if (pair->at == 0 || pair->behind != offset)
	{
		pair->behind = offset;
		if (!log_time_behind(&s->positions, ends->partition_id, offset, s->snapshot, &pair->at))
			pair->at = 0;
	}
	*at = pair->at;
	return pair->at != 0;
}

void
add(States *s, Group *group, const WatchedEnds *ends, const Cursor *cursor)
{
	StateGauges *gauges = &group->state->gauges;
	/* what retention deleted before the group came to it is no lag */
	const int64 committed = Max(cursor->committed, ends->first - 1);
	const int64 lag = Max(ends->last - committed, 0);
	TimestampTz at;

	if (cursor->leased && cursor->lease_until > s->now)
	{
		s->until = Min(s->until, cursor->lease_until);
		gauges->in_flight += cursor->batch_count;
		if (time_behind(s, group, ends, committed, &at))
			gauges->oldest_in_flight = Min(gauges->oldest_in_flight, at);
		if (!time_behind(s, group, ends, Max(cursor->batch_end, committed), &at))
			return;
		gauges->ready += Max(lag - cursor->batch_count, 0);
		gauges->oldest_ready = Min(gauges->oldest_ready, at);
	}
	else if (cursor->blocked && cursor->blocked_until > s->now)
	{
		s->until = Min(s->until, cursor->blocked_until);
		gauges->blocked += lag;
	}
	else if (time_behind(s, group, ends, committed, &at))
	{
		gauges->ready += lag;
		gauges->oldest_ready = Min(gauges->oldest_ready, at);
	}
}

/* Where it begins, in a partition that has something. */
int64
start_in(States *s, const Group *group, const WatchedEnds *ends)
{
	const PartitionEnds known = {ends->first, ends->last, true, ends->last_at};
	Pair *pair;

	if (!group->row.has_start || (ends->first_at != 0 && ends->first_at >= group->row.start_at))
		return ends->first - 1;
	if (ends->last_at < group->row.start_at)
		return ends->last;
	/* no push will ever change it: times do not step back */
	pair = pair_of(ends->partition_id, group->row.group_id);
	if (!pair->has_start)
		pair->start = group_start_in(&s->positions, ends->partition_id, &group->row, &known, s->snapshot, false);
	pair->has_start = true;
	return pair->start;
}

/* ---- the passes ---- */

void
list_group(const GroupRow *row, void *arg)
{
	States *s = (States *) arg;

	if (s->group_count == s->group_room)
	{
		s->group_room *= 2;
		s->groups = (Group *) repalloc_huge(s->groups, sizeof(Group) * (Size) s->group_room);
	}
	s->groups[s->group_count++].row = *row;
}

int
compare_groups(const void *left, const void *right)
{
	const GroupRow *a = &((const Group *) left)->row;
	const GroupRow *b = &((const Group *) right)->row;

	if (a->queue_id != b->queue_id)
		return a->queue_id < b->queue_id ? -1 : 1;
	return (a->group_id > b->group_id) - (a->group_id < b->group_id);
}

/* Groups of the queues that are asked for, each queue's together. */
LogGroupState *
list_groups(States *s)
{
	LogGroupState *states;
	int kept = 0;
	int g = 0;

	s->group_room = 64;
	s->groups = (Group *) palloc(sizeof(Group) * (Size) s->group_room);
	groups_each(s->snapshot, list_group, s);
	qsort(s->groups, (size_t) s->group_count, sizeof(Group), compare_groups);
	states = (LogGroupState *) palloc_extended(sizeof(LogGroupState) * (Size) Max(s->group_count, 1), MCXT_ALLOC_HUGE);
	for (int q = 0; q < s->queue_count; q++)
	{
		s->first_group[q] = kept;
		while (g < s->group_count && s->groups[g].row.queue_id < s->queues[q].queue_id)
			g++;
		for (; g < s->group_count && s->groups[g].row.queue_id == s->queues[q].queue_id; g++)
		{
			Group *group = &s->groups[kept];

			group->row = s->groups[g].row;
			group->log_id = s->queues[q].log_id;
			group->bit = kept - s->first_group[q];
			group->state = &states[kept];
			*group->state = {};
			group->state->queue_id = group->row.queue_id;
			group->state->group_id = group->row.group_id;
			group->state->paused = group->row.paused;
			group->state->name = group->row.name;
			put_place(s->group_of_id, group->row.group_id, kept);
			kept++;
		}
	}
	s->first_group[s->queue_count] = kept;
	s->group_count = kept;
	return states;
}

void
add_cursor(const Datum *values, const bool *nulls, void *arg)
{
	States *s = (States *) arg;
	int64 keys[2];
	Cursor cursor;
	WatchedEnds *ends;
	Group *group;
	int place;

	cursor_read_columns(values, nulls, keys, &cursor);
	ends = ends_watch_find(keys[0]);
	place = place_of(s->group_of_id, keys[1]);
	/* of what is gone, and waits to be cleaned up; or not told of yet */
	if (ends == nullptr || place < 0 || s->groups[place].log_id != ends->log_id)
		return;
	group = &s->groups[place];
	if (ends->pass != memory.pass)
	{
		ends->pass = memory.pass;
		ends->groups = 0;
	}
	if (group->bit < most_bits)
		ends->groups |= UINT64CONST(1) << group->bit;
	add(s, group, ends, &cursor);
}

bool
has_cursor(States *s, const Group *group, const WatchedEnds *ends)
{
	bool found;

	if (group->bit < most_bits)
		return ends->pass == memory.pass && (ends->groups & UINT64CONST(1) << group->bit) != 0;
	found = era_seek(&s->cursors, {ends->partition_id, group->row.group_id}, s->snapshot) == EraSeek::found;
	era_release_snapshot(&s->cursors);
	return found;
}

/* What a partition holds, for its queue and for the groups that have no cursor there. */
void
add_partition(WatchedEnds *ends, void *arg)
{
	States *s = (States *) arg;
	const int q = place_of(s->queue_of_log, ends->log_id);
	const int64 messages = ends->last - ends->first + 1;
	LogQueueState *queue;

	/* groups beyond most_bits cost a seek each */
	CHECK_FOR_INTERRUPTS();
	if (q < 0 || messages <= 0)
		return;
	queue = &s->queues[q];
	queue->messages += messages;
	queue->bytes += ends->bytes_of_message * (double) messages;
	if (s->first_group[q] == s->first_group[q + 1])
	{
		queue->gauges.ready += messages;
		if (ends->first_at != 0)
			queue->gauges.oldest_ready = Min(queue->gauges.oldest_ready, ends->first_at);
	}
	for (int g = s->first_group[q]; g < s->first_group[q + 1]; g++)
	{
		Group *group = &s->groups[g];
		Cursor cursor;

		if (has_cursor(s, group, ends))
			continue;
		cursor.committed = start_in(s, group, ends);
		add(s, group, ends, &cursor);
	}
}

/* A queue's, of its groups. */
void
sum_up(States *s)
{
	for (int q = 0; q < s->queue_count; q++)
	{
		StateGauges *sums = &s->queues[q].gauges;

		for (int g = s->first_group[q]; g < s->first_group[q + 1]; g++)
		{
			const StateGauges *gauges = &s->groups[g].state->gauges;

			sums->ready = Max(sums->ready, gauges->ready);
			sums->in_flight += gauges->in_flight;
			sums->blocked += gauges->blocked;
			sums->oldest_ready = Min(sums->oldest_ready, gauges->oldest_ready);
			sums->oldest_in_flight = Min(sums->oldest_in_flight, gauges->oldest_in_flight);
		}
	}
}

/* What nobody has asked for in this pass. */
void
forget_pairs()
{
	HASH_SEQ_STATUS each;
	Pair *pair;

	hash_seq_init(&each, memory.pairs);
	while ((pair = (Pair *) hash_seq_search(&each)) != nullptr)
		if (pair->pass != memory.pass)
			(void) hash_search(memory.pairs, &pair->key, HASH_REMOVE, nullptr);
}

/* Of queues and groups, whichever there are and where they begin. */
uint64
names_of(const States *s)
{
	uint64 hash = 0;

	for (int q = 0; q < s->queue_count; q++)
	{
		const int64 ids[] = {s->queues[q].queue_id, s->queues[q].log_id};

		hash = hash_bytes_extended((const unsigned char *) ids, sizeof(ids), hash);
	}
	for (int g = 0; g < s->group_count; g++)
	{
		const int64 ids[] = {s->groups[g].row.group_id, s->groups[g].row.queue_id, s->groups[g].row.start_at};

		hash = hash_bytes_extended((const unsigned char *) ids, sizeof(ids), hash);
	}
	return hash;
}

void
pass(States *s)
{
	memory.pass++;
	s->until = DT_NOEND;
	segment_table_open(&s->segments);
	era_open_to_read(&s->cursors, &cursor_table);
	log_positions_open(&s->positions, &s->segments, &s->cursors);
	era_each(&s->cursors, s->snapshot, add_cursor, s);
	ends_watch_each(add_partition, s);
	log_positions_close(&s->positions);
	era_close(&s->cursors);
	segment_table_close(&s->segments);
	sum_up(s);
	forget_pairs();
}

void *
keep(const void *array, Size size, int count)
{
	void *copy = MemoryContextAllocExtended(memory.known_context, size * (Size) Max(count, 1), MCXT_ALLOC_HUGE);

	memcpy(copy, array, size * (Size) count);
	return copy;
}

/* Nothing has happened to logs since the last pass: it would find the same. */
bool
is_known(const States *s, uint64 names)
{
	return memory.known && changes_are_shared() && memory.known_cursors == memory.cursor_changes &&
		   memory.known_ends == ends_watch_changes() && memory.known_names == names && s->now < memory.known_until;
}

void
recall(States *s, LogGroupState *groups)
{
	memcpy(s->queues, memory.known_queues, sizeof(LogQueueState) * (Size) s->queue_count);
	for (int g = 0; g < s->group_count; g++)
		groups[g].gauges = memory.known_groups[g].gauges;
}

void
remember(const States *s, const LogGroupState *groups, uint64 names)
{
	/* an error on the way leaves nothing known */
	memory.known = false;
	MemoryContextReset(memory.known_context);
	memory.known_queues = (LogQueueState *) keep(s->queues, sizeof(LogQueueState), s->queue_count);
	memory.known_groups = (LogGroupState *) keep(groups, sizeof(LogGroupState), s->group_count);
	memory.known_cursors = memory.cursor_changes;
	memory.known_ends = ends_watch_changes();
	memory.known_names = names;
	memory.known_until = s->until;
	memory.known = true;
}

} // namespace

int64
log_states_read()
{
	if (changes_are_shared())
		memory.cursor_changes = cursor_changes();
	return ends_watch_read();
}

bool
log_states_step()
{
	return ends_watch_walk();
}

LogGroupState *
log_states(Snapshot snapshot, TimestampTz now, LogQueueState *queues, int count, int *group_count)
{
	States s = {};
	LogGroupState *states;
	uint64 names;

	if (memory.context == nullptr)
	{
		memory.context = AllocSetContextCreate(TopMemoryContext, "queen log states", ALLOCSET_DEFAULT_SIZES);
		memory.known_context = AllocSetContextCreate(memory.context, "queen known states", ALLOCSET_DEFAULT_SIZES);
		memory.pairs = make_table("queen groups in partitions", sizeof(PairKey), sizeof(Pair), memory.context);
	}
	s.snapshot = snapshot;
	s.now = now;
	s.queues = queues;
	s.queue_count = count;
	s.first_group = (int *) palloc(sizeof(int) * (Size) (count + 1));
	s.queue_of_log = make_table("queen logs", sizeof(int64), sizeof(Place), CurrentMemoryContext);
	s.group_of_id = make_table("queen groups", sizeof(int64), sizeof(Place), CurrentMemoryContext);
	for (int q = 0; q < count; q++)
		put_place(s.queue_of_log, queues[q].log_id, q);
	states = list_groups(&s);
	ends_watch_refresh(snapshot);
	names = names_of(&s);
	if (is_known(&s, names))
		recall(&s, states);
	else
	{
		pass(&s);
		remember(&s, states, names);
	}
	hash_destroy(s.group_of_id);
	hash_destroy(s.queue_of_log);
	*group_count = s.group_count;
	return states;
}

void
log_states_forget()
{
	if (memory.context != nullptr)
		MemoryContextDelete(memory.context);
	memory = {};
	ends_watch_forget();
}

} // namespace queen
