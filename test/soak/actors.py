"""Pushers, consumers, and those who get in their way."""

import json
import threading
import time
from dataclasses import dataclass

import psycopg2

from client import DUPLICATE, LEASE_LOST, Actor, Failed

GROUPS = ("auto", "ack", "nack", "lossy")  # consumer groups, by what their consumers do


@dataclass
class Queue:
    weight: int  # of what is pushed
    partitions: int
    options: dict
    groups: tuple = GROUPS
    trimmed: bool = False  # what all groups have consumed is deleted
    window: float = 0.0  # of deduplication; without, nothing is pushed with a key
    drops: bool = False  # duplicates, silently


QUEUES = {
    # where the races are
    "hot": Queue(6, 4, {"lease_time": "1 s", "max_deliveries": 4, "retry_delay": "10 ms"}),
    # where many partitions share a commit
    "wide": Queue(2, 40, {"lease_time": "1 s", "max_deliveries": 2, "retry_delay": "20 ms", "compression": "none"}),
    "brief": Queue(2, 3, {"max_deliveries": 5}, ("auto",), trimmed=True),
    "keyed": Queue(0, 2, {"max_deliveries": 5, "dedup_window": 0.4}, ("auto",), window=0.4, drops=True),
    "strict": Queue(0, 2, {"max_deliveries": 5, "lease_time": "1 s", "dedup_window": 0.4, "dedup": "error"}, ("ack",), window=0.4),
}
PUSHED = tuple(name for name, queue in QUEUES.items() if queue.weight > 0)
KEYED = tuple(name for name, queue in QUEUES.items() if queue.window > 0)

MESSAGE_TX = "coalesce(message ->> 't', split_part(convert_from(payload, 'UTF8'), ' ', 1))::bigint"
MESSAGE_SEQ = "coalesce(message ->> 's', split_part(convert_from(payload, 'UTF8'), ' ', 2))::int"
DELIVERED = f"""
    INSERT INTO soak.events (tx, kind, queue, grp, part, lease, off, sent_tx, sent_seq, message_id, attempt, until)
    SELECT %s, %s, queue, consumer_group, partition, lease, msg_offset, {MESSAGE_TX}, {MESSAGE_SEQ}, message_id, attempt, lease_until
    FROM queen.pop(%s, %s, max_messages => %s, max_partitions => %s, auto_ack => %s)
    RETURNING queue, part, lease, off"""
# the call in a CTE of its own: the event's id is to be drawn behind it
ENDED = """
    WITH call AS MATERIALIZED (SELECT queen.{call} AS answer)
    INSERT INTO soak.events (tx, kind, queue, grp, part, lease, off, {column})
    SELECT %(tx)s, %(kind)s, %(queue)s, %(grp)s, %(part)s, %(lease)s, %(off)s, answer FROM call"""


def consumed(group: str) -> tuple:
    return tuple(name for name, queue in QUEUES.items() if group in queue.groups)


