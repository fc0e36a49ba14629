"""The model must accept a clean history and name what is wrong with every other one."""

import sys

sys.dont_write_bytecode = True

import math

from followed import Followed
from model import INVARIANTS, Cursor, Event, Message, Partition, Pauses, Violation

failed = 0


def message(offset: int, session: int = 1, n: int = None, seq: int = 1, **changed) -> Message:
    n = offset if n is None else n
    return Message(**{"offset": offset, "tx": session << 32 | n, "seq": seq, "message_id": f"id{offset}", "created_at": offset,
                      "commit_began": offset, "committed": offset + 0.5} | changed)


def log(*messages) -> Partition:
    partition = Partition("p")
    for m in messages or map(message, (0, 1, 3, 4)):  # 2 is a hole
        partition.add(m)
    return partition


def replay(*events, dead=None, drained=False):
    """Events are (kind, lease, offset, answer, changed fields); times go up by one."""
    cursor = Cursor("g", log(), 2)
    for n, (kind, lease, off, answer, *changed) in enumerate(events):
        fields = {"id": n, "tx": n, "kind": kind, "lease": lease, "off": off, "sent_tx": None, "sent_seq": None, "message_id": None,
                  "attempt": 1, "until": n + 1, "answer": answer, "at": n}
        if kind in ("take", "auto") and off in cursor.partition.index:
            m = message(off)
            fields |= {"sent_tx": m.tx, "sent_seq": m.seq, "message_id": m.message_id}
        cursor.apply(Event(**fields | (changed[0] if changed else {})), dead or {})
    if drained:
        cursor.check_drained(dead or {})
    return cursor


def batch(lease: str, *offsets, **changed) -> list:
    return [("take", lease, off, None, {"tx": 1000 + offsets[0], **changed}) for off in offsets]


def expect(invariant, what: str, act):
    global failed
    try:
        act()
        seen = None
    except Violation as violation:
        seen = violation.invariant
    if seen == invariant:
        print(f"ok model: {what}")
    else:
        failed += 1
        print(f"not ok model: {what}: {seen} instead of {invariant}")


expect(None, "a clean log", lambda: log())
expect("order of calls", "calls of a transaction in another order", lambda: log(message(0, n=1, seq=2), message(1, n=1, seq=1)))
expect("order of calls", "an offset twice", lambda: log(message(0), message(0, n=1)))
expect("order of a session", "transactions of a session in another order", lambda: log(message(0, n=2), message(1, n=1)))
expect("order in real time", "committed before a lower offset's commit began", lambda: log(message(0, commit_began=9), message(1, session=2, committed=8)))
expect("created_at", "time steps back", lambda: log(message(0, created_at=5), message(1, created_at=4)))

all_of_it = [*batch("a", 0, 1, 3), ("ack", "a", None, "3"), ("auto", None, 4, None)]
expect(None, "batch, ack, auto", lambda: replay(*all_of_it, drained=True))
expect(None, "an ack repeated", lambda: replay(*batch("a", 0, 1), ("ack", "a", None, "2"), ("ack", "a", None, "0")))
expect(None, "ack in part, up to a hole; the rest released", lambda: replay(
    *batch("a", 0, 1, 3), ("ack", "a", 2, "2"), ("release", "a", None, "true"), *batch("b", 3, 4)))
expect(None, "nack: what lies behind is not counted", lambda: replay(
    *batch("a", 0, 1, 3), ("nack", "a", 1, "retry"), ("take", "b", 1, None, {"attempt": 2}), ("ack", "b", None, "1"), *batch("c", 3, 4)))
expect(None, "two deliveries, then dead", lambda: replay(
    *batch("a", 0, until=1), ("take", "b", 0, None, {"attempt": 2, "at": 2, "until": 3}), ("auto", None, 1, None, {"at": 4}), dead={0: [2]}))
expect("skipped", "a message passed by", lambda: replay(("auto", None, 0, None), ("auto", None, 3, None)))
expect("skipped", "a message passed by in a batch", lambda: replay(*batch("a", 0, 3)))
expect("skipped", "the last one never delivered", lambda: replay(("auto", None, 0, None), ("auto", None, 1, None), drained=True))
expect("again", "delivered after its ack", lambda: replay(*batch("a", 0, 1), ("ack", "a", None, "2"), *batch("b", 1)))
expect("again", "auto-acked twice", lambda: replay(("auto", None, 0, None), ("auto", None, 0, None)))
expect("again", "twice in a batch", lambda: replay(*batch("a", 0, 1, 1)))
expect("fence", "taken under a running lease", lambda: replay(*batch("a", 0, until=100), *batch("b", 0, attempt=2)))
expect("fence", "acknowledged by a lost lease", lambda: replay(
    *batch("a", 0), ("take", "b", 0, None, {"attempt": 2, "at": 9, "until": 10}), ("ack", "a", None, "1")))
