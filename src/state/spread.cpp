/*
 * spread.cpp: over how many shards counts are spread. See spread.h.
 *
 * Never raises. No locks: a place is one atomic word. Laid out in the postmaster; runs in every process.
 */
#include "state/spread.h"

#include "server/compat.h"
#include "server/shared_memory.h"

namespace queen
{

namespace
{

/* Queues of wider spread than one shard that are remembered: a cache line for each bucket, 32 kB. */
constexpr int places_of_bucket = 8;
constexpr int bucket_count = 512;

/* A place: the hash of a log, and in its low bits the spread's logarithm. 0: free. */
constexpr uint64 exponent_bits = 7;

struct Bucket
{
	pg_atomic_uint64 places[places_of_bucket];
};

constinit Bucket own = {};
constinit Bucket *shared = nullptr;

void
lay_out(void *memory)
{
	Bucket *buckets = (Bucket *) memory;

	for (int i = 0; i < bucket_count; i++)
		for (pg_atomic_uint64 &place : buckets[i].places)
			pg_atomic_init_u64(&place, 0);
}

void
attach(void *memory)
{
	shared = (Bucket *) memory;
}

uint64
hash_of(Oid tables, int64 log_id)
{
	const uint64 key[] = {(uint64) MyDatabaseId << 32 | tables, (uint64) log_id};

	return hash_bytes_extended((const unsigned char *) key, sizeof(key), 0) | (exponent_bits + 1);
}

Bucket *
bucket_of(uint64 hash)
{
	return shared == nullptr ? &own : &shared[hash / 16 % bucket_count];
}

bool
is_of(uint64 place, uint64 hash)
{
	return (place & ~exponent_bits) == (hash & ~exponent_bits);
}

int16
spread_in(uint64 place)
{
	return (int16) (1 << (place & exponent_bits));
}

} // namespace

void
spread_init()
{
	static constinit SharedPart part = {
		"queen spread of counts", sizeof(Bucket) * bucket_count, lay_out, attach, nullptr, nullptr};

	static_assert(most_shards == 1 << 5 && exponent_bits >= 5);
	shared_memory_join(&part);
}

int16
spread_of(Oid tables, int64 log_id)
{
	const uint64 hash = hash_of(tables, log_id);

	for (pg_atomic_uint64 &place : bucket_of(hash)->places)
	{
		const uint64 found = pg_atomic_read_u64(&place);

		if (is_of(found, hash))
			return Min(spread_in(found), most_shards);
	}
	return 1;
}

int16
spread_draw(Oid tables, int64 log_id)
{
	/* the process's own: drawn at random, two of eight would meet at every other commit */
	return (int16) (my_proc_number() % spread_of(tables, log_id));
}

void
spread_widen(Oid tables, int64 log_id, int16 found)
{
	const uint64 hash = hash_of(tables, log_id);
	Bucket *bucket = bucket_of(hash);
	pg_atomic_uint64 *place = &bucket->places[0];
	uint64 seen = pg_atomic_read_u64(place);
	uint64 exponent = 1;

	if (found == most_shards)
		return;
	while (1 << exponent <= found)
		exponent++;
	/* its own place, or the one of the least spread: that queue begins anew */
	for (pg_atomic_uint64 &other : bucket->places)
	{
		const uint64 value = pg_atomic_read_u64(&other);

		if (is_of(value, hash))
		{
			if (spread_in(value) > found)
				return;
			place = &other;
			seen = value;
			break;
		}
		if (value == 0 || (seen != 0 && (value & exponent_bits) < (seen & exponent_bits)))
		{
			place = &other;
			seen = value;
		}
	}
	/* who is faster has widened it, or took the place: then the next wait tries again */
	(void) pg_atomic_compare_exchange_u64(place, &seen, (hash & ~exponent_bits) | exponent);
}

} // namespace queen
