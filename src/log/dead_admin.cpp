/*
 * dead_admin.cpp: queen.list_dead, purge_dead and redrive.
 *
 * Raises. Locks: purge_dead and redrive the rows that they delete, in dead_id order, waiting for whoever is at them; redrive
 * also holds the queue's row; all to the end of the transaction. Runs in backends, list_dead also on a standby.
 */
#include "log/dead_letters.h"
#include "log/push_message.h"
#include "log/queues.h"
#include "log/timer_rows.h"
#include "log/work_calls.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/settings.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

constexpr int64 most_rows = 100000;

int
compare_ids(const void *a, const void *b)
{
	const int64 left = *(const int64 *) a;
	const int64 right = *(const int64 *) b;

	return left < right ? -1 : left > right;
}

/* The arguments queue, consumer_group and dead_ids; the last two may be null: then any. Not yet the queue's id. */
DeadChoice
choice_arguments(FunctionCallInfo fcinfo, int group_arg, int ids_arg)
{
	DeadChoice choice = {};
	Datum *elements;
	bool *nulls;
	int64 *ids;
	int count;

	choice.tenant = setting_tenant();
	choice.queue = name_argument(fcinfo, 0, "queue");
	choice.after = PG_INT64_MIN;
	choice.has_group = !PG_ARGISNULL(group_arg);
	if (choice.has_group)
		choice.group = name_argument(fcinfo, group_arg, "consumer_group");
	choice.has_ids = ids_arg >= 0 && !PG_ARGISNULL(ids_arg);
	if (!choice.has_ids)
		return choice;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(ids_arg), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, &nulls, &count);
	ids = (int64 *) palloc(sizeof(int64) * (Size) Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			raise_null_argument("an element of dead_ids");
		ids[i] = DatumGetInt64(elements[i]);
	}
	qsort(ids, (Size) count, sizeof(int64), compare_ids);
	for (int i = 0; i < count; i++)
		if (i == 0 || ids[i] != ids[i - 1])
			ids[choice.id_count++] = ids[i];
	choice.ids = ids;
	return choice;
}

/*
 * Hold the queue that letters go back to. Where they wait for one of that name it is made, as by a push, or by an enqueue if one of them has a priority.
 * False: none is chosen.
 */
bool
hold_queue(DeadChoice *choice, QueueRow *queue)
{
	bool wanted = true;
	QueueTable queues;
	QueueKind kind;

	queue_table_open(&queues, RowExclusiveLock);
	while (wanted && !queue_hold(&queues, choice->tenant, choice->queue, queue))
	{
		if (!setting_auto_create || !dead_letters_wait_for(choice->tenant, choice->queue))
			raise_unknown_queue(choice->queue);
		choice->queue_id = dead_of_no_queue;
		wanted = dead_letters_any(choice, &kind);
		if (wanted)
			queue_ensure(&queues, choice->tenant, choice->queue, true, queue, kind);
	}
	queue_table_close(&queues);
	if (wanted)
		choice->queue_id = queue->queue_id;
	return wanted;
}

Datum
column(TupleTableSlot *slot, DeadColumn which)
{
	bool isnull;

	return slot_getattr(slot, which + 1, &isnull);
}

/* What queen.list_dead shows, in the order of its columns. */
constexpr DeadColumn shown[] = {
	dead_col_dead_id,	  dead_col_partition, dead_col_consumer_group, dead_col_msg_offset, dead_col_message_id,
	dead_col_message,	  dead_col_payload,	  dead_col_headers,		   dead_col_attempts,	dead_col_error,
	dead_col_enqueued_at, dead_col_dead_at,	  dead_col_timer_key,	   dead_col_priority,
};

constexpr int priority_shown = lengthof(shown) - 1;

/* What has to be known of a dead letter before its message is read. */
struct Corpse
{
	ItemPointerData tid;
	int64 dead_id;
	int64 msg_offset; /* of a log 0 and more */
	core::Uuid message_id;
	char *partition;
	char *group;	 /* null: it was a timer's, or a work queue's */
	char *timer_key; /* of a timer */
	int16 priority;	 /* of a work queue, 0: none */
};

