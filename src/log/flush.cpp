/*
 * flush.cpp: writing the push buffer, in PRE_COMMIT. See flush.h; the order is design.md section 3.
 *
 * flush_pushes raises. Locks, in this order (the push has locked the own tables): births' unique keys, queues, then
 * partitions, by name, to the end; dedup_keys, to the end; then one partition at a time, briefly. Runs in backends.
 */
#include "log/flush.h"

#include "log/key_phase.h"
#include "log/push_buffer.h"
#include "log/pushed_partitions.h"
#include "log/segment_builder.h"
#include "log/targets.h"
#include "server/relations.h"
#include "server/settings.h"
#include "server/timed_wait.h"

namespace queen
{

namespace
{

/* What was pushed to tables that this transaction has dropped since is void. Returns how many are left. */
int
drop_void(BufferedPartition **sorted, int count)
{
	int left = 0;

	for (int i = 0; i < count; i++)
		if (!tables_were_dropped(sorted[i]->queue->tables))
			sorted[left++] = sorted[i];
	return left;
}

/* Was the frame pushed before this transaction dropped its queue? */
bool
is_void(const BufferedPartition *partition, uint64 number)
{
	return number < partition->queue->void_below;
}

/* How many frames of a partition in memory are to be written. */
uint64
count_frames(const BufferedPartition *partition)
{
	uint64 count = 0;

	if (partition->queue->void_below == 0)
		return partition->count;
	for (const BufferedFrame *f = partition->last; f != nullptr && !is_void(partition, f->number);
		 f = f->previous_of_partition)
		count++;
	return count;
}

/* Take the keys of the frames in memory. rank_of: partitions' numbers to places in targets, -1 for those that are void. */
void
take_keys(KeyPhase *keys, const int *rank_of, FlushTarget *targets)
{
	key_phase_open(keys, push_buffer_count());
	for (const BufferedFrame *f = push_buffer_last(); f != nullptr; f = f->previous)
		if (f->keyed && rank_of[f->partition->number] >= 0 && !is_void(f->partition, f->number))
			key_phase_add(keys, rank_of[f->partition->number], &f->key_hash, &f->frame.message_id, f->number);
	key_phase_run(keys, targets);
}

/* Numbers of partitions in the buffer to places in sorted. */
int *
ranks_of(BufferedPartition **sorted, int count)
{
	const uint32 numbers = push_buffer_partitions();
	int *rank_of = (int *) palloc(sizeof(int) * numbers);

	for (uint32 i = 0; i < numbers; i++)
		rank_of[i] = -1;
	for (int i = 0; i < count; i++)
		rank_of[sorted[i]->number] = i;
	return rank_of;
}

/* Everything is in memory: each partition's frames are a list. */
void
flush_memory(BufferedPartition **sorted, int count, bool preparing)
{
	uint64 *counts = (uint64 *) palloc(sizeof(uint64) * (Size) count);
	const bool keyed = push_buffer_keyed() > 0;
	KeyPhase keys;
	FlushTarget *targets;
	SegmentBuilder builder;

	for (int i = 0; i < count; i++)
		counts[i] = count_frames(sorted[i]);
	targets = targets_resolve(sorted, counts, count, preparing);
	if (keyed)
		take_keys(&keys, ranks_of(sorted, count), targets);
	segment_builder_open(&builder, preparing);
	for (int i = 0; i < count; i++)
	{
		uint64 left = counts[i];
		const BufferedFrame **frames =
			(const BufferedFrame **) MemoryContextAllocHuge(CurrentMemoryContext, sizeof(BufferedFrame *) * (left + 1));

		for (const BufferedFrame *f = sorted[i]->last; left > 0; f = f->previous_of_partition)
			frames[--left] = f;
		for (uint64 n = 0; n < counts[i]; n++)
		{
			if (keyed && key_phase_is_duplicate(&keys, frames[n]->number))
				continue;
			segment_builder_room(&builder, &targets[i], &frames[n]->frame);
			segment_builder_add(&builder, &frames[n]->frame);
		}
		/* the builder may still point to frames, never to this array */
		pfree(frames);
	}
	segment_builder_close(&builder);
}

/* The file has the frames in the order of their pushes; a segment wants those of one partition. */
struct FileSort
{
	TupleDesc desc;
	Tuplesortstate *sort;
	TupleTableSlot *slot;
};

void
file_sort_open(FileSort *sort)
{
	AttrNumber columns[] = {1, 2};
	Oid operators[] = {Int4LessOperator, Int8LessOperator};
	Oid collations[] = {InvalidOid, InvalidOid};
	bool nulls_first[] = {false, false};

	sort->desc = CreateTemplateTupleDesc(3);
	TupleDescInitEntry(sort->desc, 1, "rank", INT4OID, -1, 0);
	TupleDescInitEntry(sort->desc, 2, "number", INT8OID, -1, 0);
	TupleDescInitEntry(sort->desc, 3, "frame", BYTEAOID, -1, 0);
	sort->sort = tuplesort_begin_heap(sort->desc, 2, columns, operators, collations, nulls_first, work_mem, nullptr,
									  TUPLESORT_NONE);
	sort->slot = MakeSingleTupleTableSlot(sort->desc, &TTSOpsVirtual);
}

void
file_sort_put(FileSort *sort, int rank, int64 number, Datum frame)
{
	ExecClearTuple(sort->slot);
	sort->slot->tts_values[0] = Int32GetDatum(rank);
	sort->slot->tts_values[1] = Int64GetDatum(number);
	sort->slot->tts_values[2] = frame;
	memset(sort->slot->tts_isnull, 0, sizeof(bool) * 3);
	ExecStoreVirtualTuple(sort->slot);
	tuplesort_puttupleslot(sort->sort, sort->slot);
	ExecClearTuple(sort->slot);
}

/* Add a frame whose bytes are somewhere else: they are copied to where the segment's live. */
void
add_copy(SegmentBuilder *builder, FlushTarget *target, const StoredFrame *head, const uint8 *bytes)
{
	Size size = head->headers_size + head->payload_size;
	core::Frame frame = frame_of(head, bytes);
	uint8 *copy;

	segment_builder_room(builder, target, &frame);
	copy = (uint8 *) MemoryContextAllocHuge(builder->scratch, size + 1);
	memcpy(copy, bytes, size);
	frame = frame_of(head, copy);
	segment_builder_add(builder, &frame);
}

/* Some of it went to the file: sort it by partition, on disk where it does not fit into work_mem. */
void
flush_file(BufferedPartition **sorted, int count, FrameFile *file, bool preparing)
{
	uint64 *counts = (uint64 *) palloc0(sizeof(uint64) * (Size) count);
	const int *rank_of = ranks_of(sorted, count);
	const bool keyed = push_buffer_keyed() > 0;
	KeyPhase keys;
	MemoryContext per_frame = AllocSetContextCreate(CurrentMemoryContext, "queen flush frame", ALLOCSET_DEFAULT_SIZES);
	FlushTarget *targets;
	SegmentBuilder builder;
	TupleTableSlot *slot;
	StoredFrame head;
	FileSort sort;

	file_sort_open(&sort);
	if (keyed)
		key_phase_open(&keys, push_buffer_count());
	frame_file_rewind(file);
	for (int64 number = 0; frame_file_next(file, &head); number++)
	{
		Size size = sizeof(head) + head.headers_size + head.payload_size;
		struct varlena *stored = (struct varlena *) MemoryContextAllocHuge(per_frame, VARHDRSZ + size);

		CHECK_FOR_INTERRUPTS();
		SET_VARSIZE(stored, VARHDRSZ + size);
		memcpy(VARDATA(stored), &head, sizeof(head));
		frame_file_body(file, &head, (uint8 *) VARDATA(stored) + sizeof(head));
		if (rank_of[head.partition] >= 0 && !is_void(sorted[rank_of[head.partition]], (uint64) number))
		{
			counts[rank_of[head.partition]]++;
			file_sort_put(&sort, rank_of[head.partition], number, PointerGetDatum(stored));
			if (head.keyed)
				key_phase_add(&keys, rank_of[head.partition], &head.key_hash, &head.message_id, (uint64) number);
		}
		MemoryContextReset(per_frame);
	}
	tuplesort_performsort(sort.sort);

	targets = targets_resolve(sorted, counts, count, preparing);
	if (keyed)
		key_phase_run(&keys, targets);
	segment_builder_open(&builder, preparing);
	slot = MakeSingleTupleTableSlot(sort.desc, &TTSOpsMinimalTuple);
	while (tuplesort_gettupleslot(sort.sort, true, false, slot, nullptr))
	{
		bool isnull;
		int rank = DatumGetInt32(slot_getattr(slot, 1, &isnull));
		const struct varlena *stored = (const struct varlena *) DatumGetPointer(slot_getattr(slot, 3, &isnull));
		const uint8 *bytes = (const uint8 *) VARDATA_ANY(stored);
		uint64 number = (uint64) DatumGetInt64(slot_getattr(slot, 2, &isnull));

		if (keyed && key_phase_is_duplicate(&keys, number))
			continue;
		memcpy(&head, bytes, sizeof(head));
		add_copy(&builder, &targets[rank], &head, bytes + sizeof(head));
	}
	segment_builder_close(&builder);
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(sort.slot);
	tuplesort_end(sort.sort);
}

void
write_all(void *arg)
{
	const bool preparing = *(const bool *) arg;
	MemoryContext context = AllocSetContextCreate(TopTransactionContext, "queen flush", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	BufferedPartition **sorted;
	FrameFile *file;
	int count;

	/* toasting wants a snapshot to be there */
	PushActiveSnapshot(GetLatestSnapshot());
	sorted = push_buffer_sorted(&count);
	count = drop_void(sorted, count);
	file = push_buffer_file();
	if (count > 0 && file != nullptr)
		flush_file(sorted, count, file, preparing);
	else if (count > 0)
		flush_memory(sorted, count, preparing);
	push_buffer_close();
	/* a later read in this transaction must meet its own rows as seen */
	CommandCounterIncrement();
	PopActiveSnapshot();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

void
flush(bool preparing)
{
	if (push_buffer_count() == 0)
		/* all of it may have been rolled back to savepoints, and its file still be open */
		push_buffer_close();
	/* the waits that are foreseen have errors of their own; this bounds the others, for a lock on an index, say */
	else if (!run_with_timeout(setting_flush_timeout, false, write_all, &preparing))
		ereport(ERROR, (errcode(errcode_flush_timeout), errmsg("could not get a lock to write pushed messages"),
						errdetail("Waited %d ms for it (queen.flush_timeout).", setting_flush_timeout),
						errhint("Try again.")));
}

/* PRE_PREPARE has come: what other libraries' callbacks still push brings nothing to life either */
constinit bool being_prepared = false;

void
prepare()
{
	being_prepared = true;
	/* its keys would stay taken, and everybody who brings one would wait, until somebody ends it */
	if (push_buffer_keyed() > 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has pushed with a dedup_key"),
						errhint("Commit it in one phase, or push without a key.")));
	flush_pushes();
}

void
ended(bool committed)
{
	/* a PREPARE that failed tells for nothing */
	pushed_partitions_tell(committed || being_prepared);
	being_prepared = false;
	push_buffer_forget();
	segment_builder_forget();
	forget_push_locks();
}

void
sub_aborted(SubTransactionId self)
{
	push_buffer_sub_aborted(self);
	/* they may have been taken since the savepoint */
	forget_push_locks();
}

} // namespace

const TransactionParticipant push_participant = {
	flush_pushes, prepare, ended, nullptr, push_buffer_sub_committed, sub_aborted,
};

void
flush_pushes()
{
	flush(being_prepared);
}

} // namespace queen
