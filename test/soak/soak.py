"""The soak: see README.md. Runs in tools/with_server.sh, through tools/soak.sh."""

import sys

sys.dont_write_bytecode = True

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

import psycopg2

import server
from admins import ARE_PAUSED, Configurer, Dropper, Pauser, Redriver
from checker import REST, STRUCTURE, Checker
from client import WITHOUT_HOTLIST, Stop
from consumers import DELIVERED, AckConsumer, AutoConsumer, Latecomer, LossyConsumer, NackConsumer, SeekConsumer, Seeker, Steady
from disturbers import Ballast, Interrupter, Keeper, Maintenance, Snapshot, Walker
from model import INVARIANTS, Cursor, Violation
from pushers import KeyedPusher, Preparer, Pusher
from queues import FOLLOWED, QUEUES
from timekeepers import FIRED, RULE, Timekeeper
from watchers import COLLECTED, COLLECTED_NAMES, LOOK_NAMES, LOOKS, Collector, Owner, Watcher
from workers import DEAD_OF_WORK, FIGURE_NAMES, FIGURES, FINISHED, QUEUES_OF_WORK, READY, Enqueuer, Worker

HERE = os.path.dirname(os.path.abspath(__file__))
EVIDENCE = os.path.join(server.TOP, "build/soak")
ACTORS = multiprocessing.get_context("fork")
BAD_LOG = re.compile(r"PANIC|terminated by signal (?:6|11)\b|TRAP:|ERROR: .*(?:unexpected|could not read|duplicate key|attempted to (?:update|delete|lock) "
                     r"invisible|tuple concurrently|invalid memory|deadlock detected|corrupt)|the hot-list had lost|WARNING: .*(?:leak|snapshot|still active|you don't own)")


# Every actor of the soak and how many of it there are.
CAST = (
    (Pusher, 5),
    (KeyedPusher, 2),
    (Preparer, 1),
    (AutoConsumer, 3),
    (Steady, 1),
    (AckConsumer, 3),
    (NackConsumer, 2),
    (LossyConsumer, 2),
    (SeekConsumer, 2),
    (Seeker, 1),
    (Latecomer, 1),
    (Configurer, 1),
    (Pauser, 1),
    (Redriver, 2),
    (Dropper, 1),
    (Timekeeper, 3),
    (Enqueuer, 2),
    (Worker, 4),
    (Owner, 1),
    (Watcher, 1),
    (Collector, 1),
    (Keeper, 2),
    (Walker, 1),
    (Maintenance, 1),
    (Snapshot, 1),
    (Interrupter, 1),
)


