"""Who watches the state of queues while everything runs: views from shared memory, which answer whatever the server does; and an owner who writes rows by SQL."""

import time

import psycopg2

from client import Actor

VIEWS = ("pg_stat_queen_queues", "pg_stat_queen_groups", "pg_stat_queen_collector")
# A count and what shows it differ by as much, in one snapshot; of what was collected right now.
COUNTED = {"counts of work queues agree with their messages": "SELECT count(*) FROM queen.rollup_drift()"}
SHOWN = {
    "the collected state is what there is": """
        WITH collected AS MATERIALIZED (SELECT queen.collect() AS at)
        SELECT abs(s.dead - (SELECT count(*) FROM queen.dead_letters)) + abs(s.timers - (SELECT count(*) FROM queen.log_timers)) + s.in_flight + s.blocked
            + abs(s.work - (SELECT count(*) FROM queen.messages))
        FROM collected c, LATERAL (SELECT sum(dead) AS dead, sum(timers) AS timers, sum(in_flight) AS in_flight, sum(blocked) AS blocked, coalesce(sum(messages) FILTER (WHERE kind = 'work'), 0) AS work
            FROM queen.pg_stat_queen_queues WHERE collected_at <= c.at) s"""}
LOOKS = "SELECT count(*), coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY us), 0), coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY us), 0), coalesce(max(us), 0) FROM soak.looks"
LOOK_NAMES = ("looks at views", "µs a look (median)", "µs (99 %)", "µs (most)")
COLLECTED = "SELECT attempts, failures FROM queen.pg_stat_queen_collector"
COLLECTED_NAMES = ("collections since the last crash", "failed")


class Watcher(Actor):
    """Reads the views as a monitoring system does, and says how long each took, by the server's clock."""

    role = "watcher"
    victim = False

    def step(self):
        for view in VIEWS:
            self.do(f"""INSERT INTO soak.looks (view, us)
                SELECT %s, extract(epoch FROM clock_timestamp() - l.began) * 1000000
                FROM (SELECT clock_timestamp() AS began OFFSET 0) l, LATERAL (SELECT count(*) AS rows FROM queen.{view} WHERE l.began IS NOT NULL OFFSET 0) v WHERE v.rows >= 0""", view)
            self.pause(0.03)


class Collector(Actor):
    """Collects far more often than the keeper does."""

    role = "collector"

    def step(self):
        self.do("SELECT queen.collect()")
        self.pause(0.3)


class Owner(Actor):
    """Changes messages of work queues by SQL: their priority, and all of the row, which goes away and comes back."""

    role = "owner"

    def step(self):
        some = """SELECT message_id FROM queen.messages m JOIN queen.queues q USING (log_id)
            WHERE q.name IN ('work', 'idle') AND m.state = 'READY' ORDER BY random() LIMIT 5 FOR UPDATE OF m SKIP LOCKED"""
        try:
            self.do("BEGIN")
            self.do(f"UPDATE queen.messages SET priority = 1 + floor(random() * 3)::int, shard = floor(random() * 32)::int WHERE message_id IN ({some})")
            self.do("SAVEPOINT gone")
            self.do(f"DELETE FROM queen.messages WHERE message_id IN ({some})")
            self.do("ROLLBACK TO gone")
            if self.rng.random() < 0.2:
                time.sleep(self.rng.random() * 0.2)
            self.do(self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))
        except psycopg2.Error as error:
            self.ended(error, set(), "owner")
        self.pause(0.3)
