/*
 * known_partitions.h: a backend's memory of partitions' names by their ids, which a pop from a ring gives only.
 *
 * An id is never given again and a name never changes, so what is remembered is right as long as the partition is there; whoever
 * deletes one sends invalidate_names. Of fixed size: a new one takes the place of another.
 */
#ifndef QUEEN_LOG_KNOWN_PARTITIONS_H
#define QUEEN_LOG_KNOWN_PARTITIONS_H

#include "server/pg.h"

namespace queen
{

/* The name, which holds until the next call of these functions; null when it is not known. Raises for memory only. */
const char *known_partition_find(Oid tables, int64 partition_id);

/* Remember the name of a partition whose row is committed, as of names_generation(). Raises for memory only. */
void known_partition_put(Oid tables, int64 partition_id, const char *name, uint64 generation);

} // namespace queen

#endif
