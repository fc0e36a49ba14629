/*
 * holds.cpp: queues that somebody keeps locked. See holds.h.
 *
 * Raises for memory only. No locks. What it remembers is this process's own. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/holds.h"

namespace queen
{

namespace
{

/* A queue is tried again after a second, two, four, and then after eight each time. */
constexpr core::Micros first_delay = 1'000'000;
constexpr int most_doublings = 3;
/* Queues that a step tries: each may cost it a wait for a lock. */
constexpr int most_tries = 8;
/* Beyond so many the one that is to be tried next is forgotten, and so tried with the others. */
constexpr long most_holds = 10000;

struct HeldQueue
{
	QueueKey key;
	core::Micros until;
	TimestampTz earliest; /* visible time of what was passed by */
	int doublings;
	bool trying;
};

constinit HTAB *holds = nullptr;

void
make_table()
{
	HASHCTL control = {};

	control.keysize = sizeof(QueueKey);
	control.entrysize = sizeof(HeldQueue);
	control.hcxt = TopMemoryContext;
	holds = hash_create("queen held queues", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* The one whose turn comes first among those that are not being tried; null when there is none. */
HeldQueue *
next_to_try()
{
	HeldQueue *first = nullptr;
	HASH_SEQ_STATUS scan;
	HeldQueue *queue;

	hash_seq_init(&scan, holds);
	while ((queue = (HeldQueue *) hash_seq_search(&scan)) != nullptr)
		if (!queue->trying && (first == nullptr || queue->until < first->until))
			first = queue;
	return first;
}

void
forget_tried()
{
	HASH_SEQ_STATUS scan;
	const HeldQueue *queue;

	hash_seq_init(&scan, holds);
	while ((queue = (const HeldQueue *) hash_seq_search(&scan)) != nullptr)
		if (queue->trying)
			(void) hash_search(holds, &queue->key, HASH_REMOVE, nullptr);
}

} // namespace

QueueKey
queue_key(const pg_uuid_t *tenant, Name queue)
{
	QueueKey key = {};

	key.tenant = *tenant;
	memcpy(key.name, queue.data, (Size) Min(queue.size, max_name_bytes));
	return key;
}

void
holds_forget()
{
	if (holds != nullptr)
		hash_destroy(holds);
	holds = nullptr;
}

core::Micros
holds_begin(core::Micros now, void (*due)(TimestampTz earliest))
{
	const HeldQueue *next;

	if (holds == nullptr || hash_get_num_entries(holds) == 0)
		return core::never;
	forget_tried();
	for (int i = 0; i < most_tries; i++)
	{
		HeldQueue *queue = next_to_try();

		if (queue == nullptr || queue->until > now)
			break;
		queue->trying = true;
		due(queue->earliest);
	}
	next = next_to_try();
	return next == nullptr ? core::never : next->until;
}

Hold
hold_of(const pg_uuid_t *tenant, Name queue, TimestampTz at)
{
	HeldQueue *found;
	QueueKey key;

	if (holds == nullptr || hash_get_num_entries(holds) == 0)
		return Hold::none;
	key = queue_key(tenant, queue);
	found = (HeldQueue *) hash_search(holds, &key, HASH_FIND, nullptr);
	if (found == nullptr)
		return Hold::none;
	if (found->trying)
		return Hold::trying;
	found->earliest = Min(found->earliest, at);
	return Hold::held;
}

bool
hold(const QueueKey *queue, TimestampTz earliest, bool known, core::Micros now)
{
	HeldQueue *held;
	bool found;

	if (holds == nullptr)
		make_table();
	if (hash_get_num_entries(holds) >= most_holds && (held = next_to_try()) != nullptr)
		(void) hash_search(holds, &held->key, HASH_REMOVE, nullptr);
	held = (HeldQueue *) hash_search(holds, queue, HASH_ENTER, &found);
	if (!found)
	{
		held->earliest = earliest;
		held->doublings = 0;
	}
	else if (known && held->trying)
		held->doublings = Min(held->doublings + 1, most_doublings);
	held->earliest = Min(held->earliest, earliest);
	held->trying = false;
	held->until = known ? now + (first_delay << held->doublings) : now;
	return known && !found;
}

} // namespace queen
