/*
 * notify.cpp: channels that the pulse is to notify. See notify.h.
 *
 * Never raises. Locks: the set's, for some steps to flag, for one look at all of it to take. Runs in every process; notify_take in pulses.
 */
#include "hotlist/notify.h"

#include "hotlist/gates_memory.h"

namespace queen
{

namespace
{

constinit GatesMemory &memory = gates_memory;

/* Places that a channel may have. */
constexpr uint32 probes = 32;

/* Under the lock; false when it has no place. */
bool
put(uint64 channel)
{
	FlaggedChannel *unused = nullptr;

	for (uint32 i = 0; i < probes; i++)
	{
		FlaggedChannel *place = &memory.head->channels[(channel + i) % notify_room];

		if (place->database == MyDatabaseId && place->channel == channel)
			return true;
		if (unused == nullptr && place->database == InvalidOid)
			unused = place;
	}
	if (unused != nullptr)
		*unused = {channel, MyDatabaseId};
	return unused != nullptr;
}

} // namespace

uint64
notify_channel(const pg_uuid_t *tenant, const char *queue, int size)
{
	const uint64 hash =
		hash_bytes_extended((const unsigned char *) queue, size, hash_bytes_extended(tenant->data, UUID_LEN, 0));

	return hash != 0 ? hash : 1;
}

void
notify_flag(uint64 channel)
{
	DatabasePlace *place = gates_there() ? place_find() : nullptr;
	LWLock *lock;
	int32 pulse;

	if (place == nullptr)
		return;
	pulse = place->pulse.load(std::memory_order_relaxed);
	/* nobody would take it, and a pulse that comes later has nobody to tell of what was before */
	if (pulse == 0)
		return;
	lock = &memory.head->channels_lock.lock;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (!put(channel))
		place->channels_overrun.store(1, std::memory_order_relaxed);
	LWLockRelease(lock);
	/* the first since the last taking */
	if (place->channels_flagged.exchange(1) == 0)
		wake_process(pulse - 1);
}

void
notify_ring(uint32 ring_index, uint64 channel)
{
	if (gates_there() && memory.gates[ring_index].channel.load(std::memory_order_relaxed) != channel)
		memory.gates[ring_index].channel.store(channel, std::memory_order_relaxed);
}

bool
notify_pending()
{
	const DatabasePlace *place = gates_there() ? place_find() : nullptr;

	return place != nullptr && place->channels_flagged.load() != 0;
}

uint32
notify_take(uint64 *channels, bool *overrun)
{
	DatabasePlace *place = place_find();
	LWLock *lock = &memory.head->channels_lock.lock;
	uint32 count = 0;

	*overrun = false;
	if (place == nullptr)
		return 0;
	/* whoever flags from now on rings again */
	place->channels_flagged.store(0);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (FlaggedChannel &flagged : memory.head->channels)
		if (flagged.database == MyDatabaseId)
		{
			channels[count++] = flagged.channel;
			flagged = {};
		}
	*overrun = place->channels_overrun.exchange(0) != 0;
	LWLockRelease(lock);
	return count;
}

} // namespace queen