class Pusher(Actor):
    """Pushes in all ways there are, in transactions that end in all ways there are."""

    role = "pusher"

    def step(self):
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"), (8, 2, 1))[0]
        end = self.rng.choices(("commit", "rollback", "fail"), (12, 1, 2))[0]
        linger = self.rng.random() * 0.03 if self.rng.random() < 0.15 else 0
        self.transaction(self.push_some, isolation, end, linger=linger)
        self.pause(self.settings.push_pause)

    def push_some(self, tx: int):
        self.seq = 0
        what = self.rng.choices((self.few, self.batch, self.spread, self.savepoints, self.spill), (10, 2, 1, 3, 1))[0]
        what(tx)
        if self.rng.random() < 0.1:
            time.sleep(self.rng.random() * 0.05)

    def somewhere(self, queue=None):
        queue = queue or self.rng.choices(PUSHED, [QUEUES[name].weight for name in PUSHED])[0]
        return queue, f"p{self.rng.randint(1, QUEUES[queue].partitions)}"

    def pad(self) -> str:
        return "x" * (70000 if self.rng.random() < 0.01 else self.rng.randrange(200))

    def one(self, tx: int, queue=None):
        queue, part = self.somewhere(queue)
        self.seq += 1
        if self.rng.random() < 0.1:
            self.do("INSERT INTO soak.sent (tx, seq, queue, part, message_id) VALUES (%s, %s, %s, %s, queen.push_bytes(%s, convert_to(%s, 'UTF8'), partition => %s))",
                    tx, self.seq, queue, part, queue, f"{tx} {self.seq} {self.pad()}", part)
        else:
            self.do("INSERT INTO soak.sent (tx, seq, queue, part, message_id) VALUES (%s, %s, %s, %s, queen.push(%s, jsonb_build_object('t', %s, 's', %s, 'p', %s), partition => %s))",
                    tx, self.seq, queue, part, queue, tx, self.seq, self.pad(), part)

    def few(self, tx: int):
        for _ in range(self.rng.randint(1, 3)):
            self.one(tx)

    def batch(self, tx: int, count=None, pad=20):
        queue, part = self.somewhere()
        count = count or self.rng.randint(2, 30)
        self.do("""
            INSERT INTO soak.sent (tx, seq, queue, part, message_id)
            SELECT %s, %s + n, %s, %s, id
            FROM queen.push_batch(%s, (SELECT jsonb_agg(jsonb_build_object('t', %s, 's', %s + i, 'p', repeat(md5(i::text), %s)) ORDER BY i)
                FROM generate_series(1, %s) i), partition => %s) WITH ORDINALITY p(id, n)""",
                tx, self.seq, queue, part, queue, tx, self.seq, pad // 20, count, part)
        self.seq += count

    def spread(self, tx: int):
        for _ in range(self.rng.randint(5, 20)):
            self.one(tx, "wide")

    def savepoints(self, tx: int):
        """A tree of savepoints, some of which roll back, each with pushes before, in and behind it."""
        depth = 0
        for _ in range(self.rng.randint(3, 12)):
            what = self.rng.random()
            if what < 0.4:
                self.one(tx)
            elif what < 0.65 or depth == 0:
                depth += 1
                self.do(f"SAVEPOINT s{depth}")
                self.one(tx)
            elif what < 0.85:
                self.do(f"ROLLBACK TO s{depth}")
                if self.rng.random() < 0.5:
                    self.do(f"RELEASE s{depth}")
                    depth -= 1
            else:
                self.do(f"RELEASE s{depth}")
                depth -= 1
        self.one(tx)

    def spill(self, tx: int):
        """More than queen.push_buffer_size, with a savepoint that rolls back while its frames are in the file."""
        self.batch(tx, self.rng.randint(20, 100), 2000)
        self.do("SAVEPOINT spilled")
        self.batch(tx, self.rng.randint(20, 100), 2000)
        if self.rng.random() < 0.5:
            self.do("ROLLBACK TO spilled")
        self.few(tx)


class KeyedPusher(Pusher):
    """Pushes with dedup_keys that others bring too, of which some are expired."""

    role = "keyed"
    keys = 30

    def step(self):
        queue = self.rng.choice(KEYED)
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ"), (3, 1))[0]
        end = self.rng.choices(("commit", "rollback", "fail"), (8, 1, 1))[0]
        linger = self.rng.random() * 0.03 if self.rng.random() < 0.1 else 0
        self.transaction(lambda tx: self.push_keyed(tx, queue), isolation, end, set() if QUEUES[queue].drops else DUPLICATE, linger=linger)
        self.pause(self.settings.push_pause)

    def push_keyed(self, tx: int, queue: str):
        self.seq = 0
        for _ in range(self.rng.randint(1, 3)):
            part = self.somewhere(queue)[1]
            back = self.rng.random() < 0.15
            if back:
                self.do("SAVEPOINT key")
            if self.rng.random() < 0.3:
                self.keyed_batch(tx, queue, part)
            else:
                self.seq += 1
                key = f"k{self.rng.randrange(self.keys)}"
                self.do("""
                    INSERT INTO soak.sent (tx, seq, queue, part, key, at, message_id)
                    SELECT %s, %s, %s, %s, %s, clock_timestamp(), queen.push(%s, jsonb_build_object('t', %s, 's', %s), partition => %s, dedup_key => %s)""",
                        tx, self.seq, queue, part, key, queue, tx, self.seq, part, key)
            if back:
                self.do("ROLLBACK TO key")

    def keyed_batch(self, tx: int, queue: str, part: str):
        keys = self.rng.sample(range(self.keys), self.rng.randint(2, 5))
        self.do("""
            INSERT INTO soak.sent (tx, seq, queue, part, key, at, message_id)
            SELECT %s, %s + n, %s, %s, ((%s::jsonb) ->> (n - 1)::int), statement_timestamp(), id
            FROM queen.push_batch(%s, (SELECT jsonb_agg(jsonb_build_object('t', %s, 's', %s + i) ORDER BY i) FROM generate_series(1, %s) i),
                partition => %s, dedup_keys => %s::jsonb) WITH ORDINALITY p(id, n)""",
                tx, self.seq, queue, part, json.dumps([f"k{key}" for key in keys]),
                queue, tx, self.seq, len(keys), part, json.dumps([f"k{key}" for key in keys]))
        self.seq += len(keys)


class Preparer(Pusher):
    """Prepares pushes, pushes on in the same session, and ends what was prepared late: its own, and what others left."""

    role = "preparer"

    def step(self):
        name = f"soak-{self.number}-{self.transactions + 1}"
        self.pushes = self.rng.randint(1, 3)
        self.end_orphans()
        self.transaction(self.push_hot, prepare=name)
        tx = self.number << 32 | self.transactions
        try:
            self.transaction(self.push_hot)
        except Failed:
            pass
        self.settings.stop.wait(self.rng.random() * 0.8)
        self.end(name, tx)
        self.pause(1)

    def push_hot(self, tx: int):
        self.seq = 0
        for _ in range(self.pushes):
            self.one(tx, "hot")

    def end(self, name: str, tx: int):
        """COMMIT PREPARED or ROLLBACK PREPARED; whoever does not learn how it ended leaves it to the next."""
        if self.conn is None:
            self.connect()
        commit = self.rng.random() < 0.8
        self.do(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{name}'")
        self.note(tx, "committed" if commit else "failed")

    def end_orphans(self):
        for (name,) in self.rows("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'soak-%' AND prepared < now() - interval '2 s'"):
            number, transaction = name.split("-")[1:]
            try:
                self.end(name, int(number) << 32 | int(transaction))
            except psycopg2.Error as error:
                self.ended(error, {"42704", "55000"}, "ending an orphan")  # another was faster
                raise Failed from None


class AutoConsumer(Pusher):
    """pop with auto_ack in the transaction that does the work, which may fail."""

    role = "auto"
    group = "auto"
    most = 30

    def step(self):
        end = self.rng.choices(("commit", "rollback", "fail"), (12, 2, 1))[0]
        if not self.transaction(self.consume, end=end):
            self.pause(0.003)

    def pop(self, tx: int, queue=None, most=None) -> list:
        queue = queue or self.rng.choice(consumed(self.group))
        return self.rows(DELIVERED, tx, "auto", queue, self.group, most or self.rng.randint(1, self.most), self.rng.randint(1, 4), True)

    def consume(self, tx: int) -> int:
        self.seq = 0
        got = self.pop(tx)
        if self.rng.random() < 0.2:
            self.do("SAVEPOINT work")
            self.pop(tx)
            self.do("ROLLBACK TO work")
            got += self.pop(tx)
        if got and self.rng.random() < 0.05:
            self.one(tx)
        return len(got)


class Steady(AutoConsumer):
    """Nobody disturbs it, so that what its backend keeps in memory can be watched."""

    role = "steady"
    victim = False
    warm_up = 100
    most_growth = 1 << 20

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


class Trimmer(Actor):
    """What retention will do: deletes what is consumed, also the newest segment, under the partition's lock."""

    role = "trimmer"

    def step(self):
        queue = self.rng.choice([name for name, q in QUEUES.items() if q.trimmed])
        part = f"p{self.rng.randint(1, QUEUES[queue].partitions)}"
        self.transaction(lambda tx: self.trim(queue, part), end=self.rng.choice(("commit", "commit", "rollback")))
        self.pause(0.1)

    def trim(self, queue: str, part: str):
        ids = self.rows("SELECT partition_id, queue_id FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE q.name = %s AND p.name = %s",
                        queue, part)
        if not ids:
            return
        partition_id, queue_id = ids[0]
        self.do("SELECT queen_test_lock_partition(%s)", partition_id)
        done = self.rows("""
            SELECT min(coalesce(committed, -1)) FROM queen.log_groups LEFT JOIN queen.log_cursors ON log_cursors.group_id = log_groups.group_id AND partition_id = %s
            WHERE queue_id = %s""", partition_id, queue_id)[0][0]
        # whole segments only
        until = self.rows("SELECT max(end_offset) FROM queen.log_segments WHERE partition_id = %s AND end_offset <= %s", partition_id, done)[0][0]
        if until is None:
            return
        self.do(f"""
            INSERT INTO soak.archive
            SELECT queue, partition, msg_offset, {MESSAGE_TX}, {MESSAGE_SEQ}, message_id, enqueued_at
            FROM queen.peek(%s, %s, max_messages => 100000) WHERE msg_offset <= %s""", queue, part, until)
        self.do("""
            WITH gone AS (DELETE FROM queen.log_segments WHERE partition_id = %s AND end_offset <= %s RETURNING created_at)
            INSERT INTO queen.log_starts SELECT %s, %s + 1, max(created_at) FROM gone
            ON CONFLICT (partition_id) DO UPDATE SET log_start = excluded.log_start, last_created_at = excluded.last_created_at""",
                partition_id, until, partition_id, until)


class Maintenance(Actor):
    role = "maintenance"
    victim = False
    tables = ("log_segments", "log_cursors", "log_consumers", "log_partitions", "log_starts", "log_txns", "queues", "log_groups")
    commands = ("VACUUM {}", "ANALYZE {}", "REINDEX TABLE CONCURRENTLY {}", "VACUUM (INDEX_CLEANUP on, FREEZE) {}")

    def step(self):
        self.drop_invalid()
        self.do(self.rng.choice(self.commands).format("queen." + self.rng.choice(self.tables)))
        self.pause(0.2)

    def drop_invalid(self):
        """A crash leaves what REINDEX CONCURRENTLY had begun."""
        for (index,) in self.rows("""SELECT indexrelid::regclass FROM pg_index JOIN pg_class t ON t.oid = indrelid
                WHERE relnamespace = 'queen'::regnamespace AND NOT indisvalid"""):
            self.do(f"DROP INDEX CONCURRENTLY {index}")


class Snapshot(Actor):
    """Holds the xmin horizon."""

    role = "snapshot"
    victim = False

    def step(self):
        self.do("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.do("SELECT count(*) FROM soak.transactions")
        self.settings.stop.wait(self.rng.random() * 4)
        self.do("COMMIT")
        self.pause(1)


class Interrupter(Actor):
    """Cancels and terminates victims, in their commits if it finds one there."""

    role = "interrupter"
    victim = False

    def step(self):
        self.do(f"""
            DO $$
            DECLARE victim int;
            BEGIN
                FOR i IN 1..30 LOOP
                    PERFORM pg_stat_clear_snapshot();
                    SELECT pid INTO victim FROM pg_stat_activity
                    WHERE application_name LIKE 'soak-%' AND application_name NOT LIKE 'soak-quiet-%' AND state = 'active'
                        AND query_start > clock_timestamp() - interval '0.5 s' -- what hangs is to be seen to hang
                        AND (query ~ '^(COMMIT|PREPARE)' OR i > 20) ORDER BY random() LIMIT 1;
                    EXIT WHEN FOUND;
                    PERFORM pg_sleep(0.0005);
                END LOOP;
                PERFORM pg_{self.rng.choice(('cancel', 'terminate'))}_backend(victim);
            END $$""")
        self.pause(0.1)


# Every actor of the soak and how many of it there are.
CAST = (
    (Pusher, 5),
    (KeyedPusher, 2),
    (Preparer, 1),
    (AutoConsumer, 2),
    (Steady, 1),
    (AckConsumer, 3),
    (NackConsumer, 2),
    (LossyConsumer, 2),
    (Trimmer, 1),
    (Maintenance, 1),
    (Snapshot, 1),
    (Interrupter, 1),
)
