/*
 * gate.cpp: how many of those who wait are woken, and when. See gate.h.
 */
#include "core/gate.h"

namespace queen::core
{

namespace
{

std::uint32_t
wake_due(Gate &gate, std::int64_t now) noexcept
{
	const std::uint32_t wake = gate.due;

	if (wake == 0)
		return 0;
	gate.waiting -= wake;
	gate.woken += wake;
	gate.due = 0;
	gate.last_wake = now;
	return wake;
}

bool
may_wake(const Gate &gate, std::int64_t now, std::int64_t interval) noexcept
{
	return gate.woken == 0 || now - gate.last_wake >= interval;
}

} // namespace

std::uint32_t
gate_promise(Gate &gate, std::uint32_t more, std::int64_t now, std::int64_t interval) noexcept
{
	gate.due += more;
	return may_wake(gate, now, interval) ? wake_due(gate, now) : 0;
}

std::uint32_t
gate_answer(Gate &gate, std::int64_t now) noexcept
{
	gate.woken--;
	return gate.woken == 0 ? wake_due(gate, now) : 0;
}

std::uint32_t
gate_tick(Gate &gate, std::int64_t now, std::int64_t interval) noexcept
{
	return may_wake(gate, now, interval) ? wake_due(gate, now) : 0;
}

std::int64_t
gate_tick_at(const Gate &gate, std::int64_t interval) noexcept
{
	return gate.due > 0 ? gate.last_wake + interval : INT64_MAX;
}

} // namespace queen::core
