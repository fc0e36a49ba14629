-- Tables of the demo: what must come out, and what its producers and consumers wrote beside their pushes and acks.
CREATE SCHEMA demo;

-- The input, read on its own before anything is pushed.
CREATE UNLOGGED TABLE demo.expected (
	line            bigint      NOT NULL,
	key             text        NOT NULL,
	message         jsonb,
	payload         bytea
);

-- The producers' own rows: each in the transaction that pushes the event.
CREATE TABLE demo.sent (
	line            bigint      NOT NULL,
	partition       text        NOT NULL,
	producer        integer     NOT NULL
);

-- Group "audit": written in the transaction that acknowledges. No unique key: a second effect would show.
CREATE TABLE demo.audit (
	seen            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
	line            bigint      NOT NULL,
	partition       text        NOT NULL,
	msg_offset      bigint      NOT NULL,
	content         uuid        NOT NULL,   -- md5 of what was received
	excerpt         text        NOT NULL,
	enqueued_at     timestamptz NOT NULL,
	consumed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
	consumer        integer     NOT NULL
);

-- Group "counter": written before, and apart from, the acknowledgement, so the key makes the work idempotent. The key
-- is where the message lies, not the line: a message that was pushed twice would show.
CREATE TABLE demo.counter (
	seen            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
	line            bigint      NOT NULL,
	partition       text        NOT NULL,
	msg_offset      bigint      NOT NULL,
	content         uuid        NOT NULL,
	enqueued_at     timestamptz NOT NULL,
	consumed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
	deliveries      integer     NOT NULL DEFAULT 1,
	PRIMARY KEY (partition, msg_offset)
);
