"""Work queues: those who enqueue, and those who dequeue, acknowledge, reject, hide longer, or forget."""

import time

from client import Actor

PRIORITIES = ("high", "medium", "low")
VISIBILITY = 1.0  # seconds
LIMIT = 4  # deliveries
QUEUES_OF_WORK = {
    "work": {"visibility_timeout": "1 s", "max_delivery_attempts": LIMIT, "retry_delay": "10 ms"},
    # empty most of the time: what is put there lies behind the marks
    "idle": {"visibility_timeout": "1 s", "max_delivery_attempts": LIMIT, "retry_delay": "10 ms"},
    # what nobody takes in time goes
    "fleeting": {"visibility_timeout": "1 s", "max_delivery_attempts": LIMIT, "message_ttl": "1 s", "retry_delay": "10 ms"},
}

# An event of a message is numbered behind the call that has its row, which is held to the end: the numbers are the order of what happened.
TAKEN = """
    WITH call AS MATERIALIZED (SELECT * FROM queen.dequeue(%s, %s))
    INSERT INTO soak.work (tx, kind, queue, message_id, receipt, attempt, until, expires_at)
    SELECT %s, 'take', queue, message_id, receipt, attempt, visible_until, expires_at FROM call RETURNING message_id, receipt, attempt"""
ENDED = """
    WITH call AS MATERIALIZED (SELECT queen.{call} AS answer)
    INSERT INTO soak.work (tx, kind, queue, message_id, receipt, {column})
    SELECT %s, %s, %s, %s, %s, answer FROM call RETURNING {column}"""
# A pair that is not any more the message's right ends nothing.
ENDED_BATCH = """
    INSERT INTO soak.work (tx, kind, queue, message_id, receipt, answer)
    SELECT %s, CASE WHEN answer THEN 'acknowledge' ELSE 'too late' END, %s, message_id, receipt, answer
    FROM ROWS FROM (unnest(%s::uuid[]), unnest(%s::uuid[]), queen.acknowledge_batch(%s::uuid[], %s::uuid[])) call (message_id, receipt, answer)"""

FINISHED = """
    WITH taken AS MATERIALIZED (SELECT * FROM queen.dequeue(%s, 1000)),
    done AS MATERIALIZED (SELECT *, queen.acknowledge(message_id, receipt) AS answer FROM taken),
    written AS (INSERT INTO soak.work (tx, kind, queue, message_id, receipt, attempt, until, expires_at)
        SELECT 0, 'take', queue, message_id, receipt, attempt, visible_until, expires_at FROM taken RETURNING id),
    counted AS MATERIALIZED (SELECT max(id) AS most FROM written)
    INSERT INTO soak.work (tx, kind, queue, message_id, receipt, answer)
    SELECT 0, 'acknowledge', queue, message_id, receipt, answer FROM done, counted WHERE most > 0 RETURNING answer"""
DEAD_OF_WORK = "SELECT count(*) FROM queen.dead_letters WHERE kind = 'work'"
READY = "SELECT count(*) FROM queen.messages JOIN queen.queues USING (log_id) WHERE name = %s AND state = 'READY' AND expires_at > clock_timestamp()"

EVENTS = """
    SELECT *, lag(kind) OVER w AS before, lag(receipt) OVER w AS right_one, lag(until) OVER w AS hidden, max(attempt) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS attempts,
        bool_or(kind = 'acknowledge') OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS was_done
    FROM soak.work WHERE kind IN ('take', 'acknowledge', 'reject', 'hide') WINDOW w AS (PARTITION BY message_id ORDER BY id)"""
# Of each what must be 0, in any snapshot.
ALWAYS = {
    "what is acknowledged is not delivered or acknowledged again": f"SELECT count(*) FROM ({EVENTS}) e WHERE was_done",
    "what somebody has is not delivered": f"SELECT count(*) FROM ({EVENTS}) e WHERE kind = 'take' AND before IN ('take', 'hide', 'reject') AND until - interval '{VISIBILITY} s' < hidden",
    "only the last delivery's receipt ends it": f"SELECT count(*) FROM ({EVENTS}) e WHERE kind <> 'take' AND (before IS NULL OR before = 'reject' OR receipt <> right_one)",
    "deliveries are counted": f"SELECT count(*) FROM ({EVENTS}) e WHERE kind = 'take' AND (attempt > {LIMIT} OR attempt <= attempts)",
    "what has expired is not delivered": f"SELECT count(*) FROM soak.work WHERE kind = 'take' AND until - interval '{VISIBILITY} s' >= expires_at",
    "a message is where it was put": """SELECT count(*) FROM soak.put p WHERE queue <> 'fleeting' AND NOT EXISTS (SELECT FROM queen.messages m WHERE m.message_id = p.message_id)
        AND NOT EXISTS (SELECT FROM queen.dead_letters d WHERE d.message_id = p.message_id)
        AND NOT EXISTS (SELECT FROM soak.work w WHERE w.message_id = p.message_id AND w.kind = 'acknowledge')""",
    "nothing is there that was not put, or is done": """SELECT count(*) FROM queen.messages m WHERE NOT EXISTS (SELECT FROM soak.put p WHERE p.message_id = m.message_id)
        OR EXISTS (SELECT FROM soak.work w WHERE w.message_id = m.message_id AND w.kind = 'acknowledge')""",
    "who is dead was delivered often enough": f"SELECT count(*) FROM queen.dead_letters WHERE kind = 'work' AND attempts < {LIMIT}",
}
AT_REST = {"no message is left in a work queue": "SELECT count(*) FROM queen.messages"}
FIGURES = """SELECT (SELECT count(*) FROM soak.put), (SELECT count(*) FROM soak.work WHERE kind = 'take'), (SELECT count(*) FROM soak.work WHERE kind = 'take' AND attempt > 1),
    (SELECT count(*) FROM soak.work WHERE kind = 'acknowledge'), (SELECT count(*) FROM queen.dead_letters WHERE kind = 'work')"""
