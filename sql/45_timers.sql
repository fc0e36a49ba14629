-- Timers: messages that are not in the log yet.

CREATE FUNCTION queen.schedule(queue text, timer_key text, message jsonb, deliver_at timestamptz DEFAULT NULL,
	delay interval DEFAULT NULL, partition text DEFAULT 'Default', priority text DEFAULT NULL, ttl interval DEFAULT NULL,
	headers jsonb DEFAULT NULL, mode text DEFAULT 'replace', OUT verdict text, OUT message_id uuid)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_schedule';
COMMENT ON FUNCTION queen.schedule(text, text, jsonb, timestamptz, interval, text, text, interval, jsonb, text) IS
'Push a message later: at deliver_at, or when delay has passed; exactly one of them, and a time that has passed is as good as now. Until then it is a timer of the queue under timer_key. verdict: scheduled; rescheduled, when there was a timer with that key and mode is replace, and everything of it is new, its message_id too; kept, when there was one and mode is keep (message_id is that one''s); too_late, when the message of that one is just being pushed, and nothing was changed. The queue need not exist: it is born as by a push when the timer fires. message_id is what the message will have in the queue: queen.find looks for it. The schedule belongs to the transaction. Waits for another user''s transaction that has the same timer. priority (high, medium or low) and ttl (1 s to 30 days, from the fire on) say that the message goes to a work queue, which is born as one; into one that is there already it goes with priority medium where none is given. A queue of the other kind is an error (42809). 22023: a partition beside priority or ttl, both or neither of deliver_at and delay, a time that is not finite, an unknown mode.';

