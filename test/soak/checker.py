"""Feeds the model with what is in the database and in the clients' logs, again and again while the soak runs, and a last
time, from the beginning, when everything has come to rest."""

import glob
import json
import math
import os
import time

import psycopg2

from followed import Followed
from model import Cursor, Event, Message, Partition, Pauses, Violation
from queues import FOLLOWED, MESSAGE_SEQ, MESSAGE_TX, QUEUES
from timekeepers import CHAINED, ONCE
from watchers import COUNTED, SHOWN
from workers import ALWAYS, AT_REST

PAGE = 20000
LONGEST = "10 s"  # that a statement of an actor may take
LONGEST_UNSEEN = 15.0  # seconds that a committed message may be behind a push that runs or is prepared

# what is not surely in the log
DROPPABLE = "(key IS NOT NULL AND queue = ANY (ARRAY[{}]::text[]))".format(", ".join(f"'{name}'" for name, q in QUEUES.items() if q.drops))
KEPT = f"NOT {DROPPABLE} AND NOT (queue = ANY (ARRAY[{', '.join(repr(name) for name in FOLLOWED)}]))"
HOTLIST = {"marks": "marks", "candidates": "takes", "cleared": "clears", "conflicts": "epoch_conflicts", "walks": "reseeds"}  # of rings since the last crash
MOST = {}  # of these and of the pool, in the whole run
EXPIRED = "log_start = 9223372036854775807"


def invariant(file: str) -> str:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../invariants", file + ".sql"), encoding="utf-8") as query:
        return query.read()


# What holds in every snapshot: counts that must be zero.
STRUCTURE = {
    "segments neither overlap nor step back in time": invariant("segments"),
    "names are unique, no segment is an orphan": invariant("names"),
    "one live state row for each cursor, in its era": invariant("cursors"),
}
# Of rings since the last crash; the server's log knows of all.
STRUCTURE["no walk finds what the hot-list has lost"] = "SELECT coalesce(sum(reseed_repairs), 0) FROM queen.pg_stat_queen_hotlist"
STRUCTURE["a dead letter is redriven or purged once"] = """
    SELECT (SELECT coalesce(sum(answer), 0) FROM soak.redrives) - (SELECT count(DISTINCT dead_id) FROM soak.letters l
        WHERE NOT EXISTS (SELECT FROM queen.dead_letters d WHERE d.dead_id = l.dead_id))"""
STRUCTURE |= ALWAYS | COUNTED
# What holds when the log is drained.
REST = {
    "nothing is under a lease": "SELECT count(*) FROM queen.log_cursors WHERE lease IS NOT NULL",
    "nothing is blocked": "SELECT count(*) FROM queen.pg_stat_queen_blocked",
    "no group has a lag": "SELECT count(*) FROM (SELECT name FROM queen.queues WHERE kind = 'log' OFFSET 0) q, queen.list_groups(q.name) g WHERE g.lag <> 0",
    "each key has one row": "SELECT count(*) FROM (SELECT 1 FROM queen.log_txns GROUP BY partition_id, key_hash HAVING count(*) > 1) d",
    "nothing stays prepared": "SELECT count(*) FROM pg_prepared_xacts",
    "nothing is paused": "SELECT (SELECT count(*) FROM queen.queues WHERE paused) + (SELECT count(*) FROM queen.log_groups WHERE paused)",
    "no dropped log is left": "SELECT count(*) FROM queen.log_dropped WHERE partition_id IS NULL",
    "no temporary file is left": "SELECT count(*) FROM pg_ls_tmpdir()",
    "nothing is checked out of the hot-list": "SELECT coalesce(sum(checked_out), 0) FROM queen.pg_stat_queen_hotlist",
    "no timer is left": "SELECT count(*) FROM queen.log_timers",
    "a timer's message comes once, unless it was cancelled or replaced": ONCE,
    "a rule's messages are a chain": CHAINED,
    "no partition lock is left": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
}
REST |= AT_REST | SHOWN


def seconds(column: str) -> str:
    """A timestamp as a float: exact to the microsecond until 2100."""
    return f"extract(epoch FROM {column})::float8"