FIGURE_NAMES = ("enqueued", "dequeued", "dequeued again", "acknowledged", "dead in work queues")


class Enqueuer(Actor):
    role = "enqueuer"

    def step(self):
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ"), (3, 1))[0]
        end = self.rng.choices(("commit", "rollback", "fail"), (12, 2, 1))[0]
        # a transaction that commits late is below the marks by then
        self.late = self.rng.random() * 0.3 if self.rng.random() < 0.05 else 0
        self.transaction(self.put, isolation, end)
        self.pause(self.settings.push_pause)

    def put(self, tx: int):
        for _ in range(self.rng.randint(1, 3)):
            queue = self.rng.choices(tuple(QUEUES_OF_WORK), (8, 1, 2))[0]
            back = self.rng.random() < 0.15
            if back:
                self.do("SAVEPOINT put")
            if self.rng.random() < 0.2:
                self.do("""INSERT INTO soak.put (tx, queue, message_id) SELECT %s, %s, id
                    FROM queen.enqueue_batch(%s, (SELECT jsonb_agg(n) FROM generate_series(1, %s) n), %s) id""",
                        tx, queue, queue, self.rng.randint(1, 30), self.rng.choice(PRIORITIES))
            else:
                self.do("INSERT INTO soak.put (tx, queue, message_id) VALUES (%s, %s, queen.enqueue(%s, to_jsonb(%s::bigint), %s))",
                        tx, queue, queue, tx, self.rng.choice(PRIORITIES))
            if back:
                self.do("ROLLBACK TO put")
        if self.late:
            time.sleep(self.late)


class Worker(Actor):
    """Takes in one transaction and ends in another, or in the same one; forgets some."""

    role = "worker"

    def step(self):
        self.queue = self.rng.choices(tuple(QUEUES_OF_WORK), (4, 2, 1))[0]
        if self.rng.random() < 0.3:
            end = self.rng.choices(("commit", "rollback", "fail"), (8, 2, 1))[0]
            self.transaction(lambda tx: self.finish(tx, self.take(tx)), end=end)
            return
        got = self.transaction(self.take)
        if not got:
            self.pause(0.01)
            return
        if self.rng.random() < 0.03:
            self.pause(VISIBILITY)  # too late, mostly
        end = self.rng.choices(("commit", "rollback", "fail"), (12, 2, 1))[0]
        isolation = self.rng.choices(("READ COMMITTED", "REPEATABLE READ"), (3, 1))[0]
        self.transaction(lambda tx: self.finish(tx, got), isolation, end)

    def take(self, tx: int) -> list:
        return self.rows(TAKEN, self.queue, self.rng.randint(1, 20), tx)

    def end(self, tx: int, kind: str, message_id, receipt, call: str, *args, column="answer"):
        self.cursor.execute(ENDED.format(call=call, column=column), (*args, tx, kind, self.queue, message_id, receipt))
        (answer,) = self.cursor.fetchone()
        if not answer:
            # it was somebody else's, or nobody's, by then: nothing has happened
            self.do("UPDATE soak.work SET kind = 'too late' WHERE tx = %s AND message_id = %s AND kind = %s", tx, message_id, kind)
        return answer

    def finish(self, tx: int, got: list):
        if got and self.rng.random() < 0.2:
            pairs = [list(of) for of in zip(*got)][:2]
            self.do(ENDED_BATCH, tx, self.queue, *pairs, *pairs)
            return
        for message_id, receipt, _ in sorted(got):
            how = self.rng.random()
            if how < 0.05:
                continue  # forgotten
            if how < 0.15:
                self.end(tx, "reject", message_id, receipt, "reject(%s, %s, 'no')", message_id, receipt)
            elif how < 0.2:
                self.end(tx, "hide", message_id, receipt, "change_visibility(%s, %s, '1.2 s')", message_id, receipt, column="until")
            elif how < 0.23:
                self.do("SAVEPOINT done")
                self.rows("SELECT queen.acknowledge(%s, %s)", message_id, receipt)
                self.do("ROLLBACK TO done")
            else:
                self.end(tx, "acknowledge", message_id, receipt, "acknowledge(%s, %s)", message_id, receipt)
