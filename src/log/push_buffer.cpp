/*
 * push_buffer.cpp: what this transaction has pushed and not yet written. See push_buffer.h.
 *
 * Raises only for memory, and not in the savepoint functions. No locks. Runs in backends.
 */
#include "log/push_buffer.h"

#include "log/pushed_keys.h"
#include "server/settings.h"

namespace queen
{

namespace
{

/* An entry of a table of names: chained in its bucket. */
struct NameEntry
{
	NameEntry *next;
	uint32 hash;
};

/*
 * Names by hash, in the buffer's context: made for one transaction, and most have one name, so that a table of the
 * server's, with a context of its own, would cost more than all of its use.
 */
struct NameTable
{
	NameEntry **buckets;
	uint32 size; /* a power of two */
	uint32 count;
};

struct QueueEntry
{
	NameEntry entry;
	BufferedQueue queue;
};

struct PartitionEntry
{
	NameEntry entry;
	BufferedPartition partition;
};

/* From this count on, frames belong to this sub-transaction or to one inside it. */
struct Savepoint
{
	SubTransactionId id;
	uint64 count;
	uint64 keyed;
	FilePosition position; /* where the file ended then; known once these frames are in the file */
};

/* A queue was dropped: what its void_below was before. */
struct VoidRecord
{
	VoidRecord *previous;
	BufferedQueue *queue;
	uint64 was;
	SubTransactionId id;
};

struct Buffer
{
	NameTable queues;
	NameTable partitions;
	QueueEntry *last_queue; /* of the last push: mostly the next one's too */
	BufferedFrame *last;	/* in memory */
	uint64 count;			/* in memory and in the file */
	Size bytes;				/* in memory */
	uint64 keyed;			/* frames with a dedup_key, in memory and in the file */
	PushedKeys keys;
	VoidRecord *voided; /* the newest */
	FrameFile file;
	Savepoint *savepoints;
	int savepoint_count;
	int savepoint_space;
};

constinit Buffer buffer = {};

/* Kept for the backend's life, empty between transactions: what one commit of a batch needs is not asked of malloc again. */
constinit MemoryContext context = nullptr;
constexpr Size context_keeps = 64 * 1024;

void
open_buffer()
{
	/* sizes are as they are, not powers of two, and the youngest goes first */
	if (context == nullptr)
		context =
			GenerationContextCreate(TopMemoryContext, "queen push buffer", 0, context_keeps, ALLOCSET_DEFAULT_MAXSIZE);
}

uint32
hash_name(uint32 scope, Name name)
{
	return hash_combine(scope, hash_bytes((const unsigned char *) name.data, name.size));
}

bool
same_name(Name a, Name b)
{
	return a.size == b.size && memcmp(a.data, b.data, (Size) a.size) == 0;
}

/* The chain in which an entry with this hash is. */
NameEntry *
name_chain(const NameTable *table, uint32 hash)
{
	return table->size == 0 ? nullptr : table->buckets[hash & (table->size - 1)];
}

/* Make room for one more; before the entry is filled, for this may raise. */
void
name_table_room(NameTable *table)
{
	constexpr uint32 least = 16;
	const uint32 size = Max(least, table->size * 2);
	NameEntry **buckets;

	if (table->count < table->size)
		return;
	buckets = (NameEntry **) MemoryContextAllocExtended(context, sizeof(NameEntry *) * size,
														MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < table->size; i++)
	{
		NameEntry *next;

		for (NameEntry *entry = table->buckets[i]; entry != nullptr; entry = next)
		{
			next = entry->next;
			entry->next = buckets[entry->hash & (size - 1)];
			buckets[entry->hash & (size - 1)] = entry;
		}
	}
	if (table->buckets != nullptr)
		pfree(table->buckets);
	table->buckets = buckets;
	table->size = size;
}

void
name_table_add(NameTable *table, NameEntry *entry, uint32 hash)
{
	NameEntry **bucket = &table->buckets[hash & (table->size - 1)];

	*entry = {*bucket, hash};
	*bucket = entry;
	table->count++;
}

/* An entry with a copy of a name behind it. */
void *
make_entry(Size size, Name *name)
{
	char *entry = (char *) MemoryContextAlloc(context, size + (Size) name->size);

	memcpy(entry + size, name->data, (Size) name->size);
	name->data = entry + size;
	return entry;
}

bool
is_queue(const BufferedQueue *queue, Oid tables, const pg_uuid_t *tenant, Name name)
{
	return queue->tables == tables && memcmp(&queue->tenant, tenant, sizeof(*tenant)) == 0 &&
		   same_name(queue->name, name);
}

QueueEntry *
find_queue(Oid tables, const pg_uuid_t *tenant, Name name)
{
	const uint32 scope = hash_combine(tables, hash_bytes(tenant->data, UUID_LEN));
	const uint32 hash = hash_name(scope, name);
	QueueEntry *made;

	for (NameEntry *entry = name_chain(&buffer.queues, hash); entry != nullptr; entry = entry->next)
		if (entry->hash == hash && is_queue(&((QueueEntry *) entry)->queue, tables, tenant, name))
			return (QueueEntry *) entry;
	name_table_room(&buffer.queues);
	made = (QueueEntry *) make_entry(sizeof(QueueEntry), &name);
	made->queue = {tables, *tenant, name, false, false, 0};
	name_table_add(&buffer.queues, &made->entry, hash);
	return made;
}

int
compare_names(Name a, Name b)
{
	int common = memcmp(a.data, b.data, (Size) Min(a.size, b.size));

	return common != 0 ? common : a.size - b.size;
}

int
compare_partitions(const void *left, const void *right)
{
	const BufferedPartition *a = *(const BufferedPartition *const *) left;
	const BufferedPartition *b = *(const BufferedPartition *const *) right;
	int result = memcmp(a->queue->tenant.data, b->queue->tenant.data, UUID_LEN);

	if (result == 0)
		result = compare_names(a->queue->name, b->queue->name);
	if (result == 0)
		result = compare_names(a->name, b->name);
	return result;
}

/* Forget the newest frame in memory. Never raises. */
void
drop_last()
{
	BufferedFrame *frame = buffer.last;

	frame->partition->last = frame->previous_of_partition;
	frame->partition->count--;
	buffer.last = frame->previous;
	buffer.count--;
	buffer.bytes -= frame->size;
	pfree(frame);
}

/* Append all frames in memory to the file, in their order, and forget them in memory. */
void
spill()
{
	const uint64 in_memory = buffer.count - buffer.file.count;
	const FrameFile before = buffer.file;
	BufferedFrame **frames = (BufferedFrame **) MemoryContextAllocHuge(context, sizeof(BufferedFrame *) * in_memory);
	int savepoint = 0;
	uint64 i = in_memory;

	for (BufferedFrame *f = buffer.last; f != nullptr; f = f->previous)
		frames[--i] = f;
	while (savepoint < buffer.savepoint_count && buffer.savepoints[savepoint].count < before.count)
		savepoint++;
	PG_TRY();
	{
		for (i = 0; i < in_memory; i++)
		{
			for (; savepoint < buffer.savepoint_count && buffer.savepoints[savepoint].count == buffer.file.count;
				 savepoint++)
				buffer.savepoints[savepoint].position = buffer.file.end;
			frame_file_append(&buffer.file, frames[i]->partition->number, &frames[i]->frame,
							  frames[i]->keyed ? &frames[i]->key_hash : nullptr);
		}
	}
	PG_CATCH();
	{
		/*
		 * The disk is full, say. A handler that catches this finds the buffer as it was, but the file may not take anything
		 * any more: then the commit fails as well, and nothing is written by halves.
		 */
		frame_file_cut(&buffer.file, before.end, before.count);
		PG_RE_THROW();
	}
	PG_END_TRY();
	for (; savepoint < buffer.savepoint_count; savepoint++)
		buffer.savepoints[savepoint].position = buffer.file.end;

	for (i = in_memory; i > 0; i--)
	{
		frames[i - 1]->partition->last = nullptr;
		frames[i - 1]->partition->count = 0;
		pfree(frames[i - 1]);
	}
	pfree(frames);
	buffer.last = nullptr;
	buffer.bytes = 0;
}

/* Note the savepoint that a frame added now belongs to. */
void
note_savepoint()
{
	SubTransactionId id = GetCurrentSubTransactionId();
	int n = buffer.savepoint_count;

	if (id == TopSubTransactionId || (n > 0 && buffer.savepoints[n - 1].id == id))
		return;
	if (n == buffer.savepoint_space)
	{
		int space = Max(16, n * 2);
		Size size = sizeof(Savepoint) * (Size) space;

		buffer.savepoints =
			(Savepoint *) (n == 0 ? MemoryContextAlloc(context, size) : repalloc(buffer.savepoints, size));
		buffer.savepoint_space = space;
	}
	buffer.savepoints[n] = {id, buffer.count, buffer.keyed, buffer.file.end};
	buffer.savepoint_count = n + 1;
}

} // namespace

BufferedPartition *
push_buffer_partition(Oid tables, const pg_uuid_t *tenant, Name queue_name, Name name)
{
	QueueEntry *queue = buffer.last_queue;
	PartitionEntry *made;
	uint32 hash;

	open_buffer();
	if (queue == nullptr || !is_queue(&queue->queue, tables, tenant, queue_name))
		queue = find_queue(tables, tenant, queue_name);
	buffer.last_queue = queue;
	queue->queue.may_create |= setting_auto_create;
	hash = hash_name(queue->entry.hash, name);
	for (NameEntry *entry = name_chain(&buffer.partitions, hash); entry != nullptr; entry = entry->next)
	{
		BufferedPartition *partition = &((PartitionEntry *) entry)->partition;

		if (entry->hash == hash && partition->queue == &queue->queue && same_name(partition->name, name))
			return partition;
	}
	name_table_room(&buffer.partitions);
	made = (PartitionEntry *) make_entry(sizeof(PartitionEntry), &name);
	made->partition = {&queue->queue, name, hash, buffer.partitions.count, nullptr, 0};
	name_table_add(&buffer.partitions, &made->entry, hash);
	return &made->partition;
}

void
push_buffer_add(BufferedPartition *partition, const core::Uuid *id, bool raw, const Jsonb *headers, const void *payload,
				Size payload_size, const core::Uuid *key_hash)
{
	Size headers_size = headers != nullptr ? VARSIZE_ANY_EXHDR(headers) : 0;
	BufferedFrame *frame;
	uint8 *bytes;

	note_savepoint();
	frame = (BufferedFrame *) MemoryContextAlloc(context, sizeof(BufferedFrame) + headers_size + payload_size);
	bytes = (uint8 *) (frame + 1);
	if (headers_size > 0)
		memcpy(bytes, VARDATA_ANY(headers), headers_size);
	if (payload_size > 0)
		memcpy(bytes + headers_size, payload, payload_size);
	frame->number = buffer.count;
	frame->size = sizeof(BufferedFrame) + headers_size + payload_size;
	frame->keyed = key_hash != nullptr;
	if (frame->keyed)
	{
		frame->key_hash = *key_hash;
		buffer.keyed++;
		pushed_keys_add(&buffer.keys, context, (Size) setting_push_buffer_size * 1024 / sizeof(PushedKey),
						partition->number, key_hash, id, frame->number);
	}
	frame->frame.message_id = *id;
	frame->frame.raw = raw;
	frame->frame.has_headers = headers != nullptr;
	frame->frame.headers = {bytes, headers_size};
	frame->frame.payload = {bytes + headers_size, payload_size};
	frame->partition = partition;
	frame->previous = buffer.last;
	frame->previous_of_partition = partition->last;
	buffer.last = frame;
	partition->last = frame;
	partition->count++;
	buffer.count++;
	buffer.bytes += frame->size;
	if (buffer.bytes > (Size) setting_push_buffer_size * 1024)
		spill();
}

void
push_buffer_void(const pg_uuid_t *tenant, Name name)
{
	const SubTransactionId id = GetCurrentSubTransactionId();

	for (uint32 i = 0; i < buffer.queues.size; i++)
		for (NameEntry *entry = buffer.queues.buckets[i]; entry != nullptr; entry = entry->next)
		{
			BufferedQueue *queue = &((QueueEntry *) entry)->queue;
			VoidRecord *record;

			if (!is_queue(queue, queue->tables, tenant, name))
				continue;
			record = (VoidRecord *) MemoryContextAlloc(context, sizeof(VoidRecord));
			*record = {buffer.voided, queue, queue->void_below, id};
			buffer.voided = record;
			queue->void_below = buffer.count;
		}
	/* an aid only, and now it knows too much */
	pushed_keys_cut(&buffer.keys, 0);
}

uint64
push_buffer_count()
{
	return buffer.count;
}

const core::Uuid *
push_buffer_find_key(const BufferedPartition *partition, const core::Uuid *key_hash)
{
	return pushed_keys_find(&buffer.keys, partition->number, key_hash);
}

uint64
push_buffer_keyed()
{
	return buffer.keyed;
}

const BufferedFrame *
push_buffer_last()
{
	return buffer.last;
}

BufferedPartition **
push_buffer_sorted(int *count)
{
	const NameTable *table = &buffer.partitions;
	BufferedPartition **sorted = (BufferedPartition **) palloc_extended(
		sizeof(BufferedPartition *) * ((Size) table->count + 1), MCXT_ALLOC_HUGE);
	int n = 0;

	for (uint32 i = 0; i < table->size; i++)
		for (NameEntry *entry = table->buckets[i]; entry != nullptr; entry = entry->next)
			sorted[n++] = &((PartitionEntry *) entry)->partition;
	qsort(sorted, (size_t) n, sizeof(BufferedPartition *), compare_partitions);
	*count = n;
	return sorted;
}

uint32
push_buffer_partitions()
{
	return buffer.partitions.count;
}

FrameFile *
push_buffer_file()
{
	if (buffer.file.file == nullptr)
		return nullptr;
	if (buffer.last != nullptr)
		spill();
	return &buffer.file;
}

void
push_buffer_close()
{
	if (buffer.file.file != nullptr)
		BufFileClose(buffer.file.file);
	push_buffer_forget();
}

void
push_buffer_forget()
{
	/* the resource owner takes the file along */
	if (context != nullptr)
		MemoryContextReset(context);
	buffer = {};
}

void
push_buffer_sub_committed(SubTransactionId self, SubTransactionId parent)
{
	int n = buffer.savepoint_count;

	for (VoidRecord *record = buffer.voided; record != nullptr && record->id == self; record = record->previous)
		record->id = parent;
	if (n == 0 || buffer.savepoints[n - 1].id != self)
		return;
	if (parent == TopSubTransactionId || (n > 1 && buffer.savepoints[n - 2].id == parent))
		buffer.savepoint_count = n - 1;
	else
		buffer.savepoints[n - 1].id = parent;
}

void
push_buffer_sub_aborted(SubTransactionId self)
{
	int n = buffer.savepoint_count;

	for (; buffer.voided != nullptr && buffer.voided->id == self; buffer.voided = buffer.voided->previous)
		buffer.voided->queue->void_below = buffer.voided->was;
	if (n == 0 || buffer.savepoints[n - 1].id != self)
		return;
	while (buffer.last != nullptr && buffer.count > buffer.savepoints[n - 1].count)
		drop_last();
	if (buffer.count > buffer.savepoints[n - 1].count)
	{
		frame_file_cut(&buffer.file, buffer.savepoints[n - 1].position, buffer.savepoints[n - 1].count);
		buffer.count = buffer.file.count;
	}
	buffer.keyed = buffer.savepoints[n - 1].keyed;
	pushed_keys_cut(&buffer.keys, buffer.savepoints[n - 1].count);
	buffer.savepoint_count = n - 1;
}

} // namespace queen