/* Messages go back in the order in which they were pushed; letters of one message come together. */
int
compare_corpses(const void *a, const void *b)
{
	const Corpse *left = (const Corpse *) a;
	const Corpse *right = (const Corpse *) b;
	int order = strcmp(left->partition, right->partition);

	if (order == 0)
		order = compare_ids(&left->msg_offset, &right->msg_offset);
	if (order == 0)
		order = memcmp(left->message_id.bytes, right->message_id.bytes, sizeof(left->message_id.bytes));
	return order != 0 ? order : compare_ids(&left->dead_id, &right->dead_id);
}

bool
is_same_message(const Corpse *a, const Corpse *b)
{
	return strcmp(a->partition, b->partition) == 0 &&
		   memcmp(a->message_id.bytes, b->message_id.bytes, sizeof(a->message_id.bytes)) == 0;
}

char *
text_of(TupleTableSlot *slot, DeadColumn which)
{
	return slot->tts_isnull[which] ? nullptr : TextDatumGetCString(slot->tts_values[which]);
}

Corpse
corpse_of(TupleTableSlot *slot)
{
	Corpse corpse = {};
	const char *kind;

	slot_getallattrs(slot);
	kind = TextDatumGetCString(column(slot, dead_col_kind));
	corpse.dead_id = DatumGetInt64(column(slot, dead_col_dead_id));
	corpse.tid = slot->tts_tid;
	corpse.partition = text_of(slot, dead_col_partition);
	corpse.group = text_of(slot, dead_col_consumer_group);
	corpse.timer_key = text_of(slot, dead_col_timer_key);
	corpse.message_id = uuid_from_datum(column(slot, dead_col_message_id));
	if (!slot->tts_isnull[dead_col_msg_offset])
		corpse.msg_offset = DatumGetInt64(column(slot, dead_col_msg_offset));
	if (!slot->tts_isnull[dead_col_priority])
		corpse.priority = DatumGetInt16(column(slot, dead_col_priority));
	if ((slot->tts_isnull[dead_col_message] && slot->tts_isnull[dead_col_payload]) ||
		(corpse.group == nullptr) != slot->tts_isnull[dead_col_msg_offset] ||
		(strcmp(kind, "work") == 0
			 ? corpse.group != nullptr
			 : corpse.partition == nullptr || (corpse.group == nullptr) != (corpse.timer_key != nullptr)))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("dead letter %lld has no message of a %s queue", (long long) corpse.dead_id, kind),
						errhint("queen.purge_dead() removes it.")));
	/* a timer's may be in a queue of another kind than it was meant for */
	if (corpse.partition == nullptr)
		corpse.partition = name_to_cstring(default_partition);
	return corpse;
}

/*
 * Delete up to most of the chosen letters. Whoever else redrives or purges one is waited for, and then it is gone, or ours.
 * Messages are not read yet: they may be large.
 */
Corpse *
take_corpses(DeadScan *scan, int64 most, int *count)
{
	Corpse *corpses = nullptr;
	int room = 0;

	*count = 0;
	PushActiveSnapshot(scan->snapshot);
	while (*count < most && dead_scan_next(scan))
	{
		Corpse corpse = corpse_of(scan->slot);

		if (!delete_row_unless_changed(scan->table, &corpse.tid, scan->snapshot))
			continue;
		if (*count == room)
		{
			room = Max(room * 2, 64);
			corpses = corpses == nullptr ? (Corpse *) palloc(sizeof(Corpse) * (Size) room)
										 : (Corpse *) repalloc(corpses, sizeof(Corpse) * (Size) room);
		}
		corpses[(*count)++] = corpse;
	}
	PopActiveSnapshot();
	return corpses;
}

void
push_key(JsonbParseState **state, const char *key)
{
	JsonbValue name;

	name.type = jbvString;
	name.val.string.val = const_cast<char *>(key);
	name.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &name);
}

void
push_string(JsonbParseState **state, JsonbIteratorToken token, const char *text)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = const_cast<char *>(text);
	value.val.string.len = (int) strlen(text);
	pushJsonbValue(state, token, &value);
}

