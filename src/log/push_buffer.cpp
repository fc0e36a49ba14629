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

/* A name inside something: a queue in its tenant, a partition in its queue. Compared by what it points to. */
struct NameKey
{
	const void *scope;
	Size scope_size;
	const char *name;
	Size size;
};

/* Without padding: it is compared as bytes. */
struct QueueScope
{
	Oid tables;
	pg_uuid_t tenant;
};
static_assert(sizeof(QueueScope) == sizeof(Oid) + UUID_LEN);

struct QueueEntry
{
	NameKey key;
	BufferedQueue queue;
	QueueScope scope; /* what the key's scope points to */
};

struct PartitionEntry
{
	NameKey key;
	BufferedPartition partition;
	BufferedQueue *scope; /* what the key's scope points to */
};

/* From this count on, frames belong to this sub-transaction or to one inside it. */
struct Savepoint
{
	SubTransactionId id;
	uint64 count;
	uint64 keyed;
	FilePosition position; /* where the file ended then; known once these frames are in the file */
};

struct Buffer
{
	MemoryContext context;
	HTAB *queues;
	HTAB *partitions;
	uint32 partition_count;
	BufferedFrame *last; /* in memory */
	uint64 count;		 /* in memory and in the file */
	Size bytes;			 /* in memory */
	uint64 keyed;		 /* frames with a dedup_key, in memory and in the file */
	PushedKeys keys;
	FrameFile file;
	Savepoint *savepoints;
	int savepoint_count;
	int savepoint_space;
};

constinit Buffer buffer = {};

uint32
hash_key(const void *data, Size size)
{
	const NameKey *key = (const NameKey *) data;

	(void) size;
	return hash_combine(hash_bytes((const unsigned char *) key->scope, (int) key->scope_size),
						hash_bytes((const unsigned char *) key->name, (int) key->size));
}

int
match_key(const void *left, const void *right, Size size)
{
	const NameKey *a = (const NameKey *) left;
	const NameKey *b = (const NameKey *) right;

	(void) size;
	return !(a->scope_size == b->scope_size && a->size == b->size && memcmp(a->scope, b->scope, a->scope_size) == 0 &&
			 memcmp(a->name, b->name, a->size) == 0);
}

HTAB *
make_table(const char *name, Size entry_size)
{
	HASHCTL control = {};

	control.keysize = sizeof(NameKey);
	control.entrysize = entry_size;
	control.hash = hash_key;
	control.match = match_key;
	control.hcxt = buffer.context;
	return hash_create(name, 64, &control, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

void
open_buffer()
{
	if (buffer.context == nullptr)
		buffer.context = AllocSetContextCreate(TopTransactionContext, "queen push buffer", ALLOCSET_DEFAULT_SIZES);
	if (buffer.queues == nullptr)
		buffer.queues = make_table("queen pushed queues", sizeof(QueueEntry));
	if (buffer.partitions == nullptr)
		buffer.partitions = make_table("queen pushed partitions", sizeof(PartitionEntry));
}

char *
keep_name(Name name)
{
	char *copy = (char *) MemoryContextAlloc(buffer.context, (Size) name.size);

	memcpy(copy, name.data, (Size) name.size);
	return copy;
}

BufferedQueue *
find_queue(Oid tables, const pg_uuid_t *tenant, Name name)
{
	QueueScope scope = {tables, *tenant};
	NameKey key = {&scope, sizeof(scope), name.data, (Size) name.size};
	QueueEntry *entry = (QueueEntry *) hash_search(buffer.queues, &key, HASH_FIND, nullptr);

	if (entry == nullptr)
	{
		/* what may raise comes before the entry is in the table */
		char *kept = keep_name(name);
		bool found;

		key.name = kept;
		entry = (QueueEntry *) hash_search(buffer.queues, &key, HASH_ENTER, &found);
		entry->scope = scope;
		entry->key.scope = &entry->scope;
		entry->queue = {tables, *tenant, {kept, name.size}, false};
	}
	return &entry->queue;
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
	BufferedFrame **frames =
		(BufferedFrame **) MemoryContextAllocHuge(buffer.context, sizeof(BufferedFrame *) * in_memory);
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
			(Savepoint *) (n == 0 ? MemoryContextAlloc(buffer.context, size) : repalloc(buffer.savepoints, size));
		buffer.savepoint_space = space;
	}
	buffer.savepoints[n] = {id, buffer.count, buffer.keyed, buffer.file.end};
	buffer.savepoint_count = n + 1;
}

} // namespace

BufferedPartition *
push_buffer_partition(Oid tables, const pg_uuid_t *tenant, Name queue_name, Name name)
{
	BufferedQueue *queue;
	PartitionEntry *entry;
	NameKey key;

	open_buffer();
	queue = find_queue(tables, tenant, queue_name);
	queue->may_create |= setting_auto_create;
	key = {&queue, sizeof(queue), name.data, (Size) name.size};
	entry = (PartitionEntry *) hash_search(buffer.partitions, &key, HASH_FIND, nullptr);
	if (entry == nullptr)
	{
		char *kept = keep_name(name);
		bool found;

		key.name = kept;
		entry = (PartitionEntry *) hash_search(buffer.partitions, &key, HASH_ENTER, &found);
		entry->scope = queue;
		entry->key.scope = &entry->scope;
		entry->partition = {queue, {kept, name.size}, buffer.partition_count++, nullptr, 0};
	}
	return &entry->partition;
}

void
push_buffer_add(BufferedPartition *partition, const core::Uuid *id, bool raw, const Jsonb *headers, const void *payload,
				Size payload_size, const core::Uuid *key_hash)
{
	Size headers_size = headers != nullptr ? VARSIZE_ANY_EXHDR(headers) : 0;
	BufferedFrame *frame;
	uint8 *bytes;

	note_savepoint();
	frame = (BufferedFrame *) MemoryContextAlloc(buffer.context, sizeof(BufferedFrame) + headers_size + payload_size);
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
		pushed_keys_add(&buffer.keys, buffer.context, (Size) setting_push_buffer_size * 1024 / sizeof(PushedKey),
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
	HASH_SEQ_STATUS scan;
	PartitionEntry *entry;
	BufferedPartition **sorted = (BufferedPartition **) palloc(sizeof(BufferedPartition *) *
															   (Size) (hash_get_num_entries(buffer.partitions) + 1));
	int n = 0;

	hash_seq_init(&scan, buffer.partitions);
	while ((entry = (PartitionEntry *) hash_seq_search(&scan)) != nullptr)
		sorted[n++] = &entry->partition;
	qsort(sorted, (size_t) n, sizeof(BufferedPartition *), compare_partitions);
	*count = n;
	return sorted;
}

uint32
push_buffer_partitions()
{
	return buffer.partition_count;
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
	if (buffer.context != nullptr)
		MemoryContextDelete(buffer.context);
	buffer = {};
}

void
push_buffer_forget()
{
	/* TopTransactionContext takes the memory along, and the resource owner the file */
	buffer = {};
}

void
push_buffer_sub_committed(SubTransactionId self, SubTransactionId parent)
{
	int n = buffer.savepoint_count;

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