class Checker:
    def __init__(self, settings):
        self.settings = settings
        self.partitions = {}
        self.cursors = {}
        self.last_event = 0
        self.last_followed = 0
        self.seen = 0  # messages in self.partitions but those that might have been dropped
        self.dropped = 0
        self.redriven = 0
        self.sent = []  # (time, how much had been sent then), as long as not all of it was seen
        self.read_to = {}  # client log -> bytes read
        self.committed = []  # transactions that clients know of, not checked yet
        self.failed = []
        self.counts = {"commits": 0, "failures": 0}
        self.followed = {name: Followed(name, QUEUES[name].retention, QUEUES[name].dropped) for name in FOLLOWED}
        self.pauses = {}  # (queue, group, or None for all of them) -> Pauses
        self.pauses_read = 0
        self.verify_at = 0.0  # it reads all there is: not too often
        self.conn = None

    def connect(self):
        self.conn = psycopg2.connect(application_name="soak-quiet-checker")
        self.conn.autocommit = True

    def rows(self, query: str, *args) -> list:
        with self.conn.cursor() as cursor:
            cursor.execute(query, args or None)
            return cursor.fetchall()

    # ---- one pass ----

    def run(self, final: bool = False):
        """Raises Violation. A pass that a crash of the server cuts short is as good as none."""
        if self.conn is None or self.conn.closed:
            self.connect()
        self.read_client_logs()
        with self.conn.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        sent = self.rows(f"SELECT count(*) FROM soak.sent WHERE {KEPT}")[0][0]
        events = self.rows(f"""
            SELECT queue, grp, part, id, tx, kind, lease::text, off, sent_tx, sent_seq, message_id::text, attempt,
                {seconds('until')}, answer, {seconds('at')}, {seconds('began')}
            FROM soak.events WHERE id > %s AND NOT (queue = ANY (%s)) ORDER BY id""", self.first_open_event(), list(FOLLOWED))
        undelivered = self.follow(final)
        dead = {}
        for queue, part, grp, off, attempts in self.rows("""
                SELECT queue, partition, consumer_group, msg_offset, attempts
                FROM (SELECT dead_id, queue, partition, consumer_group, msg_offset, attempts FROM queen.dead_letters WHERE kind = 'log'
                    UNION SELECT dead_id, queue, part, grp, off, attempts FROM soak.letters) d"""):
            dead.setdefault((queue, grp, part), {}).setdefault(off, []).append(attempts)
        for queue, grp, paused, at in self.rows(f"SELECT queue, grp, paused, {seconds('at')} FROM soak.pauses ORDER BY at OFFSET %s", self.pauses_read):
            self.pauses.setdefault((queue, grp), Pauses()).add(paused, at)
            self.pauses_read += 1
        structure = [(what, self.rows(query)[0][0]) for what, query in STRUCTURE.items()] if not final else []
        with self.conn.cursor() as cursor:
            cursor.execute("COMMIT")
        self.check_zero(structure)
        self.verify(final)
        self.check_outcomes()
        for name, left, now in undelivered:
            self.followed[name].check_undelivered(left, now)
        self.read_log()
        self.replay(events, dead)
        now = time.monotonic()
        self.sent = [(when, count) for when, count in (*self.sent, (now, sent)) if count > self.seen]
        if self.sent and (final or self.sent[0][0] < now - LONGEST_UNSEEN):
            raise Violation("lost", f"{self.sent[0][1]} messages were sent, a reader sees {self.seen} of them: {self.some_lost()}")
        if not final:
            self.check_running()
        if final:
            self.check_dropped()
            self.check_redriven()
            self.check_zero([(what, self.rows(query)[0][0]) for what, query in (STRUCTURE | REST).items()])
            for key, cursor in self.cursors.items():
                cursor.check_drained(dead.get(key, {}))

    def verify(self, final: bool):
        begin = time.monotonic()
        if final or begin >= self.verify_at:
            for problem in self.rows("SELECT item, object, problem FROM queen.verify()"):
                raise Violation("verify", ": ".join(problem))
            now = time.monotonic()
            self.verify_at = now + 5 * (now - begin)

    @staticmethod
    def check_zero(counts: list):
        for what, count in counts:
            if count != 0:
                raise Violation("structure", f"{what}: {count}")

    def some_lost(self) -> str:
        seen = {(m.tx, m.seq) for p in self.partitions.values() for m in p.messages}
        missing = [row for row in self.rows(f"SELECT tx, seq, queue, part FROM soak.sent WHERE {KEPT}") if (row[0], row[1]) not in seen]
        return ", ".join(f"tx {tx} seq {seq} to {queue}/{part}" for tx, seq, queue, part in missing[:5])

    def check_dropped(self):
        """What was pushed with a key and is not in the log."""
        seen = {(m.tx, m.seq) for p in self.partitions.values() if p.window for m in p.messages}
        for tx, seq, queue, part, key, at, committed in self.rows(f"""
                SELECT tx, seq, queue, part, key, {seconds('s.at')}, {seconds('pg_xact_commit_timestamp(t.xmin)')}
                FROM soak.sent s JOIN soak.transactions t USING (tx) WHERE {DROPPABLE}"""):
            if (tx, seq) not in seen:
                self.partitions[(queue, part)].check_dropped(tx, seq, key, at, committed)
                self.dropped += 1

    def check_redriven(self):
        letters = {}
        for queue, part, off, grp, purged in self.rows("""
                SELECT DISTINCT ON (dead_id) queue, part, off, grp, dead_id % 5 = 0 FROM soak.letters l
                WHERE NOT EXISTS (SELECT FROM queen.dead_letters d WHERE d.dead_id = l.dead_id)"""):
            letters.setdefault((queue, part), {}).setdefault((off, grp), []).append(purged)
        for key, log in self.partitions.items():
            log.check_redriven(letters.get(key, {}))

    def check_running(self):
        stuck = self.rows("""SELECT application_name, query FROM pg_stat_activity WHERE state = 'active' AND query_start < clock_timestamp() - %s::interval
            AND application_name LIKE 'soak-%%' AND application_name NOT LIKE 'soak-quiet-%%'""", LONGEST)
        if stuck:
            raise Violation("stuck", f"{stuck[0][0]} has been at it for {LONGEST}: {' '.join(stuck[0][1].split())}")

    # ---- the log ----

    def read_log(self):
        for queue, kind in ((name, queue) for name, queue in QUEUES.items() if not queue.followed):
            for n in range(1, kind.partitions + 1):
                part = f"p{n}"
                log = self.partitions.setdefault((queue, part), Partition(f"{queue}/{part}", window=kind.window))
                while True:
                    begin = log.messages[-1].offset + 1 if log.messages else 0
                    rows = self.rows(f"""
                        SELECT msg_offset, {MESSAGE_TX}, {MESSAGE_SEQ}, message_id::text, {seconds('enqueued_at')}, headers -> 'queen_redriven'
                        FROM queen.peek(%s, %s, %s, {PAGE})""", queue, part, begin)
                    found = {row[0]: row for row in rows}
                    if kind.trimmed:
                        # what has been deleted was delivered before: its deliveries tell of it
                        found |= {row[0]: row for row in self.rows(f"""
                            SELECT off, sent_tx, sent_seq, message_id::text, {seconds('pushed_at')}, NULL FROM soak.events
                            WHERE queue = %s AND part = %s AND off >= %s AND kind = 'auto'""", queue, part, begin)}
                    self.add_messages(log, queue, part, [found[off] for off in sorted(found)])
                    if len(rows) < PAGE:
                        break

    def add_messages(self, log: Partition, queue: str, part: str, rows: list):
        """A statement of its own reads what was sent: its snapshot is newer than what peek has seen."""
        if not rows:
            return
        sent = {(tx, seq): rest for tx, seq, *rest in self.rows(f"""
            SELECT s.tx, s.seq, s.queue, s.part, s.message_id::text, s.key, {seconds('t.at')}, {seconds('pg_xact_commit_timestamp(t.xmin)')}
            FROM soak.sent s JOIN soak.transactions t USING (tx) WHERE s.tx = ANY (%s)""", list({row[1] for row in rows}))}
        redrives = self.redrives(queue, part, rows) if any(row[5] for row in rows) else []
        for offset, tx, seq, message_id, created_at, was in rows:
            if was is not None:
                self.add_redriven(log, Message(offset, 0, was["msg_offset"], message_id, created_at, 0, 0, None, (tx, seq),
                                               (was["msg_offset"], was["message_id"], was["consumer_groups"])), redrives)
                continue
            found = sent.get((tx, seq))
            if found is None:
                raise Violation("invented", f"{log.name} offset {offset} is tx {tx} seq {seq}, which was rolled back or never sent")
            if found[:3] != [queue, part, message_id]:
                raise Violation("content", f"{log.name} offset {offset}: id {message_id}, sent to {found[0]}/{found[1]} as {found[2]}")
            log.add(Message(offset, tx, seq, message_id, created_at, found[4], found[5], found[3]))
            self.seen += found[3] is None or not QUEUES[queue].drops

    def redrives(self, queue: str, part: str, rows: list) -> list:
        """Segments of transactions that have redriven."""
        return self.rows(f"""
            SELECT s.base_offset, s.end_offset, tx, {seconds('t.at')}, {seconds('pg_xact_commit_timestamp(t.xmin)')}
            FROM queen.queues q JOIN queen.log_partitions p USING (log_id) JOIN queen.log_segments s USING (partition_id)
                JOIN soak.redrives r ON r.xmin = s.xmin JOIN soak.transactions t USING (tx)
            WHERE q.name = %s AND p.name = %s AND s.end_offset >= %s""", queue, part, rows[0][0])

    def add_redriven(self, log: Partition, m: Message, redrives: list):
        """Its transaction is the one that wrote its segment, its order there that of the old offsets."""
        for begin, end, *of in redrives:
            if begin <= m.offset <= end:
                m.tx, m.commit_began, m.committed = of
                log.add(m)
                self.redriven += 1
                return
        raise Violation("redrive", f"{log.name} offset {m.offset} says that it was redriven, and no redrive wrote it")

    # ---- the cursors ----

    def first_open_event(self) -> int:
        """Ids of other cursors commit out of order: a few are read again, and known by their cursor's last."""
        return max(0, self.last_event - 20000)

    def replay(self, events: list, dead: dict):
        for queue, grp, part, *event in events:
            key = (queue, grp, part)
            cursor = self.cursors.get(key)
            if cursor is None:
                cursor = self.cursors[key] = Cursor(f"{grp} at {queue}/{part}", self.partitions[(queue, part)],
                                                    QUEUES[queue].options["max_deliveries"])
                cursor.last_event = 0
                cursor.pauses = tuple(self.pauses.setdefault((queue, paused), Pauses()) for paused in (None, grp))
            e = Event(*event)
            if e.id > cursor.last_event:
                cursor.apply(e, dead.get(key, {}))
                cursor.last_event = e.id
                self.last_event = max(self.last_event, e.id)

    # ---- queues whose partitions come and go ----

    def follow(self, final: bool) -> list:
        """Their new deliveries; answers what has not been delivered, all by one snapshot."""
        for name, followed in self.followed.items():
            followed.set_drops(self.rows(f"""
                SELECT {seconds('d.began')}, {seconds('t.at')}, coalesce({seconds('d.known')}, 'infinity')
                FROM soak.drops d JOIN soak.transactions t USING (tx) WHERE d.queue = %s""", name))
        for event, queue, part, tx, seq, message_id, created_at, began, at, sent, commit_began, committed in self.rows(f"""
                SELECT e.id, e.queue, e.part, e.sent_tx, e.sent_seq, e.message_id::text, {seconds('e.pushed_at')}, {seconds('e.began')}, {seconds('e.at')},
                    ARRAY[s.queue, s.part, s.message_id::text], {seconds('t.at')}, {seconds('pg_xact_commit_timestamp(t.xmin)')}
                FROM soak.events e LEFT JOIN (soak.sent s JOIN soak.transactions t USING (tx)) ON s.tx = e.sent_tx AND s.seq = e.sent_seq
                WHERE e.queue = ANY (%s) AND e.id > %s ORDER BY e.id""", list(FOLLOWED), max(0, self.last_followed - 20000)):
            if event in self.followed[queue].events:
                continue
            if committed is None:
                raise Violation("invented", f"{queue}/{part} delivered tx {tx} seq {seq}, which was rolled back or never sent (event {event})")
            if sent != [queue, part, message_id]:
                raise Violation("content", f"{queue}/{part} delivered tx {tx} seq {seq} as {message_id}, sent to {sent}")
            self.followed[queue].deliver(event, part, Message(0, tx, seq, message_id, created_at, commit_began, committed), began, at)
            self.last_followed = max(self.last_followed, event)
        left = {name: [] for name in FOLLOWED}
        for queue, *message in self.rows(f"""
                SELECT queue, part, tx, seq, {seconds('t.at')}, {seconds('pg_xact_commit_timestamp(t.xmin)')}
                FROM soak.sent s JOIN soak.transactions t USING (tx)
                WHERE queue = ANY (%s) AND NOT EXISTS (SELECT FROM soak.events e
                    WHERE e.sent_tx = s.tx AND e.sent_seq = s.seq AND e.queue = s.queue)""", list(FOLLOWED)):
            left[queue].append(message)
        now = time.time() if final else math.inf
        return [(name, messages, now) for name, messages in left.items()]

    # ---- what clients know ----

    def read_client_logs(self):
        for path in glob.glob(os.path.join(self.settings.client_logs, "*.log")):
            with open(path, "rb") as file:
                file.seek(self.read_to.get(path, 0))
                data = file.read()
            data = data[:data.rfind(b"\n") + 1]
            self.read_to[path] = self.read_to.get(path, 0) + len(data)
            for line in data.splitlines():
                self.take_note(os.path.basename(path), json.loads(line))

    def take_note(self, path: str, note: list):
        if note[0] == "violation":
            raise Violation(note[1], f"{note[2]} ({path})")
        if note[0] in ("unexpected", "memory"):
            raise Violation(note[0], f"{' '.join(str(n) for n in note[1:])} ({path})")
        if note[1] == "committed":
            self.committed.append(note[0])
        elif note[1] == "failed":
            self.failed.append(note[0])

    def check_outcomes(self):
        """A statement begun after the client had its answer."""
        there = self.found(self.committed)
        for tx in self.committed:
            if tx not in there:
                raise Violation("outcome", f"transaction {tx} committed, says its client; it is gone")
        for tx in self.found(self.failed):
            raise Violation("outcome", f"transaction {tx} failed, says its client; it is there")
        self.counts["commits"] += len(self.committed)
        self.counts["failures"] += len(self.failed)
        self.committed, self.failed = [], []

    def found(self, transactions: list) -> set:
        return {row[0] for row in self.rows("SELECT tx FROM soak.transactions WHERE tx = ANY (%s)", transactions)}

    # ---- what it was ----

    def figures(self) -> dict:
        cursors = self.cursors.values()
        return {
            "messages": sum(len(p.messages) for p in self.partitions.values()),
            "duplicates dropped": self.dropped,
            "deleted": self.rows(f"SELECT coalesce(sum(log_start), 0)::bigint FROM queen.log_starts WHERE NOT {EXPIRED}")[0][0],
            "holes": sum(p.messages[-1].offset + 1 - len(p.messages) for p in self.partitions.values() if p.messages),
            "completed": sum(c.completed for c in cursors),
            "redelivered": sum(c.redelivered for c in cursors),
            "dead": sum(c.dead for c in cursors),
            "lost leases": sum(c.lost_leases for c in cursors),
            "seeks": sum(c.seeks for c in cursors),
            "redriven": self.redriven,
            "drops": self.rows("SELECT count(*) FROM soak.drops WHERE kind = 'drop'")[0][0],
            "purges": self.rows("SELECT count(*) FROM soak.drops WHERE kind = 'purge'")[0][0],
            **{f"{name} {what}": n for name, f in self.followed.items() for what, n in (("delivered", len(f.delivered)), ("gone", f.gone))},
            "partitions expired": self.rows(f"SELECT count(*) FROM queen.log_starts WHERE {EXPIRED}")[0][0],
            "pauses": sum(len(p.begins) for p in self.pauses.values()),
            "groups left": len({(queue, grp) for (queue, grp, _), c in self.cursors.items() if c.left}),
            **self.counts,
            **self.hotlist_figures(),
        }

    def hotlist_figures(self) -> dict:
        """The most that any look has found: a crash sets them to 0, and rings that nobody uses are soon forgotten, and their counters with them."""
        now = {
            **dict(zip(HOTLIST, self.rows(f"SELECT {', '.join(f'coalesce(sum({column}), 0)::bigint' for column in HOTLIST.values())} FROM queen.pg_stat_queen_hotlist")[0])),
            "not fitting": self.rows("SELECT coalesce(sum(refused_candidates), 0)::bigint FROM queen.pg_stat_queen_hotlist_pool")[0][0],
        }
        for what, n in now.items():
            MOST[what] = max(n, MOST.get(what, 0))
        return dict(MOST)
