/*
 * verdict.h: what a claim found out about a candidate; the word that the claim core and the hot-list share.
 */
#ifndef QUEEN_CORE_HOTLIST_VERDICT_H
#define QUEEN_CORE_HOTLIST_VERDICT_H

#include <cstdint>

namespace queen::core
{

enum class Verdict : std::uint8_t
{
	none,		 /* not looked at: the call's budget ran out before it, or its transaction rolled back */
	took,		 /* messages, or a dead letter: the cursor's row is the caller's until its transaction ends */
	empty,		 /* surely nothing */
	leased,		 /* under a lease until a time, or until it is given back */
	deferred,	 /* a nacked head, or the queue's options, until a time that nothing but a cursor's move shortens */
	locked,		 /* another transaction is at the cursor, or its birth runs */
	behind_push, /* the next message belongs to a push that has not ended */
};

inline constexpr int verdict_count = 7;

} // namespace queen::core

#endif
