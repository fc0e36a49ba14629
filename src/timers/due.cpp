/*
 * due.cpp: which timers are due. See due.h; README.md says why scans start at marks.
 *
 * Raises. No locks but the table's. What it remembers is this process's own, and a hint. Runs in the pulse, and where fire_timers() is called.
 */
#include "timers/due.h"

#include "hotlist/pool.h"
#include "timers/holds.h"

namespace queen
{

namespace
{

/* A scan from the bottom comes that often, but takes no more than one part in walk_share of the time. */
constexpr core::Micros bottom_interval = 5'000'000;
constexpr core::Micros bottom_share = 50;
/* Queues whose marks are remembered. */
constexpr long most_marks = 4 * most_due_rows;
/* Queues that a batch by turns looks at: what has nothing due costs some descents. */
constexpr int most_looks = 1000;

struct QueueMark
{
	QueueKey key;
	TimerMark mark;
};

/* What this process knows of one incarnation of the table. */
struct Known
{
	Oid table;
	TimerMark low;			/* nothing pending at or below, but for what was told */
	core::Micros bottom_at; /* when the next scan is to begin at the bottom, by a clock that nobody sets */
	bool backlog;			/* more was due than a batch takes: queues take turns until there is no more than that */
	bool was_full;			/* … and the last batch was filled by turns */
	TimestampTz next;		/* … and the first time that was met by turns and had not come */
	int wraps;				/* how often turns have begun anew since one of the queues had something due */
	HTAB *queues;
	TimestampTz furthest; /* no mark of a queue is later */
	QueueKey turn;		  /* the queue behind which the next batch by turns begins */
	bool has_turn;
	bool taking; /* this transaction has taken a batch: if it is rolled back all of it is pending */
	bool in_doubt;
};

constexpr TimerMark bottom = {DT_NOBEGIN, {}};

constinit Known known = {};

bool
is_below(const TimerMark *mark, const TimerMark *other)
{
	return mark->at != other->at ? mark->at < other->at : memcmp(&mark->id, &other->id, UUID_LEN) < 0;
}

TimerMark
mark_of(TupleTableSlot *slot)
{
	TimerMark mark;
	bool isnull;

	mark.at = DatumGetTimestampTz(slot_getattr(slot, timer_col_visible_at + 1, &isnull));
	mark.id = *DatumGetUUIDP(slot_getattr(slot, timer_col_message_id + 1, &isnull));
	return mark;
}

/* A scan over (…, visible_at, message_id) behind a mark: first the rest of the mark's instant, then what is later. */
struct MarkedScan
{
	IndexScan scan;
	int prefix; /* keys before the time */
	TimerMark mark;
	bool in_instant;
};

void
start_later(MarkedScan *marked)
{
	const AttrNumber column = (AttrNumber) (marked->prefix + 1);

	marked->in_instant = false;
	marked->scan.nkeys = marked->prefix;
	if (marked->mark.at != DT_NOBEGIN)
		index_scan_key_time(&marked->scan, column, BTGreaterStrategyNumber, marked->mark.at);
	index_scan_start(&marked->scan);
}

/* The scan is open and has its prefix's keys. */
void
marked_scan_start(MarkedScan *marked, const TimerMark *mark)
{
	const AttrNumber column = (AttrNumber) (marked->scan.nkeys + 1);

	marked->prefix = marked->scan.nkeys;
	marked->mark = *mark;
	if (mark->at == DT_NOBEGIN)
	{
		start_later(marked);
		return;
	}
	marked->in_instant = true;
	index_scan_key_time(&marked->scan, column, BTEqualStrategyNumber, mark->at);
	index_scan_key_uuid(&marked->scan, (AttrNumber) (column + 1), UUIDPGetDatum(&marked->mark.id),
						BTGreaterStrategyNumber);
	index_scan_start(&marked->scan);
}

bool
marked_scan_next(MarkedScan *marked)
{
	if (index_scan_next(&marked->scan, ForwardScanDirection))
		return true;
	if (!marked->in_instant)
		return false;
	start_later(marked);
	return index_scan_next(&marked->scan, ForwardScanDirection);
}

Name
copy_name(TupleTableSlot *slot, TimerColumn column)
{
	bool isnull;
	const text *value = DatumGetTextPP(slot_getattr(slot, column + 1, &isnull));
	const int size = (int) VARSIZE_ANY_EXHDR(value);
	char *copy = (char *) palloc((Size) size + 1);

	memcpy(copy, VARDATA_ANY(value), (Size) size);
	copy[size] = '\0';
	return {copy, size};
}

/* Bytes that the message of a row will have, about. */
Size
size_of(TupleTableSlot *slot)
{
	constexpr TimerColumn columns[] = {timer_col_message, timer_col_payload, timer_col_headers};
	Size size = 0;

	for (TimerColumn column : columns)
	{
		bool isnull;
		const Datum value = slot_getattr(slot, column + 1, &isnull);

		if (!isnull)
			size += toast_raw_datum_size(value);
	}
	return size;
}

/* A batch that is being collected. */
struct Collector
{
	DueBatch *batch;
	TimestampTz now;
	int rows;
	Size bytes; /* left */
};

bool
is_full(const Collector *collector)
{
	return collector->batch->count == collector->rows || collector->bytes == 0;
}

/* False when the queue is held, and the timer is passed by. */
bool
add(Collector *collector, TupleTableSlot *slot, const TimerMark *mark)
{
	DueTimer *timer = &collector->batch->timers[collector->batch->count];
	const Size size = size_of(slot);
	bool isnull;
	Hold held;

	timer->tenant = *DatumGetUUIDP(slot_getattr(slot, timer_col_tenant + 1, &isnull));
	timer->queue = copy_name(slot, timer_col_queue);
	held = hold_of(&timer->tenant, timer->queue, mark->at);
	if (held == Hold::held)
		return false;
	collector->batch->count++;
	timer->tid = slot->tts_tid;
	timer->key = copy_name(slot, timer_col_key);
	timer->partition = copy_name(slot, timer_col_partition);
	timer->deliver_at = DatumGetTimestampTz(slot_getattr(slot, timer_col_deliver_at + 1, &isnull));
	timer->mark = *mark;
	(void) slot_getattr(slot, timer_col_retry_at + 1, &isnull);
	timer->rank = held == Hold::trying ? DueRank::trying : isnull ? DueRank::fresh : DueRank::put_off;
	timer->priority = DatumGetInt16(slot_getattr(slot, timer_col_priority + 1, &isnull));
	if (isnull)
		timer->priority = 0;
	/* one that is larger than the whole bound goes all the same, alone */
	collector->bytes -= Min(size, collector->bytes);
	return true;
}

int
compare_names(Name left, Name right)
{
	const int order = memcmp(left.data, right.data, (Size) Min(left.size, right.size));

	return order != 0 ? order : left.size - right.size;
}

int
compare_destinations(const void *a, const void *b)
{
	const DueTimer *left = (const DueTimer *) a;
	const DueTimer *right = (const DueTimer *) b;
	int order = memcmp(&left->tenant, &right->tenant, UUID_LEN);

	if (order == 0)
		order = compare_names(left->queue, right->queue);
	if (order == 0)
		order = compare_names(left->partition, right->partition);
	if (order == 0)
		order = is_below(&left->mark, &right->mark) ? -1 : 1;
	return order;
}

int
compare_due(const void *a, const void *b)
{
	const int order = (int) ((const DueTimer *) a)->rank - (int) ((const DueTimer *) b)->rank;

	return order != 0 ? order : compare_destinations(a, b);
}

/* By destination; a destination of which one was put off comes with that one, behind the others. */
void
sort_batch(DueBatch *batch)
{
	DueTimer *timers = batch->timers;
	bool any = false;
	int end;

	for (int i = 0; i < batch->count; i++)
		any |= timers[i].rank == DueRank::put_off;
	qsort(timers, (size_t) batch->count, sizeof(DueTimer), any ? compare_destinations : compare_due);
	if (!any)
		return;
	for (int i = 0; i < batch->count; i = end)
	{
		DueRank rank = DueRank::fresh;

		for (end = i; end < batch->count && same_destination(&timers[i], &timers[end]); end++)
			rank = Max(rank, timers[end].rank);
		for (int k = i; k < end; k++)
			timers[k].rank = rank;
	}
	qsort(timers, (size_t) batch->count, sizeof(DueTimer), compare_due);
}

/* Behind all of the instant before. */
TimerMark
below(TimestampTz at)
{
	TimerMark mark = {at - 1, {}};

	memset(&mark.id, 0xff, UUID_LEN);
	return mark;
}

/*
 * The oldest of all, but for queues that are held. How far nothing is left: behind the last one if that was all, else below the first one that
 * is there: what was deleted before it is passed by from now on.
 */
TimerMark
collect_oldest(Collector *collector, TimerTable *timers, Snapshot snapshot)
{
	TimerMark low = known.low;
	bool any = false;
	int passed = 0;
	MarkedScan marked = {};

	index_scan_open(&marked.scan, timers->table, timers->by_time, snapshot);
	marked_scan_start(&marked, &known.low);
	while (marked_scan_next(&marked))
	{
		const TimerMark mark = mark_of(marked.scan.slot);

		if (mark.at > collector->now)
		{
			collector->batch->next = mark.at;
			break;
		}
		/* where a queue that is held has thousands due, it is passed by as a whole */
		if (is_full(collector) || passed == collector->rows)
		{
			collector->batch->more = true;
			low = known.low;
			break;
		}
		if (!any)
		{
			const TimerMark before = below(mark.at);

			if (is_below(&known.low, &before))
				known.low = before;
			any = true;
		}
		if (!add(collector, marked.scan.slot, &mark))
			passed++;
		low = mark;
	}
	index_scan_close(&marked.scan);
	return low;
}

/* ---- by turns ---- */

/*
 * The first queue behind one that has an entry, dead or alive: read from the index alone, since a queue that was drained under a held
 * snapshot may begin with a hundred thousand dead ones.
 */
bool
next_queue(IndexScan *scan, const QueueKey *behind, QueueKey *found)
{
	pg_uuid_t tenant;
	text *name = nullptr; /* null: all of the tenant's queues are behind us */

	if (behind != nullptr)
	{
		tenant = behind->tenant;
		name = cstring_to_text(behind->name);
	}
	for (bool any = behind == nullptr;;)
	{
		const text *queue;

		index_scan_reset_keys(scan);
		if (name != nullptr)
		{
			index_scan_key_uuid(scan, 1, UUIDPGetDatum(&tenant));
			index_scan_key_text(scan, 2, PointerGetDatum(name), BTGreaterStrategyNumber);
		}
		else if (!any)
			index_scan_key_uuid(scan, 1, UUIDPGetDatum(&tenant), BTGreaterStrategyNumber);
		index_scan_start(scan);
		if (!index_scan_next_entry(scan, ForwardScanDirection))
		{
			if (name == nullptr)
				return false;
			name = nullptr;
			continue;
		}
		tenant = *DatumGetUUIDP(index_scan_entry(scan, 1));
		queue = DatumGetTextPP(index_scan_entry(scan, 2));
		any = false;
		if (VARSIZE_ANY_EXHDR(queue) <= max_name_bytes)
		{
			*found = queue_key(&tenant, {VARDATA_ANY(queue), (int) VARSIZE_ANY_EXHDR(queue)});
			return true;
		}
		/* SQL has written it: its timers come when nobody else's are due */
		name = cstring_to_text_with_len(VARDATA_ANY(queue), (int) VARSIZE_ANY_EXHDR(queue));
	}
}

QueueMark *
mark_of_queue(const QueueKey *key)
{
	bool found;
	QueueMark *entry = (QueueMark *) hash_search(known.queues, key, HASH_ENTER, &found);

	if (!found)
		entry->mark = bottom;
	return entry;
}

/* Up to quota of a queue's due timers; returns how many. */
int
collect_of_queue(Collector *collector, TimerTable *timers, Snapshot snapshot, const QueueKey *key, int quota)
{
	QueueMark *entry = mark_of_queue(key);
	MarkedScan marked = {};
	int count = 0;

	index_scan_open(&marked.scan, timers->table, timers->by_queue, snapshot);
	index_scan_key_uuid(&marked.scan, 1, UUIDPGetDatum(&key->tenant));
	index_scan_key_text(&marked.scan, 2, CStringGetTextDatum(key->name));
	marked_scan_start(&marked, &entry->mark);
	while (count < quota && !is_full(collector) && marked_scan_next(&marked))
	{
		const TimerMark mark = mark_of(marked.scan.slot);

		if (mark.at > collector->now)
		{
			known.next = Min(known.next, mark.at);
			break;
		}
		/* a queue that is held is passed by as long as that lasts, its mark stays */
		if (!add(collector, marked.scan.slot, &mark))
			break;
		count++;
		entry->mark = mark;
		known.furthest = Max(known.furthest, mark.at);
	}
	index_scan_close(&marked.scan);
	return count;
}

/* The marks of queues rest on the same news as the one of all. */
void
forget_queues()
{
	HASH_SEQ_STATUS scan;
	const QueueMark *entry;

	hash_seq_init(&scan, known.queues);
	while ((entry = (const QueueMark *) hash_seq_search(&scan)) != nullptr)
		(void) hash_search(known.queues, &entry->key, HASH_REMOVE, nullptr);
	known.furthest = DT_NOBEGIN;
}

/*
 * Queues that have something due, from where the last batch ended, and the oldest of each. True when all queues had their turn and none
 * has more.
 */
bool
collect_first(Collector *collector, TimerTable *timers, Snapshot snapshot, QueueKey *queues, int *count)
{
	QueueKey first = {};
	bool around = false;
	IndexScan scan;

	*count = 0;
	index_scan_open(&scan, timers->table, timers->by_queue, snapshot);
	scan.entries = true;
	for (int looks = 0; looks < most_looks && !is_full(collector);)
	{
		QueueKey found;

		CHECK_FOR_INTERRUPTS();
		if (!next_queue(&scan, known.has_turn ? &known.turn : nullptr, &found))
		{
			/* there is none at all; or the second time, so that all have been looked at, be it in several steps */
			around = !known.has_turn || ++known.wraps >= 2;
			known.has_turn = false;
			if (around)
				break;
			continue;
		}
		around = looks > 0 && memcmp(&found, &first, sizeof(found)) == 0;
		if (around)
			break;
		if (looks++ == 0)
			first = found;
		known.turn = found;
		known.has_turn = true;
		if (collect_of_queue(collector, timers, snapshot, &found, 1) > 0)
		{
			queues[(*count)++] = found;
			known.wraps = 0;
		}
	}
	index_scan_close(&scan);
	return around;
}

/* Each queue's oldest, an equal part of the batch each. True when nothing is left of them. */
bool
collect_by_turns(Collector *collector, TimerTable *timers, Snapshot snapshot)
{
	QueueKey *queues = (QueueKey *) palloc(sizeof(QueueKey) * (Size) most_looks);
	int count;
	bool around;

	if (hash_get_num_entries(known.queues) + most_looks > most_marks)
		forget_queues();
	around = collect_first(collector, timers, snapshot, queues, &count);
	/* what some leave the others take */
	while (count > 0 && !is_full(collector))
	{
		const int quota = Max((collector->rows - collector->batch->count) / count, 1);
		int left = 0;

		for (int i = 0; i < count && !is_full(collector); i++)
			if (collect_of_queue(collector, timers, snapshot, &queues[i], quota) == quota)
				queues[left++] = queues[i];
		count = left;
	}
	pfree(queues);
	return around && !is_full(collector);
}

void
begin_anew(Oid table)
{
	HASHCTL control = {};

	if (known.queues != nullptr)
		hash_destroy(known.queues);
	if (known.table != table)
		holds_forget();
	known = {};
	control.keysize = sizeof(QueueKey);
	control.entrysize = sizeof(QueueMark);
	control.hcxt = TopMemoryContext;
	known.queues = hash_create("queen timer queues", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	known.low = bottom;
	known.furthest = DT_NOBEGIN;
	known.table = table;
}

} // namespace

extern "C"
{
/* Never raises. */
static void
due_ended(bool committed)
{
	known.in_doubt |= known.taking && !committed;
	known.taking = false;
}
}

bool
same_queue(const DueTimer *left, const DueTimer *right)
{
	return memcmp(&left->tenant, &right->tenant, UUID_LEN) == 0 && compare_names(left->queue, right->queue) == 0;
}

bool
same_destination(const DueTimer *left, const DueTimer *right)
{
	return same_queue(left, right) && compare_names(left->partition, right->partition) == 0;
}

const TransactionParticipant due_participant = {nullptr, nullptr, due_ended, nullptr, nullptr, nullptr};

void
due_lower(TimestampTz at)
{
	if (known.table == InvalidOid)
		return;
	/* marks of queues are ahead of the one of all while more is due than a batch takes */
	if (at <= known.furthest)
		forget_queues();
	if (at > known.low.at)
		return;
	known.low = below(at);
}

void
due_from_bottom()
{
	holds_forget();
	known.bottom_at = 0;
}

void
due_collect(TimerTable *timers, Snapshot snapshot, TimestampTz now, int rows, Size bytes, DueBatch *batch)
{
	Collector collector = {batch, now, Min(rows, most_due_rows), bytes};
	const core::Micros began = hotlist_now();
	core::Micros hold_until;
	bool turns;

	if (known.table != RelationGetRelid(timers->table) || known.in_doubt)
		begin_anew(RelationGetRelid(timers->table));
	hold_until = holds_begin(began, due_lower);
	known.taking = true;
	*batch = {};
	batch->next = DT_NOEND;
	batch->timers = (DueTimer *) palloc(sizeof(DueTimer) * (Size) collector.rows);
	batch->complete = began >= known.bottom_at;
	if (batch->complete)
	{
		known.low = bottom;
		forget_queues();
	}
	turns = known.backlog && known.was_full;
	if (!turns)
	{
		const TimerMark low = collect_oldest(&collector, timers, snapshot);

		if (!batch->more)
			known.low = low;
		else if (!known.backlog)
		{
			known.next = DT_NOEND;
			known.wraps = 0;
			turns = true;
		}
		else
			/* turns pass many queues that have nothing: meanwhile the oldest go */
			turns = batch->count == 0;
		known.backlog = batch->more;
		known.was_full = true;
	}
	if (turns)
	{
		batch->count = 0;
		collector.bytes = bytes;
		batch->more = !collect_by_turns(&collector, timers, snapshot);
		batch->next = known.next;
		batch->complete = false;
		known.backlog = batch->more;
		known.was_full = is_full(&collector);
	}
	batch->complete &= !known.backlog;
	if (hold_until != core::never)
		batch->next = Min(batch->next, now + (hold_until - began));
	if (began >= known.bottom_at)
	{
		const core::Micros ended = hotlist_now();

		known.bottom_at = ended + Max(bottom_interval, (ended - began) * bottom_share);
	}
	sort_batch(batch);
}

} // namespace queen