@dataclass
class Settings:
    seed: str
    seconds: float
    kill_every: float
    check_every: float
    push_pause: float
    hotlist: str  # do consumers use it: mixed, on, off
    small_pool: bool  # and is it full?
    client_logs: str
    stop: Stop

    @property
    def least_crashes(self) -> int:
        return min(2, int(self.seconds // self.kill_every))


class Company:
    """The actors' processes: started, killed, replaced."""

    def __init__(self, settings: Settings, rng: random.Random):
        self.settings = settings
        self.rng = rng
        self.numbers = 0  # of sessions, never used again
        self.places = [[kind, index, None] for kind, count in (*CAST, *([(Ballast, 1)] if settings.small_pool else [])) for index in range(count)]
        self.killed = 0

    def fill(self):
        """Put somebody into every empty place."""
        for place in self.places:
            kind, index, process = place
            if process is None or not process.is_alive():
                if process is not None and process.exitcode not in (0, -signal.SIGKILL):
                    raise Violation("unexpected", f"actor {kind.role} ended with {process.exitcode}")
                self.numbers += 1
                place[2] = ACTORS.Process(target=self.play, args=(kind, self.numbers, index), daemon=True)
                place[2].start()

    def play(self, kind, number: int, index: int):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        kind(self.settings, number, index).run()

    def kill_one(self):
        kind, _, process = self.rng.choice(self.places)
        if kind.victim:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            self.killed += 1

    def dismiss(self):
        self.settings.stop.set()
        until = time.monotonic() + 20
        # what is prepared keeps REINDEX CONCURRENTLY waiting; its own session may be at it
        while any(process is not None and process.is_alive() for _, _, process in self.places) and time.monotonic() < until:
            commit_prepared()
            time.sleep(0.1)
        for kind, _, process in self.places:
            if process is not None:
                process.join(max(0.1, until - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()
                    raise Violation("unexpected", f"actor {kind.role} does not end: something waits for ever")


def sql(query: str, *args) -> list:
    conn = psycopg2.connect(application_name="soak-quiet-main")
    conn.autocommit = True
    with conn.cursor() as cursor:
        cursor.execute(query, args or None)
        rows = cursor.fetchall() if cursor.description is not None else []  # () is a result of no columns
    conn.close()
    return rows


def set_up():
    ((preloaded,),) = sql("SELECT current_setting('shared_preload_libraries')")
    Cursor.exact = "queen" not in re.split(r"[, ]+", preloaded)
    with open(os.path.join(HERE, "schema.sql"), encoding="utf-8") as file:
        sql(file.read())
    for name, queue in QUEUES.items():
        sql("SELECT queen.create_queue(%s, options => %s)", name, json.dumps(queue.options))
        if queue.trimmed:
            keep_partitions(name, queue.partitions)
    for name, options in QUEUES_OF_WORK.items():
        sql("SELECT queen.create_queue(%s, 'work', %s)", name, json.dumps(options))
    sql("SELECT queen.schedule_cron(%s, %s, '@every 1s', '\"tick\"')", *RULE)


def keep_partitions(queue: str, count: int):
    """A partition with a dedup_key does not expire, so its offsets go on."""
    sql("""
        INSERT INTO soak.sent (tx, seq, queue, part, message_id)
        SELECT 0, n, %s, 'p' || n, queen.push(%s, jsonb_build_object('t', 0, 's', n), partition => 'p' || n, dedup_key => 'keep') FROM generate_series(1, %s) n;
        INSERT INTO soak.transactions VALUES (0, 'main')""", queue, queue, count)


def check_until_stopped(settings: Settings):
    """The checker's process: its violation is its exit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    checker = Checker(settings)
    while not settings.stop.wait(settings.check_every):
        try:
            checker.run()
            tell(checker)
        except psycopg2.Error as error:
            if error.pgcode is not None and not error.pgcode.startswith(("57P", "08")):
                report(Violation("unexpected", f"{error.pgcode} {error} in the checker"))
                sys.exit(1)
            checker.conn = None
        except Violation as violation:
            report(violation)
            sys.exit(1)


def tell(checker: Checker):
    growth = checker.rows("""SELECT pg_size_pretty(pg_relation_size('queen.log_cursors')), pg_size_pretty(pg_indexes_size('queen.log_cursors')),
        pg_size_pretty(pg_database_size(current_database()))""")[0]
    print("  " + ", ".join(f"{n} {what}" for what, n in checker.figures().items()) +
          f"; log_cursors {growth[0]} + {growth[1]}, database {growth[2]}", flush=True)


def report(violation: Violation):
    with open(os.path.join(EVIDENCE, "violations"), "a", encoding="utf-8") as file:
        file.write(f"{violation}\n")
    print(f"VIOLATION {violation}", flush=True)


def run_load(settings: Settings, rng: random.Random) -> dict:
    company = Company(settings, rng)
    checker = ACTORS.Process(target=check_until_stopped, args=(settings,), daemon=True)
    checker.start()
    crashes = []
    end = time.monotonic() + settings.seconds
    latest = end + settings.seconds  # on a machine that is busy with something else recovery takes its time
    next_crash = time.monotonic() + settings.kill_every

    def is_short(crashes: list, company: Company) -> bool:
        return len(crashes) < settings.least_crashes or company.killed < NEEDED["clients killed"] * settings.seconds

    try:
        while checker.is_alive() and (time.monotonic() < end or (is_short(crashes, company) and time.monotonic() < latest)):
            company.fill()
            time.sleep(0.2 + rng.random() * 0.4)
            company.kill_one()
            if next_crash < time.monotonic():
                how = rng.choice(("power cut", "power cut", "backend", "immediate")) if len(crashes) > 1 else "power cut"
                crashes.append(how)
                {"power cut": server.power_cut, "immediate": server.immediate,
                 "backend": lambda: server.backend_killed(rng)}[how]()
                server.wait_until_up()
                next_crash = time.monotonic() + settings.kill_every
        company.dismiss()
    finally:
        settings.stop.set()
        checker.join()
        company.settings.stop.set()
        for _, _, process in company.places:
            if process is not None and process.is_alive():
                process.kill()
    if checker.exitcode != 0:
        raise Violation("", "") from None  # it has reported
    return {"clients killed": company.killed, "sessions": company.numbers, "crashes": len(crashes)}


def commit_prepared():
    for (name,) in sql("SELECT gid FROM pg_prepared_xacts WHERE prepared < now() - interval '1 s'"):
        try:
            sql(f"COMMIT PREPARED '{name}'")
        except psycopg2.Error as error:
            if error.pgcode not in ("42704", "55000"):  # its session was faster
                raise


# Rings that owe nothing, and hold fewer partitions than have a lag.
LACKING = """
    SELECT queue, consumer_group, n, ready + parked + checked_out
    FROM queen.pg_stat_queen_hotlist h, LATERAL (SELECT count(*) AS n FROM queen.lag(h.queue, h.consumer_group) WHERE lag > 0) l
    WHERE owes IN ('nothing', 'floor') AND n > ready + parked + checked_out"""


def leave_hotlist_alone(settings: Settings):
    """From now on no walk finds what it has lost: what it does not know is not drained."""
    if settings.small_pool:
        sql("SELECT queen.drop_queue('ballast')")
    for queue, group, pending, held in sql(LACKING):
        raise Violation("hot-list", f"group {group} of {queue} has {pending} pending partitions, its ring holds {held} and owes nothing")
    sql("ALTER SYSTEM SET queen.hotlist_reseed_interval = 0")
    sql("SELECT pg_reload_conf()")
    while sql("SHOW queen.hotlist_reseed_interval") != [("0",)]:
        time.sleep(0.01)


def drain(settings: Settings):
    """Whatever is prepared commits; what is paused goes on; what is left is consumed."""
    work_off()
    while sql("SELECT FROM pg_prepared_xacts"):
        commit_prepared()
    fire_all()
    leave_hotlist_alone(settings)
    for queue, group in sql(ARE_PAUSED):
        sql("INSERT INTO soak.pauses VALUES (%s, %s, false); SELECT queen.resume(%s, %s)", queue, group, queue, group)
    conn = psycopg2.connect(application_name="soak-quiet-drain", options=WITHOUT_HOTLIST if settings.hotlist == "off" else "")
    conn.autocommit = True
    with conn.cursor() as cursor:
        groups = sql("SELECT q.name, g.name FROM queen.queues q JOIN queen.log_groups g USING (queue_id)")
        # a drop took the group along, and maybe nobody has popped since
        for queue, group in sorted({*groups, *((name, "auto") for name in FOLLOWED)}):
            drain_group(cursor, queue, group)
        # nothing that is left is known to a running statement any more
        cursor.execute("CALL queen.maintain()")
    conn.close()


def fire_all():
    """The rule ends, and what is still a timer enters its queue; by hand where no worker does it."""
    sql("SELECT queen.unschedule_cron(%s, %s)", *RULE)
    until = time.monotonic() + 60
    while sql("SELECT FROM queen.log_timers"):
        if Cursor.exact:
            sql("SELECT queen.fire_timers()")
        if time.monotonic() > until:
            raise Violation("drained", "timers are not fired")
        time.sleep(0.1)


def work_off():
    """What is left in work queues is done; what has expired is deleted."""
    until = time.monotonic() + 60
    # what clients that were killed have left running has messages in its hands
    while sql("SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"):
        time.sleep(0.01)
    while sql("SELECT FROM queen.messages"):
        for name in QUEUES_OF_WORK:
            (dead,) = sql(DEAD_OF_WORK)
            # a call that moves one to the dead letters may give nothing
            while sql(FINISHED, name) or [dead] != sql(DEAD_OF_WORK):
                (dead,) = sql(DEAD_OF_WORK)
            ((overlooked,),) = sql(READY, name)
            if overlooked:
                raise Violation("drained", f"a dequeue overlooks {overlooked} messages of {name} that were never delivered")
        sql("CALL queen.maintain()")
        if time.monotonic() > until:
            raise Violation("drained", "messages stay in a work queue")
        time.sleep(0.1)


def drain_group(cursor, queue: str, group: str):
    progress = time.monotonic()
    while True:
        cursor.execute(DELIVERED, (0, "auto", queue, group, 1000, 100, True))
        if cursor.rowcount > 0:
            progress = time.monotonic()
            continue
        # nothing now: a lease runs, a nacked head waits, or the call moved a message to the dead letters
        cursor.execute("""
            SELECT count(*) FROM queen.queues q JOIN queen.log_partitions p USING (log_id)
                JOIN queen.log_groups g USING (queue_id) LEFT JOIN queen.log_cursors c USING (partition_id, group_id)
            WHERE q.name = %s AND g.name = %s AND coalesce(c.committed, -1) <
                (SELECT max(end_offset) FROM queen.log_segments s WHERE s.partition_id = p.partition_id)""", (queue, group))
        left = cursor.fetchone()[0]
        if left == 0:
            return
        if time.monotonic() > progress + 60:
            raise Violation("drained", f"group {group} of {queue} gets nothing, and is not at the end of {left} partitions")


def check_log():
    with open(server.LOG, encoding="utf-8", errors="replace") as file:
        for line in file:
            if BAD_LOG.search(line):
                raise Violation("server log", line.strip())


def check_indexes():
    sql("""SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class t ON t.oid = indrelid
        WHERE relnamespace IN ('queen'::regnamespace, 'soak'::regnamespace) AND indisvalid""")


def check_at_rest(settings: Settings) -> dict:
    """Everything from the beginning, with a model that knows nothing yet."""
    checker = Checker(settings)
    checker.run(final=True)
    try:
        check_indexes()
    except psycopg2.Error as error:
        raise Violation("indexes", str(error)) from None
    check_log()
    return checker.figures()


# What a soak must have met, or it has shown nothing: least counts for every second of it.
NEEDED = {"messages": 20, "completed": 20, "commits": 20, "failures": 1, "deleted": 1, "duplicates dropped": 0.2, "holes": 0.05,
          "redelivered": 0.2, "dead": 0.05, "lost leases": 0.05, "seeks": 0.1, "redriven": 0.05, "pauses": 0.2, "drops": 0.1, "purges": 0.1,
          "razed delivered": 1, "razed gone": 1, "mayfly delivered": 1, "aged gone": 0.5, "partitions expired": 0.2, "clients killed": 0.2,
          "timers fired": 5, "ticks": 0.2, "enqueued": 10, "dequeued again": 0.5, "acknowledged": 5, "dead in work queues": 0.05, "looks at views": 3, "collections since the last crash": 0.1}


def check_load(settings: Settings, figures: dict):
    for what, rate in NEEDED.items():
        if figures[what] < rate * settings.seconds:
            raise Violation("load", f"only {figures[what]} {what} in {settings.seconds:.0f} s")
    if settings.hotlist != "off" and not Cursor.exact and 0 in (figures["marks"], figures["candidates"], figures["cleared"], figures["walks"]):
        raise Violation("load", "the hot-list was not used")
    if settings.small_pool and figures["not fitting"] == 0:
        raise Violation("load", "the hot-list was never full")
    if figures["crashes"] < settings.least_crashes:
        raise Violation("load", f"only {figures['crashes']} crashes of the server")


def keep_evidence():
    """What is needed to find out: the server's log, all tables."""
    shutil.copy(server.LOG, os.path.join(EVIDENCE, "server.log"))
    try:
        server.wait_until_up()
        subprocess.run(["pg_dump", "-Fc", "-f", os.path.join(EVIDENCE, "database.dump")], check=False, timeout=120)
    except subprocess.TimeoutExpired:
        pass
    print(f"evidence: {EVIDENCE}: violations, server.log, database.dump, clients/")


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS") or float(os.environ.get("MINUTES") or 5) * 60)
    settings = Settings(
        seed=os.environ.get("SEED") or "1",
        seconds=seconds,
        kill_every=float(os.environ.get("KILL_EVERY") or min(60, seconds / 4)),
        check_every=float(os.environ.get("CHECK_EVERY") or min(10, max(2, seconds / 20))),
        push_pause=float(os.environ.get("PUSH_PAUSE") or 0.02),
        hotlist=os.environ.get("HOTLIST") or "mixed",
        small_pool=bool(os.environ.get("SMALL_POOL")),
        client_logs=os.path.join(EVIDENCE, "clients"),
        stop=Stop())
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    os.makedirs(settings.client_logs)
    again = f"{'SMALL_POOL=1 ' if settings.small_pool else ''}HOTLIST={settings.hotlist} SEED={settings.seed} SECONDS={seconds:g} KILL_EVERY={settings.kill_every:g} make soak"
    print(f"soak: {again}", flush=True)
    set_up()
    begin = time.monotonic()
    try:
        counts = run_load(settings, random.Random(f"{settings.seed}/company"))
        server.wait_until_up()
        last = Checker(settings)
        last.connect()
        last.hotlist_figures()
        drain(settings)
        figures = check_at_rest(settings) | counts | last.hotlist_figures() | dict(zip(("timers fired", "ticks"), sql(FIRED)[0])) | dict(zip(FIGURE_NAMES, sql(FIGURES)[0])) | dict(zip(LOOK_NAMES, sql(LOOKS)[0])) \
            | dict(zip(COLLECTED_NAMES, sql(COLLECTED)[0]))
        check_load(settings, figures)
    except Violation as violation:
        if violation.invariant:
            report(violation)
        with open(os.path.join(EVIDENCE, "violations"), encoding="utf-8") as file:
            for line in file:
                print(f"not ok {line.strip()}")
        print(f"after {time.monotonic() - begin:.0f} s; again with: {again}")
        keep_evidence()
        return 1
    print("soak: " + ", ".join(f"{n} {what}" for what, n in figures.items()) + f", {time.monotonic() - begin:.0f} s")
    for what in (*INVARIANTS.values(), *STRUCTURE, *REST, "queen.verify() finds nothing, whatever runs", "everything is drained", "nothing waits for ever", "the indexes are whole",
                 "the server log tells of no fault", "a backend's memory does not grow", "there was load of every kind"):
        print(f"ok {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
