-- Composite types that functions return. Their column order is part of the interface.

CREATE TYPE queen.message AS (
	queue           text,
	partition       text,
	msg_offset      bigint,
	message_id      uuid,
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	enqueued_at     timestamptz,
	attempt         integer,
	consumer_group  text,
	lease           uuid,
	lease_until     timestamptz
);
COMMENT ON TYPE queen.message IS
'A message of a log queue. message is null when it was pushed as bytes, payload is null when it was pushed as jsonb; msg_offset orders the messages of a partition; attempt counts its deliveries to the group, this one included; lease is what queen.ack, queen.nack, queen.extend and queen.release take, and is null with auto_ack and in queen.peek.';

CREATE TYPE queen.delivery AS (
	queue           text,
	message_id      uuid,
	receipt         uuid,
	message         jsonb,
	payload         bytea,
	headers         jsonb,
	priority        text,
	attempt         integer,
	enqueued_at     timestamptz,
	expires_at      timestamptz,
	visible_until   timestamptz
);
COMMENT ON TYPE queen.delivery IS
'A message of a work queue. receipt, with message_id, is what queen.acknowledge, queen.change_visibility and queen.reject take, until visible_until; message is null and payload is not when it was given as bytes (queen.push_bytes, before it became a dead letter); attempt counts its deliveries, this one included.';
