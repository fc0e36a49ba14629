/*
 * side_counts.cpp: how many dead letters and timers there are. See side_counts.h.
 *
 * Raises. No locks but the tables'. Runs in the keeper, which remembers how far it has come, and in backends, also on a standby.
 */
#include "log/side_counts.h"

#include "log/dead_letters.h"
#include "log/timer_rows.h"
#include "server/relations.h"

namespace queen
{

namespace
{

/* Of a table, in a collection. */
constexpr BlockNumber most_blocks = 4096;
constexpr int64 most_rows = 20000;

/* Whose it is: a queue, by its id, or by its name where it need not be there yet. */
struct Whose
{
	pg_uuid_t tenant; /* zero with an id */
	uint64 name[2];	  /* a hash, or an id and 0 */
	bool by_name;
	char padding[7];
};

struct Counts
{
	Whose whose;
	int64 count[priority_count];
};

/* A table that is gone through, time and again. */
struct Pass
{
	Table table;
	int tenant;
	int queue;
	int queue_id; /* -1: it has none */
	int priority;
	MemoryContext context; /* of the last pass that was ended, and of the one under way */
	HTAB *counted;
	HTAB *counting;
	BlockNumber next;
};

constinit Pass passes[] = {
	{Table::dead_letters, dead_col_tenant, dead_col_queue, dead_col_queue_id, dead_col_priority},
	{Table::log_timers, timer_col_tenant, timer_col_queue, -1, timer_col_priority},
};
constexpr int of_dead = 0;
constexpr int of_timers = 1;

Whose
whose_by_name(const pg_uuid_t *tenant, Name name)
{
	Whose whose = {};

	whose.tenant = *tenant;
	whose.by_name = true;
	for (uint64 i = 0; i < 2; i++)
		whose.name[i] = hash_bytes_extended((const unsigned char *) name.data, name.size, i);
	return whose;
}

Whose
whose_by_id(int64 queue_id)
{
	Whose whose = {};

	whose.name[0] = (uint64) queue_id;
	return whose;
}

HTAB *
make_table(MemoryContext context)
{
	HASHCTL control = {};

	control.keysize = sizeof(Whose);
	control.entrysize = sizeof(Counts);
	control.hcxt = context;
	return hash_create("queen side counts", 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
count_row(const Pass *pass, TupleTableSlot *slot)
{
	int64 queue_id = dead_of_no_queue;
	int16 priority;
	bool isnull;
	Whose whose;
	Counts *counts;
	bool found;

	if (pass->queue_id >= 0)
		queue_id = DatumGetInt64(slot_getattr(slot, pass->queue_id + 1, &isnull));
	if (queue_id != dead_of_no_queue)
		whose = whose_by_id(queue_id);
	else
	{
		const text *name = DatumGetTextPP(slot_getattr(slot, pass->queue + 1, &isnull));

		whose = whose_by_name(DatumGetUUIDP(slot_getattr(slot, pass->tenant + 1, &isnull)),
							  {VARDATA_ANY(name), (int) VARSIZE_ANY_EXHDR(name)});
	}
	priority = DatumGetInt16(slot_getattr(slot, pass->priority + 1, &isnull));
	if (isnull || priority < 1 || priority > priority_count)
		priority = 2;
	counts = (Counts *) hash_search(pass->counting, &whose, HASH_ENTER, &found);
	if (!found)
		memset(counts->count, 0, sizeof(counts->count));
	counts->count[priority - 1]++;
}

/* So many blocks, or rows. True at the table's end. */
bool
count_blocks(Pass *pass, Relation table, Snapshot snapshot, bool whole)
{
	const BlockNumber end = RelationGetNumberOfBlocks(table);
	const BlockNumber stop = whole ? end : Min(end, pass->next + most_blocks);
	TupleTableSlot *slot;
	ItemPointerData first;
	ItemPointerData last;
	TableScanDesc scan;
	int64 rows = 0;

	if (pass->next >= stop)
		return true;
	ItemPointerSet(&first, pass->next, FirstOffsetNumber);
	ItemPointerSet(&last, stop - 1, MaxOffsetNumber);
	pass->next = stop;
	slot = table_slot_create(table, nullptr);
	scan = table_beginscan_tidrange(table, snapshot, &first, &last);
	while (table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
	{
		const BlockNumber block = ItemPointerGetBlockNumber(&slot->tts_tid);

		CHECK_FOR_INTERRUPTS();
		/* between two blocks, so that nothing is counted twice */
		if (!whole && rows >= most_rows && block != ItemPointerGetBlockNumber(&first))
		{
			pass->next = block;
			break;
		}
		ItemPointerSetBlockNumber(&first, block);
		count_row(pass, slot);
		rows++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return pass->next >= end;
}

void
go_on(Pass *pass, Snapshot snapshot, bool whole)
{
	Relation table = open_table(pass->table, AccessShareLock);

	if (pass->context == nullptr)
		pass->context = AllocSetContextCreate(TopMemoryContext, "queen side counts", ALLOCSET_DEFAULT_SIZES);
	if (pass->counting == nullptr)
	{
		pass->counting = make_table(pass->context);
		pass->next = 0;
	}
	if (count_blocks(pass, table, snapshot, whole))
	{
		if (pass->counted != nullptr)
			hash_destroy(pass->counted);
		pass->counted = pass->counting;
		pass->counting = nullptr;
	}
	table_close(table, NoLock);
}

void
add(const Pass *pass, const Whose *whose, int64 *sums)
{
	const Counts *counts =
		pass->counted == nullptr ? nullptr : (const Counts *) hash_search(pass->counted, whose, HASH_FIND, nullptr);

	for (int i = 0; counts != nullptr && i < priority_count; i++)
		sums[i] += counts->count[i];
}

} // namespace

bool
side_counts_step()
{
	Snapshot snapshot = nullptr;
	bool more = false;

	for (Pass &pass : passes)
	{
		if (pass.counted != nullptr)
			continue;
		if (snapshot == nullptr)
			snapshot = register_latest_snapshot();
		go_on(&pass, snapshot, false);
		more |= pass.counted == nullptr;
	}
	if (snapshot != nullptr)
		UnregisterSnapshot(snapshot);
	return more;
}

void
side_counts_go_on(Snapshot snapshot, bool whole)
{
	for (Pass &pass : passes)
		go_on(&pass, snapshot, whole);
}

void
side_counts_of(int64 queue_id, const pg_uuid_t *tenant, Name name, int64 *dead, int64 *timers)
{
	const Whose by_id = whose_by_id(queue_id);
	const Whose by_name = whose_by_name(tenant, name);

	add(&passes[of_dead], &by_id, dead);
	/* of timers that found no queue: they are of whatever has that name now */
	add(&passes[of_dead], &by_name, dead);
	add(&passes[of_timers], &by_name, timers);
}

void
side_counts_forget()
{
	for (Pass &pass : passes)
	{
		if (pass.context != nullptr)
			MemoryContextDelete(pass.context);
		pass.context = nullptr;
		pass.counted = pass.counting = nullptr;
	}
}

} // namespace queen
