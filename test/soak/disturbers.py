"""Those who get in the way of the others."""

from client import Actor


class Keeper(Actor):
    """Retention and clean-up, as queen does it: several at a time, cancelled, killed."""

    role = "keeper"

    def connected(self):
        self.do("SET queen.partition_expiry = '1 s'")

    def step(self):
        self.do("CALL queen.maintain()")
        self.pause(0.1)


class Maintenance(Actor):
    role = "maintenance"
    victim = False
    tables = ("log_segments", "log_cursors", "log_consumers", "log_partitions", "log_starts", "log_txns", "queues", "log_groups", "log_dropped", "dead_letters")
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
