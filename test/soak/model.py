"""What must be true of a log and of the cursors in it: pure bookkeeping, fed with what was read, without a database.

Log holds what readers saw in the partitions, Cursor replays what happened to one group in one partition. Every rule that
is broken becomes a Violation that names the invariant."""

import bisect
import math
from dataclasses import dataclass, field


class Violation(Exception):
    """An invariant is broken."""

    def __init__(self, invariant: str, text: str):
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


MICROSECOND = 1e-6  # what a sum of times in seconds since 1970 is exact to

INVARIANTS = {
    "invented": "no message that was not sent, or that was rolled back, is seen",
    "lost": "every committed push is in the log, where a reader finds it",
    "content": "messages come with the content and the id that were pushed",
    "order of calls": "messages of a transaction keep the order of its calls",
    "order of a session": "a session's transactions keep their order",
    "order in real time": "a push that committed before another's commit began has the lower offset",
    "created_at": "time never steps back in a partition",
    "skipped": "no cursor passes a message",
    "again": "nothing comes again after an ack that succeeded; exactly once in effect",
    "fence": "only the lease that holds the messages moves the cursor, and a running lease keeps others away",
    "deliveries": "attempts are counted exactly; none beyond max_deliveries, and what is dead has used them up",
    "alone": "a message that was delivered before comes alone",
    "answers": "ack and nack answer what they did",
    "paused": "no pop between a pause's commit and the resume delivers anything",
    "dropped": "what was committed before a drop or a purge is not delivered behind it",
    "redrive": "what is redriven comes back as a new message, in the old order, once for each time that it died",
    "dedup": "a dedup_key is pushed once a window, and dropped only for one that is there",
    "outcome": "a commit that succeeded is there after every crash, one that failed is not",
}


@dataclass
class Message:
    offset: int
    tx: int
    seq: int
    message_id: str
    created_at: float
    commit_began: float
    committed: float
    key: str = None
    says: tuple = None  # (tx, seq) in its content; not its own where it was redriven
    was: tuple = None  # a redriven one: the offset and id that it had, the groups that had given it up

    def __post_init__(self):
        self.says = self.says or (self.tx, self.seq)


@dataclass
class Partition:
    """One partition's messages, in the order in which a reader met them."""

    name: str
    messages: list = field(default_factory=list)
    index: dict = field(default_factory=dict)  # offset -> position in messages
    last_tx: dict = field(default_factory=dict)  # session -> its last (tx, seq)
    latest_began: float = 0.0
    latest_committed: list = field(default_factory=list)  # of a message and those before it
    window: float = 0.0  # of deduplication
    keys: dict = field(default_factory=dict)  # dedup_key -> its messages
    redriven: dict = field(default_factory=dict)  # (offset, group) -> how often

    def add(self, m: Message):
        where = f"{self.name} offset {m.offset} (tx {m.tx}, seq {m.seq})"
        last = self.messages[-1] if self.messages else None
        if last and m.offset <= last.offset:
            raise Violation("order of calls", f"{where} read after offset {last.offset}")
        if last and m.created_at < last.created_at:
            raise Violation("created_at", f"{where}: {last.created_at - m.created_at:.6f} s before offset {last.offset}")
        if m.committed < self.latest_began:
            raise Violation("order in real time",
                            f"{where} committed {self.latest_began - m.committed:.6f} s before the commit of a lower offset began")
        session = m.tx >> 32
        before = self.last_tx.get(session)
        if before and before[0] == m.tx and before[1] >= m.seq:
            raise Violation("order of calls", f"{where} behind seq {before[1]} of the same transaction")
        if before and before[0] > m.tx:
            raise Violation("order of a session", f"{where} behind transaction {before[0]} of the same session")
        if m.key is not None:
            self.add_key(m, where)
        if m.was is not None:
            self.add_redriven(m, where)
        self.last_tx[session] = (m.tx, m.seq)
        self.latest_began = max(self.latest_began, m.commit_began)
        self.latest_committed.append(max(m.committed, self.latest_committed[-1]) if last else m.committed)
        self.index[m.offset] = len(self.messages)
        self.messages.append(m)

    def add_key(self, m: Message, where: str):
        """A commit takes its keys between its beginning and the stamping of its segments."""
        owners = self.keys.setdefault(m.key, [])
        if owners and m.created_at < owners[-1].commit_began + self.window - MICROSECOND:
            raise Violation("dedup", f"{where}: key {m.key} again {m.created_at - owners[-1].commit_began:.3f} s after offset {owners[-1].offset}")
        owners.append(m)

    def check_dropped(self, tx: int, seq: int, key: str, pushed: float, committed: float):
        """A committed push with a key that is not in the log."""
        if not any(owner.created_at + self.window > pushed - MICROSECOND and owner.commit_began < committed for owner in self.keys.get(key, ())):
            raise Violation("dedup", f"{self.name}: tx {tx} seq {seq} with key {key} is not there, and nobody had the key")

    def add_redriven(self, m: Message, where: str):
        off, message_id, groups = m.was
        at = self.index.get(off)
        if at is None or (self.messages[at].message_id, self.messages[at].says) != (message_id, m.says):
            raise Violation("redrive", f"{where} is not what it says it was, {message_id} at offset {off}")
        for grp in groups:
            self.redriven[(off, grp)] = self.redriven.get((off, grp), 0) + 1

    def check_redriven(self, letters: dict):
        """letters: (offset, group) -> for each dead letter that is gone, whether it may have been purged."""
        for (off, grp), times in self.redriven.items():
            if times > len(letters.get((off, grp), ())):
                raise Violation("redrive", f"{self.name} offset {off} went back {times} times, it died {len(letters.get((off, grp), ()))} times for {grp}")
        for (off, grp), purged in letters.items():
            if not all(purged) and (off, grp) not in self.redriven:
                raise Violation("redrive", f"{self.name} offset {off}: a dead letter of {grp} is gone, and no message came back")


