"""A client of the soak: a session whose every transaction has a number, and a log outside of the database of how its
commits ended, as far as the client has learned it."""

import json
import multiprocessing
import os
import random
import time

import psycopg2

ENDED_BY_OTHERS = {
    "57014",  # cancelled
    "57P01", "57P02", "57P03",  # terminated, crashed, starting
}
SERIALIZATION = {"40001"}
LEASE_LOST = {"QN001"}
BIRTH = {"0A000"}  # in a transaction that is prepared
DUPLICATE = {"23505"}  # of a dedup_key
GONE = {"42704"}  # a queue or a group, meanwhile
FAULT = {"P0001"}  # queen_test_fail_at_commit
WITHOUT_HOTLIST = "-c queen.hotlist=off"  # options of a connection


class Stop:
    """A flag for all processes. No lock: a process that is killed would take it along."""

    def __init__(self):
        self.flag = multiprocessing.RawValue("b", 0)

    def set(self):
        self.flag.value = 1

    def is_set(self) -> bool:
        return self.flag.value != 0

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return self.is_set()


class Failed(Exception):
    """The transaction is over, as the log says; what caused it was to be expected."""


class Actor:
    """Runs step() until it is told to stop. settings is what the soak was started with."""

    role = ""
    victim = True  # may be cancelled, terminated, killed

    def __init__(self, settings, number: int, index: int):
        self.settings = settings
        self.number = number
        self.index = index
        self.rng = random.Random(f"{settings.seed}/{self.role}/{index}/{number}")
        self.name = f"soak-{'' if self.victim else 'quiet-'}{self.role}"
        self.options = WITHOUT_HOTLIST if settings.hotlist == "off" or settings.hotlist == "mixed" and number % 3 == 0 else ""
        self.transactions = 0
        self.conn = None
        self.cursor = None
        self.log = os.open(os.path.join(settings.client_logs, f"{number}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    # ---- the log: complete lines, written at once, so that kill -9 loses none that was written ----

    def note(self, *parts):
        os.write(self.log, (json.dumps(parts) + "\n").encode())

    # ---- connections ----

    def connect(self):
        while not self.settings.stop.is_set():
            try:
                self.conn = psycopg2.connect(application_name=self.name, options=self.options)
                self.conn.autocommit = True
                self.cursor = self.conn.cursor()
                self.connected()
                return
            except psycopg2.Error:
                self.conn = None
                time.sleep(0.05)
        raise Failed

    def connected(self):
        """A new connection is there."""

    def alone(self):
        """Wait until the backends of those who were killed in this place are gone: they may still be in a call."""
        while self.rows("SELECT FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()", self.name) and not self.settings.stop.is_set():
            time.sleep(0.01)

    def lost(self) -> bool:
        return self.conn is None or self.conn.closed != 0

    def ended(self, error: psycopg2.Error, allowed: set, doing: str):
        """Judge an error; make the session usable again."""
        code = error.pgcode
        if code is not None and code not in ENDED_BY_OTHERS | allowed and not code.startswith("08"):
            self.note("unexpected", code, " ".join(str(error).split()), doing)
        if not self.lost() and self.conn.info.transaction_status != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
            try:
                self.cursor.execute("ROLLBACK")
            except psycopg2.Error:
                self.conn.close()
        if self.lost():
            self.conn = None

    def run(self):
        try:
            while not self.settings.stop.is_set():
                if self.conn is None:
                    self.connect()
                try:
                    self.step()
                except Failed:
                    pass
                except psycopg2.Error as error:
                    self.ended(error, set(), self.role)
        except Failed:
            pass

    def step(self):
        raise NotImplementedError

    def pause(self, seconds: float):
        """About that long."""
        self.settings.stop.wait(self.rng.expovariate(1 / seconds))

    # ---- transactions ----

    def rows(self, query: str, *args) -> list:
        self.cursor.execute(query, args or None)
        return self.cursor.fetchall()

    def do(self, query: str, *args):
        self.cursor.execute(query, args or None)

    def transaction(self, body, isolation="READ COMMITTED", end="commit", allowed=frozenset(), prepare=None, linger=0.0):
        """BEGIN, body(tx), COMMIT or what end says: commit, rollback, fail (behind the flush). prepare: a name.
        linger: seconds between the flush and the end.

        Returns what body returned; raises Failed when there was no commit for sure, or nobody knows."""
        self.transactions += 1
        tx = self.number << 32 | self.transactions
        allowed = allowed | (SERIALIZATION if isolation != "READ COMMITTED" else set()) | (FAULT if end == "fail" else set())
        try:
            self.do(f"BEGIN ISOLATION LEVEL {isolation}")
            result = body(tx)
            if end == "rollback":
                self.do("ROLLBACK")
            else:
                self.do("INSERT INTO soak.transactions VALUES (%s, %s)", tx, self.role)
                if linger > 0:
                    self.do("SELECT queen_test_run_at_commit('SELECT pg_sleep(%s)')", linger)
                if end == "fail":
                    self.do("SELECT queen_test_fail_at_commit()")
        except psycopg2.Error as error:
            self.note(tx, "failed")
            self.ended(error, allowed, "in the transaction")
            raise Failed from None
        if end == "rollback":
            self.note(tx, "failed")
            raise Failed
        self.note(tx, "commits")
        try:
            self.do("PREPARE TRANSACTION %s", prepare) if prepare else self.do("COMMIT")
            if self.cursor.statusmessage == "ROLLBACK":
                self.note(tx, "failed")
                raise Failed
        except psycopg2.Error as error:
            # an error that leaves the session alive is the server's word that it did not commit
            if not self.lost() and error.pgcode not in ("57P01", "57P02", "57P03"):
                self.note(tx, "failed")
            self.ended(error, allowed, "at the commit")
            raise Failed from None
        if not prepare:
            self.note(tx, "committed")
        return result
