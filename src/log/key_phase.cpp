/*
 * key_phase.cpp: taking dedup_keys. See key_phase.h.
 *
 * Raises. Locks: what dedup_take holds to the end of the transaction. Runs in backends, in PRE_COMMIT.
 */
#include "log/key_phase.h"

#include "log/dedup.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* Columns of the sort, from 0; all but the last are its key. */
enum SortColumn : int
{
	sort_rank,
	sort_hash_high,
	sort_hash_low,
	sort_frame, /* of two messages with one key the first one counts */
	sort_message_id,
	sort_cols,
};

constexpr int sort_keys = sort_message_id;

/* Any total order that all backends agree on will do. */
void
split(const core::Uuid *hash, int64 *high, int64 *low)
{
	memcpy(high, hash->bytes, sizeof(*high));
	memcpy(low, hash->bytes + sizeof(*high), sizeof(*low));
}

core::Uuid
join(int64 high, int64 low)
{
	core::Uuid hash;

	memcpy(hash.bytes, &high, sizeof(high));
	memcpy(hash.bytes + sizeof(high), &low, sizeof(low));
	return hash;
}

int64
int8_of(TupleTableSlot *slot, SortColumn column)
{
	bool isnull;

	return DatumGetInt64(slot_getattr(slot, column + 1, &isnull));
}

} // namespace

void
key_phase_open(KeyPhase *phase, uint64 frames)
{
	AttrNumber columns[sort_keys] = {1, 2, 3, 4};
	Oid operators[sort_keys] = {Int8LessOperator, Int8LessOperator, Int8LessOperator, Int8LessOperator};
	Oid collations[sort_keys] = {};
	bool nulls_first[sort_keys] = {};

	phase->desc = CreateTemplateTupleDesc(sort_cols);
	for (int i = 0; i < sort_keys; i++)
		TupleDescInitEntry(phase->desc, (AttrNumber) (i + 1), nullptr, INT8OID, -1, 0);
	TupleDescInitEntry(phase->desc, sort_message_id + 1, nullptr, UUIDOID, -1, 0);
	phase->slot = MakeSingleTupleTableSlot(phase->desc, &TTSOpsVirtual);
	phase->sort = tuplesort_begin_heap(phase->desc, sort_keys, columns, operators, collations, nulls_first, work_mem,
									   nullptr, TUPLESORT_NONE);
	phase->duplicates =
		(uint8 *) MemoryContextAllocExtended(CurrentMemoryContext, frames / 8 + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

void
key_phase_add(KeyPhase *phase, int rank, const core::Uuid *key_hash, const core::Uuid *message_id, uint64 frame)
{
	TupleTableSlot *slot = phase->slot;
	pg_uuid_t id;
	int64 high;
	int64 low;

	split(key_hash, &high, &low);
	memcpy(id.data, message_id->bytes, UUID_LEN);
	ExecClearTuple(slot);
	slot->tts_values[sort_rank] = Int64GetDatum(rank);
	slot->tts_values[sort_hash_high] = Int64GetDatum(high);
	slot->tts_values[sort_hash_low] = Int64GetDatum(low);
	slot->tts_values[sort_frame] = Int64GetDatum((int64) frame);
	slot->tts_values[sort_message_id] = UUIDPGetDatum(&id);
	memset(slot->tts_isnull, 0, sizeof(bool) * sort_cols);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(phase->sort, slot);
	/* it points to what ends here */
	ExecClearTuple(slot);
}

void
key_phase_run(KeyPhase *phase, FlushTarget *targets)
{
	MemoryContext per_key = AllocSetContextCreate(CurrentMemoryContext, "queen flush key", ALLOCSET_DEFAULT_SIZES);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(phase->desc, &TTSOpsMinimalTuple);
	DedupTable dedup;

	tuplesort_performsort(phase->sort);
	dedup_open(&dedup);
	while (tuplesort_gettupleslot(phase->sort, true, false, slot, nullptr))
	{
		MemoryContext caller = MemoryContextSwitchTo(per_key);
		FlushTarget *target = &targets[int8_of(slot, sort_rank)];
		const int64 window = target->known.dedup_window;
		const char *queue_name = name_to_cstring(target->buffered->queue->name);
		const char *partition_name = name_to_cstring(target->buffered->name);
		core::Uuid hash = join(int8_of(slot, sort_hash_high), int8_of(slot, sort_hash_low));
		uint64 frame = (uint64) int8_of(slot, sort_frame);
		core::Uuid message_id;
		KeyOwner owner;
		bool isnull;

		message_id = uuid_from_datum(slot_getattr(slot, sort_message_id + 1, &isnull));
		if (window > 0)
			target->keyed = true;
		if (window > 0 && !dedup_take(&dedup, target->known.partition_id, &hash, &message_id, window, queue_name,
									  partition_name, &owner))
		{
			if (target->known.dedup_error)
				raise_duplicate(queue_name, partition_name, psprintf("message %s", uuid_text(message_id)), &owner);
			phase->duplicates[frame / 8] |= (uint8) (1U << (frame % 8));
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_key);
	}
	dedup_close(&dedup);
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(phase->slot);
	tuplesort_end(phase->sort);
	MemoryContextDelete(per_key);
}

} // namespace queen
