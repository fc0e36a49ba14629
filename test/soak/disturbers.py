"""Those who get in the way of the others."""

import psycopg2

from client import GONE, Actor


class Keeper(Actor):
    """Retention and clean-up, as queen does it: several at a time, cancelled, killed."""

    role = "keeper"

    def connected(self):
        self.do("SET queen.partition_expiry = '1 s'")

    def step(self):
        self.do("CALL queen.maintain()")
        self.pause(0.1)


class Walker(Actor):
    """Walks for the hot-list, so that what it has lost is found while it is lost. What is between its commit and its mark is not."""

    role = "walker"

    def connected(self):
        self.there = bool(self.rows("SELECT FROM queen.pg_stat_queen_hotlist_pool"))

    def step(self):
        if not self.there:
            self.pause(1)
            return
        for queue, group in self.rows("SELECT q.name, g.name FROM queen.queues q JOIN queen.log_groups g USING (queue_id) ORDER BY random() LIMIT 5"):
            try:
                self.do("SELECT queen.hotlist_reseed(%s, %s)", queue, group)
            except psycopg2.Error as error:
                self.ended(error, GONE, "walk")
                return
        self.pause(0.05)


class Ballast(Actor):
    """Keeps the hot-list full: a queue of more pending partitions than a small pool holds, whose ring is in use."""

    role = "ballast"
    victim = False
    partitions = 20000

    def connected(self):
        # a crash may come in between
        self.do("SELECT queen.create_queue('ballast'); SELECT queen.subscribe('ballast', 'ballast')")
        if not self.rows("SELECT FROM queen.peek('ballast', 'p1')"):
            self.do("SELECT count(queen.push('ballast', '1', 'p' || n)) FROM generate_series(1, %s) n", self.partitions)

    def step(self):
        self.do("SELECT queen.release(lease) FROM queen.pop('ballast', 'ballast')")
        self.pause(0.02)


class Maintenance(Actor):
    role = "maintenance"
    victim = False
    tables = ("log_segments", "log_cursors", "log_consumers", "log_partitions", "log_starts", "log_txns", "queues", "log_groups", "log_dropped", "dead_letters", "log_timers", "log_timer_rules", "messages")
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
