/*
 * flush.h: writing the push buffer, in PRE_COMMIT.
 */
#ifndef QUEEN_LOG_FLUSH_H
#define QUEEN_LOG_FLUSH_H

#include "server/xact.h"

namespace queen
{

/* What module.cpp joins to the transaction's life. */
extern const TransactionParticipant push_participant;

/* Write what is buffered now: births, then segments. Raises. */
void flush_pushes();

} // namespace queen

#endif
