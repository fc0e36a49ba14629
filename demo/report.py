"""What the demo prints: the introduction, the progress line, a sample and the summary."""

import os
import sys
import time

from common import CONSUMERS, PRODUCERS, QUEUE

CLEAR = "\r\033[K" if sys.stdout.isatty() else ""

LATENCY = """
SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM consumed_at - enqueued_at) * 1000)
FROM demo.{group}
"""

STORED = """
SELECT count(*), coalesce(sum(octet_length(s.blob)), 0), pg_table_size('queen.log_segments'),
       pg_indexes_size('queen.log_segments')
FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)
WHERE q.name = %s
"""

# what the background processes of this database have done meanwhile
WORKERS = """
SELECT worker, task, runs FROM queen.pg_stat_queen_workers WHERE database = current_database() AND runs > 0 ORDER BY runs DESC, worker, task LIMIT 4
"""

# a partition with about ten events, which are easily read, and which several consumers had in turn
SAMPLE = """
SELECT seen, msg_offset, excerpt, partition, consumer, count(*) OVER ()
FROM demo.audit
WHERE partition = (SELECT partition FROM demo.audit GROUP BY partition
                   ORDER BY greatest(abs(count(*) - 10), 2), count(DISTINCT consumer) DESC, partition LIMIT 1)
ORDER BY seen LIMIT 12
"""


def say(text):
    print(f"{CLEAR}  {text}", flush=True)


def bytes_text(number):
    for unit in ("B", "kB", "MB"):
        if number < 10000:
            break
        number /= 1000
    else:
        unit = "GB"
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"


def count(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def row(label, *texts):
    """A labelled paragraph."""
    for text in texts:
        print(f"{label:<12}{text}")
        label = ""


def introduce(source, plan):
    print()
    row("Input", f"{', '.join(source.files)} ({source.kind})",
        f"{count(plan.total, 'event')} with {count(plan.keys, 'key')} (key: {source.key_name})")
    if plan.shared:
        row("", f"more keys than this version should have partitions: they share {plan.partitions:,}")
    if plan.no_key and plan.keys > 1:
        row("", f"{count(plan.no_key, 'event')} without such a key: in one partition together")
    row("Pace", f"{plan.rate:,.0f} events/s, like live events; RATE=0 for no limit" if plan.rate else "no limit")
    print()
    row("Queue", f'"{QUEUE}": a partition for each key, in which order is kept')
    row("Producers", f"{PRODUCERS} connections; a transaction pushes up to {plan.batch} events and inserts a row for each",
        "some are rolled back and done again: nothing of what was rolled back may be seen")
    row("audit", f"{CONSUMERS} consumers; what they write and their ack are one transaction",
        "some are rolled back and done again: each event has its effect once")
    row("counter", f"{CONSUMERS} consumers; pop, work and ack are transactions of their own, under a lease",
        f"some messages fail and come again, {len(plan.poison)} of them always; one consumer is killed")
    print(flush=True)


class Progress:
    """A line that is rewritten on a terminal, and one every two seconds elsewhere."""

    def __init__(self, run):
        self.run = run
        self.interval = 0.2 if CLEAR else 2
        self.next = 0

    def show(self, last=False):
        if time.monotonic() < self.next and not last:
            return
        self.next = time.monotonic() + self.interval
        run = self.run
        width = len(f"{run.plan.total:,}")
        pushed, audit, counter = (run.sum(who, "events") for who in run.counters)
        line = (f"  {run.seconds():5.1f} s  pushed {pushed:{width},}"
                f"  audit {audit:{width},} (lag {max(0, pushed - audit):{width},})"
                f"  counter {counter:{width},} (lag {max(0, pushed - counter):{width},})"
                f"  redelivered {run.sum('counter', 'redelivered'):,}")
        if CLEAR:
            line = line[:os.get_terminal_size().columns - 1]  # a wrapped line could not be rewritten
        print(f"{CLEAR}{line}", end="" if CLEAR and not last else "\n", flush=True)


def wal_bytes_since(cursor, start):
    cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", (start,))
    return int(cursor.fetchone()[0])


def sample(cursor):
    """The events of one partition in the order in which the consumers of "audit" got them."""
    cursor.execute(SAMPLE)
    rows = cursor.fetchall()
    if not rows:
        return
    print(f'\nPartition "{rows[0][3]}" as the consumers of "audit" saw it, {len(rows)} of {count(rows[0][5], "event")}')
    for _, offset, excerpt, _, consumer, _ in rows:
        print(f"  offset {offset:4}  audit-{consumer}  {excerpt}")


def summary(cursor, run, wal_bytes):
    plan, total = run.plan, run.sum

    def rate(who):
        """On the wall clock, and of one connection while it was busy."""
        events, busy = total(who, "events"), total(who, "busy_us") / 1e6
        text = f"{events / run.ended[who]:,.0f} events/s" if who in run.ended else "not finished"
        return text + (f"; {events / busy:,.0f}/s per connection while busy" if busy else "")

    def latency(group):
        cursor.execute(LATENCY.format(group=group))
        values = cursor.fetchone()[0]
        return f"p50 {values[0]:,.0f} ms, p99 {values[1]:,.0f} ms" if values else "none"

    cursor.execute(STORED, (QUEUE,))
    segments, stored, table, index = cursor.fetchone()
    print("\nSummary")
    row("events", f"{plan.total:,} in {count(plan.partitions, 'partition')}; not consumed: "
        f"audit {plan.total - total('audit', 'events'):,}, counter {plan.total - total('counter', 'events'):,}")
    row("push", f"{rate('producer')} (with the producer's own rows)",
        f"{total('producer', 'commits'):,} transactions committed, {total('producer', 'rollbacks'):,} rolled back")
    row("audit", f"{rate('audit')} (pop, its own rows, ack)",
        f"{total('audit', 'commits'):,} transactions committed, {total('audit', 'rollbacks'):,} rolled back",
        f"from commit to consumption {latency('audit')}")
    row("counter", f"{rate('counter')} (pop, its own rows, ack)",
        f"{count(total('counter', 'nacked'), 'nack')}, {count(total('counter', 'dead'), 'dead letter')}; redelivered: "
        f"{count(total('counter', 'redelivered'), 'message')}, {len(run.killed.lines) if run.killed else 0:,} of them "
        "from the killed consumer",
        f"from commit to consumption {latency('counter')}, retries included")
    waits, woken = (total("audit", what) + total("counter", what) for what in ("waits", "woken"))
    row("waiting", f"{count(waits, 'call')} of queen.wait, {woken:,} ended by work, {waits - woken:,} by the time (1 s); nobody polls")
    cursor.execute(WORKERS)
    row("workers", ", ".join(f"{worker} {task} {runs:,}" for worker, task, runs in cursor.fetchall()) + " runs")
    if total("audit", "lost") + total("counter", "lost"):
        row("leases lost", f"audit {total('audit', 'lost'):,}, counter {total('counter', 'lost'):,}: a busy machine")
    row("sizes", f"input {bytes_text(plan.bytes)}; log {bytes_text(stored)} in {count(segments, 'segment')} "
        f"({stored / plan.bytes:.2f} times the input{'; small commits compress badly' if stored > plan.bytes else ''})",
        f"on disk {bytes_text(table)} and {bytes_text(index)} of index")
    row("WAL", f"{wal_bytes / plan.total:,.0f} bytes an event: the push, both groups, and the demo's own tables")