class Pauses:
    """When a queue, or a group, was paused for sure."""

    def __init__(self):
        self.begins = []
        self.ends = []

    def add(self, paused: bool, at: float):
        open_one = self.ends and self.ends[-1] == math.inf
        if paused and not open_one:
            self.begins.append(at)
            self.ends.append(math.inf)
        elif not paused and open_one:
            self.ends[-1] = at

    def cover(self, began: float, ended: float) -> bool:
        at = bisect.bisect_left(self.begins, began) - 1
        return at >= 0 and ended < self.ends[at]


@dataclass
class Event:
    """A row of soak.events; a take or an auto of several messages has one for each."""

    id: int
    tx: int
    kind: str
    lease: str
    off: int
    sent_tx: int
    sent_seq: int
    message_id: str
    attempt: int
    until: float
    answer: str
    at: float
    began: float = math.inf  # its call


class Cursor:
    """A group in a partition. Everything below position is completed or dead."""

    # Are deliveries that roll back left out? A server that has preloaded queen counts them, and nobody else knows of those whose session
    # was killed: an attempt may then be more than the deliveries that were committed say, but never less.
    exact = True

    def __init__(self, name: str, partition: Partition, max_deliveries: int):
        self.name = name
        self.partition = partition
        self.max_deliveries = max_deliveries
        self.position = 0
        self.lease = None  # that holds messages
        self.until = 0.0
        self.batch_end = 0  # position behind the lease's messages
        self.batch_tx = None  # event's transaction and lease that the batch under construction belongs to
        self.counted = {}  # offset -> deliveries that count
        self.left = False  # the group is no more
        self.pauses = ()  # of the queue and of the group
        self.redelivered = self.lost_leases = self.dead = self.completed = self.seeks = 0

    def offset(self, position: int) -> int:
        messages = self.partition.messages
        return messages[position].offset if position < len(messages) else -1

    def bury_until(self, offset: int, dead: dict):
        """What lies between the position and offset was given up by a claim, or the cursor has passed it."""
        while self.position < len(self.partition.messages) and self.offset(self.position) < offset:
            off = self.offset(self.position)
            if off not in dead:
                raise Violation("skipped", f"{self.name} went on at {offset}, offset {off} never completed")
            self.check_dead(off, dead[off])
            self.position += 1
            self.dead += 1

    def check_dead(self, off: int, attempts: list):
        """Where a seek went back, a message can have died more than once."""
        counted = self.counted.pop(off, 0)
        if not self.exact:
            counted = max((a for a in attempts if a >= counted), default=counted)
        if counted not in attempts:
            raise Violation("deliveries", f"{self.name} offset {off} died after {attempts} deliveries, {counted} were made")
        if counted < self.max_deliveries:
            raise Violation("deliveries", f"{self.name} offset {off} died after {counted} of {self.max_deliveries} deliveries")

    def complete(self, to: int) -> int:
        count = max(0, to - self.position)
        for p in range(self.position, to):
            self.counted.pop(self.offset(p), None)
        self.position = max(self.position, to)
        self.completed += count
        return count

    def apply(self, e: Event, dead: dict):
        if e.kind in ("take", "auto"):
            self.deliver(e, dead)
        else:
            self.batch_tx = None
            if e.kind in ("seek", "leave"):
                getattr(self, e.kind)(e)
                return
            if (e.kind, e.answer) in (("ack", "0"), ("release", "false")):
                self.check_nothing_left(e)
                return
            if e.lease != self.lease:
                raise Violation("fence", f"{self.name}: {e.kind} by lease {e.lease} (event {e.id}), {self.lease} holds the messages")
            getattr(self, e.kind)(e, dead)

    def check_nothing_left(self, e: Event):
        """The lease was completed before, or all of it that was named."""
        if e.lease == self.lease and (e.off is None or self.position_behind(e.off) > self.position):
            raise Violation("answers", f"{self.name}: {e.kind} answered {e.answer} to the lease that holds the messages")

    def deliver(self, e: Event, dead: dict):
        at = self.partition.index.get(e.off)
        if at is None:
            raise Violation("lost", f"{self.name} got offset {e.off}, which is not in the log")
        m = self.partition.messages[at]
        if (*m.says, m.message_id) != (e.sent_tx, e.sent_seq, e.message_id):
            raise Violation("content", f"{self.name} offset {e.off}: got {e.sent_tx}/{e.sent_seq} instead of {m.says}")
        if any(pauses.cover(e.began, e.at) for pauses in self.pauses):
            raise Violation("paused", f"{self.name} got offset {e.off} in a pause (event {e.id})")
        key = (e.tx, e.kind, e.lease)
        if e.kind == "take" and self.batch_tx == key:
            self.check_next(e, at, self.batch_end)
            self.batch_end += 1
        else:
            if self.lease is not None:
                if e.at < self.until:
                    raise Violation("fence", f"{self.name} offset {e.off} taken {self.until - e.at:.3f} s before the lease of others ended")
                self.lost_leases += 1
                self.lease = None
            if at < self.position:
                raise Violation("again", f"{self.name} got offset {e.off} again (event {e.id})")
            self.bury_until(e.off, dead)
            self.batch_tx = key
            self.batch_end = at + 1
            if e.kind == "take":
                self.lease = e.lease
                self.until = e.until
        counted = self.counted.get(e.off, 0) + 1
        if not self.exact:
            counted = max(counted, e.attempt)
        if counted != e.attempt or counted > self.max_deliveries:
            raise Violation("deliveries", f"{self.name} offset {e.off}: attempt {e.attempt}, {counted} of {self.max_deliveries} counted")
        self.redelivered += counted > 1
        if e.kind == "auto":
            self.complete(at + 1)
        else:
            self.counted[e.off] = counted

    def check_next(self, e: Event, at: int, expected: int):
        if at > expected:
            raise Violation("skipped", f"{self.name}: a batch goes from {self.offset(expected - 1)} to {e.off}, past {self.offset(expected)}")
        if at < expected:
            raise Violation("again", f"{self.name}: offset {e.off} twice in a batch")
        if self.counted.get(e.off, 0) > 0 or self.counted[self.offset(self.position)] > 1:
            raise Violation("alone", f"{self.name} offset {e.off} is delivered in a batch that another delivery went before")

    def position_behind(self, offset: int) -> int:
        """Position of the first message of the batch behind an offset, which may be a hole."""
        p = self.position
        while p < self.batch_end and self.offset(p) <= offset:
            p += 1
        return p

    def end_lease(self):
        self.lease = None

    def ack(self, e: Event, dead: dict):
        del dead
        to = self.batch_end if e.off is None else self.position_behind(e.off)
        done = self.complete(to)
        if done != int(e.answer):
            raise Violation("answers", f"{self.name}: ack answered {e.answer} for {done} messages (event {e.id})")
        if self.position == self.batch_end:
            self.end_lease()

    def uncount(self, begin: int):
        for p in range(begin, self.batch_end):
            off = self.offset(p)
            self.counted[off] -= 1
            if self.counted[off] == 0:
                del self.counted[off]

    def nack(self, e: Event, dead: dict):
        at = self.partition.index.get(e.off, -1)
        if not self.position <= at < self.batch_end:
            raise Violation("fence", f"{self.name}: nack of offset {e.off}, which is not under the lease")
        self.uncount(at + 1)
        self.complete(at)
        if e.answer == "dead" and e.off not in dead:
            raise Violation("answers", f"{self.name}: nack of {e.off} answered dead, the dead letters do not have it")
        if e.answer == "dead":
            counted = self.counted.pop(e.off)
            if counted not in dead[e.off]:
                raise Violation("deliveries", f"{self.name} offset {e.off} died with {dead[e.off]} attempts, {counted} were made")
            self.position = at + 1
            self.dead += 1
        elif self.counted[e.off] >= self.max_deliveries:
            raise Violation("deliveries", f"{self.name} offset {e.off} is to come again after {self.counted[e.off]} deliveries")
        self.end_lease()

    def release(self, e: Event, dead: dict):
        del dead
        if e.answer != "true":
            raise Violation("answers", f"{self.name}: release answered {e.answer} to the lease that holds the messages")
        self.uncount(self.position)
        self.end_lease()

    def extend(self, e: Event, dead: dict):
        del dead
        if e.until < self.until:
            raise Violation("answers", f"{self.name}: extend made a lease shorter (event {e.id})")
        self.until = e.until

    def seek(self, e: Event):
        """The group was put behind offset off (also by its subscription): over nothing that could not be seen then."""
        messages = self.partition.messages
        self.position = bisect.bisect_right(messages, e.off, key=lambda m: m.offset)
        if self.position > 0 and self.partition.latest_committed[self.position - 1] > e.at:
            raise Violation("skipped", f"{self.name} was put behind offset {e.off}, below which a push committed later (event {e.id})")
        self.lease = None
        self.counted = {}
        self.seeks += 1

    def leave(self, e: Event):
        del e
        self.left = True

    def check_drained(self, dead: dict):
        if self.partition.messages and not self.left:
            self.bury_until(self.partition.messages[-1].offset + 1, dead)
