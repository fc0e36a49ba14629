"""Those who schedule, move, cancel and fire timers."""

from client import Actor

KEYS = 200
PARTITIONS = 5
RULE = ("ticks", "steady")  # of the run: nobody changes it

# In any order of what happened to a key (ids are drawn under the lock of the timer's row or name), a message was replaced or cancelled, or it
# has been fired: in the queue once. What is neither is still a timer, and none is left at rest.
ONCE = f"""
    WITH fates AS (
        SELECT verdict, message_id, lead(verdict) OVER (PARTITION BY key ORDER BY id) AS next
        FROM soak.timers WHERE verdict IN ('scheduled', 'rescheduled', 'cancelled')),
    due AS (SELECT message_id FROM fates WHERE verdict <> 'cancelled' AND coalesce(next, 'scheduled') = 'scheduled'),
    fired AS (SELECT m.message_id FROM generate_series(0, {PARTITIONS - 1}) p, queen.peek('timed', 'p' || p, max_messages => 100000) m)
    SELECT (SELECT count(*) FROM due WHERE message_id NOT IN (SELECT message_id FROM fired)) +
        (SELECT count(*) FROM fired WHERE message_id NOT IN (SELECT message_id FROM due)) +
        (SELECT count(*) - count(DISTINCT message_id) FROM fired)"""
# Each occurrence names the next one.
CHAINED = f"""
    SELECT count(*) FROM (
        SELECT headers -> 'queen_cron' -> 'next' AS next, lead(headers -> 'queen_cron' -> 'at') OVER (ORDER BY msg_offset) AS at
        FROM queen.peek('{RULE[0]}', max_messages => 100000)) o WHERE next <> at"""
FIRED = f"SELECT (SELECT count(*) FROM generate_series(0, {PARTITIONS - 1}) p, queen.peek('timed', 'p' || p, max_messages => 100000)), (SELECT count(*) FROM queen.peek('{RULE[0]}', max_messages => 100000))"


class Timekeeper(Actor):
    """Timers that are due soon, by keys that others have too, in transactions that end in all ways there are; now and then it fires by hand."""

    role = "timekeeper"

    def step(self):
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ"), (3, 1))[0]
        end = self.rng.choices(("commit", "rollback", "fail"), (12, 2, 1))[0]
        body = self.fire if self.rng.random() < 0.1 else self.schedule_some
        self.transaction(body, isolation, end)
        self.pause(self.settings.push_pause)

    def fire(self, tx: int):
        self.do("SELECT queen.fire_timers(%s)", self.rng.randint(1, 50))

    def schedule_some(self, tx: int):
        # in the order of the keys: two transactions do not wait for each other
        for key in sorted(f"k{self.rng.randrange(KEYS)}" for _ in range(self.rng.randint(1, 4))):
            back = self.rng.random() < 0.15
            if back:
                self.do("SAVEPOINT timer")
            self.one(tx, key)
            if back:
                self.do("ROLLBACK TO timer")
        self.pause(0.005)

    def one(self, tx: int, key: str):
        if self.rng.random() < 0.3:
            (verdict,) = self.rows("SELECT queen.cancel('timed', %s)", key)[0]
            message_id = None
        else:
            verdict, message_id = self.rows("""
                SELECT verdict, message_id FROM queen.schedule('timed', %s, to_jsonb(%s::bigint), delay => make_interval(secs => %s), partition => %s, mode => %s)""",
                key, tx, self.rng.random() * 2 - 0.4, f"p{self.rng.randrange(PARTITIONS)}", self.rng.choice(("replace", "replace", "keep")))[0]
        self.do("INSERT INTO soak.timers (tx, key, verdict, message_id) VALUES (%s, %s, %s, %s)", tx, key, verdict, message_id)
