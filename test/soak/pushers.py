"""Those who push."""

import json
import time

import psycopg2

from client import BIRTH, DUPLICATE, Actor, Failed
from queues import KEYED, PUSHED, QUEUES


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
        self.transaction(lambda tx: self.push_keyed(tx, queue), isolation, end, DUPLICATE, linger=linger)
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
        self.transaction(self.push_hot, prepare=name, allowed=BIRTH)
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
