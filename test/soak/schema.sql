-- What the soak's transactions say of themselves, in the same transaction: there or not there together with what they did.
CREATE EXTENSION IF NOT EXISTS queen_test;
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE SCHEMA soak;

-- One row for every transaction that says something, written last. at: no later than its flush began.
CREATE TABLE soak.transactions (
	tx       bigint      NOT NULL PRIMARY KEY,    -- session number << 32 | counter
	actor    text        NOT NULL,
	at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A row for every message pushed, in the savepoint of its push.
CREATE TABLE soak.sent (
	tx         bigint  NOT NULL,
	seq        integer NOT NULL,                  -- order of the calls
	queue      text    NOT NULL,
	part       text    NOT NULL,
	message_id uuid    NOT NULL,                  -- what the push answered
	key        text,                              -- its dedup_key
	at         timestamptz NOT NULL DEFAULT clock_timestamp(),   -- when it was pushed, or a moment later
	PRIMARY KEY (tx, seq)
);

-- What happened to a cursor. id is drawn after the call, under the lock of the cursor's row, which is kept to the end: so
-- ids order the events of one cursor as they happened, and any snapshot sees a beginning of them.
CREATE SEQUENCE soak.event_ids;
CREATE TABLE soak.events (
	id         bigint NOT NULL PRIMARY KEY DEFAULT nextval('soak.event_ids'),
	tx         bigint NOT NULL,
	kind       text   NOT NULL,                   -- take, auto: a message each; ack, nack, release, extend: a lease
	queue      text   NOT NULL,
	grp        text   NOT NULL,
	part       text   NOT NULL,
	lease      uuid,
	off        bigint,                            -- of the message; ack: up_to; nack: the message that failed
	sent_tx    bigint,                            -- what the message says it is
	sent_seq   integer,
	message_id uuid,
	pushed_at  timestamptz,
	attempt    integer,
	until      timestamptz,                       -- the lease's end
	answer     text,
	began      timestamptz NOT NULL DEFAULT statement_timestamp(),  -- before the call …
	at         timestamptz NOT NULL DEFAULT clock_timestamp()       -- … and behind it
);
CREATE INDEX ON soak.events (sent_tx, sent_seq, queue);
CREATE INDEX ON soak.events (part, off) WHERE queue = 'brief' AND kind = 'auto';

-- A queue (grp is null) or a group was paused from a moment after the pause's commit (a transaction of its own) to one before
-- the resume, which is committed together with its row.
CREATE TABLE soak.pauses (
	queue      text        NOT NULL,
	grp        text,
	paused     boolean     NOT NULL,
	at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Drops and purges: a row before the call.
CREATE TABLE soak.drops (
	tx         bigint      NOT NULL PRIMARY KEY,
	queue      text        NOT NULL,
	kind       text        NOT NULL,
	began      timestamptz NOT NULL DEFAULT clock_timestamp(),
	known      timestamptz                                          -- when the client had learned of the commit
);

-- What happened to a timer's key. id is drawn behind the call, under the lock of its row, which is kept to the end.
CREATE TABLE soak.timers (
	id         bigint NOT NULL PRIMARY KEY DEFAULT nextval('soak.event_ids'),
	tx         bigint NOT NULL,
	key        text   NOT NULL,
	verdict    text   NOT NULL,                   -- what schedule or cancel answered
	message_id uuid
);

-- A row for every message put into a work queue, in the savepoint of its call.
CREATE TABLE soak.put (
	tx         bigint NOT NULL,
	queue      text   NOT NULL,
	message_id uuid   NOT NULL PRIMARY KEY
);

-- What happened to one. id is drawn behind the call, under the lock of its row, which is kept to the end.
CREATE TABLE soak.work (
	id         bigint NOT NULL PRIMARY KEY DEFAULT nextval('soak.event_ids'),
	tx         bigint NOT NULL,
	kind       text   NOT NULL,                   -- take, acknowledge, reject, hide; too late: the answer was that nothing happened
	queue      text   NOT NULL,
	message_id uuid   NOT NULL,
	receipt    uuid   NOT NULL,
	attempt    integer,
	until      timestamptz,                       -- the end of its visibility
	expires_at timestamptz,
	answer     boolean
);
CREATE INDEX ON soak.work (message_id);

-- Copies of dead letters, made by each transaction that is about to delete some of them …
CREATE TABLE soak.letters (
	tx         bigint  NOT NULL,
	dead_id    bigint  NOT NULL,
	queue      text    NOT NULL COLLATE "C",
	part       text    NOT NULL COLLATE "C",
	grp        text    NOT NULL COLLATE "C",
	off        bigint  NOT NULL,
	attempts   integer NOT NULL
);
-- … and how many it says it has.
CREATE TABLE soak.redrives (
	tx         bigint  NOT NULL PRIMARY KEY,
	answer     bigint  NOT NULL
);

-- How long reading a view of the state took, in microseconds.
CREATE TABLE soak.looks (
	view       text    NOT NULL,
	us         bigint  NOT NULL
);
