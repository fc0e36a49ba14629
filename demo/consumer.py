"""Consumers of the two groups.

"audit" writes what it saw and acknowledges in one transaction: both or neither, so each message has its effect exactly
once. Some of these transactions are rolled back on purpose and done again under the same lease.

"counter" pops, works and acknowledges in transactions of their own, as a service does that works elsewhere: a message
may be delivered again, so its work is idempotent. Some messages it fails at (queen.nack) and gets again, a few it
never manages: those end in the dead letters. One consumer is killed by the parent when it has worked and not yet
acknowledged; its leases run out, and the others get its messages.
"""

import hashlib
import time
from itertools import groupby
from typing import NamedTuple

import psycopg2
from psycopg2.extras import execute_values

from common import LEASE_LOST, QUEUE, Busy, connect

POP = """
SELECT partition, msg_offset, (headers->>'line')::bigint, message::text, payload, enqueued_at, attempt, lease::text
FROM queen.pop(%s, %s, max_messages => %s, max_partitions => 200, lease_time => %s)
"""

AUDIT = "INSERT INTO demo.audit (line, partition, msg_offset, content, excerpt, enqueued_at, consumer) VALUES %s"

COUNT = """
INSERT INTO demo.counter AS c (line, partition, msg_offset, content, enqueued_at) VALUES %s
ON CONFLICT (partition, msg_offset) DO UPDATE SET deliveries = c.deliveries + 1
"""

# sleeps in the server, with no transaction and no snapshot, until there may be work for the group
WAIT = "CALL queen.wait(%s, %s, timeout => '1 s')"

ACK = "SELECT queen.ack_all(%s::uuid[])"
NACK = "SELECT queen.nack(%s::uuid, %s, error => %s)"

LEASE_TIME = {"audit": "30 s", "counter": "2 s"}


class Message(NamedTuple):
    partition: str
    msg_offset: int
    line: int
    message: str
    payload: memoryview
    enqueued_at: object
    attempt: int
    lease: str

    def body(self) -> bytes:
        return bytes(self.payload) if self.message is None else self.message.encode()

    def content(self) -> str:
        return hashlib.md5(self.body()).hexdigest()


class Consumer:
    """A consumer's loop; a subclass handles what a pop brought."""

    def __init__(self, group, number, plan, counters, stop):
        self.group, self.number, self.plan, self.counters, self.stop = group, number, plan, counters, stop
        self.busy = Busy(counters)
        self.batches = 0

    def run(self):
        """Process: pop and handle until stop is set; wait when there is nothing."""
        self.connection = connect(f"{self.group} {self.number}")
        while not self.stop.is_set():
            start = time.perf_counter()
            messages = self.pop()
            if not messages:
                self.wait()
                continue
            self.counters.redelivered += sum(m.attempt > 1 for m in messages)
            try:
                self.handle(messages)
            except psycopg2.Error as error:
                if error.pgcode != LEASE_LOST:
                    raise
                # too slow: somebody else has the messages, and does the work
                self.connection.rollback()
                self.counters.lost += 1
            self.batches += 1
            self.counters.busy_us += int((time.perf_counter() - start) * 1e6)
        self.connection.close()

    def pop(self) -> list:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(POP, (QUEUE, self.group, self.plan.batch, LEASE_TIME[self.group]))
            return [Message(*row) for row in cursor]


    def wait(self):
        # it commits, so it is not called inside a transaction
        self.connection.autocommit = True
        with self.connection.cursor() as cursor:
            cursor.execute(WAIT, (QUEUE, self.group))
            self.counters.woken += cursor.fetchone()[0]
        self.connection.autocommit = False
        self.counters.waits += 1


class Audit(Consumer):
    """Its own rows and the acknowledgement in one transaction."""

    def __init__(self, excerpt, *args):
        super().__init__("audit", *args)
        self.excerpt = excerpt

    def handle(self, messages):
        if self.batches % 8 == 2:
            self.write_and_ack(messages)
            self.connection.rollback()
            self.counters.rollbacks += 1
        completed = self.write_and_ack(messages)
        self.connection.commit()
        self.counters.commits += 1
        self.counters.events += completed

    def write_and_ack(self, messages) -> int:
        with self.connection.cursor() as cursor:
            execute_values(cursor, AUDIT, [
                (m.line, m.partition, m.msg_offset, m.content(), self.excerpt(m.body().decode("utf-8", "replace")),
                 m.enqueued_at, self.number) for m in messages], page_size=1000)
            cursor.execute(ACK, (sorted({m.lease for m in messages}),))
            return cursor.fetchone()[0]


class Counter(Consumer):
    """Work first, acknowledge later."""

    def __init__(self, victim, *args):
        super().__init__("counter", *args)
        self.victim = victim  # None, or what the parent and the consumer that it kills talk through

    def fails(self, message) -> bool:
        return message.line in self.plan.poison or (message.attempt == 1 and message.line in self.plan.refused)

    def handle(self, messages):
        done, clean, failed = [], [], []
        for lease, batch in groupby(messages, lambda m: m.lease):
            batch = list(batch)
            bad = next((n for n, m in enumerate(batch) if self.fails(m)), None)
            done += batch[:bad]
            if bad is None:
                clean.append(lease)
            else:
                failed.append((bad, batch[bad]))
        if done:
            self.work(done)
        if self.victim and self.victim.wanted.is_set() and len(done) >= max(1, self.plan.batch // 10):
            self.victim.report.send((len(clean) + len(failed), [m.line for m in done]))
            time.sleep(3600)  # until the parent's SIGKILL
        if clean:
            self.counters.events += self.call(ACK, (clean,))
        for below, message in failed:
            verdict = self.call(NACK, (message.lease, message.msg_offset, f"no luck with line {message.line}"))
            self.counters.nacked += 1
            self.counters.dead += verdict == "dead"
            # a nack completes what lies below the message; a dead one is off the partition, too
            self.counters.events += below + (verdict == "dead")

    def work(self, messages):
        with self.connection, self.connection.cursor() as cursor:
            execute_values(cursor, COUNT, [(m.line, m.partition, m.msg_offset, m.content(), m.enqueued_at)
                                           for m in messages], page_size=1000)

    def call(self, sql, args):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            self.counters.commits += 1
            return cursor.fetchone()[0]
