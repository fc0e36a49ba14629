/*
 * maintain.cpp: CALL queen.maintain(), and the steps that it is made of. See maintain.h.
 *
 * Raises. Locks: see the steps' own files. Runs in backends and workers.
 */
#include "log/maintain.h"

#include "log/dead_letters.h"
#include "log/dedup.h"
#include "log/dropped.h"
#include "log/partition_walk.h"
#include "log/queues.h"
#include "log/retention.h"
#include "log/retired_groups.h"
#include "log/work_calls.h"
#include "server/guards.h"

namespace queen
{

namespace
{

/* Partitions that are looked at in one transaction while there is nothing to do. */
constexpr int most_looks = 1000;

/* Look at partitions of the pass's queue until one has something to do, or enough were looked at. False at the end. */
bool
walk_partitions(MaintainPass *pass, const QueueRow *queue)
{
	const RetentionRules rules = retention_rules(&queue->options, pass->began);
	Snapshot snapshot = register_latest_snapshot();
	RetentionStep step = RetentionStep::nothing;
	int looks = 0;
	PartitionWalk walk;
	const PartitionRow *partition = nullptr;

	partition_walk_open(&walk, queue->log_id, pass->partition_id, snapshot);
	while (step == RetentionStep::nothing && looks < most_looks && (partition = partition_walk_next(&walk)) != nullptr)
	{
		step = retention_step(queue, partition, &rules);
		looks++;
		pass->partition_id = step == RetentionStep::more ? partition->partition_id : partition->partition_id + 1;
	}
	partition_walk_close(&walk);
	UnregisterSnapshot(snapshot);
	return partition != nullptr;
}

/* The pass goes on with the next of its phases; false when there is none. */
bool
next_phase(MaintainPass *pass)
{
	pass->id = 0;
	pass->partition_id = 0;
	pass->block = 0;
	do
		pass->phase = (MaintainPhase) ((int) pass->phase + 1);
	while (pass->phase != MaintainPhase::end && (pass->phases & maintain_phase(pass->phase)) == 0);
	return pass->phase != MaintainPhase::end;
}

/* A step for the pass's next queue; false when there is none. */
bool
segments_step(MaintainPass *pass)
{
	QueueTable queues;
	QueueRow queue;
	bool found;

	queue_table_open(&queues, AccessShareLock);
	found = queue_find_from(&queues, pass->id, &queue);
	queue_table_close(&queues);
	if (!found)
		return false;
	if (queue.queue_id != pass->id)
		pass->partition_id = 0;
	pass->id = queue.queue_id;
	if (!walk_partitions(pass, &queue))
	{
		/* partitions of the next queue may be older than this one's last */
		pass->id++;
		pass->partition_id = 0;
	}
	return true;
}

/* A step for the pass's next queue that has dead letters; false when there is none. */
bool
dead_letters_step(MaintainPass *pass)
{
	QueueTable queues;
	QueueRow queue;
	bool known;

	if (pass->id == dead_of_no_queue)
	{
		if (dead_letters_expire_of_no_queue(&pass->partition_id, pass->began))
			return true;
		pass->id++;
	}
	if (!dead_letters_next_queue(pass->id, &pass->id))
		return false;
	queue_table_open(&queues, AccessShareLock);
	known = queue_find_by_id(&queues, pass->id, &queue);
	queue_table_close(&queues);
	if (!known || queue.options.dead_retention == option_off ||
		!dead_letters_expire_step(pass->id, pass->began - queue.options.dead_retention))
		pass->id++;
	return true;
}

bool
messages_step(MaintainPass *pass)
{
	const bool first = pass->id == 0;
	TimestampTz next;

	pass->id = 1;
	return work_calls->expire_step(first, &next);
}

} // namespace

void
maintain_begin(MaintainPass *pass, uint32 phases)
{
	*pass = {};
	pass->phases = phases;
	pass->began = GetCurrentTimestamp();
	if ((phases & maintain_phase(pass->phase)) == 0)
		(void) next_phase(pass);
}

bool
maintain_step(MaintainPass *pass)
{
	bool done = false;

	switch (pass->phase)
	{
		case MaintainPhase::dropped:
			done = dropped_step(&pass->id, &pass->partition_id);
			break;
		case MaintainPhase::retired_groups:
			done = retired_groups_step();
			break;
		case MaintainPhase::segments:
			done = segments_step(pass);
			break;
		case MaintainPhase::keys:
			done = dedup_expire_step(&pass->block);
			break;
		case MaintainPhase::dead_letters:
			done = dead_letters_step(pass);
			break;
		case MaintainPhase::messages:
			done = messages_step(pass);
			break;
		case MaintainPhase::end:
			return false;
	}
	return done || next_phase(pass);
}

QUEEN_FUNCTION(queen_maintain)

/* CALL queen.maintain() */
Datum
queen_maintain(PG_FUNCTION_ARGS)
{
	MemoryContext per_step;
	MaintainPass pass;
	bool more = true;

	guard_procedure(fcinfo, "queen.maintain()", "It commits after each step: CALL it on its own.");
	guard_write("queen.maintain()");
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
	/* SPI's context outlives the commits */
	per_step = AllocSetContextCreate(CurrentMemoryContext, "queen maintain", ALLOCSET_DEFAULT_SIZES);
	maintain_begin(&pass, maintain_all);
	while (more)
	{
		MemoryContext caller = MemoryContextSwitchTo(per_step);

		CHECK_FOR_INTERRUPTS();
		guard_write("queen.maintain()");
		/*
		 * The lock of a partition is held to the commit's end: that must not be a disk's. A crash that forgets the commit
		 * forgets all of it, and whatever was committed after it at the same time.
		 */
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
		more = maintain_step(&pass);
		MemoryContextSwitchTo(caller);
		SPI_commit();
		MemoryContextReset(per_step);
	}
	SPI_finish();
	return (Datum) 0;
}

} // namespace queen
