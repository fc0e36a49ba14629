"""What must be true of a queue whose partitions come and go, where an offset says nothing: each message is followed by itself,
from its push to the one delivery to the queue's only group, which auto-acks. Without a database, as model.py."""

import bisect
import itertools
import math

from model import Message, Partition, Violation


class Followed:
    def __init__(self, name: str, retention: float = math.inf, dropped: bool = False):
        self.name = name
        self.retention = retention  # messages that are older may be gone
        self.dropped = dropped  # the queue is dropped and purged
        self.partitions = {}  # name -> messages in the order of their deliveries
        self.deliveries = {}  # name -> (commit_began of the message, time of the delivery)
        self.delivered = set()
        self.events = set()
        self.set_drops([])
        self.gone = 0

    def set_drops(self, drops: list):
        """All that are committed: when the call began, when it had ended, when a client had learned of the commit."""
        drops = sorted(drops, key=lambda drop: drop[2])
        self.known = [known for _, _, known in drops]
        self.latest = list(itertools.accumulate((began for began, _, _ in drops), max))  # of those known until then
        drops.sort()
        self.begins = [began for began, _, _ in drops]
        self.last_end = list(itertools.accumulate((ended for _, ended, _ in drops), max))  # of those begun until then

    def deliver(self, event: int, part: str, m: Message, began: float, at: float):
        """m.offset is not looked at; m.committed is the stamp of its commit, which is not visible before that."""
        where = f"{self.name}/{part}: tx {m.tx} seq {m.seq}"
        if (m.tx, m.seq) in self.delivered:
            raise Violation("again", f"{where} delivered twice (event {event})")
        known = bisect.bisect_left(self.known, began)
        if known > 0 and m.committed < self.latest[known - 1]:
            raise Violation("dropped", f"{where} came behind a drop, {self.latest[known - 1] - m.committed:.3f} s before which it was committed (event {event})")
        self.events.add(event)
        self.delivered.add((m.tx, m.seq))
        self.deliveries.setdefault(part, []).append((m.commit_began, at))
        log = self.partitions.setdefault(part, Partition(f"{self.name}/{part}"))
        if self.dropped:
            log.messages.append(m)  # an old delivery and one of the new queue may commit in any order
        else:
            m.offset = len(log.messages)
            log.add(m)

    def check_undelivered(self, messages: list, now: float):
        """Messages that are committed and not delivered, as (part, tx, seq, commit_began, committed). Nobody waits for them where
        a later one was delivered, or where now is given: everything is consumed."""
        later = {}
        for part, deliveries in self.deliveries.items():
            deliveries = sorted(deliveries)
            earliest = [now] * (len(deliveries) + 1)
            for n in range(len(deliveries) - 1, -1, -1):
                earliest[n] = min(earliest[n + 1], deliveries[n][1])
            later[part] = ([began for began, _ in deliveries], earliest)
        self.gone = 0
        for part, tx, seq, began, committed in messages:
            begins, earliest = later.get(part, ([], [now]))
            passed = earliest[bisect.bisect_right(begins, committed)]
            if passed == math.inf:
                continue
            # a drop takes along what is in the log, and waits for its commit; who commits behind the call is in the new queue
            drops = bisect.bisect_left(self.begins, passed)
            if passed < began + self.retention and (drops == 0 or committed >= self.last_end[drops - 1]):
                raise Violation("skipped", f"{self.name}/{part}: tx {tx} seq {seq} was never delivered")
            self.gone += 1
