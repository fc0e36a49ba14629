/*
 * retention_watch.cpp: when each partition is to be looked at by retention. See retention_watch.h; README.md has the states.
 *
 * Raises. Locks: those of retention.cpp; the feed's while it is read. Runs in the keeper, whose memory it is in, and in sessions of the tests.
 */
#include "log/retention_watch.h"

#include "log/changes.h"
#include "log/partition_walk.h"
#include "log/queues.h"
#include "log/retention.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* Partitions that a step looks at while there is nothing to do. */
constexpr int most_looks = 1000;
/* What was due in vain is looked at again after an eighth of the age that made it due, within bounds. */
constexpr int64 again_part = 8;
constexpr int64 again_least = 5 * USECS_PER_SEC;
constexpr int64 again_most = USECS_PER_HOUR;
/* Walks over everything lie that far apart, the ones that are owed too when they take long. */
constexpr int64 walk_interval = USECS_PER_HOUR;
constexpr int64 walk_share = 100;
constexpr int64 options_interval = 10 * USECS_PER_SEC;

struct WatchedPartition
{
	int64 partition_id; /* key */
	int64 queue_id;
	TimestampTz due; /* DT_NOEND: not in the heap */
	pairingheap_node node;
	uint32 seen; /* by the walk of that number, or born since it began */
};

struct WatchedQueue
{
	int64 queue_id; /* key */
	int64 age;
};

struct Watch
{
	MemoryContext context;
	HTAB *partitions;
	HTAB *queues;
	pairingheap *heap;
	Oid tables; /* which incarnation is watched */
	int64 queued;

	uint64 position; /* in the feed */
	TimestampTz read_at;
	int64 read_after;

	bool walk_owed;
	bool walking;
	bool walk_turn; /* the next step goes on with the walk */
	uint32 walk;	/* its number */
	int64 walk_queue;
	int64 walk_partition;
	TimestampTz walk_began;
	TimestampTz next_walk;		 /* the rare one */
	TimestampTz walk_not_before; /* also when one is owed */

	uint64 generation; /* of names, when the options were read */
	TimestampTz options_at;
	int expiry; /* queen.partition_expiry then */
};

constinit Watch watch = {};

/* The server's macro for this is C. */
WatchedPartition *
partition_of(const pairingheap_node *node)
{
	return (WatchedPartition *) ((char *) node - offsetof(WatchedPartition, node));
}

int
compare_due(const pairingheap_node *left, const pairingheap_node *right, void *arg)
{
	const TimestampTz a = partition_of(left)->due;
	const TimestampTz b = partition_of(right)->due;

	(void) arg;
	/* the heap's first is its greatest */
	return a < b ? 1 : (a > b ? -1 : 0);
}

