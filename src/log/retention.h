/*
 * retention.h: deleting the segments at a partition's beginning that its queue no longer wants.
 */
#ifndef QUEEN_LOG_RETENTION_H
#define QUEEN_LOG_RETENTION_H

#include "log/partitions.h"
#include "log/queues.h"
#include "server/pg.h"

namespace queen
{

/* What a queue's options say at a moment. DT_NOBEGIN: never. */
struct RetentionRules
{
	TimestampTz old;	   /* what was pushed before goes, consumed or not */
	TimestampTz completed; /* what was pushed before goes when every group has passed it … */
	TimestampTz idle;	   /* … but for those that popped last before */
	TimestampTz unused;	   /* a partition that has been empty since before goes */
};

RetentionRules retention_rules(const QueueOptions *options, TimestampTz now);

enum class RetentionStep
{
	nothing, /* there was nothing to do: no lock was taken, nothing was written */
	done,
	more, /* something was done, and there is more: commit and come again */
};

/*
 * One bounded step in one partition. Where it does something it holds the partition's locks to the end of the transaction,
 * which should come at once. Warns, and does nothing, when one is not to be had for queen.flush_timeout.
 */
RetentionStep retention_step(const QueueRow *queue, const PartitionRow *partition, const RetentionRules *rules);

/* How old a queue's segments may become before retention has to look at them; PG_INT64_MAX: as old as they like. */
int64 retention_age(const QueueOptions *options);

/*
 * Since when, as far as is known now, a step will have something to look at in the partition; DT_NOEND: never. It may lie in the past, and
 * the step find nothing to do all the same: a group has not passed the messages.
 */
TimestampTz retention_due(const PartitionRow *partition, int64 age);

} // namespace queen

#endif
