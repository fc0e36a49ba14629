/*
 * uuids.cpp: uuids between the core and PostgreSQL. See uuids.h.
 */
#include "server/uuids.h"

namespace queen
{

Datum
uuid_to_datum(const core::Uuid &uuid)
{
	pg_uuid_t *copy = (pg_uuid_t *) palloc(sizeof(pg_uuid_t));

	memcpy(copy->data, uuid.bytes, UUID_LEN);
	return UUIDPGetDatum(copy);
}

core::Uuid
uuid_from_datum(Datum datum)
{
	core::Uuid uuid;

	memcpy(uuid.bytes, DatumGetUUIDP(datum)->data, UUID_LEN);
	return uuid;
}

const char *
uuid_text(const pg_uuid_t *uuid)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(uuid)));
}

const char *
uuid_text(const core::Uuid &uuid)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, uuid_to_datum(uuid)));
}

} // namespace queen