expect("fence", "extended after the ack", lambda: replay(*batch("a", 0), ("ack", "a", None, "1"), ("extend", "a", None, None)))
expect("fence", "nack of what is not under the lease", lambda: replay(*batch("a", 0), ("nack", "a", 1, "retry")))
expect("deliveries", "an attempt not counted", lambda: replay(*batch("a", 0), ("take", "b", 0, None, {"attempt": 1, "at": 9, "until": 10})))
expect("deliveries", "a released delivery counted", lambda: replay(*batch("a", 0), ("release", "a", None, "true"), ("take", "b", 0, None, {"attempt": 2})))
expect("deliveries", "delivered a third time", lambda: replay(
    *batch("a", 0), ("take", "b", 0, None, {"attempt": 2, "at": 9, "until": 10}), ("take", "c", 0, None, {"attempt": 3, "at": 11})))
expect("deliveries", "dead too soon", lambda: replay(*batch("a", 0), ("auto", None, 1, None, {"at": 9}), dead={0: [1]}))
expect("deliveries", "nacked for a retry when deliveries are used up", lambda: replay(
    *batch("a", 0), ("take", "b", 0, None, {"attempt": 2, "at": 9, "until": 10}), ("nack", "b", 0, "retry")))
expect("alone", "delivered again in a batch", lambda: replay(
    *batch("a", 0, 1, 3), ("ack", "a", 0, "1"), *batch("b", 1, 3, at=9, attempt=2)))
expect("alone", "new messages behind one that is delivered again", lambda: replay(
    *batch("a", 0), ("take", "b", 0, None, {"tx": 99, "at": 9, "attempt": 2}), ("take", "b", 1, None, {"tx": 99, "at": 9})))
expect("content", "another message's content", lambda: replay(("auto", None, 0, None, {"sent_seq": 7})))
expect("lost", "delivered, and not in the log", lambda: replay(("auto", None, 2, None)))
expect("answers", "ack answers too little", lambda: replay(*batch("a", 0, 1), ("ack", "a", None, "1")))
expect("answers", "ack answers 0 to the holder", lambda: replay(*batch("a", 0, 1), ("ack", "a", None, "0")))
expect("answers", "release answers false to the holder", lambda: replay(*batch("a", 0), ("release", "a", None, "false")))
expect("answers", "nack says dead, and no dead letter is there", lambda: replay(*batch("a", 0), ("nack", "a", 0, "dead")))
expect("answers", "extend makes a lease shorter", lambda: replay(*batch("a", 0, until=50), ("extend", "a", None, None, {"until": 40})))


expect(None, "put back, and what was counted is forgotten", lambda: replay(
    *batch("a", 0, 1), ("seek", None, -1, None), *batch("b", 0, 1), ("ack", "b", None, "2"), ("seek", None, 0, None, {"at": 9}), *batch("c", 1, 3)))
expect("skipped", "put behind a push that was still running", lambda: replay(("seek", None, 3, None, {"at": 3.2})))
expect("fence", "acknowledged after a seek", lambda: replay(*batch("a", 0), ("seek", None, -1, None), ("ack", "a", None, "1")))
expect(None, "a group that has left", lambda: replay(("auto", None, 0, None), ("leave", None, None, None), drained=True))


def keyed(*messages) -> Partition:
    partition = Partition("p", window=5)
    for m in messages:
        partition.add(m)
    return partition


expect(None, "a key again after its window", lambda: keyed(message(0, key="k"), message(6, key="k")))
expect("dedup", "a key twice in its window", lambda: keyed(message(0, key="k"), message(3, key="k")))
expect(None, "a push dropped for the key's owner", lambda: keyed(message(0, key="k")).check_dropped(9, 1, "k", 4, 4.5))
expect("dedup", "a push dropped although the window was over", lambda: keyed(message(0, key="k")).check_dropped(9, 1, "k", 6, 7))
expect("dedup", "a push dropped for nothing", lambda: keyed(message(0, key="k")).check_dropped(9, 1, "other", 4, 4.5))



