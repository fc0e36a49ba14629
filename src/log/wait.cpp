/*
 * wait.cpp: CALL queen.wait().
 *
 * Raises. Commits after each look and sleeps in between without a snapshot, a transaction id or a lock. Runs in backends.
 */
#include "log/look.h"
#include "server/errors.h"
#include "server/guards.h"

namespace queen
{

namespace
{

/* A wait under way. */
struct Wait
{
	Consumer consumer;
};

WaitLook
look(void *arg)
{
	const Wait *wait = (const Wait *) arg;
	WaitLook found = {false, core::hotlist::never, {}};
	ConsumerPlace place;
	bool settled = false;

	while (!settled)
	{
		guard_take("queen.wait()");
		consumer_enter(&wait->consumer, &place);
		/* a group that was subscribed just now gets its ring when it is committed */
		settled = place.find != ConsumerFind::there || !place.group.own;
		if (settled && place.find == ConsumerFind::there)
			group_touch(&place.group);
		if (settled && consumer_may_take(&place))
			found = consumer_look(&wait->consumer, &place);
		SPI_commit();
	}
	return found;
}

} // namespace

QUEEN_FUNCTION(queen_wait)

/* CALL queen.wait(queue, consumer_group, timeout, partition, INOUT ready) */
Datum
queen_wait(PG_FUNCTION_ARGS)
{
	Wait wait = {};
	WaitCalls calls = {look, &wait, true};
	Name partition;
	int64 timeout;
	TupleDesc desc;
	Datum ready;
	bool null = false;

	guard_procedure(fcinfo, "queen.wait()", "It commits before it sleeps: CALL it on its own.");
	guard_take("queen.wait()");
	wait.consumer.queue = name_argument(fcinfo, 0, "queue");
	wait.consumer.group = name_argument(fcinfo, 1, "consumer_group");
	if (PG_ARGISNULL(2))
		raise_null_argument("timeout");
	timeout = interval_in_range(PG_GETARG_INTERVAL_P(2), "timeout", 0, wait_most);
	if (!PG_ARGISNULL(3))
	{
		partition = name_argument(fcinfo, 3, "partition");
		wait.consumer.partition = &partition;
	}
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("return type must be a row type")));
	desc = BlessTupleDesc(desc);
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
	/* SPI's memory context outlives the commits */
	ready = BoolGetDatum(wait_for_work(&calls, timeout));
	SPI_finish();
	return HeapTupleGetDatum(heap_form_tuple(desc, &ready, &null));
}

} // namespace queen
