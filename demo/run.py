"""make demo: a real event file through a queue, in sight. README.md says what happens and what INPUT, KEY and RATE do.

This process starts the producers and consumers, prints the progress, kills one consumer, and at the
end checks and sums up what happened.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from typing import NamedTuple

import psycopg2

import report
from checks import Checks
from common import CONSUMERS, PRODUCERS, Counters, connect
from consumer import LEASE_TIME, Audit, Counter
from plan import prepare
from producer import produce, read_input
from source import InputError, open_source

PR_SET_PDEATHSIG = 1  # of prctl(2)
GIVE_UP_AFTER = 30  # seconds without any progress


class Killed(NamedTuple):
    leases: int
    lines: list
    at: float


class Victim:
    """Between the parent and the consumer that it kills."""

    def __init__(self):
        self.wanted = multiprocessing.Event()
        self.reported, self.report = multiprocessing.Pipe(duplex=False)


def work(target, *args):
    """Process: target, which ends with the parent, however that ends; Ctrl-C is for the parent alone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    target(*args)


class Run:
    """The processes of a run and what is known of them."""

    def __init__(self, source, plan):
        self.plan = plan
        self.stop = multiprocessing.Event()
        self.victim = Victim()
        self.killed = None
        self.started = time.monotonic()
        self.ended = {}  # when producers and groups ended, in seconds from the start
        self.counters = {"producer": multiprocessing.RawArray(Counters, PRODUCERS),
                         "audit": multiprocessing.RawArray(Counters, CONSUMERS),
                         "counter": multiprocessing.RawArray(Counters, CONSUMERS)}
        pipes = [multiprocessing.Pipe(duplex=False) for _ in range(PRODUCERS)]
        self.producers = [self.process(read_input, source, plan, [send for _, send in pipes])]
        self.producers += [self.process(produce, n, pipes[n][0], self.counters["producer"][n])
                           for n in range(PRODUCERS)]
        self.audit = [self.process(Audit(source.excerpt, n, plan, self.counters["audit"][n], self.stop).run)
                      for n in range(CONSUMERS)]
        self.counter = [self.process(Counter(self.victim if n == 0 else None, n, plan, self.counters["counter"][n],
                                             self.stop).run) for n in range(CONSUMERS)]
        self.all = self.audit + self.counter + self.producers
        for process in self.all:
            process.start()

    @staticmethod
    def process(target, *args):
        return multiprocessing.Process(target=work, args=(target, *args), daemon=True)

    def sum(self, who, what):
        return sum(getattr(c, what) for c in self.counters[who])

    def seconds(self):
        return time.monotonic() - self.started

    def kill_one(self):
        """SIGKILL for a consumer in mid-work, as soon as a third of the input is through."""
        if self.killed or self.sum("counter", "events") < self.plan.total // 3:
            return
        self.victim.wanted.set()
        if self.victim.reported.poll():
            leases, lines = self.victim.reported.recv()
            process = self.counter[0]
            process.kill()
            process.join()
            self.killed = Killed(leases, lines, self.seconds())
            report.say(f"killed consumer counter-0 (SIGKILL) in mid-work, holding {report.count(leases, 'lease')}: "
                       f"{report.count(len(lines), 'message')} not acknowledged, to come again in "
                       f"{LEASE_TIME['counter']}")

    def failed_process(self):
        return any(p.exitcode not in (None, 0) and not (self.killed and p is self.counter[0]) for p in self.all)

    def watch(self):
        """Until all is consumed; answers whether that was reached."""
        progress = report.Progress(self)
        last, last_change = None, time.monotonic()
        while True:
            time.sleep(0.05)
            now = [self.sum(who, "events") for who in self.counters]
            if now != last:
                last, last_change = now, time.monotonic()
            self.kill_one()
            progress.show()
            if "producer" not in self.ended and all(p.exitcode == 0 for p in self.producers):
                self.ended["producer"] = self.seconds()
            for group in ("audit", "counter"):
                if group not in self.ended and self.sum(group, "events") >= self.plan.total:
                    self.ended[group] = self.seconds()
            if len(self.ended) == 3:
                progress.show(last=True)
                return True
            if self.failed_process():
                report.say("a worker failed, see above")
                return False
            if time.monotonic() - last_change > GIVE_UP_AFTER:
                report.say(f"no progress in {GIVE_UP_AFTER} s")
                return False

    def end(self):
        self.stop.set()
        for process in self.all:
            process.join(5)
            if process.is_alive():
                process.terminate()
                process.join()


def main():
    # with a handler, daemon processes are ended with their parent
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    source = open_source(os.environ.get("INPUT"), os.environ.get("KEY"))
    plan = prepare(source)
    report.introduce(source, plan)

    connection = connect("main")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SELECT pg_current_wal_insert_lsn()")
    wal_start = cursor.fetchone()[0]
    connection.close()

    run = Run(source, plan)
    finished = run.watch()
    run.end()

    connection = connect("main")
    connection.autocommit = True
    cursor = connection.cursor()
    wal_bytes = report.wal_bytes_since(cursor, wal_start)
    cursor.execute("ANALYZE demo.sent, demo.audit, demo.counter")
    report.sample(cursor)
    print("\nChecks")
    good = Checks(cursor, plan).run(finished, run.killed)
    report.summary(cursor, run, wal_bytes)
    connection.close()
    print("\nAll checks passed." if good else "\nFAIL: at least one check failed, see above.")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    except psycopg2.Error as error:
        sys.exit(f"demo: the server says: {error}")