/* Has an earlier letter of the message the same group? It was given up, sought back, and given up again. */
bool
names_group(const Corpse *corpses, int count, const char *group)
{
	for (int i = 0; i < count; i++)
		if (strcmp(corpses[i].group, group) == 0)
			return true;
	return false;
}

/* Where in the log it was, and who gave it up. */
void
push_place(JsonbParseState **state, const Corpse *corpses, int count)
{
	JsonbValue number;

	push_key(state, "msg_offset");
	number.type = jbvNumeric;
	number.val.numeric = int64_to_numeric(corpses[0].msg_offset);
	pushJsonbValue(state, WJB_VALUE, &number);
	push_key(state, "consumer_groups");
	pushJsonbValue(state, WJB_BEGIN_ARRAY, nullptr);
	for (int i = 0; i < count; i++)
		if (!names_group(corpses, i, corpses[i].group))
			push_string(state, WJB_ELEM, corpses[i].group);
	pushJsonbValue(state, WJB_END_ARRAY, nullptr);
}

/* The headers of a message that goes back: its own, and "queen_redriven", which says what it was. */
Jsonb *
redriven_headers(Datum headers, bool no_headers, const Corpse *corpses, int count)
{
	JsonbParseState *state = nullptr;
	Datum added;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
	push_key(&state, "queen_redriven");
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
	push_key(&state, "message_id");
	push_string(&state, WJB_VALUE, uuid_text(corpses[0].message_id));
	if (corpses[0].timer_key != nullptr)
	{
		push_key(&state, "timer_key");
		push_string(&state, WJB_VALUE, corpses[0].timer_key);
	}
	else if (corpses[0].group != nullptr)
		push_place(&state, corpses, count);
	pushJsonbValue(&state, WJB_END_OBJECT, nullptr);
	added = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
	return DatumGetJsonbP(no_headers ? added : DirectFunctionCall2(jsonb_concat, headers, added));
}

/* Push the message that count letters are of, into a work queue unless that is null. Their rows are deleted, but the snapshot of the scan still sees them. */
void
push_again(DeadScan *scan, PutTarget *work, const Corpse *corpses, int count)
{
	TupleTableSlot *slot = scan->slot;
	ItemPointerData tid = corpses[0].tid;
	Jsonb *headers;
	Datum content;
	bool raw;

	if (!table_tuple_fetch_row_version(scan->table, &tid, scan->snapshot, slot))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("dead letter %lld is not there any more", (long long) corpses[0].dead_id)));
	slot_getallattrs(slot);
	raw = slot->tts_isnull[dead_col_message];
	content = PointerGetDatum(PG_DETOAST_DATUM_PACKED(slot->tts_values[raw ? dead_col_payload : dead_col_message]));
	headers = redriven_headers(slot->tts_values[dead_col_headers], slot->tts_isnull[dead_col_headers], corpses, count);
	if (work != nullptr)
	{
		const WorkMessage message = {push_mint_id(push_ms()), corpses[0].priority, 0, raw, content, headers};

		push_check_size(VARSIZE_ANY_EXHDR(DatumGetPointer(content)), headers);
		work_calls->put(work, &message);
	}
	else
		push_message(push_target(scan->choice->queue, {corpses[0].partition, (int) strlen(corpses[0].partition)}),
					 push_ms(), raw, headers, VARDATA_ANY(DatumGetPointer(content)),
					 VARSIZE_ANY_EXHDR(DatumGetPointer(content)), nullptr);
	ExecClearTuple(slot);
}

