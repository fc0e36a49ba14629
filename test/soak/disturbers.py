"""Those who get in the way of the others."""

from client import Actor
from queues import MESSAGE_SEQ, MESSAGE_TX, QUEUES


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
