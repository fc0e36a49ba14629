/*
 * leases.cpp: finding and locking the cursor row that a lease token names. See leases.h.
 *
 * Raises. Locks: the cursor's row, waiting at most until the lease ends. Runs in backends.
 */
#include "log/leases.h"

#include "hotlist/journal.h"
#include "server/errors.h"
#include "server/settings.h"
#include "server/timed_wait.h"
#include "server/uuids.h"

namespace queen
{

namespace
{

/* A well-formed token that nobody has given, or that belongs to another tenant. */
[[noreturn]] void
raise_unknown(const pg_uuid_t *lease)
{
	ereport(
		ERROR,
		(errcode(errcode_lease_lost), errmsg("lease %s is lost", uuid_text(lease)),
		 errdetail("No consumer group of this tenant has it: it was never given, or its group was unsubscribed."),
		 errhint("Pass the lease column of the messages that queen.pop() returned, to the same database and tenant.")));
	pg_unreachable();
}

struct LockAttempt
{
	EraHandle *cursors;
	EraLock result;
};

void
lock_waiting(void *arg)
{
	LockAttempt *attempt = (LockAttempt *) arg;

	attempt->result = era_lock(attempt->cursors, true);
}

/* Lock the row that was sought, waiting while the lease runs. */
EraLock
lock_in_lease_time(HeldLease *held, const pg_uuid_t *lease)
{
	LockAttempt attempt = {&held->cursors, era_lock(&held->cursors, false)};
	int64 left;

	if (attempt.result != EraLock::locked)
		return attempt.result;
	/* whoever holds the row now may extend, complete or, when the time is over, take over the lease */
	left = (held->cursor.lease_until - GetCurrentTimestamp()) / 1000;
	if (left <= 0 || !run_with_timeout((int) Min(left, INT_MAX), true, lock_waiting, &attempt))
		raise_lost(lease, "Its time is over, and a transaction that has not ended is at its messages.");
	return attempt.result;
}

} // namespace

const pg_uuid_t *
lease_argument(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		raise_null_argument("lease");
	return PG_GETARG_UUID_P(argno);
}

void
raise_lost(const pg_uuid_t *lease, const char *detail)
{
	ereport(ERROR,
			(errcode(errcode_lease_lost), errmsg("lease %s is lost", uuid_text(lease)), errdetail("%s", detail),
			 errhint("Roll back what was done for its messages: they are delivered again. Work that takes longer "
					 "needs a longer lease_time, or queen.extend() while it runs.")));
	pg_unreachable();
}

void
raise_completed(const pg_uuid_t *lease)
{
	ereport(
		ERROR,
		(errcode(errcode_lease_lost), errmsg("lease %s is completed", uuid_text(lease)),
		 errhint("Its messages were acknowledged, went to the dead letters or were deleted: nothing is left of it.")));
	pg_unreachable();
}

core::LeaseToken
lease_unpack(const pg_uuid_t *lease)
{
	core::LeaseToken token;

	if (!core::lease_token_unpack(uuid_from_datum(UUIDPGetDatum(lease)), token))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is not a lease", uuid_text(lease)),
						errhint("Pass the lease column of the messages that queen.pop() returned.")));
	return token;
}

LeaseState
lease_open(HeldLease *held, const pg_uuid_t *lease)
{
	const core::Uuid uuid = uuid_from_datum(UUIDPGetDatum(lease));
	const core::LeaseToken token = lease_unpack(lease);
	Cursor *cursor = &held->cursor;

	held->partition_id = (int64) token.partition_id;
	held->number = token.nonce;
	held->snapshot = nullptr;
	era_open(&held->cursors, &cursor_table);
	if (!group_find_by_id((int64) token.group_id, &held->group) ||
		memcmp(&held->group.tenant, setting_tenant(), sizeof(pg_uuid_t)) != 0)
		raise_unknown(lease);

	for (int tries = 0;; tries++)
	{
		EraSeek found;

		CHECK_FOR_INTERRUPTS();
		held->snapshot = register_latest_snapshot();
		found = era_seek(&held->cursors, {held->partition_id, held->group.group_id}, held->snapshot);
		if (found == EraSeek::found)
		{
			cursor_read(&held->cursors, cursor);
			if (!cursor->leased || !(cursor->lease == uuid))
			{
				if (cursor->has_last_lease && cursor->last_lease == uuid)
					return LeaseState::completed;
				raise_lost(lease, "Its messages were given back, or taken by another consumer after its time was over, "
								  "or a seek moved the group.");
			}
			if (lock_in_lease_time(held, lease) == EraLock::ok)
				return LeaseState::held;
		}
		else if (found != EraSeek::stale || tries > 10)
			raise_unknown(lease);
		/* the row changed, or was born, since the snapshot: look again */
		era_release_snapshot(&held->cursors);
		UnregisterSnapshot(held->snapshot);
	}
}

void
lease_store(HeldLease *held)
{
	cursor_store(&held->cursors, &held->cursor);
	era_update(&held->cursors);
}

void
lease_tell(const HeldLease *held, LeaseNews news)
{
	const int64 queue_id = held->group.queue_id;
	const int64 group_id = held->group.group_id;

	switch (news)
	{
		case LeaseNews::acknowledged:
			journal_acknowledged(own_tables(), queue_id, group_id, held->partition_id, held->number);
			break;
		case LeaseNews::pending:
			journal_pending(own_tables(), queue_id, group_id, held->partition_id);
			break;
		case LeaseNews::changed:
			journal_touched(own_tables(), queue_id, group_id, held->partition_id);
			break;
	}
}

void
lease_close(HeldLease *held)
{
	era_close(&held->cursors);
	UnregisterSnapshot(held->snapshot);
}

} // namespace queen