void
push_all(DeadScan *scan, const QueueRow *queue, Corpse *corpses, int count)
{
	MemoryContext per_message = AllocSetContextCreate(CurrentMemoryContext, "queen redrive", ALLOCSET_DEFAULT_SIZES);
	PutTarget *work =
		queue->kind == QueueKind::work ? work_calls->put_open(&queue->tenant, scan->choice->queue) : nullptr;
	int next;

	if (count > 1)
		qsort(corpses, (Size) count, sizeof(Corpse), compare_corpses);
	for (int i = 0; i < count; i = next)
	{
		MemoryContext caller = MemoryContextSwitchTo(per_message);

		CHECK_FOR_INTERRUPTS();
		for (next = i + 1; next < count && is_same_message(&corpses[i], &corpses[next]); next++)
			;
		push_again(scan, work, &corpses[i], next - i);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_message);
	}
	if (work != nullptr)
		work_calls->put_close(work);
	MemoryContextDelete(per_message);
}

} // namespace

QUEEN_FUNCTION(queen_list_dead)
QUEEN_FUNCTION(queen_purge_dead)
QUEEN_FUNCTION(queen_redrive)

/* queen.list_dead(queue, consumer_group, after_id, max_rows) returns setof (the columns above) */
Datum
queen_list_dead(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DeadChoice choice = choice_arguments(fcinfo, 1, -1);
	int64 left = count_argument(fcinfo, 3, "max_rows", 1, most_rows);
	QueueRow queue;
	DeadScan scan;

	if (!PG_ARGISNULL(2))
		choice.after = PG_GETARG_INT64(2);
	(void) dead_queue_find(choice.tenant, choice.queue, &queue);
	choice.queue_id = queue.queue_id;
	InitMaterializedSRF(fcinfo, 0);
	dead_scan_open(&scan, &choice, AccessShareLock);
	for (; left > 0 && dead_scan_next(&scan); left--)
	{
		Datum values[lengthof(shown)];
		bool nulls[lengthof(shown)];

		for (int i = 0; i < (int) lengthof(shown); i++)
			values[i] = slot_getattr(scan.slot, shown[i] + 1, &nulls[i]);
		if (!nulls[priority_shown])
			values[priority_shown] =
				CStringGetTextDatum(work_calls->priority_text(DatumGetInt16(values[priority_shown])));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	dead_scan_close(&scan);
	return (Datum) 0;
}

/* queen.purge_dead(queue, consumer_group, dead_ids, before) returns bigint */
Datum
queen_purge_dead(PG_FUNCTION_ARGS)
{
	TimestampTz before = DT_NOEND;
	DeadChoice choice;
	QueueRow queue;
	DeadScan scan;
	int64 count = 0;

	guard_write("queen.purge_dead()");
	choice = choice_arguments(fcinfo, 1, 2);
	if (!PG_ARGISNULL(3))
		before = PG_GETARG_TIMESTAMPTZ(3);
	(void) dead_queue_find(choice.tenant, choice.queue, &queue);
	choice.queue_id = queue.queue_id;
	dead_scan_open(&scan, &choice, RowExclusiveLock);
	PushActiveSnapshot(scan.snapshot);
	while (dead_scan_next(&scan))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		if (DatumGetTimestampTz(column(scan.slot, dead_col_dead_at)) < before &&
			delete_row_unless_changed(scan.table, &tid, scan.snapshot))
			count++;
	}
	PopActiveSnapshot();
	dead_scan_close(&scan);
	CommandCounterIncrement();
	return Int64GetDatum(count);
}

/* queen.redrive(queue, consumer_group, dead_ids, max_rows) returns bigint */
Datum
queen_redrive(PG_FUNCTION_ARGS)
{
	DeadChoice choice;
	QueueRow queue;
	DeadScan scan;
	Corpse *corpses;
	int64 most;
	int count;

	guard_write("queen.redrive()");
	choice = choice_arguments(fcinfo, 1, 2);
	most = count_argument(fcinfo, 3, "max_rows", 1, most_rows);
	/* what goes back to the queue must not make it anew because somebody drops it meanwhile */
	if (!hold_queue(&choice, &queue))
		return Int64GetDatum(0);
	dead_scan_open(&scan, &choice, RowExclusiveLock);
	corpses = take_corpses(&scan, most, &count);
	push_all(&scan, &queue, corpses, count);
	dead_scan_close(&scan);
	CommandCounterIncrement();
	push_write_through();
	return Int64GetDatum(count);
}

} // namespace queen
