/*
 * known_names.h: a backend's memory of which ids the names of partitions stand for.
 *
 * A hint that is right as of the last invalidation that this backend has taken notice of; README.md has the rules. Of fixed
 * size: a new name takes the place of another.
 */
#ifndef QUEEN_LOG_KNOWN_NAMES_H
#define QUEEN_LOG_KNOWN_NAMES_H

#include "log/push_buffer.h"
#include "server/pg.h"

namespace queen
{

struct KnownName
{
	int64 partition_id;
	int64 queue_id;
	int64 log_id;

	/* of the queue's options, what a flush needs */
	int compression; /* zstd level, 0 stores */
	int64 dedup_window;
	bool dedup_error;
	uint64 channel; /* to be notified, 0: none */
};

/* What is known of a partition's names; false when it is nothing. Raises for memory only. */
bool known_name_find(const BufferedPartition *names, KnownName *known);

/*
 * Remember what was read from rows of committed transactions while names_generation() was what is given here. Raises for
 * memory only.
 */
void known_name_put(const BufferedPartition *names, const KnownName *known, uint64 generation);

} // namespace queen

#endif
