/*
 * gates_memory.h: how the gates lie in memory, for gates.cpp, waiter.cpp, tick.cpp and notify.cpp; included by these only.
 */
#ifndef QUEEN_HOTLIST_GATES_MEMORY_H
#define QUEEN_HOTLIST_GATES_MEMORY_H

#include <atomic>

#include "core/gate.h"
#include "hotlist/gates.h"
#include "hotlist/notify.h"
#include "server/settings.h"

namespace queen
{

/* At how many gates a process may wait. */
constexpr int wait_sides = 2;
constexpr int side_work = 0;
constexpr int side_event = 1;

constexpr uint32 buckets = 1024; /* of each side */
constexpr uint32 gate_locks = 64;

/* A process at a gate. Links are index + 1. All but told under the gate's lock; told is cleared by its owner. */
struct Waiter
{
	uint64 key;
	uint32 next;
	uint32 previous;
	bool listed;
	bool due;
	std::atomic<uint32> told; /* a wake that its owner has not taken note of */
};

struct SharedGate
{
	core::Gate counts;
	uint32 first; /* links */
	uint32 last;
	std::atomic<uint32> waiting; /* as counts says, to be read without the lock */
	uint32 place;				 /* of the database that is waited in, index + 1; 0: it has none */
	uint32 next_flagged;		 /* link; the holder of the list writes it */
	bool flagged;
	std::atomic<uint64> wakes;
	std::atomic<uint64> channel; /* to be notified when candidates become ready at the ring; 0: none */
};

/* A database that is waited in, or has a pulse. */
struct DatabasePlace
{
	std::atomic<uint32> database; /* 0: nobody's. Changed under the databases' lock */
	std::atomic<uint32> waiting;  /* at gates of work */
	std::atomic<uint32> at_rings; /* of these */
	std::atomic<int32> pulse;	  /* process number + 1 */
	std::atomic<int64> sleeps_until;
	std::atomic<uint32> flagged; /* gates with due waiters: a stack, link */
	std::atomic<uint32> flags;	 /* how many were pushed, ever */
	std::atomic<uint32> channels_flagged;
	std::atomic<uint32> channels_overrun;
};

/* A channel that is to be notified. */
struct FlaggedChannel
{
	uint64 channel;
	Oid database; /* invalid: none */
};

constexpr uint32 places = 128;

struct GatesHead
{
	int tranche;
	uint32 rings;
	uint32 processes;
	std::atomic<uint32> bucket_waiters; /* for work */
	std::atomic<uint32> event_waiters;
	std::atomic<uint32> ring_waiters;
	LWLockPadded databases_lock;
	LWLockPadded locks[gate_locks];
	DatabasePlace databases[places];
	LWLockPadded channels_lock;
	FlaggedChannel channels[notify_room];
};

struct GatesMemory
{
	GatesHead *head;
	SharedGate *gates; /* rings, buckets of work, buckets of events */
	Waiter *waiters;   /* wait_sides for each process */
};

extern GatesMemory gates_memory;

inline LWLock *
gate_lock(uint32 gate)
{
	return &gates_memory.head->locks[gate % gate_locks].lock;
}

inline core::hotlist::Micros
wake_interval()
{
	return (core::hotlist::Micros) setting_wake_interval * 1000;
}

/* Processes whose latches are to be set when the lock is released. */
struct ToWake
{
	static constexpr uint32 room = 32;
	uint32 count;
	int numbers[room];
};

void wake_process(int number);
void wake_all(ToWake *to_wake);

/* Lists, under the gate's lock. publish: its count, for those who look without. */
void list_add(SharedGate *gate, uint32 link);
void list_remove(SharedGate *gate, const Waiter *waiter);
void publish(SharedGate *gate);

/* The gate of a key on one side. */
uint32 bucket_of(int side, uint64 key);

/*
 * Tell those who wait for a key (0: any) that so many candidates are ready, with the gate's lock held. Returns the pulse to be woken when it is
 * released, 0 or its number + 1.
 */
int32 tell_locked(uint32 number, uint64 key, uint32 ready, core::hotlist::Micros interval, ToWake *to_wake);

/* Take those who are due out of a gate's list, under its lock: gate_promise and its like have counted them. */
void take_due(SharedGate *gate, uint32 count, ToWake *to_wake);

/* This database's place, made if there is none; 0: all are taken. It is kept as long as somebody is counted in it. */
uint32 place_enter(bool at_ring);
void place_leave(uint32 place, bool at_ring);

/* This database's place, where there is one; null without. Racy: it may become another's, which then is rung in vain. */
DatabasePlace *place_find();

/* A gate has due waiters, under its lock: its pulse has to know. Returns the process to be woken, 0 or its number + 1. */
int32 flag_gate(uint32 gate);

} // namespace queen

#endif
