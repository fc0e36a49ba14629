"""Those who consume, and those who help them or move them."""

import threading
import time

import psycopg2

from client import LEASE_LOST, Actor, Failed
from pushers import Pusher
from queues import LASTING, MESSAGE_SEQ, MESSAGE_TX, QUEUES, consumed

DELIVERED = f"""
    INSERT INTO soak.events (tx, kind, queue, grp, part, lease, off, sent_tx, sent_seq, message_id, pushed_at, attempt, until)
    SELECT %s, %s, queue, consumer_group, partition, lease, msg_offset, {MESSAGE_TX}, {MESSAGE_SEQ}, message_id, enqueued_at, attempt, lease_until
    FROM queen.pop(%s, %s, max_messages => %s, max_partitions => %s, auto_ack => %s)
    RETURNING queue, part, lease, off"""
# the call in a CTE of its own: the event's id is to be drawn behind it
ENDED = """
    WITH call AS MATERIALIZED (SELECT queen.{call} AS answer)
    INSERT INTO soak.events (tx, kind, queue, grp, part, lease, off, {column})
    SELECT %(tx)s, %(kind)s, %(queue)s, %(grp)s, %(part)s, %(lease)s, %(off)s, answer FROM call"""


class AutoConsumer(Pusher):
    """pop with auto_ack in the transaction that does the work, which may fail."""

    role = "auto"
    group = "auto"
    most = 30
    seldom = None  # does this transaction go to a queue in which few may fail?

    def step(self):
        # what is born again behind a drop has the default max_deliveries, its messages must not die of pops that roll back
        names = consumed(self.group)
        self.seldom = bool(names) and QUEUES[self.rng.choice(names)].dropped
        end = self.rng.choices(("commit", "rollback", "fail"), (120, 2, 1) if self.seldom else (12, 2, 1))[0]
        if not self.transaction(self.consume, end=end):
            self.pause(0.003)

    def pop(self, tx: int, queue=None, most=None) -> list:
        queue = queue or self.rng.choice([name for name in consumed(self.group) if self.seldom in (None, QUEUES[name].dropped)])
        return self.rows(DELIVERED, tx, "auto", queue, self.group, most or self.rng.randint(1, self.most), self.rng.randint(1, 4), True)

    def consume(self, tx: int) -> int:
        self.seq = 0
        got = self.pop(tx)
        if self.rng.random() < (0.01 if self.seldom else 0.2):
            self.do("SAVEPOINT work")
            self.pop(tx)
            self.do("ROLLBACK TO work")
            got += self.pop(tx)
        if got and self.rng.random() < 0.05:
            # not to the one that is dropped: the drop may wait for the group that this pop has subscribed, and our commit for the drop
            self.one(tx, self.rng.choice(LASTING))
        return len(got)


class Steady(AutoConsumer):
    """Nobody disturbs it, so that what its backend keeps in memory can be watched."""

    role = "steady"
    victim = False
    warm_up = 100
    most_growth = 4 << 20  # of which zstd takes some, by the level

    def connected(self):
        self.steps = 0
        self.least = 0

    def step(self):
        super().step()
        self.steps += 1
        if self.steps % self.warm_up == 0:
            # the caches of the server itself follow the catalogs
            used = int(self.rows("""SELECT sum(used_bytes) FROM pg_backend_memory_contexts
                WHERE name !~ '^(CacheMemoryContext|index info|relation rules)' AND coalesce(parent, '') <> 'CacheMemoryContext'""")[0][0])
            if self.steps == self.warm_up:
                self.least = used
            elif used > self.least + self.most_growth:
                self.note("memory", f"a backend went from {self.least} to {used} bytes in {self.steps} transactions")


class Heartbeat(Actor):
    """Extends what its consumer holds, in transactions of its own that take a while, so that acks have to wait."""

    role = "heartbeat"

    def __init__(self, settings, number: int, index: int):
        super().__init__(settings, number, index)
        self.held = None

    def step(self):
        held = self.held
        if held is None:
            self.pause(0.02)
            return
        self.transaction(lambda tx: self.extend(tx, held), end=self.rng.choice(("commit", "commit", "rollback")), allowed=LEASE_LOST)
        self.pause(0.05)

    def extend(self, tx: int, held):
        extend(self, tx, held)
        time.sleep(self.rng.random() * 0.01)


def extend(actor: Actor, tx: int, held):
    end_lease(actor, tx, "extend", held, "extend(%(lease)s, '1 s')", "until")


