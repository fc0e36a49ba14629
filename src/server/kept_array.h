/*
 * kept_array.h: an array that a backend fills during a transaction and empties at its end, where nothing may raise or allocate. Some of its
 * memory stays between transactions.
 *
 * kept_array_reserve raises for memory, before anything has changed; nothing else raises. No locks.
 */
#ifndef QUEEN_SERVER_KEPT_ARRAY_H
#define QUEEN_SERVER_KEPT_ARRAY_H

#include "server/pg.h"

namespace queen
{

/* kept: the room that stays. items holds until the next reserve. */
template <typename T, uint32 kept>
struct KeptArray
{
	T *items;
	uint32 room;
	uint32 count;
};

/* Make room for more items. */
template <typename T, uint32 kept>
void
kept_array_reserve(KeptArray<T, kept> *array, uint32 more)
{
	uint32 wanted = Max(kept, array->room);

	if (array->count + more <= array->room)
		return;
	while (wanted < array->count + more)
		wanted *= 2;
	if (array->items == nullptr)
		array->items = (T *) MemoryContextAllocHuge(TopMemoryContext, sizeof(T) * (Size) wanted);
	else
		array->items = (T *) repalloc_huge(array->items, sizeof(T) * (Size) wanted);
	array->room = wanted;
}

/* The transaction has ended. */
template <typename T, uint32 kept>
void
kept_array_clear(KeptArray<T, kept> *array)
{
	array->count = 0;
	if (array->room > kept)
	{
		pfree(array->items);
		*array = {};
	}
}

/*
 * A savepoint was released: what has its sub-transaction belongs to the parent. These are the last items, for while a
 * sub-transaction runs its parent adds none.
 */
template <typename T, uint32 kept>
void
kept_array_reparent(KeptArray<T, kept> *array, SubTransactionId self, SubTransactionId parent)
{
	for (uint32 i = array->count; i > 0 && array->items[i - 1].sub == self; i--)
		array->items[i - 1].sub = parent;
}

/* A savepoint was rolled back: take out the last item that has its sub-transaction; null when there is none left. Holds until the next reserve. */
template <typename T, uint32 kept>
T *
kept_array_take(KeptArray<T, kept> *array, SubTransactionId self)
{
	if (array->count == 0 || array->items[array->count - 1].sub != self)
		return nullptr;
	return &array->items[--array->count];
}

/* For a TransactionParticipant that keeps nothing else: a savepoint's items become its parent's; they go. */
template <auto &array>
void
kept_array_sub_committed(SubTransactionId self, SubTransactionId parent)
{
	kept_array_reparent(&array, self, parent);
}

template <auto &array>
void
kept_array_sub_aborted(SubTransactionId self)
{
	while (kept_array_take(&array, self) != nullptr)
		;
}

} // namespace queen

#endif
