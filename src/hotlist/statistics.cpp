/*
 * statistics.cpp: what the views of the hot-list show: queen.stat_hotlist, stat_hotlist_pool, and their reset.
 *
 * Raises. Locks: the pool's, in the core, for a ring's oldest candidate. Runs in backends, also on a standby.
 */
#include "hotlist/gates.h"
#include "server/pg.h"
#include "server/relations.h"

namespace queen
{

namespace hot = core::hotlist;

namespace
{

enum RingColumn : int
{
	ring_database,
	ring_queue_id,
	ring_group_id,
	ring_is_ours,
	ring_ready,
	ring_parked,
	ring_checked_out,
	ring_oldest_ready_age,
	ring_owes,
	ring_marks,
	ring_takes,
	ring_took,
	ring_empty,
	ring_leased,
	ring_deferred,
	ring_locked,
	ring_behind_push,
	ring_unreached,
	ring_clears,
	ring_requeues,
	ring_epoch_conflicts,
	ring_dropped,
	ring_reseeds,
	ring_reseed_rows,
	ring_reseed_repairs,
	ring_last_reseed,
	ring_last_reseed_time,
	ring_last_served,
	ring_waiting,
	ring_wakes,
	ring_cols,
};

const char *
owes_name(hot::Owes owes)
{
	switch (owes)
	{
		case hot::Owes::nothing:
			return "nothing";
		case hot::Owes::floor:
			return "floor";
		case hot::Owes::walk:
			return "walk";
		case hot::Owes::incomplete:
			return "incomplete";
		case hot::Owes::full:
			return "full";
	}
	return "unknown";
}

Datum
count_datum(uint64 count)
{
	return Int64GetDatum((int64) Min(count, (uint64) PG_INT64_MAX));
}

/* A time of the pool's clock; null for 0. */
void
put_time(Datum *values, bool *nulls, int column, hot::Micros at)
{
	nulls[column] = at == 0;
	if (at != 0)
		values[column] = TimestampTzGetDatum(GetCurrentTimestamp() - (hotlist_now() - at));
}

void
put_ring(const hot::RingStatistics *ring, Oid tables, Datum *values, bool *nulls)
{
	GateStatistics gate;

	values[ring_database] = ObjectIdGetDatum(ring->key.queue.database);
	values[ring_queue_id] = Int64GetDatum(ring->key.queue.queue_id);
	values[ring_group_id] = Int64GetDatum(ring->key.group_id);
	values[ring_is_ours] = BoolGetDatum(ring->key.queue.database == MyDatabaseId && ring->key.queue.tables == tables);
	values[ring_ready] = count_datum(ring->ready);
	values[ring_parked] = count_datum(ring->parked);
	values[ring_checked_out] = count_datum(ring->checked_out);
	nulls[ring_oldest_ready_age] = ring->oldest_ready == 0;
	values[ring_oldest_ready_age] =
		Float8GetDatum((double) Max(hotlist_now() - ring->oldest_ready, 0) / (double) USECS_PER_SEC);
	values[ring_owes] = CStringGetTextDatum(owes_name(ring->owes));
	values[ring_marks] = count_datum(ring->marks);
	values[ring_takes] = count_datum(ring->takes);
	values[ring_took] = count_datum(ring->verdicts[(int) core::Verdict::took]);
	values[ring_empty] = count_datum(ring->verdicts[(int) core::Verdict::empty]);
	values[ring_leased] = count_datum(ring->verdicts[(int) core::Verdict::leased]);
	values[ring_deferred] = count_datum(ring->verdicts[(int) core::Verdict::deferred]);
	values[ring_locked] = count_datum(ring->verdicts[(int) core::Verdict::locked]);
	values[ring_behind_push] = count_datum(ring->verdicts[(int) core::Verdict::behind_push]);
	values[ring_unreached] = count_datum(ring->verdicts[(int) core::Verdict::none]);
	values[ring_clears] = count_datum(ring->clears);
	values[ring_requeues] = count_datum(ring->requeues);
	values[ring_epoch_conflicts] = count_datum(ring->conflicts);
	values[ring_dropped] = count_datum(ring->dropped);
	values[ring_reseeds] = count_datum(ring->reseeds);
	values[ring_reseed_rows] = count_datum(ring->reseed_rows);
	values[ring_reseed_repairs] = count_datum(ring->reseed_repairs);
	put_time(values, nulls, ring_last_reseed, ring->last_reseed);
	nulls[ring_last_reseed_time] = ring->last_reseed == 0;
	values[ring_last_reseed_time] = Float8GetDatum((double) ring->last_reseed_took / 1000.0);
	put_time(values, nulls, ring_last_served, ring->last_served);
	gate_statistics(ring->ring.index, &gate);
	values[ring_waiting] = Int32GetDatum((int32) gate.waiting);
	values[ring_wakes] = count_datum(gate.wakes);
}

} // namespace

QUEEN_FUNCTION(queen_stat_hotlist)
QUEEN_FUNCTION(queen_stat_hotlist_pool)
QUEEN_FUNCTION(queen_reset_hotlist)

/* queen.stat_hotlist() returns setof record */
Datum
queen_stat_hotlist(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Oid tables = own_tables();

	InitMaterializedSRF(fcinfo, 0);
	for (uint32 i = 0; hotlist_there() && i < hot::ring_places(hotlist()); i++)
	{
		hot::RingStatistics ring;
		Datum values[ring_cols] = {};
		bool nulls[ring_cols] = {};

		CHECK_FOR_INTERRUPTS();
		if (!hot::ring_statistics(hotlist(), i, &ring))
			continue;
		put_ring(&ring, tables, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* queen.stat_hotlist_pool() returns record; null without a pool */
Datum
queen_stat_hotlist_pool(PG_FUNCTION_ARGS)
{
	constexpr int columns = 12;
	Datum values[columns] = {};
	bool nulls[columns] = {};
	hot::PoolStatistics pool;
	TupleDesc desc;
	int column = 0;

	if (!hotlist_there())
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	hot::pool_statistics(hotlist(), &pool);
	values[column++] = count_datum(pool.bytes);
	values[column++] = count_datum(pool.slots);
	values[column++] = count_datum(pool.slots_used);
	values[column++] = count_datum(pool.rings);
	values[column++] = count_datum(pool.rings_used);
	values[column++] = count_datum(pool.evicted_rings);
	values[column++] = count_datum(pool.refused_rings);
	values[column++] = count_datum(pool.refused_slots);
	for (int i = 0; i < (int) Fallback::count; i++)
		values[column++] = count_datum(fallbacks((Fallback) i));
	Assert(column == columns);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* queen.reset_hotlist_stats() returns void */
Datum
queen_reset_hotlist(PG_FUNCTION_ARGS)
{
	if (hotlist_there())
		hot::reset_statistics(hotlist(), MyDatabaseId);
	reset_fallbacks();
	PG_RETURN_VOID();
}

} // namespace queen
