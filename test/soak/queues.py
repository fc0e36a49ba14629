"""The queues and their consumer groups, and how a message says what it is."""

import math
from dataclasses import dataclass, field

GROUPS = ("auto", "ack", "nack", "lossy")  # consumer groups, by what their consumers do


@dataclass
class Queue:
    weight: int  # of what is pushed
    partitions: int
    options: dict
    groups: tuple = GROUPS
    trimmed: bool = False  # what its only group has consumed is deleted
    followed: bool = False  # partitions come and go: its messages are followed, not their offsets
    dropped: bool = False  # the queue is dropped and purged
    retention: float = math.inf  # messages that are older may be deleted
    window: float = 0.0  # of deduplication; without, nothing is pushed with a key
    drops: bool = False  # duplicates, silently, or as the configurer likes
    changed: dict = field(default_factory=dict)  # options that are changed meanwhile, to one of these values


COMPRESSIONS = ("none", "zstd:1", "zstd:9")

QUEUES = {
    # where the races are
    "hot": Queue(6, 4, {"lease_time": "1 s", "max_deliveries": 4, "retry_delay": "10 ms"}, (*GROUPS, "seek"),
                 changed={"lease_time": ("1 s", "1 s", "1.3 s"), "retry_delay": ("0", "10 ms", "40 ms"), "compression": COMPRESSIONS}),
    # where many partitions share a commit
    "wide": Queue(2, 40, {"lease_time": "1 s", "max_deliveries": 2, "retry_delay": "20 ms", "compression": "none"},
                  changed={"lease_time": ("1 s", "1 s", "1.3 s"), "compression": COMPRESSIONS}),
    # followed queues have no dead letters: pops that roll back are deliveries, and some roll back often
    "razed": Queue(4, 3, {"max_deliveries": 1000}, ("auto",), followed=True, dropped=True),
    # partitions expire
    "mayfly": Queue(1, 40, {"max_deliveries": 1000, "completed_retention": 0}, ("auto",), followed=True),
    "aged": Queue(1, 2, {"max_deliveries": 1000, "retention": 0.3}, ("auto",), followed=True, retention=0.3),
    "brief": Queue(2, 3, {"max_deliveries": 1000, "completed_retention": 0, "dedup_window": "30 days"}, ("auto",), trimmed=True,
                   changed={"completed_retention": (0, 0, 0.1, "off"), "compression": COMPRESSIONS}),
    "keyed": Queue(0, 2, {"max_deliveries": 5, "dedup_window": 0.4}, ("auto",), window=0.4, drops=True,
                   changed={"dedup": ("drop", "drop", "error")}),
    "strict": Queue(0, 2, {"max_deliveries": 5, "lease_time": "1 s", "dedup_window": 0.4, "dedup": "error"}, ("ack",), window=0.4),
}
PUSHED = tuple(name for name, queue in QUEUES.items() if queue.weight > 0)
FOLLOWED = tuple(name for name, queue in QUEUES.items() if queue.followed)
LASTING = tuple(name for name in PUSHED if not QUEUES[name].dropped)
CHANGED = tuple(name for name, queue in QUEUES.items() if queue.changed)
KEYED = tuple(name for name, queue in QUEUES.items() if queue.window > 0)

MESSAGE_TX = "coalesce(message ->> 't', split_part(convert_from(payload, 'UTF8'), ' ', 1))::bigint"
MESSAGE_SEQ = "coalesce(message ->> 's', split_part(convert_from(payload, 'UTF8'), ' ', 2))::int"


def consumed(group: str) -> tuple:
    return tuple(name for name, queue in QUEUES.items() if group in queue.groups)
