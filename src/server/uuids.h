/*
 * uuids.h: uuids between the core and PostgreSQL. Raises only for memory; no locks.
 */
#ifndef QUEEN_SERVER_UUIDS_H
#define QUEEN_SERVER_UUIDS_H

#include "core/types.h"
#include "server/pg.h"

namespace queen
{

/* A uuid datum, palloc'ed. */
Datum uuid_to_datum(const core::Uuid &uuid);

core::Uuid uuid_from_datum(Datum datum);

/* As uuid_out prints it, palloc'ed. */
const char *uuid_text(const pg_uuid_t *uuid);
const char *uuid_text(const core::Uuid &uuid);

} // namespace queen

#endif
