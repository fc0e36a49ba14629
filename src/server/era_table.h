/*
 * era_table.h: rows that are updated often and do not rot under a long transaction.
 *
 * An identity table (insert-only, true primary key) says that a thing exists; a state table, whose key ends in an era
 * that an update moves at every era_length-th change, holds its state. era_table.README.md has the rules and why.
 *
 * All functions raise. Locks: the identity's unique key at a birth, the state row from era_lock to the transaction's end.
 */
#ifndef QUEEN_SERVER_ERA_TABLE_H
#define QUEEN_SERVER_ERA_TABLE_H

#include "server/pg.h"
#include "server/relations.h"
#include "server/table_access.h"

namespace queen
{

inline constexpr int era_max_keys = 3;
inline constexpr int era_max_columns = 16;
inline constexpr int64 era_length = 16;

/*
 * A pair of tables. The identity's columns are the keys (bigint) and created_at; the state's are the keys, era, changes
 * (bigint both), then what the user keeps.
 */
struct EraTable
{
	Table identity;
	Table state;
	int nkeys;
	int columns; /* of the state table */
};

struct EraHandle
{
	const EraTable *def;
	Relation identity;
	Relation identity_index;
	Relation state;
	Relation state_index;
	IndexScan scan; /* of the state, with the snapshot of the last seek */
	TableWriter writer;
	bool scan_open;
	bool writer_open;
	int64 keys[era_max_keys];
	ItemPointerData tid;
	/* the row that was sought; by-reference values point into the scan's slot until the next seek */
	Datum values[era_max_columns];
	bool nulls[era_max_columns];
};

enum class EraSeek
{
	found,	 /* values, nulls and tid are the newest version that the snapshot sees */
	running, /* its birth has not ended */
	stale,	 /* it was born since the snapshot: take a newer one and seek again */
	absent,
};

enum class EraLock
{
	ok,		 /* the version that was sought is the newest, and ours until the transaction ends */
	changed, /* it is not: seek again with a newer snapshot */
	locked,	 /* another transaction holds it (only without wait) */
};

/* Open and lock both tables (RowExclusiveLock). */
void era_open(EraHandle *handle, const EraTable *def);

/* The same with AccessShareLock, for era_seek alone: also on a standby. */
void era_open_to_read(EraHandle *handle, const EraTable *def);
void era_close(EraHandle *handle);

/*
 * Find the newest state with a registered *latest* snapshot, which stays registered until era_release_snapshot: while it
 * is, pruning cannot take the version away.
 */
EraSeek era_seek(EraHandle *handle, std::initializer_list<int64> keys, Snapshot snapshot);

/* End the scan of the last seek: its snapshot may be unregistered now. values hold no longer. */
void era_release_snapshot(EraHandle *handle);

/* Lock what era_seek found. Look at it before: a lock on a merely inspected row blocks its owner. */
EraLock era_lock(EraHandle *handle, bool wait);

/* Write handle->values and nulls over the locked row; moves the era when it is due. */
void era_update(EraHandle *handle);

/*
 * Insert the identity of the thing that the last seek found absent. False, and nothing written, when somebody else does
 * or did. True: the caller must go on to era_insert_state in this transaction.
 */
bool era_birth(EraHandle *handle);

/* Wait until the birth that the last seek found running, or the deletion of an identity that it found stale, has ended. Bounded by the caller's timeouts only. */
void era_wait_for_birth(EraHandle *handle);

/*
 * Show fn the state of each thing as a snapshot sees it, all columns. By one pass over the table; where most of that is dead, which a held snapshot
 * keeps, by a seek for each identity. handle may be open to read, and has sought something else afterwards.
 */
void era_each(EraHandle *handle, Snapshot snapshot, void (*fn)(const Datum *values, const bool *nulls, void *arg),
			  void *arg);

/*
 * Show fn every version of a thing's state that counts or may come to count: the committed one, and those that running
 * transactions have written. False, and nothing shown, when the latest snapshot sees no state. What somebody writes
 * meanwhile is shown or not.
 */
bool era_each_version(EraHandle *handle, std::initializer_list<int64> keys, void (*fn)(TupleTableSlot *slot, void *arg),
					  void *arg);

/*
 * Delete the thing whose row is locked, state and identity (if it has one). Only when nobody can bring it to life again: a birth and a
 * deletion of one thing must never meet.
 */
void era_delete(EraHandle *handle);

/*
 * Repair: delete the identity of the thing that the last seek found stale, which has no state in a newer snapshot either.
 * False, at once, when another transaction is or was at it.
 */
bool era_forget_identity(EraHandle *handle);

/* Insert handle->values and nulls as the first state of what era_birth began (keys, era and changes are filled in). */
void era_insert_state(EraHandle *handle);

} // namespace queen

#endif
