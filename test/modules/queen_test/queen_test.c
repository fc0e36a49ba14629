/*
 * queen_test.c: what the tests need inside a server. See queen_test--1.0.sql for what each function is for.
 *
 * The library registers its transaction callback when it is loaded. Callbacks are called in the reverse order of their
 * registration, so whichever of queen and queen_test was loaded first is called last.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(queen_test_close_gate);
PG_FUNCTION_INFO_V1(queen_test_push_at_commit);
PG_FUNCTION_INFO_V1(queen_test_fail_at_commit);
PG_FUNCTION_INFO_V1(queen_test_lock_partition);

typedef struct Push
{
	struct Push *next;
	char *queue;
	char *message;
	char *partition;
} Push;

static Push *first_push = NULL;
static Push *last_push = NULL;
static bool fail = false;

static void
push_all(void)
{
	SPI_connect();
	for (Push *push = first_push; push != NULL; push = push->next)
	{
		Oid types[3] = {TEXTOID, TEXTOID, TEXTOID};
		Datum values[3] = {CStringGetTextDatum(push->queue), CStringGetTextDatum(push->message),
						   CStringGetTextDatum(push->partition)};

		if (SPI_execute_with_args("SELECT queen.push($1, $2::jsonb, partition => $3)", 3, types, values, NULL, false, 0) !=
			SPI_OK_SELECT)
			elog(ERROR, "queen_test: the push at commit failed");
	}
	SPI_finish();
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (first_push != NULL)
				push_all();
			if (fail)
				ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION), errmsg("queen_test: the commit fails")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			first_push = last_push = NULL; /* in TopTransactionContext */
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
queen_test_push_at_commit(PG_FUNCTION_ARGS)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	Push *push = palloc0(sizeof(Push));

	push->queue = text_to_cstring(PG_GETARG_TEXT_PP(0));
	push->message = text_to_cstring(PG_GETARG_TEXT_PP(1));
	push->partition = text_to_cstring(PG_GETARG_TEXT_PP(2));
	MemoryContextSwitchTo(caller);
	if (last_push != NULL)
		last_push->next = push;
	else
		first_push = push;
	last_push = push;
	PG_RETURN_VOID();
}

Datum
queen_test_fail_at_commit(PG_FUNCTION_ARGS)
{
	fail = true;
	PG_RETURN_VOID();
}

/* The tag is that of src/log/append.cpp. */
Datum
queen_test_lock_partition(PG_FUNCTION_ARGS)
{
	int64 id = PG_GETARG_INT64(0);
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (id >> 32), (uint32) id, 0x5153);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	PG_RETURN_VOID();
}
