"""Before the run: tables, the queue, one reading of the whole input, and what all processes have to know."""

import io
import os
import re
from pathlib import Path
from typing import NamedTuple

import psycopg2

from common import QUEUE, connect
from source import MOST_PARTITIONS, NO_KEY, SHARED_PARTITIONS, InputError

LIVE_SECONDS = 8  # how long a small input is stretched to
LIVE_MOST = 40000  # events that are few enough for that


class Plan(NamedTuple):
    """What all processes know of the run."""

    total: int
    bytes: int  # of the input's lines
    keys: int
    partitions: int
    shared: bool  # several keys share a partition
    no_key: int  # events without the key
    batch: int  # events of a transaction
    rate: float  # events a second, 0 for no limit
    poison: frozenset  # lines that "counter" fails at always ...
    refused: frozenset  # ... or at their first delivery


def load_expected(connection, source):
    """Read the whole input once into demo.expected; returns (events, their bytes, events without key)."""
    cursor = connection.cursor()
    total = total_bytes = no_key = 0

    def csv(text):
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    def hexed(payload):
        return None if payload is None else "\\x" + payload.hex()

    def store(events):
        rows = "".join(f"{e.line},{csv(e.key)},{csv(e.message)},{csv(hexed(e.payload))}\n" for e in events)
        try:
            cursor.copy_expert("COPY demo.expected FROM STDIN (FORMAT csv)", io.StringIO(rows))
        except (psycopg2.DataError, UnicodeEncodeError) as error:
            diag = getattr(error, "diag", None)
            row = re.search(r"^COPY expected, line (\d+)", diag.context or "", re.M) if diag else None
            where = f"line {events[int(row.group(1)) - 1].line}" if row else f"after line {events[0].line}"
            why = f"{diag.message_primary} ({diag.message_detail})" if diag else error
            raise InputError(f"{source.files[0]}, {where}: PostgreSQL does not take it as a message: {why}") from None

    chunk, size = [], 0
    for event in source.events():
        chunk.append(event)
        total += 1
        total_bytes += event.size
        no_key += event.key == NO_KEY
        size += event.size
        if len(chunk) == 5000 or size > 4 << 20:
            store(chunk)
            chunk, size = [], 0
    store(chunk)
    connection.commit()
    return total, total_bytes, no_key


def read_rate(total):
    text = os.environ.get("RATE", "")
    if not text:
        return total / LIVE_SECONDS if total <= LIVE_MOST else 0
    if not re.fullmatch(r"\d{1,9}", text):
        raise InputError(f"RATE={text} is not a number of events per second (0 for no limit)")
    return int(text)


def prepare(source):
    """Tables, the queue, and the plan."""
    connection = connect("main")
    cursor = connection.cursor()
    cursor.execute((Path(__file__).parent / "schema.sql").read_text())
    cursor.execute("SELECT queen.create_queue(%s, options => %s)", (QUEUE, '{"retry_delay": 0.3, "max_deliveries": 5}'))
    connection.commit()

    total, total_bytes, no_key = load_expected(connection, source)
    if source.has_key and no_key == total:
        raise InputError(f"{source.files[0]}: no line has a value at KEY={source.key_name}")
    cursor.execute("SELECT count(DISTINCT key) FROM demo.expected")
    keys = cursor.fetchone()[0]

    def lines(ranks):
        cursor.execute("SELECT line FROM (SELECT line, row_number() OVER (ORDER BY line) AS rank FROM demo.expected) x "
                       "WHERE rank = ANY(%s)", (ranks,))
        return frozenset(line for line, in cursor)

    shared = keys > MOST_PARTITIONS
    step = max(5, total // 25)
    rate = read_rate(total)
    batch = min(max(total // 60, 10), 500)
    if rate:
        batch = min(batch, max(int(rate / 5), 1))  # several transactions a second
    plan = Plan(total, total_bytes, keys, SHARED_PARTITIONS if shared else keys, shared, no_key, batch, rate,
                poison=lines([max(1, total // 3), max(1, total * 2 // 3)]),
                refused=lines(list(range(step, total, step))))
    cursor.execute("ANALYZE demo.expected")
    connection.commit()
    connection.close()
    return plan