CREATE FUNCTION queen.cancel(queue text, timer_key text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_cancel';
COMMENT ON FUNCTION queen.cancel(text, text) IS
'Take a timer back. cancelled: its message will never be pushed, once this transaction commits. absent: no timer has that key, because none ever had, it was cancelled, or its message was pushed: absent never means that it was not delivered. too_late: its message is just being pushed. Waits for another user''s transaction that has the same timer.';

CREATE FUNCTION queen.cancel_prefix(queue text, prefix text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_cancel_prefix';
COMMENT ON FUNCTION queen.cancel_prefix(text, text) IS
'Take all timers of the queue back whose keys begin like that, byte by byte (no character is special), and answer how many. Those whose messages are just being pushed are left out.';

CREATE FUNCTION queen.peek_timer(queue text, timer_key text,
	OUT timer_key text, OUT partition text, OUT deliver_at timestamptz, OUT retry_at timestamptz, OUT message_id uuid,
	OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz,
	OUT message jsonb, OUT payload bytea, OUT headers jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'queen_peek_timer';
COMMENT ON FUNCTION queen.peek_timer(text, text) IS
'A timer that is pending, with its message; no row when there is none. retry_at: it could not be pushed (last_error), and is tried again then; attempts: how often that was the message''s own fault, the fifth time makes it a dead letter. Works in a read-only transaction and on a standby.';

CREATE FUNCTION queen.list_timers(queue text, after_key text DEFAULT NULL, max_rows integer DEFAULT 100,
	OUT timer_key text, OUT partition text, OUT deliver_at timestamptz, OUT retry_at timestamptz, OUT message_id uuid,
	OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_timers';
COMMENT ON FUNCTION queen.list_timers(text, text, integer) IS
'The timers of a queue in the order of their keys (by bytes), up to max_rows behind after_key: to page, give the last key seen. Works in a read-only transaction and on a standby. max_rows: 1 to 100000.';

CREATE FUNCTION queen.count_timers(queue text, prefix text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_count_timers';
COMMENT ON FUNCTION queen.count_timers(text, text) IS
'How many timers of the queue are pending (with keys that begin like that): exact, by a scan of an index.';

CREATE FUNCTION queen.next_timer(queue text)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_next_timer';
COMMENT ON FUNCTION queen.next_timer(text) IS
'When the next timer of the queue is due, or the next message of a rule: null when none is pending, a time that has passed when one is overdue.';

CREATE FUNCTION queen.schedule_cron(queue text, timer_key text, cron text, message jsonb, timezone text DEFAULT 'UTC',
	misfire text DEFAULT 'once', partition text DEFAULT 'Default', headers jsonb DEFAULT NULL, OUT verdict text, OUT next_at timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_schedule_cron';
COMMENT ON FUNCTION queen.schedule_cron(text, text, text, jsonb, text, text, text, jsonb) IS
'Push a message again and again, by a rule: five fields (minute, hour, day of month, month, day of week: *, values, ranges, steps, lists, jan to dec, sun to sat), @hourly, @daily, @weekly, @monthly, @yearly, or @every with an interval such as 90s or 1h30m. next_at is when it is due next. Fields are what the clocks of timezone show: what falls into an hour that they skip is due once, right behind it; in an hour that they repeat, it is due the first time; rules of every hour follow elapsed time. @every counts from this call. Each message is pushed once, with a header queen_cron: timer_key, at (when it was due) and next (when the next one is). verdict: scheduled; rescheduled, when the queue had a rule with that key, which this one replaces: if cron and timezone are the same, what is due stays due, and @every keeps its step; too_late, when a message of that one is just being pushed, and nothing was changed: try again. misfire: when the server was down or the fire was off, one message is pushed for all that was missed (once), or none where more than a minute has passed (skip); either way the next one lies in the future. A message that cannot be pushed becomes a dead letter as any timer''s, and the rule goes on. Keys of rules and of timers are apart. The rule belongs to the transaction, and goes with the queue. Waits for another user''s transaction that has the same rule. 22023: a rule that cannot be read or never matches, an unknown time zone or misfire.';

CREATE FUNCTION queen.unschedule_cron(queue text, timer_key text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_unschedule_cron';
COMMENT ON FUNCTION queen.unschedule_cron(text, text) IS
'End a rule of queen.schedule_cron. cancelled: nothing more will be pushed by it, once this transaction commits. absent: the queue has no rule with that key. too_late: a message of it is just being pushed, and nothing was changed: the rule goes on, try again. Waits for another user''s transaction that has the same rule.';

CREATE FUNCTION queen.list_crons(queue text, after_key text DEFAULT NULL, max_rows integer DEFAULT 100,
	OUT timer_key text, OUT cron text, OUT timezone text, OUT misfire text, OUT partition text, OUT next_at timestamptz, OUT last_at timestamptz,
	OUT message_id uuid, OUT retry_at timestamptz, OUT attempts integer, OUT last_error text, OUT created_at timestamptz, OUT updated_at timestamptz,
	OUT message jsonb, OUT headers jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_list_crons';
COMMENT ON FUNCTION queen.list_crons(text, text, integer) IS
'The rules of a queue in the order of their keys (by bytes), up to max_rows behind after_key. next_at: when it is due next; message_id, retry_at, attempts and last_error are of that message, as queen.peek_timer has them of a timer. last_at: when the one that was pushed last was due. Works in a read-only transaction and on a standby. max_rows: 1 to 100000.';

CREATE FUNCTION queen.fire_timers(max_rows integer DEFAULT 1000)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_fire_timers';
COMMENT ON FUNCTION queen.fire_timers(integer) IS
'Push the messages of timers that are due, of all tenants, up to max_rows, and answer how many: by hand, for servers whose workers do not run (queen.status() tells). May run beside them, and beside itself. What fails is put off as they put it off. From the call to the end of its transaction it holds the timers that it has pushed, and whoever wants one of them is told too_late: let it be a transaction of its own. 25000: behind a push of the same transaction.';

CREATE FUNCTION queen.stat_timers(OUT tenant uuid, OUT queue text, OUT fired bigint, OUT failed bigint, OUT dead bigint, OUT dropped bigint,
	OUT late_p50 double precision, OUT late_p99 double precision, OUT late_max double precision, OUT since timestamptz, OUT evicted bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'queen_stat_timers';
COMMENT ON FUNCTION queen.stat_timers() IS
'What pg_stat_queen_timers shows of shared memory, of all tenants of this database: no row when queen is not preloaded.';

CREATE VIEW queen.pg_stat_queen_timers AS
	SELECT coalesce(t.tenant, s.tenant) AS tenant, coalesce(t.queue, s.queue) AS queue, coalesce(t.pending, 0) AS pending,
		coalesce(t.due, 0) AS due, coalesce(t.backing_off, 0) AS backing_off, t.next_due, t.oldest_due,
		s.fired, s.failed, s.dead, s.dropped, s.late_p50, s.late_p99, s.late_max, s.since, s.evicted
	FROM (
		SELECT l.tenant, l.queue, pg_catalog.count(*) AS pending,
			pg_catalog.count(*) FILTER (WHERE l.visible_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()) AS due,
			pg_catalog.count(*) FILTER (WHERE l.retry_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()) AS backing_off,
			pg_catalog.min(l.visible_at) AS next_due,
			pg_catalog.min(l.deliver_at) FILTER (WHERE l.visible_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()) AS oldest_due
		FROM queen.log_timers l GROUP BY l.tenant, l.queue) t
	FULL JOIN queen.stat_timers() s ON s.tenant OPERATOR(pg_catalog.=) t.tenant AND s.queue OPERATOR(pg_catalog.=) t.queue;
COMMENT ON VIEW queen.pg_stat_queen_timers IS
'One row for each queue of any tenant that has timers, or had some that ended since the server started. What is pending is exact: the table is read for it when asked. What became of timers is counted in shared memory, for the 500 queues or so that fired last, and null when queen is not preloaded or a queue has no place.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.pending IS 'Timers that have not been fired or cancelled, those that are due included.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.due IS 'Of these, those whose time has come.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.backing_off IS 'Of these, those that could not be pushed and are tried again later (queen.list_timers: last_error).';
COMMENT ON COLUMN queen.pg_stat_queen_timers.next_due IS 'When the next one is fired; a time that has passed when it is overdue.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.oldest_due IS 'When the oldest was due of those that wait for nothing but the fire; null when none does.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.fired IS 'Timers whose messages were pushed, and committed.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.failed IS 'Attempts that came to nothing: the timer was put off, or became a dead letter.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.dead IS 'Timers that became dead letters.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.dropped IS 'Timers and messages of rules that were overdue by more than queen.overdue_limit, and messages that a rule with misfire skip missed.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_p50 IS 'How long after deliver_at half of those fired were committed at most, in milliseconds; too large by a quarter at most.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_p99 IS 'The same of 99 in 100.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.late_max IS 'The same of all: exact.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.since IS 'When counting began for this queue: with its first timer that ended since the server started, pg_stat_queen_timers was reset, or the queue had given up its place.';
COMMENT ON COLUMN queen.pg_stat_queen_timers.evicted IS 'How many times a queue, of any database, had to give up its place for another.';

CREATE FUNCTION queen.reset_timer_stats()
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_reset_timer_stats';
COMMENT ON FUNCTION queen.reset_timer_stats() IS 'Begin to count anew what pg_stat_queen_timers shows of this database from shared memory.';
