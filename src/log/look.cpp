/*
 * look.cpp: is there work for a group? See look.h.
 *
 * Raises. Locks: none but the tables', and a birth of a group. Runs in backends.
 */
#include "log/look.h"

#include "log/candidates.h"
#include "log/ring_walk.h"
#include "log/serve.h"
#include "server/relations.h"
#include "server/settings.h"

namespace queen
{

namespace hot = core::hotlist;

ConsumerFind
consumer_find(const Consumer *consumer, QueueRow *queue, GroupRow *group)
{
	ConsumerFind result = ConsumerFind::there;
	bool same = false;
	QueueTable queues;
	QueueRow now;

	queue_table_open(&queues, AccessShareLock);
	/*
	 * A drop or purge that ends between the two looks would give us a log that is gone together with a group that has completed nothing of it.
	 */
	while (result == ConsumerFind::there && !same)
	{
		CHECK_FOR_INTERRUPTS();
		/* an unknown queue is no error: its first push may be under way */
		if (!queue_find(&queues, setting_tenant(), consumer->queue, queue))
		{
			result = ConsumerFind::no_queue;
			break;
		}
		queue_check_kind(queue, QueueKind::log, hint_for_pop);
		if (group_find_or_subscribe(setting_tenant(), queue->queue_id, consumer->group, group) != GroupFind::found)
			result = ConsumerFind::running;
		else if (!queue_find_by_id(&queues, queue->queue_id, &now))
			result = ConsumerFind::no_queue;
		else
			same = now.log_id == queue->log_id;
	}
	queue_table_close(&queues);
	return result;
}

namespace
{

/* News of the partition that a consumer names, or of its birth. */
uint64
partition_news(const QueueRow *queue, Name name)
{
	PartitionTable partitions;
	PartitionRow row;
	bool found;

	partition_table_open(&partitions, AccessShareLock);
	found = partition_find(&partitions, queue->log_id, name, &row);
	partition_table_close(&partitions);
	if (found)
		return gate_key(News::partition, own_tables(), queue->queue_id, row.partition_id);
	return gate_key(News::births, own_tables(), queue->log_id);
}

void
find_place(const Consumer *consumer, ConsumerPlace *place)
{
	const Oid tables = own_tables();
	Fallback why;

	place->has_ring = false;
	place->wait_for = {};
	place->find = consumer_find(consumer, &place->queue, &place->group);
	if (place->find == ConsumerFind::no_queue)
	{
		place->wait_for.event = gate_key_of_name(tables, setting_tenant(), consumer->queue.data, consumer->queue.size);
		return;
	}
	place->wait_for.event = gate_key(News::queue_event, tables, place->queue.queue_id);
	if (!consumer_may_take(place))
		return;
	if (consumer->partition != nullptr)
		place->wait_for.work = partition_news(&place->queue, *consumer->partition);
	else if (group_ring(&place->queue, &place->group, &place->ring, &why))
	{
		place->has_ring = true;
		place->wait_for.ring = place->ring.ring;
	}
	else
		place->wait_for.work = gate_key(News::queue, tables, place->queue.queue_id);
}

/* Ask the tables of the partition, or of all until one has something. */
WaitLook
look_by_tables(const Consumer *consumer, const ConsumerPlace *place)
{
	const ClaimRequest request = {&place->queue, &place->group, place->queue.options.lease_time, false};
	CandidateWalk *walk = (CandidateWalk *) palloc(sizeof(CandidateWalk));
	WaitLook found = {false, hot::never, {}};
	ClaimTables tables;
	int count;

	claim_tables_open(&tables);
	candidate_walk_open(walk, place->queue.log_id, consumer->partition, 0);
	while (!found.ready && (count = candidate_walk_page(walk)) > 0)
		for (int i = 0; i < count && !found.ready; i++)
		{
			Candidate *candidate = &walk->page[i];

			CHECK_FOR_INTERRUPTS();
			claim_look(&tables, &request, candidate);
			found.ready = candidate->verdict == Verdict::took;
			found.until = Min(found.until, candidate_until(candidate));
		}
	candidate_walk_close(walk);
	claim_tables_close(&tables);
	return found;
}

} // namespace

void
consumer_enter(const Consumer *consumer, ConsumerPlace *place)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		find_place(consumer, place);
	} while (gates_enter(&place->wait_for));
}

WaitLook
consumer_look(const Consumer *consumer, const ConsumerPlace *place)
{
	WaitLook found;

	if (!place->has_ring)
		return look_by_tables(consumer, place);
	for (int walks = 0;; walks++)
	{
		switch (ring_news(place->ring.ring))
		{
			case RingNews::ready:
				return {true, hot::never, place->ring.ring};
			case RingNews::nothing:
				return {false, hot::never, place->ring.ring};
			case RingNews::look:
				break;
		}
		/* another one's walk tells at its end; what ours could not pay is asked of the tables */
		if (walks > 0 || hot::owes(hotlist(), place->ring.ring, hotlist_now(), 0) == hot::Owes::full)
			break;
		if (!ring_walk(&place->queue, &place->group, &place->ring))
			return {false, hot::never, place->ring.ring};
	}
	found = look_by_tables(consumer, place);
	found.ring = place->ring.ring;
	return found;
}

} // namespace queen
