/*
 * shared_memory.h: memory that all processes share, of a size fixed when the server starts; only when preloaded.
 */
#ifndef QUEEN_SERVER_SHARED_MEMORY_H
#define QUEEN_SERVER_SHARED_MEMORY_H

#include "server/pg.h"

namespace queen
{

/*
 * A folder's part.
 *   lay_out   fills fresh memory, in the postmaster, also after a crash; must not raise
 *   attach    takes note of where it is, in every process
 *   measure   answers the size where it depends on what is known only when memory is asked for (MaxBackends); may be null
 *   forget_database  a database of that oid is being created: what is known of one that had it before is not its own (CREATE DATABASE … OID,
 *             with the same tables if both were copied from one template). Nobody is connected to it yet. Must not raise; may be null.
 */
struct SharedPart
{
	const char *name;
	Size size;
	void (*lay_out)(void *memory);
	void (*attach)(void *memory);
	void (*forget_database)(Oid database);
	Size (*measure)();
};

/* Called by _PG_init for each part, which stays where it is; without preload it does nothing, and attach is never called. */
void shared_memory_join(const SharedPart *part);

} // namespace queen

#endif
