/*
 * shared_memory.cpp: memory that all processes share. See shared_memory.h.
 *
 * Raises at the server's start only, when memory is short. Holds AddinShmemInitLock while it looks. Hooks run in the postmaster
 * (which backends are forked from), at its start and when it starts anew after a crash.
 */
#include "server/shared_memory.h"

namespace queen
{

namespace
{

constexpr int most_parts = 16;

constinit const SharedPart *parts[most_parts] = {};
constinit int part_count = 0;
constinit shmem_request_hook_type next_request_hook = nullptr;
constinit shmem_startup_hook_type next_startup_hook = nullptr;
constinit object_access_hook_type next_access_hook = nullptr;

Size
size_of(const SharedPart *part)
{
	return part->measure != nullptr ? part->measure() : part->size;
}

} // namespace

extern "C"
{
static void
queen_shmem_request()
{
	if (next_request_hook != nullptr)
		next_request_hook();
	for (int i = 0; i < part_count; i++)
		RequestAddinShmemSpace(MAXALIGN(size_of(parts[i])));
}

static void
queen_shmem_startup()
{
	if (next_startup_hook != nullptr)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < part_count; i++)
	{
		bool found;
		void *memory = ShmemInitStruct(parts[i]->name, size_of(parts[i]), &found);

		if (!found)
			parts[i]->lay_out(memory);
		parts[i]->attach(memory);
	}
	LWLockRelease(AddinShmemInitLock);
}

static void
queen_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_access_hook != nullptr)
		next_access_hook(access, class_id, object_id, sub_id, arg);
	if (access != OAT_POST_CREATE || class_id != DatabaseRelationId)
		return;
	for (int i = 0; i < part_count; i++)
		if (parts[i]->forget_database != nullptr)
			parts[i]->forget_database(object_id);
}
}

void
shared_memory_join(const SharedPart *part)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	if (part_count == 0)
	{
		next_request_hook = shmem_request_hook;
		shmem_request_hook = queen_shmem_request;
		next_startup_hook = shmem_startup_hook;
		shmem_startup_hook = queen_shmem_startup;
		next_access_hook = object_access_hook;
		object_access_hook = queen_object_access;
	}
	Assert(part_count < most_parts);
	parts[part_count++] = part;
}

} // namespace queen
