/*
 * gate.h: how many of those who wait are woken, and when. Counts alone: who they are is kept by whoever has the list.
 *
 * Candidates that become ready promise a wake to as many waiters: they are due. Those who are due wake at once while no wake is unanswered,
 * else with the last answer, or when the interval since the last wake is over. Nothing here waits; the gate's lock is the caller's.
 */
#ifndef QUEEN_CORE_GATE_H
#define QUEEN_CORE_GATE_H

#include <cstdint>

namespace queen::core
{

struct Gate
{
	std::uint32_t waiting; /* in the list */
	std::uint32_t due;	   /* of these: they are to be woken with the next wake */
	std::uint32_t woken;   /* out of the list, without an answer yet */
	std::int64_t last_wake;
};

/* One more waits, not due. */
inline void
gate_enter(Gate &gate) noexcept
{
	gate.waiting++;
}

/* One who waited goes unwoken. due: it was. */
inline void
gate_leave(Gate &gate, bool due) noexcept
{
	gate.waiting--;
	gate.due -= due ? 1 : 0;
}

/* How many more may be due when so many candidates became ready. */
inline std::uint32_t
gate_room(const Gate &gate, std::uint32_t ready) noexcept
{
	return ready < gate.waiting - gate.due ? ready : gate.waiting - gate.due;
}

/*
 * These return how many to wake now: all who are due, or none; they are out of the list then.
 *   gate_promise  so many more are due, of those whom gate_room counts
 *   gate_answer   one who was woken has looked
 *   gate_tick     it is time to see after the gate
 */
std::uint32_t gate_promise(Gate &gate, std::uint32_t more, std::int64_t now, std::int64_t interval) noexcept;
std::uint32_t gate_answer(Gate &gate, std::int64_t now) noexcept;
std::uint32_t gate_tick(Gate &gate, std::int64_t now, std::int64_t interval) noexcept;

/* When the next tick is wanted; INT64_MAX: not at all. */
std::int64_t gate_tick_at(const Gate &gate, std::int64_t interval) noexcept;

} // namespace queen::core

#endif
