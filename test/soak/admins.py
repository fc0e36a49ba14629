"""Those who change what others work with: options, pauses, dead letters."""

import json
import time

from client import Actor
from pushers import Pusher
from queues import CHANGED, LASTING, QUEUES

ARE_PAUSED = """
    SELECT q.name, NULL FROM queen.queues q WHERE q.paused
    UNION ALL SELECT q.name, g.name FROM queen.queues q JOIN queen.log_groups g USING (queue_id) WHERE g.paused"""
UNKNOWN = {"42704"}  # nobody has pushed, or consumed, yet


class Configurer(Actor):
    """Changes options under those who push and consume."""

    role = "configurer"

    def step(self):
        queue = self.rng.choice(CHANGED)
        changed = QUEUES[queue].changed
        options = {option: self.rng.choice(changed[option]) for option in self.rng.sample(tuple(changed), self.rng.randint(1, len(changed)))}
        self.transaction(lambda tx: self.do("SELECT queen.configure(%s, %s)", queue, json.dumps(options)),
                         end=self.rng.choices(("commit", "rollback"), (8, 1))[0])
        self.pause(0.1)


class Pauser(Actor):
    """Pauses a queue or a group for a moment."""

    role = "pauser"
    longest = 0.5

    def connected(self):
        self.alone()

    def step(self):
        for queue, group in self.rows(ARE_PAUSED):  # its own, or a killed one's
            self.transaction(lambda tx, q=queue, g=group: resume(self, q, g), end=self.rng.choices(("commit", "rollback"), (8, 1))[0])
        queue = self.rng.choice(LASTING)
        group = self.rng.choice((None, *QUEUES[queue].groups))
        self.transaction(lambda tx: self.do("SELECT queen.pause(%s, %s)", queue, group), allowed=UNKNOWN)
        self.do("INSERT INTO soak.pauses VALUES (%s, %s, true)", queue, group)
        self.settings.stop.wait(self.rng.random() * self.longest)


def resume(actor, queue: str, group: str):
    actor.do("INSERT INTO soak.pauses VALUES (%s, %s, false)", queue, group)
    actor.do("SELECT queen.resume(%s, %s)", queue, group)


class Redriver(Actor):
    """Pushes dead letters again, or deletes them: those that others are at, too."""

    role = "redriver"

    def step(self):
        end = self.rng.choices(("commit", "rollback", "fail"), (8, 1, 1))[0]
        self.transaction(self.redrive, end=end)
        self.pause(0.1)

    def redrive(self, tx: int):
        queue = self.rng.choice(("hot", "wide", "strict"))
        group = self.rng.choice((None, None, "nack", "lossy"))
        purge = self.rng.random() < 0.3
        # a letter is copied before it can be deleted: the ids are named. What may be purged is to be known, too
        self.do("""
            INSERT INTO soak.letters
            SELECT %s, dead_id, queue, partition, consumer_group, msg_offset, attempts FROM queen.dead_letters
            WHERE queue = %s AND (dead_id %% 5 = 0 OR NOT %s) AND (%s::text IS NULL OR consumer_group = %s) ORDER BY random() LIMIT 50
            RETURNING dead_id""", tx, queue, purge, group, group)
        ids = [row[0] for row in self.cursor.fetchall()]
        if not ids:
            return
        if self.rng.random() < 0.3:
            time.sleep(self.rng.random() * 0.05)
        if purge:
            self.do("INSERT INTO soak.redrives SELECT %s, queen.purge_dead(%s, %s, %s)", tx, queue, group, ids)
        else:
            self.do("INSERT INTO soak.redrives SELECT %s, queen.redrive(%s, %s, %s)", tx, queue, group, ids)
        if self.rng.random() < 0.5:
            time.sleep(self.rng.random() * 0.2)  # the other one meets what is taken and not committed


# wait for a moment in which somebody is between the flush and the end
SOMEBODY_LINGERS = """
    DO $$
    BEGIN
        FOR i IN 1..50 LOOP
            PERFORM pg_stat_clear_snapshot();
            EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep');
            PERFORM pg_sleep(0.002);
        END LOOP;
    END $$"""


class Dropper(Pusher):
    """Drops or purges a queue under those who push to it and consume it."""

    role = "dropper"
    queue = "razed"

    def step(self):
        end = self.rng.choices(("commit", "rollback", "fail"), (8, 1, 1))[0]
        if self.rng.random() < 0.7:
            self.do(SOMEBODY_LINGERS)
        self.transaction(self.drop, end=end)
        self.do("UPDATE soak.drops SET known = clock_timestamp() WHERE tx = %s", self.number << 32 | self.transactions)
        self.pause(0.4)

    def drop(self, tx: int):
        self.seq = 0
        kind = self.rng.choice(("drop", "purge"))
        self.do("INSERT INTO soak.drops (tx, queue, kind) VALUES (%s, %s, %s)", tx, self.queue, kind)
        self.do(f"SELECT queen.{kind}_queue(%s)", self.queue)
        if self.rng.random() < 0.3:
            time.sleep(self.rng.random() * 0.05)
        if self.rng.random() < 0.2:
            self.one(tx, self.queue)  # to the new queue