def redriven(*messages, gone=None) -> Partition:
    partition = log(message(0), message(1), *messages)
    partition.check_redriven(gone or {})
    return partition


def again(offset: int, old: int, *groups, **changed) -> Message:
    return message(offset, **{"session": 3, "n": 9, "seq": old, "says": (1 << 32 | old, 1), "was": (old, f"id{old}", groups)} | changed)


expect(None, "redriven, one for two groups", lambda: redriven(again(2, 0, "a"), again(3, 1, "a", "b"), gone={
    (0, "a"): [False], (1, "a"): [False], (1, "b"): [False]}))
expect(None, "purged", lambda: redriven(gone={(0, "a"): [True]}))
expect("redrive", "redriven twice", lambda: redriven(again(2, 0, "a"), again(3, 0, "a", n=10), gone={(0, "a"): [False]}))
expect("redrive", "a dead letter that is lost", lambda: redriven(gone={(0, "a"): [False]}))
expect("redrive", "redriven as what it was not", lambda: redriven(again(2, 0, "a", was=(1, "id1", ("a",))), gone={(1, "a"): [False]}))
expect("order of calls", "redriven in another order", lambda: redriven(again(2, 1, "a"), again(3, 0, "a")))


def paused(began: float, at: float):
    pauses = Pauses()
    for change in ((True, 5), (False, 8), (True, 20)):
        pauses.add(*change)
    cursor = Cursor("g", log(), 2)
    cursor.pauses = (Pauses(), pauses)
    cursor.apply(Event(1, 1, "auto", None, 0, 1 << 32, 1, "id0", 1, 0, None, at, began), {})


expect(None, "a pop that a pause overtakes", lambda: paused(4, 6))
expect(None, "a pop that goes on behind the resume", lambda: paused(7, 9))
expect("paused", "a pop in a pause", lambda: paused(6, 7))
expect("paused", "a pop in a pause that lasts", lambda: paused(21, 22))



def followed(*deliveries, left=(), now=math.inf, drops=(), **options) -> Followed:
    """deliveries: (n, its call's begin, its end); left: n. Message n was committed at n + 0.5."""
    queue = Followed("q", **options)
    queue.set_drops(drops)
    for event, (n, began, at) in enumerate(deliveries):
        queue.deliver(event, "p", message(0, n=n, created_at=0, commit_began=n, committed=n + 0.5), began, at)
    queue.check_undelivered([("p", 1 << 32 | n, 1, n, n + 0.5) for n in left], now)
    return queue


expect(None, "each message once, one on its way", lambda: followed((1, 2, 3), (2, 3, 4), left=[3]))
expect("again", "delivered by the old partition and by the new one", lambda: followed((1, 2, 3), (1, 4, 5)))
expect("skipped", "never delivered, and a later one was", lambda: followed((2, 3, 4), left=[1]))
expect("skipped", "never delivered at all", lambda: followed(left=[1], now=9))
expect("order in real time", "delivered in another order", lambda: followed((2, 3, 4), (1, 5, 6)))
expect(None, "gone with a drop, pushed while it ran", lambda: followed((5, 6, 7), left=[1, 2], drops=[(2, 3, 4)], dropped=True))
expect("skipped", "pushed behind a drop and gone", lambda: followed((5, 6, 7), left=[3], drops=[(2, 3, 4)], dropped=True))
expect("skipped", "gone, and a drop came too late for it", lambda: followed((5, 6, 7), left=[3], drops=[(2, 3, 4), (8, 9, 10)], dropped=True))
expect("dropped", "delivered behind the drop that should have taken it", lambda: followed((1, 5, 6), drops=[(2, 3, 4)], dropped=True))
expect(None, "delivered while the drop commits", lambda: followed((1, 3.9, 6), drops=[(2, 3, 4)], dropped=True))
expect(None, "too old when a later one came", lambda: followed((3, 7, 8), left=[1], retention=5))
expect("skipped", "deleted before it was old", lambda: followed((3, 4, 5), left=[1], retention=5))

# "invented" and "outcome" are looked up in tables (checker.py)
tested = {"order of calls", "order of a session", "order in real time", "created_at", "skipped", "again", "fence", "deliveries", "alone",
          "content", "lost", "answers", "dedup", "redrive", "paused", "dropped", "invented", "outcome"}
if tested != set(INVARIANTS):
    failed += 1
    print(f"not ok model: no case for {tested ^ set(INVARIANTS)}")
sys.exit(failed > 0)