def end_lease(actor: Actor, tx: int, kind: str, held, call: str, column="answer", off=None):
    queue, part, lease = held
    actor.cursor.execute(ENDED.format(call=call, column=column),
                         {"tx": tx, "kind": kind, "queue": queue, "grp": actor.group, "part": part, "lease": lease, "off": off})


class Consumer(Actor):
    """pop with leases, work, and one of the ways to end a lease in the transaction that did the work."""

    most = 20
    verbs = {"ack": 6, "part": 2, "ack_all": 2}
    slow = 0.0  # probability that the work takes longer than the lease

    @property
    def group(self) -> str:
        return self.role

    def connected(self):
        if not hasattr(self, "heart"):
            self.heart = Heartbeat(self.settings, self.number | 1 << 24, self.index)
            self.heart.group = self.group
            threading.Thread(target=self.heart.run, daemon=True).start()

    def step(self):
        end = "rollback" if self.rng.random() < 0.05 else "commit"
        leases = self.transaction(self.take, end=end)
        if not leases:
            self.pause(0.005)
            return
        self.heart.held = self.rng.choice(tuple(leases)) if self.rng.random() < 0.3 else None
        if self.rng.random() < self.slow:
            self.heart.held = None
            self.settings.stop.wait(1.1)
        verb = self.rng.choices(tuple(self.verbs), tuple(self.verbs.values()))[0]
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"), (6, 2, 1))[0]
        end = self.rng.choices(("commit", "rollback"), (10, 1))[0]
        if verb == "abandon":
            return
        try:
            if verb == "ack_all":
                self.transaction(lambda tx: self.ack_all(tx, leases), isolation, end, LEASE_LOST)
            else:
                for held, offsets in leases.items():
                    self.transaction(lambda tx, h=held, o=offsets: self.end(tx, verb, h, o), isolation, end, LEASE_LOST)
                    if verb == "ack":
                        self.ack_again(held)
        finally:
            self.heart.held = None

    def take(self, tx: int) -> dict:
        queue = self.rng.choice(consumed(self.group))
        rows = self.rows(DELIVERED, tx, "take", queue, self.group, self.rng.randint(1, self.most), self.rng.randint(1, 4), False)
        leases = {}
        for queue, part, lease, off in rows:
            leases.setdefault((queue, part, lease), []).append(off)
        return leases

    def end(self, tx: int, verb: str, held, offsets: list):
        if self.rng.random() < 0.1:
            extend(self, tx, held)
        if self.rng.random() < 0.1:
            self.do("SAVEPOINT changed_my_mind")
            end_lease(self, tx, "ack", held, "ack(%(lease)s)::text")
            self.do("ROLLBACK TO changed_my_mind")
        if verb == "ack":
            # in one statement with an extend, too
            lease = "CASE WHEN queen.extend(%(lease)s) > '-infinity' THEN %(lease)s::uuid END" if self.rng.random() < 0.1 else "%(lease)s"
            end_lease(self, tx, "ack", held, f"ack({lease})::text")
        elif verb == "part":
            # what is named may be a hole
            end_lease(self, tx, "ack", held, "ack(%(lease)s, %(off)s)::text", off=self.rng.randint(offsets[0], offsets[-1]))
            if self.rng.random() < 0.5:
                end_lease(self, tx, "release", held, "release(%(lease)s)::text")
        elif verb == "release":
            end_lease(self, tx, "release", held, "release(%(lease)s)::text")
        else:
            delay = self.rng.choice(("null", "'0'", "'20 ms'"))
            dead = self.rng.random() < 0.1
            end_lease(self, tx, "nack", held, f"nack(%(lease)s, %(off)s, delay => {delay}, error => 'soak', dead => {dead})",
                      off=self.rng.choice(offsets))

    def ack_all(self, tx: int, leases: dict):
        """One answer for all of them: what each had is known, the sum is checked here."""
        self.do("SELECT queen.ack_all(%s::uuid[])", [lease for _, _, lease in leases])
        answer = self.cursor.fetchone()[0]
        count = sum(len(offsets) for offsets in leases.values())
        if answer != count:
            self.note("violation", "answers", f"ack_all answered {answer} for {count} messages")
        for (queue, part, lease), offsets in leases.items():
            self.do("INSERT INTO soak.events (tx, kind, queue, grp, part, lease, answer) VALUES (%s, 'ack', %s, %s, %s, %s, %s)",
                    tx, queue, self.group, part, lease, str(len(offsets)))

    def ack_again(self, held):
        """An ack that succeeded answers 0 when it is repeated, or that the lease is history."""
        try:
            answer = self.rows("SELECT queen.ack(%s)", held[2])[0][0]
            if answer != 0:
                self.note("violation", "again", f"an ack repeated answered {answer}")
        except psycopg2.Error as error:
            self.ended(error, LEASE_LOST, "ack again")
            raise Failed from None


