/*
 * rollup.cpp: changes of counts, noted by a transaction and written at its commit. See rollup.h.
 *
 * Notes raise for memory only, the end never. The flush raises; it locks rows of counts in one order, to the end of the
 * transaction. Runs in backends and workers.
 */
#include "state/rollup.h"

#include "server/kept_array.h"
#include "server/relations.h"
#include "state/shard_rows.h"

namespace queen
{

namespace
{

struct Note
{
	ShardCounts change;
	Oid tables;
	SubTransactionId sub;
};

constexpr uint32 kept_notes = 64;
constinit KeptArray<Note, kept_notes> notes = {};

/* The flush of this transaction is over: nothing will write what is noted now. */
constinit bool flushed = false;

/* So many of the last notes are looked at for one of the same shard: those of a queue or two. */
constexpr uint32 looked_at = 3 * most_shards;

int
compare_notes(const void *left, const void *right)
{
	const Note *a = (const Note *) left;
	const Note *b = (const Note *) right;

	if (a->tables != b->tables)
		return a->tables < b->tables ? -1 : 1;
	return shard_order(&a->change, &b->change);
}

/* Sort notes, and make one of those of a shard; returns how many are left. Never raises. */
uint32
merge(Note *first, uint32 count)
{
	uint32 kept = 0;

	qsort(first, count, sizeof(Note), compare_notes);
	for (uint32 i = 0; i < count; i++)
	{
		if (kept > 0 && compare_notes(&first[kept - 1], &first[i]) == 0)
		{
			first[kept - 1].change.ready += first[i].change.ready;
			first[kept - 1].change.in_flight += first[i].change.in_flight;
			continue;
		}
		/* what has come to nothing is written over */
		if (kept > 0 && first[kept - 1].change.ready == 0 && first[kept - 1].change.in_flight == 0)
			kept--;
		first[kept++] = first[i];
	}
	if (kept > 0 && first[kept - 1].change.ready == 0 && first[kept - 1].change.in_flight == 0)
		kept--;
	return kept;
}

/* Room for one more: of the notes of a sub-transaction, the last ones, those of a shard become one before there are more. */
void
make_room(SubTransactionId sub)
{
	uint32 first = notes.count;

	if (notes.count < notes.room)
		return;
	while (first > 0 && notes.items[first - 1].sub == sub)
		first--;
	if (first < notes.count)
		notes.count = first + merge(&notes.items[first], notes.count - first);
	/* at least a quarter is free now, or sorting would be all that is done */
	kept_array_reserve(&notes, Max(notes.room / 4, (uint32) 1));
}

/* What the notes behind one change of the same messages that are ready. */
int64
ready_behind(const Note *note, uint32 count)
{
	int64 ready = 0;

	for (uint32 i = 1; i < count && note[i].tables == note->tables && note[i].change.log_id == note->change.log_id &&
					   note[i].change.priority == note->change.priority;
		 i++)
		ready += note[i].change.ready;
	return ready;
}

void
write_notes()
{
	const Note *note = notes.items;
	uint32 count = merge(notes.items, notes.count);

	notes.count = count;
	while (count > 0)
	{
		const Oid tables = note->tables;
		const bool dropped = tables_were_dropped(tables);
		ShardWriter writer;

		if (!dropped)
			shard_writer_open(&writer, tables);
		for (; count > 0 && note->tables == tables; note++, count--)
			if (!dropped)
				shard_writer_apply(&writer, &note->change, ready_behind(note, count));
		if (!dropped)
			shard_writer_close(&writer);
	}
	notes.count = 0;
}

void
flush()
{
	flushed = true;
	if (notes.count > 0)
		write_notes();
}

void
ended(bool committed)
{
	(void) committed;
	flushed = false;
	kept_array_clear(&notes);
}

} // namespace

/* no prepare: who has noted anything is refused */
const TransactionParticipant rollup_participant = {
	flush, nullptr, ended, nullptr, kept_array_sub_committed<notes>, kept_array_sub_aborted<notes>};

int
shard_order(const ShardCounts *left, const ShardCounts *right)
{
	if (left->log_id != right->log_id)
		return left->log_id < right->log_id ? -1 : 1;
	if (left->priority != right->priority)
		return left->priority < right->priority ? -1 : 1;
	return left->shard < right->shard ? -1 : left->shard > right->shard;
}

void
rollup_note(Oid tables, const ShardCounts &change)
{
	const SubTransactionId sub = GetCurrentSubTransactionId();

	if (change.ready == 0 && change.in_flight == 0)
		return;
	for (uint32 i = notes.count; i > 0 && notes.count - i < looked_at; i--)
	{
		Note *note = &notes.items[i - 1];

		if (note->sub != sub)
			break;
		if (note->tables == tables && shard_order(&note->change, &change) == 0)
		{
			note->change.ready += change.ready;
			note->change.in_flight += change.in_flight;
			return;
		}
	}
	make_room(sub);
	notes.items[notes.count++] = {change, tables, sub};
	transaction_touched();
}

void
rollup_settle()
{
	if (flushed && notes.count > 0)
		write_notes();
}

ShardCounts *
rollup_pending(Oid tables, int *count)
{
	Note *copy = (Note *) palloc(sizeof(Note) * Max(notes.count, (uint32) 1));
	ShardCounts *pending = (ShardCounts *) palloc(sizeof(ShardCounts) * Max(notes.count, (uint32) 1));
	uint32 merged;

	if (notes.count > 0)
		memcpy(copy, notes.items, sizeof(Note) * notes.count);
	merged = merge(copy, notes.count);
	*count = 0;
	for (uint32 i = 0; i < merged; i++)
		if (copy[i].tables == tables)
			pending[(*count)++] = copy[i].change;
	pfree(copy);
	return pending;
}

} // namespace queen
