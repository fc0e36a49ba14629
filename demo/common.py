"""What the processes of the demo share: the queue's name, connections, and counters in shared memory."""

import ctypes
import time

import psycopg2

QUEUE = "events"
PRODUCERS = 3
CONSUMERS = 4  # of each group
LEASE_LOST = "QN001"


class Counters(ctypes.Structure):
    """What one worker did; only it writes them, and they outlive its death."""

    _fields_ = [(name, ctypes.c_int64) for name in (
        "events",  # pushed, or completed for the group
        "commits", "rollbacks",
        "redelivered",  # deliveries that were not the first of their message
        "nacked", "dead", "lost",
        "waits", "woken",  # calls of queen.wait, and those that work ended and not the time
        "busy_us")]


def connect(name: str):
    """A connection to the server of the environment, shown as name in pg_stat_activity."""
    return psycopg2.connect(application_name=f"demo {name}")


class Busy:
    """Adds the time of a block to a worker's busy time."""

    def __init__(self, counters: Counters):
        self.counters = counters

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        self.counters.busy_us += int((time.perf_counter() - self.start) * 1e6)
