/*
 * guards.h: where a call may run at all. All of these raise; none takes a lock.
 */
#ifndef QUEEN_SERVER_GUARDS_H
#define QUEEN_SERVER_GUARDS_H

#include "server/pg.h"

namespace queen
{

/*
 * Refuse a call that writes where the transaction may not: read-only (25006), on a standby (25006), in a parallel
 * operation (25000), inside a security-restricted operation such as an index expression run by VACUUM (42501). Direct
 * table access checks none of these by itself.
 *   function: the SQL name, as "queen.push()"
 */
void guard_push(const char *function);

/*
 * guard_push, for what does more than push: PREPARE TRANSACTION will refuse the transaction, and nobody else can drop the
 * extension until it ends.
 */
void guard_write(const char *function);

/*
 * guard_write, and refuse an isolation level above READ COMMITTED (25000): for what takes messages. enders: the functions that end what it begins, for
 * the hint.
 */
void guard_take(const char *function, const char *enders = "queen.ack() and queen.nack()");

/*
 * For a procedure that commits: refuse it where it would commit what is not its own, in a transaction block, a function, a savepoint, or a
 * pipeline whose earlier statements wait for their end (2D000).
 */
void guard_procedure(FunctionCallInfo fcinfo, const char *procedure, const char *hint);

} // namespace queen

#endif
