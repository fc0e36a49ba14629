/*
 * push_message.h: one message into the push buffer: what all ways to push share.
 *
 * All of these raise. The caller has asked guard_push whether the transaction may push at all.
 */
#ifndef QUEEN_LOG_PUSH_MESSAGE_H
#define QUEEN_LOG_PUSH_MESSAGE_H

#include "log/push_buffer.h"

namespace queen
{

/* The time for a message's id: Unix time in milliseconds. */
uint64 push_ms();

/* The buffered partition of the session's tenant. 42704 when its queue is not there and queen.auto_create is off. */
BufferedPartition *push_target(Name queue, Name partition);

/* Is the queue there? 42809 when it is not a log queue. */
bool push_check_kind(Name queue);

/* A new message id. */
core::Uuid push_mint_id(uint64 ms);

/* The headers argument: an object, or null when it is absent. 22023. */
Jsonb *push_headers_argument(FunctionCallInfo fcinfo, int argno);

/* The argument messages: a JSON array. 22004, 22023; single: the function for a single message. */
Jsonb *push_messages_argument(FunctionCallInfo fcinfo, int argno, const char *single);

/* Walk the elements of a JSON array; the caller knows that there is a next one. */
JsonbIterator *elements_open(Jsonb *array);
JsonbValue next_element(JsonbIterator **elements);

/* 54000 when a message of that size is too large with its headers, which may be null. */
void push_check_size(Size size, const Jsonb *headers);

/* Buffer a message under a new id; 54000 when it is too large. headers and key_hash (of its dedup_key) may be null. */
core::Uuid push_message(BufferedPartition *target, uint64 ms, bool raw, const Jsonb *headers, const void *payload,
						Size size, const core::Uuid *key_hash);

/* To be called after the pushes: once the flush has begun, what is pushed is written at once, for nothing comes after. */
void push_write_through();

} // namespace queen

#endif
