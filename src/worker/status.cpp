/*
 * status.cpp: queen.status(), what is installed and how it runs.
 *
 * Raises. Locks: the registry's, shared, for copies. Runs in backends, also on a standby.
 */
#include "log/queues.h"
#include "server/relations.h"
#include "server/settings.h"
#include "state/snapshot.h"
#include "worker/registry.h"

namespace queen
{

namespace
{

constexpr const char *preload_hint = "Add queen to shared_preload_libraries and restart the server.";

void
put_row(ReturnSetInfo *rsinfo, const char *item, const char *state, const char *detail, const char *hint)
{
	Datum values[4] = {CStringGetTextDatum(item), CStringGetTextDatum(state), (Datum) 0, (Datum) 0};
	bool nulls[4] = {false, false, detail == nullptr, hint == nullptr};

	if (detail != nullptr)
		values[2] = CStringGetTextDatum(detail);
	if (hint != nullptr)
		values[3] = CStringGetTextDatum(hint);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* What to do about a worker that is not running. */
const char *
worker_hint(const char *state)
{
	if (strcmp(state, "running") == 0)
		return nullptr;
	if (strcmp(state, "no slot") == 0)
		return "Increase max_worker_processes: queen needs one, and two for each database that has it.";
	if (strcmp(state, "evicted") == 0)
		return "Somebody drops, copies, renames or moves this database; it comes back behind that.";
	if (strcmp(state, "resting") == 0)
		return "It has failed: the server's log says why, pg_stat_queen_workers when it is tried again.";
	return "It comes by itself; not to a template, nor to a database that queen.databases leaves out.";
}

void
put_worker(ReturnSetInfo *rsinfo, WorkerKind kind, const char *detail)
{
	RegistryEntry entry;
	const char *state = "absent";

	if (registry_entry_of(MyDatabaseId, &entry))
		state = process_state(&entry, &entry.processes[(int) kind]);
	put_row(rsinfo, worker_name(kind), state, detail, worker_hint(state));
}

int
waiting_for_slots()
{
	RegistryEntry entry;
	int waiting = 0;

	for (int place = 0; place < registry_places(); place++)
		if (registry_entry(place, &entry))
			for (const ProcessRecord &process : entry.processes)
				waiting += process.state == WorkerState::absent && process.no_slot;
	return waiting;
}

void
put_workers(ReturnSetInfo *rsinfo)
{
	ProcessRecord launcher;
	int waiting;

	if (!registry_there() || RecoveryInProgress())
	{
		const char *state = registry_there() ? "standby" : "not preloaded";

		put_row(rsinfo, "workers", state,
				"Nothing is cleaned up and nothing happens by time, but by queen.maintain() and in pops.",
				registry_there() ? "They start with a promotion." : preload_hint);
		return;
	}
	registry_launcher(&launcher);
	waiting = waiting_for_slots();
	put_row(rsinfo, worker_name(WorkerKind::launcher), process_state(nullptr, &launcher),
			"Starts the others, in all databases.",
			launcher.state == WorkerState::running ? nullptr : "The postmaster starts it anew after a second.");
	put_worker(rsinfo, WorkerKind::keeper, "Cleans up in this database.");
	put_worker(rsinfo, WorkerKind::pulse, "Wakes and fires by time in this database.");
	put_row(rsinfo, "worker_slots", waiting == 0 ? "enough" : "exhausted",
			psprintf("%d workers wait for a slot, in all databases.", waiting),
			waiting == 0 ? nullptr : worker_hint("no slot"));
}

/* The state of queues, as far as it is known. */
void
put_state(ReturnSetInfo *rsinfo)
{
	const char *detail = "The state of queues, for pg_stat_queen_queues and pg_stat_queen_groups.";
	CollectorRecord record;
	int64 left_out;

	(void) snapshot_record(own_tables(), &record);
	left_out = record.left_out_queues + record.left_out_groups;
	if (record.failing)
		put_row(rsinfo, "state", "failing", detail,
				"pg_stat_queen_collector and the server's log say why, and since when.");
	else if (!snapshot_has_place())
		put_row(rsinfo, "state", "no room",
				psprintf("The state of %d databases is kept, and this is another one.", snapshot_most_databases),
				"Drop the extension where it is not used, or leave such a database out of queen.databases.");
	else if (left_out > 0)
		put_row(rsinfo, "state", "incomplete",
				psprintf("%lld queues and %lld groups are left out.", (long long) record.left_out_queues,
						 (long long) record.left_out_groups),
				"Increase queen.state_queues and queen.state_groups, and restart the server.");
	else if (!setting_preloaded())
		put_row(rsinfo, "state", "by hand", "queen.collect() collects it for the session that calls it.", preload_hint);
	else if (setting_collect_interval == 0)
		put_row(rsinfo, "state", "off", detail, "Set queen.collect_interval to have it collected.");
	else
		put_row(rsinfo, "state", record.collected_at == 0 ? "none yet" : "collected", detail, nullptr);
}

} // namespace

QUEEN_FUNCTION(queen_status)

/* queen.status() returns setof (item, state, detail, hint) */
Datum
queen_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	put_row(rsinfo, "version", "1.0", psprintf("built for PostgreSQL %s", PG_MAJORVERSION), nullptr);
	put_row(rsinfo, "preload", setting_preloaded() ? "on" : "off",
			setting_preloaded() ? "The library is in shared_preload_libraries."
								: "No hot-list, no background workers: everything else works, by the tables.",
			setting_preloaded() ? nullptr : preload_hint);
	put_workers(rsinfo);
	put_state(rsinfo);
	put_row(rsinfo, "tenant", DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(setting_tenant()))),
			"The setting queen.tenant of this session.", nullptr);
	put_row(rsinfo, "queues", psprintf("%lld", (long long) count_queues(setting_tenant())), "Queues of this tenant.",
			nullptr);
	put_row(rsinfo, "auto_create", setting_auto_create ? "on" : "off",
			setting_auto_create ? "A first push creates its queue."
								: "A push to a queue that is not there is an error.",
			nullptr);
	put_row(rsinfo, "flush_timeout", psprintf("%d ms", setting_flush_timeout),
			"Bound of each wait for a lock while a commit writes its pushes.",
			setting_flush_timeout == 0 ? "Set queen.flush_timeout: 0 lets a commit wait without a bound." : nullptr);
	return (Datum) 0;
}

} // namespace queen
