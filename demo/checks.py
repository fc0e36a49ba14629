"""The checks after the run, each a query over what went in (demo.expected) and what came out."""

from common import QUEUE

# what a message's md5 must be, from the input as PostgreSQL reads it
CONTENT = "CASE WHEN e.payload IS NULL THEN md5(e.message::text) ELSE md5(e.payload) END::uuid"

DEAD = """
(SELECT (headers->>'line')::bigint AS line, msg_offset, partition,
        CASE WHEN payload IS NULL THEN md5(message::text) ELSE md5(payload) END::uuid AS content, consumer_group
 FROM queen.dead_letters WHERE queue = %(queue)s)
"""

EVENTS_IN_LOG = """
SELECT coalesce(sum(s.end_offset - s.base_offset + 1), 0)
FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)
WHERE q.name = %(queue)s
"""

SENT = """
SELECT (SELECT count(*) FROM demo.sent), count(*) FILTER (WHERE s.line IS NULL OR e.line IS NULL)
FROM demo.expected e FULL JOIN demo.sent s USING (line)
"""

# events that are missing, unknown, or not what went in; and those there more than once
ONCE = """
SELECT count(*) FILTER (WHERE r.line IS NULL), count(*) FILTER (WHERE e.line IS NULL),
       count(*) FILTER (WHERE r.content <> {content}), count(r.line) - count(DISTINCT r.line)
FROM demo.expected e FULL JOIN ({results}) r USING (line)
"""

# neighbours in the order of consumption that are not in the order of input; keys in more than one partition
ORDER = """
SELECT count(*) FILTER (WHERE line < before), count(*) FILTER (WHERE partition <> partition_before)
FROM (SELECT r.line, r.partition, lag(r.line) OVER w AS before, lag(r.partition) OVER w AS partition_before
      FROM demo.{group} r JOIN demo.expected e USING (line)
      WINDOW w AS (PARTITION BY e.key ORDER BY r.seen)) x
"""

# partitions that a group has not finished, from the newest state of each cursor
LEFT = """
SELECT count(*)
FROM (SELECT p.partition_id, g.group_id, (SELECT max(end_offset) FROM queen.log_segments s
                                          WHERE s.partition_id = p.partition_id) AS tail
      FROM queen.queues q JOIN queen.log_partitions p USING (log_id) JOIN queen.log_groups g USING (queue_id)
      WHERE q.name = %(queue)s AND g.name = %(group)s) x
LEFT JOIN LATERAL (SELECT committed, lease FROM queen.log_cursors c
                   WHERE c.partition_id = x.partition_id AND c.group_id = x.group_id
                   ORDER BY era DESC LIMIT 1) c ON true
WHERE tail IS NOT NULL AND (c.committed IS DISTINCT FROM tail OR c.lease IS NOT NULL)
"""


class Checks:
    """Runs them and prints a line for each."""

    def __init__(self, cursor, plan):
        self.cursor, self.plan = cursor, plan
        self.failed = 0

    def row(self, sql, **args):
        self.cursor.execute(sql, {"queue": QUEUE, **args})
        return self.cursor.fetchone()

    def say(self, good, what, detail=""):
        self.failed += not good
        print(f"  {'ok  ' if good else 'FAIL'}  {what}{'' if good else ': ' + detail}", flush=True)

    def run(self, finished, killed):
        plan = self.plan
        self.say(finished, "both groups finished", "the run was given up")

        rows, odd = self.row(SENT)
        in_log, = self.row(EVENTS_IN_LOG)
        self.say(rows == plan.total and odd == 0 and in_log == plan.total,
                 f"{plan.total:,} messages in the log, as many rows of its producers: nothing of what was rolled back",
                 f"{in_log:,} messages in the log, {rows:,} rows, {odd:,} of them missing or unknown")

        self.once("audit", "SELECT line, content FROM demo.audit", "each event once")
        self.once("counter", "SELECT line, content FROM demo.counter UNION ALL "
                  f"SELECT line, content FROM {DEAD} d WHERE consumer_group = 'counter'",
                  "each event once, done or in the dead letters")

        for group in ("audit", "counter"):
            swapped, moved = self.row(ORDER.format(group=group))
            self.say(swapped == 0 and moved == 0, f"{group}: the events of each key in the order of the input",
                     f"{swapped:,} came too early, {moved:,} in another partition than their key's others")

        for group in ("audit", "counter"):
            popped, = self.row("SELECT count(*) FROM queen.pop(%(queue)s, %(group)s, max_messages => 10)", group=group)
            left, = self.row(LEFT, group=group)
            self.say(popped == 0 and left == 0, f"{group}: nothing left, no lease open",
                     f"a pop got {popped} messages, {left:,} partitions are not finished")

        self.cursor.execute(f"SELECT array_agg(line ORDER BY line) FROM {DEAD} d", {"queue": QUEUE})
        dead = self.cursor.fetchone()[0] or []
        self.say(dead == sorted(plan.poison), f"dead letters: what always fails ({len(plan.poison)}), nothing else",
                 f"lines {dead}, expected {sorted(plan.poison)}")

        if killed:
            again, = self.row("SELECT count(*) FROM demo.counter WHERE line = ANY(%(lines)s) AND deliveries > 1",
                              lines=killed.lines)
            self.say(again == len(killed.lines),
                     f"the {len(killed.lines):,} messages that the killed consumer had not acknowledged came again",
                     f"{again:,} of {len(killed.lines):,} did")
        else:
            print("  -     no consumer was killed: the input was too short for that")
        return self.failed == 0

    def once(self, group, results, what):
        missing, unknown, changed, twice = self.row(ONCE.format(content=CONTENT, results=results))
        self.say(missing == unknown == changed == twice == 0, f"{group}: {what}, content unchanged",
                 f"{missing:,} missing, {unknown:,} unknown, {changed:,} changed, {twice:,} more than once")
