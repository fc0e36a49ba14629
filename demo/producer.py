"""Producers: one process reads the input, a few push it, each with a connection of its own.

A key always goes to the same producer, so its events are pushed in input order. Each transaction pushes a batch of
events and inserts a row of the producer's own table for each of them. Some are rolled back first, whole or to a
savepoint, and done again: what they pushed must never be seen.
"""

import time
import zlib
from itertools import islice

from common import QUEUE, Busy, connect
from source import partition_of

INSERT = """
INSERT INTO demo.sent (line, partition, producer)
SELECT line, partition, %s FROM unnest(%s::bigint[], %s::text[]) AS e(line, partition)
"""

PUSH = """
SELECT count(CASE WHEN payload IS NULL
             THEN queen.push(%s, message::jsonb, partition, jsonb_build_object('line', line))
             ELSE queen.push_bytes(%s, payload, partition, jsonb_build_object('line', line)) END)
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bytea[]) AS e(line, partition, message, payload)
"""


def read_input(source, plan, pipes):
    """Process: deal the events out to the producers, no faster than the plan's rate."""
    batches = [[] for _ in pipes]
    start = time.monotonic()
    for count, event in enumerate(islice(source.events(), plan.total), 1):
        partition = partition_of(event.key, plan.shared)
        number = zlib.crc32(partition.encode()) % len(pipes)
        batches[number].append((event.line, partition, event.message, event.payload))
        if len(batches[number]) == plan.batch:
            if plan.rate:
                time.sleep(max(0, start + count / plan.rate - time.monotonic()))
            pipes[number].send(batches[number])
            batches[number] = []
    for pipe, batch in zip(pipes, batches):
        if batch:
            pipe.send(batch)
        pipe.send(None)


def push_batch(cursor, number, batch):
    """The events and the producer's rows, in the transaction that is open."""
    lines, partitions, messages, payloads = map(list, zip(*batch))
    cursor.execute(INSERT, (number, lines, partitions))
    cursor.execute(PUSH, (QUEUE, QUEUE, lines, partitions, messages, payloads))


def produce(number, pipe, counters):
    """Process: push batches from the pipe until it brings None."""
    busy = Busy(counters)
    connection = connect(f"producer {number}")
    cursor = connection.cursor()
    transaction = 0
    while (batch := pipe.recv()) is not None:
        with busy:
            if transaction % 7 == 0:
                push_batch(cursor, number, batch)
                connection.rollback()
                counters.rollbacks += 1
            if transaction % 7 == 3:
                cursor.execute("SAVEPOINT here")
                push_batch(cursor, number, batch)
                cursor.execute("ROLLBACK TO SAVEPOINT here")
                counters.rollbacks += 1
            push_batch(cursor, number, batch)
            connection.commit()
        counters.events += len(batch)
        counters.commits += 1
        transaction += 1
    connection.close()
