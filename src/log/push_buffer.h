/*
 * push_buffer.h: what this transaction has pushed and not yet written.
 *
 * Frames are kept by names, in the order of the pushes, with the savepoint they belong to: since sub-transactions nest,
 * what a rolled-back savepoint pushed is always the tail of that order. The newest are in memory, at most
 * queen.push_buffer_size of them; the older ones went to a temporary file.
 */
#ifndef QUEEN_LOG_PUSH_BUFFER_H
#define QUEEN_LOG_PUSH_BUFFER_H

#include "core/segment.h"
#include "log/frame_file.h"
#include "server/errors.h"
#include "server/pg.h"

namespace queen
{

struct BufferedQueue
{
	Oid tables; /* the incarnation of the tables that it was pushed to, see lock_for_push */
	pg_uuid_t tenant;
	Name name;
	bool may_create;   /* queen.auto_create was on at a push */
	bool looked;	   /* no queue of another kind was there at a push */
	uint64 void_below; /* frames with a smaller number were pushed before this transaction dropped the queue */
};

struct BufferedFrame;

struct BufferedPartition
{
	BufferedQueue *queue;
	Name name;
	uint32 hash;		 /* of all its names, and the tables */
	uint32 number;		 /* what the file calls it */
	BufferedFrame *last; /* the newest frame in memory, linked back to the oldest there */
	uint32 count;		 /* of frames in memory */
};

struct BufferedFrame
{
	BufferedFrame *previous;			  /* of the whole buffer */
	BufferedFrame *previous_of_partition; /* of the partition */
	BufferedPartition *partition;
	uint64 number;		 /* in the buffer, from 0 */
	Size size;			 /* of this allocation */
	bool keyed;			 /* it came with a dedup_key … */
	core::Uuid key_hash; /* … and this is the key's hash */
	core::Frame frame;	 /* its views point into this allocation */
};

/* The partition's place in the buffer, made when it is new. May raise for memory. */
BufferedPartition *push_buffer_partition(Oid tables, const pg_uuid_t *tenant, Name queue, Name partition);

/*
 * Add a message: copies headers (may be null) and payload. key_hash: of its dedup_key, null without. May raise for memory.
 */
void push_buffer_add(BufferedPartition *partition, const core::Uuid *id, bool raw, const Jsonb *headers,
					 const void *payload, Size payload_size, const core::Uuid *key_hash);

/* The message in the buffer that came first with a dedup_key, or null where none is known: see pushed_keys.h. */
const core::Uuid *push_buffer_find_key(const BufferedPartition *partition, const core::Uuid *key_hash);

/* How many frames in the buffer have a dedup_key. */
uint64 push_buffer_keyed();

/* This transaction drops or purges the queue: what was pushed to it is void, unless that is rolled back. May raise. */
void push_buffer_void(const pg_uuid_t *tenant, Name queue);

/* Frames in the buffer, in memory and in the file, void ones included. */
uint64 push_buffer_count();

/* All partitions that were pushed to, in (tenant, queue, partition) order; palloc'ed in the current context. */
BufferedPartition **push_buffer_sorted(int *count);

/* How many partitions have a number. */
uint32 push_buffer_partitions();

/* The newest frame in memory, or null. */
const BufferedFrame *push_buffer_last();

/* Null while everything is in memory. Otherwise the file, into which what was in memory has gone too. May raise. */
FrameFile *push_buffer_file();

/* Everything was written, or was rolled back to savepoints: free it. May raise for what a disk can do. */
void push_buffer_close();

/* The transaction is over: forget everything. Never raises. */
void push_buffer_forget();

/* Savepoints; see TransactionParticipant. Never raise. */
void push_buffer_sub_committed(SubTransactionId self, SubTransactionId parent);
void push_buffer_sub_aborted(SubTransactionId self);

} // namespace queen

#endif