class AckConsumer(Consumer):
    role = "ack"
    slow = 0.002


class NackConsumer(Consumer):
    role = "nack"
    verbs = {"ack": 6, "part": 2, "ack_all": 1, "nack": 4, "release": 1}


class LossyConsumer(Consumer):
    """Leases run out: consumers that are slow, that die, that forget."""

    role = "lossy"
    most = 50
    slow = 0.01
    verbs = {"ack": 12, "part": 2, "abandon": 1}


class SeekConsumer(Consumer):
    """Consumes what the seeker moves to and fro."""

    role = "seek"
    slow = 0.002
    verbs = {"ack": 6, "part": 2, "release": 1}


# where a group stands after a call that has moved it: read in the same transaction
MOVED = """
    INSERT INTO soak.events (tx, kind, queue, grp, part, off)
    SELECT %s, 'seek', q.name, g.name, p.name, c.committed
    FROM queen.queues q JOIN queen.log_groups g USING (queue_id) JOIN queen.log_partitions p USING (log_id)
        JOIN queen.log_cursors c USING (partition_id, group_id)
    WHERE q.name = %s AND g.name = %s AND (%s::text IS NULL OR p.name = %s)"""


class Seeker(Pusher):
    """Moves a group: to an offset, to a time, to the end behind which pushes run."""

    role = "seeker"
    group = "seek"

    def step(self):
        self.transaction(self.seek, end=self.rng.choices(("commit", "rollback"), (8, 1))[0])
        self.pause(0.4)

    def seek(self, tx: int):
        self.seq = 0
        queue = self.rng.choice(consumed(self.group))
        part = self.rng.choice((None, self.somewhere(queue)[1]))
        known = self.rows("""
            SELECT count(*) FILTER (WHERE p.name IS NOT DISTINCT FROM coalesce(%s, p.name)), (SELECT count(*) FROM queen.log_groups WHERE name = %s),
                coalesce(max((SELECT max(committed) FROM queen.log_cursors c WHERE c.partition_id = p.partition_id)), 0)
            FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = %s""", part, self.group, queue)[0]
        if known[0] == 0 or known[1] == 0:
            return
        what = self.rng.random()
        if what < 0.5:
            # near where the others are, and beyond the end
            self.do("SELECT queen.seek(%s, %s, %s, %s)", queue, self.group, max(0, known[2] + self.rng.randint(-200, 20)), part)
        elif what < 0.7:
            self.do("SELECT queen.seek_to_time(%s, %s, now() - make_interval(secs => %s), %s)", queue, self.group, self.rng.random() * 3, part)
        else:
            if self.rng.random() < 0.2:
                self.one(tx, queue)
            self.do("SELECT queen.seek_to_end(%s, %s, %s)", queue, self.group, part)
        self.do(MOVED, tx, queue, self.group, part, part)


class Latecomer(AutoConsumer):
    """Subscribes a new group at the latest message, consumes for a while, and leaves."""

    role = "late"
    queue = "hot"

    def connected(self):
        self.group = None
        # what a killed one has left
        self.alone()
        for (group,) in self.rows("SELECT consumer_group FROM queen.list_groups(%s) WHERE consumer_group LIKE 'late-%%'", self.queue):
            self.leave(group)

    def step(self):
        if self.group is None:
            group = f"late-{self.number}-{self.transactions}"
            self.transaction(lambda tx: self.subscribe(tx, group))
            self.group = group
            self.until = time.monotonic() + self.rng.random() * 3
        elif time.monotonic() < self.until:
            super().step()
        else:
            group, self.group = self.group, None
            self.leave(group)
            self.pause(0.5)

    def subscribe(self, tx: int, group: str):
        self.seq = 0
        if self.rng.random() < 0.3:
            self.one(tx, self.queue)
        self.do("SELECT queen.subscribe(%s, %s, 'latest')", self.queue, group)
        self.do(MOVED, tx, self.queue, group, None, None)

    def pop(self, tx: int, queue=None, most=None) -> list:
        return super().pop(tx, self.queue, most)

    def leave(self, group: str):
        self.transaction(lambda tx: self.unsubscribe(tx, group))

    def unsubscribe(self, tx: int, group: str):
        self.do("SELECT queen.unsubscribe(%s, %s)", self.queue, group)
        self.do("INSERT INTO soak.events (tx, kind, queue, grp, part) SELECT DISTINCT %s, 'leave', queue, grp, part FROM soak.events WHERE queue = %s AND grp = %s",
                tx, self.queue, group)