HTAB *
make_table(const char *name, Size entry_size)
{
	HASHCTL control = {};

	control.keysize = sizeof(int64);
	control.entrysize = entry_size;
	control.hcxt = watch.context;
	return hash_create(name, 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
begin_anew(Oid tables)
{
	MemoryContext caller;

	if (watch.context != nullptr)
		MemoryContextDelete(watch.context);
	watch = {};
	watch.context = AllocSetContextCreate(TopMemoryContext, "queen retention watch", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(watch.context);
	watch.partitions = make_table("queen watched partitions", sizeof(WatchedPartition));
	watch.queues = make_table("queen watched queues", sizeof(WatchedQueue));
	watch.heap = pairingheap_allocate(compare_due, nullptr);
	MemoryContextSwitchTo(caller);
	watch.walk_owed = true;
	/* what is pushed from here on is in the feed, what was pushed before in sight of the walk */
	watch.position = changes_end();
	watch.generation = names_generation();
	watch.expiry = setting_partition_expiry;
	/* only now: an error on the way begins anew */
	watch.tables = tables;
}

/* ---- entries ---- */

void
unqueue(WatchedPartition *entry)
{
	if (entry->due == DT_NOEND)
		return;
	pairingheap_remove(watch.heap, &entry->node);
	watch.queued--;
	entry->due = DT_NOEND;
}

void
set_due(WatchedPartition *entry, TimestampTz due)
{
	unqueue(entry);
	entry->due = due;
	if (due == DT_NOEND)
		return;
	pairingheap_add(watch.heap, &entry->node);
	watch.queued++;
}

void
forget(WatchedPartition *entry)
{
	unqueue(entry);
	(void) hash_search(watch.partitions, &entry->partition_id, HASH_REMOVE, nullptr);
}

WatchedPartition *
entry_of(int64 queue_id, int64 partition_id)
{
	bool found;
	auto *entry = (WatchedPartition *) hash_search(watch.partitions, &partition_id, HASH_ENTER, &found);

	if (!found)
	{
		entry->due = DT_NOEND;
		entry->seen = watch.walk;
	}
	entry->queue_id = queue_id;
	return entry;
}

TimestampTz
after(TimestampTz from, int64 age)
{
	TimestampTz due;

	return age == PG_INT64_MAX || pg_add_s64_overflow(from, age, &due) ? (TimestampTz) DT_NOEND : due;
}

TimestampTz
again_at(TimestampTz now, int64 age)
{
	return now + Min(Max(age / again_part, again_least), again_most);
}

/* How old segments of the queue may become; of one that is gone, or not born yet for all that is known: as old as they like. */
int64
age_of(int64 queue_id)
{
	bool found;
	auto *entry = (WatchedQueue *) hash_search(watch.queues, &queue_id, HASH_FIND, &found);
	QueueTable queues;
	QueueRow row;
	int64 age = PG_INT64_MAX;

	if (found)
		return entry->age;
	queue_table_open(&queues, AccessShareLock);
	if (queue_find_by_id(&queues, queue_id, &row))
		age = retention_age(&row.options);
	queue_table_close(&queues);
	entry = (WatchedQueue *) hash_search(watch.queues, &queue_id, HASH_ENTER, &found);
	entry->age = age;
	return age;
}

/* ---- what was told ---- */

void
read_change(const core::Change *change, void *arg)
{
	const TimestampTz now = *(const TimestampTz *) arg;
	WatchedPartition *entry;
	TimestampTz due;

	if (change->partition_id == 0)
	{
		watch.walk_owed = true;
		return;
	}
	entry = entry_of(change->queue_id, change->partition_id);
	/* only where it was empty is this its first segment, but there is no other that this would be late for */
	due = after(now, age_of(change->queue_id));
	if (due < entry->due)
		set_due(entry, due);
}

void
read_feed(TimestampTz now)
{
	if (now - watch.read_at < watch.read_after && now >= watch.read_at)
		return;
	watch.read_after = changes_follow(watch.tables, &watch.position, &watch.walk_owed, read_change, &now);
	watch.read_at = now;
}

/* Options that have become shorter make partitions due that nothing tells of. */
void
read_options(TimestampTz now)
{
	HASH_SEQ_STATUS scan;
	QueueTable queues;
	WatchedQueue *known;

	if (watch.expiry != setting_partition_expiry)
	{
		watch.expiry = setting_partition_expiry;
		watch.walk_owed = true;
	}
	if (watch.generation == names_generation() ||
		(now - watch.options_at < options_interval && now >= watch.options_at))
		return;
	watch.generation = names_generation();
	watch.options_at = now;
	queue_table_open(&queues, AccessShareLock);
	hash_seq_init(&scan, watch.queues);
	while ((known = (WatchedQueue *) hash_seq_search(&scan)) != nullptr)
	{
		QueueRow row;
		int64 age;

		if (!queue_find_by_id(&queues, known->queue_id, &row))
		{
			(void) hash_search(watch.queues, &known->queue_id, HASH_REMOVE, nullptr);
			continue;
		}
		age = retention_age(&row.options);
		if (age < known->age)
			watch.walk_owed = true;
		known->age = age;
	}
	queue_table_close(&queues);
}

/* ---- the walk ---- */

void
begin_walk(TimestampTz now)
{
	watch.walk_owed = false;
	watch.walking = true;
	watch.walk++;
	watch.walk_queue = 0;
	watch.walk_partition = 0;
	watch.walk_began = now;
}

/* What the walk has not met is gone. */
void
end_walk()
{
	const TimestampTz now = GetCurrentTimestamp();
	HASH_SEQ_STATUS scan;
	WatchedPartition *entry;

	hash_seq_init(&scan, watch.partitions);
	while ((entry = (WatchedPartition *) hash_seq_search(&scan)) != nullptr)
		if (entry->seen != watch.walk)
			forget(entry);
	watch.walking = false;
	watch.walk_not_before = now + (now - watch.walk_began) * walk_share;
	watch.next_walk = Max(now + walk_interval, watch.walk_not_before);
}

void
walk_queue(const QueueRow *queue, Snapshot snapshot, int *looks)
{
	const int64 age = age_of(queue->queue_id);
	const PartitionRow *partition;
	PartitionWalk walk;

	partition_walk_open(&walk, queue->log_id, watch.walk_partition, snapshot);
	while (*looks < most_looks && (partition = partition_walk_next(&walk)) != nullptr)
	{
		WatchedPartition *entry = entry_of(queue->queue_id, partition->partition_id);

		entry->seen = watch.walk;
		set_due(entry, retention_due(partition, age));
		watch.walk_partition = partition->partition_id + 1;
		(*looks)++;
	}
	partition_walk_close(&walk);
}

void
walk_page()
{
	Snapshot snapshot = register_latest_snapshot();
	QueueTable queues;
	QueueRow queue;
	int looks = 0;

	queue_table_open(&queues, AccessShareLock);
	while (watch.walking && looks < most_looks)
	{
		CHECK_FOR_INTERRUPTS();
		if (!queue_find_from(&queues, watch.walk_queue, &queue))
			end_walk();
		else
		{
			if (queue.queue_id != watch.walk_queue)
				watch.walk_partition = 0;
			watch.walk_queue = queue.queue_id;
			walk_queue(&queue, snapshot, &looks);
			/* stopped by the number of looks it goes on there: a queue without partitions is a look too */
			if (looks < most_looks)
			{
				watch.walk_queue++;
				watch.walk_partition = 0;
				looks++;
			}
		}
	}
	queue_table_close(&queues);
	UnregisterSnapshot(snapshot);
}

/* ---- what is due ---- */

/* Look at a partition that is due; true when something was done. */
bool
look_at(WatchedPartition *entry, QueueTable *queues, PartitionTable *partitions, TimestampTz now)
{
	const int64 age = age_of(entry->queue_id);
	PartitionRow partition;
	QueueRow queue;
	RetentionRules rules;
	TimestampTz due;

	/* first: an error ends this step, and the others go on */
	set_due(entry, again_at(now, age));
	if (!partition_find_by_id(partitions, entry->partition_id, &partition) ||
		!queue_find_by_id(queues, entry->queue_id, &queue) || queue.log_id != partition.log_id)
	{
		forget(entry);
		return false;
	}
	rules = retention_rules(&queue.options, now);
	if (retention_step(&queue, &partition, &rules) != RetentionStep::nothing)
	{
		set_due(entry, now);
		return true;
	}
	due = retention_due(&partition, age);
	if (due > now)
		set_due(entry, due);
	return false;
}

bool
is_due(TimestampTz now)
{
	return !pairingheap_is_empty(watch.heap) && partition_of(pairingheap_first(watch.heap))->due <= now;
}

/* Look at what is due until something was done, or enough were looked at. */
void
look_at_due(TimestampTz now)
{
	QueueTable queues;
	PartitionTable partitions;
	bool done = false;

	queue_table_open(&queues, AccessShareLock);
	partition_table_open(&partitions, AccessShareLock);
	for (int looks = 0; !done && looks < most_looks && is_due(now); looks++)
	{
		CHECK_FOR_INTERRUPTS();
		done = look_at(partition_of(pairingheap_first(watch.heap)), &queues, &partitions, now);
	}
	partition_table_close(&partitions);
	queue_table_close(&queues);
}

/* In how many microseconds something is to be done. */
int64
next_step(TimestampTz now)
{
	TimestampTz next = watch.read_at + watch.read_after;

	if (watch.walking || is_due(now))
		return 0;
	if (!pairingheap_is_empty(watch.heap))
		next = Min(next, partition_of(pairingheap_first(watch.heap))->due);
	next = Min(next, watch.walk_owed ? watch.walk_not_before : watch.next_walk);
	return Max(next - now, 0);
}

} // namespace

int64
retention_watch_step()
{
	const Oid tables = own_tables();
	const TimestampTz now = GetCurrentTimestamp();
	bool walks;

	if (!changes_are_shared())
		return USECS_PER_HOUR;
	if (watch.tables != tables)
		begin_anew(tables);
	read_feed(now);
	read_options(now);
	if (!watch.walking && (watch.walk_owed ? now >= watch.walk_not_before : now >= watch.next_walk))
		begin_walk(now);
	/* not in one transaction: a page of the walk takes longer than a partition's lock may be held */
	walks = watch.walking && (watch.walk_turn || !is_due(now));
	watch.walk_turn = !walks;
	if (walks)
		walk_page();
	else
		look_at_due(now);
	return next_step(now);
}

void
retention_watch_state(RetentionWatchState *state)
{
	*state = {};
	if (watch.tables == InvalidOid)
		return;
	state->partitions = hash_get_num_entries(watch.partitions);
	state->queued = watch.queued;
	state->walks = watch.walk;
	state->walking = watch.walking;
}

QUEEN_FUNCTION(queen_retention_watch_step)

/*
 * For the tests (test/modules/queen_test declares it): a step in this session. Returns in how many microseconds the next one is due, and
 * what the watch knows.
 */
Datum
queen_retention_watch_step(PG_FUNCTION_ARGS)
{
	RetentionWatchState state;
	TupleDesc desc;
	Datum values[5];
	bool nulls[5] = {};

	guard_write("queen_test_retention_watch_step()");
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	values[0] = Int64GetDatum(retention_watch_step());
	retention_watch_state(&state);
	values[1] = Int64GetDatum(state.partitions);
	values[2] = Int64GetDatum(state.queued);
	values[3] = Int64GetDatum(state.walks);
	values[4] = BoolGetDatum(state.walking);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

} // namespace queen
