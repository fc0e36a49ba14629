/*
 * errors.h: the extension's own SQLSTATEs and the checks of arguments that every function shares.
 *
 * Class QN is ours. Everything else uses PostgreSQL's codes. All checks raise; none takes a lock.
 */
#ifndef QUEEN_SERVER_ERRORS_H
#define QUEEN_SERVER_ERRORS_H

#include "server/pg.h"

namespace queen
{

inline constexpr int errcode_lease_lost = MAKE_SQLSTATE('Q', 'N', '0', '0', '1');
inline constexpr int errcode_flush_timeout = MAKE_SQLSTATE('Q', 'N', '0', '0', '2');
inline constexpr int errcode_counts_drifted = MAKE_SQLSTATE('Q', 'N', '0', '0', '3');
inline constexpr int errcode_state_drifted = MAKE_SQLSTATE('Q', 'N', '0', '0', '4');

/* Longest name of a queue, partition, group or key, in bytes of the server's encoding (design: 1 to 255). */
inline constexpr int max_name_bytes = 255;

/* A name as a caller gave it; points into an argument's detoasted value. */
struct Name
{
	const char *data;
	int size;
};

/* Raise 22004: what ("queue", "lease", …) must not be null. */
[[noreturn]] void raise_null_argument(const char *what);

/*
 * Argument argno as a name: not null (22004), not empty and without control characters (22023), at most 255 bytes (42622);
 * errors carry the value, escaped, and a hint. what names the argument in the message.
 */
Name name_argument(FunctionCallInfo fcinfo, int argno, const char *what);

/* The same checks for a text datum that is known not to be null. */
Name name_from_text(const text *value, const char *what);

/* A fresh, terminated copy in the current memory context. */
char *name_to_cstring(Name name);

/* An integer argument within its range, not null (22004, 22023). */
int64 count_argument(FunctionCallInfo fcinfo, int argno, const char *what, int64 least, int64 most);

/*
 * An interval in microseconds (a month counts as 30 days), within [least, most] microseconds; both are printed as
 * intervals when it is not (22023). Infinite and overflowing intervals are out of range.
 */
int64 interval_in_range(const Interval *interval, const char *what, int64 least, int64 most);

/* Microseconds as PostgreSQL prints an interval, palloc'ed. */
char *interval_text(int64 microseconds);

} // namespace queen

#endif
