/*
 * queen_test.c: what the tests need inside a server. See queen_test--1.0.sql for what each function is for.
 *
 * The library registers its transaction callback when it is loaded. Callbacks are called in the reverse order of their
 * registration, so whichever of queen and queen_test was loaded first is called last.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(queen_test_close_gate);
PG_FUNCTION_INFO_V1(queen_test_run_at_commit);
PG_FUNCTION_INFO_V1(queen_test_fail_at_commit);
PG_FUNCTION_INFO_V1(queen_test_lock_partition);
PG_FUNCTION_INFO_V1(queen_test_lock_seeks);

typedef struct LateQuery
{
	struct LateQuery *next;
	char *text;
} LateQuery;

static LateQuery *first_query = NULL;
static LateQuery *last_query = NULL;
static bool fail = false;

static void
run_all(void)
{
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	for (LateQuery *query = first_query; query != NULL; query = query->next)
		if (SPI_execute(query->text, false, 0) < 0)
			elog(ERROR, "queen_test: a query at commit failed");
	SPI_finish();
	PopActiveSnapshot();
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (first_query != NULL)
				run_all();
			if (fail)
				ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION), errmsg("queen_test: the commit fails")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			first_query = last_query = NULL; /* in TopTransactionContext */
			fail = false;
			break;
		default:
			break;
	}
}

void
_PG_init(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
}

/* The lock that a commit takes to queue its notifications. */
Datum
queen_test_close_gate(PG_FUNCTION_ARGS)
{
	LockSharedObject(DatabaseRelationId, InvalidOid, 0, AccessExclusiveLock);
	PG_RETURN_VOID();
}

Datum
queen_test_run_at_commit(PG_FUNCTION_ARGS)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	LateQuery *query = palloc0(sizeof(LateQuery));

	query->text = text_to_cstring(PG_GETARG_TEXT_PP(0));
	MemoryContextSwitchTo(caller);
	if (last_query != NULL)
		last_query->next = query;
	else
		first_query = query;
	last_query = query;
	PG_RETURN_VOID();
}

Datum
queen_test_fail_at_commit(PG_FUNCTION_ARGS)
{
	fail = true;
	PG_RETURN_VOID();
}

/* The tags are those of src/log/partition_lock.cpp. */
static void
lock_partition(int64 id, uint16 lock_class)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (id >> 32), (uint32) id, lock_class);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

Datum
queen_test_lock_partition(PG_FUNCTION_ARGS)
{
	lock_partition(PG_GETARG_INT64(0), 0x5153);
	PG_RETURN_VOID();
}

Datum
queen_test_lock_seeks(PG_FUNCTION_ARGS)
{
	lock_partition(PG_GETARG_INT64(0), 0x5154);
	PG_RETURN_VOID();
}
