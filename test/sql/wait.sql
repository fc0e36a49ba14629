-- queen.wait, and the wait of a pop: where they may run, what they answer. Who is woken by what, and when, is in 042_wait.
\getenv inputdir PG_ABS_SRCDIR
\set topic wait
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- Nowhere where its commits would not be its own.
BEGIN;
CALL queen.wait('wait', timeout => '0');
ROLLBACK;
SELECT attempts($$CALL queen.wait('wait', timeout => '0')$$, $$CALL queen.maintain()$$);
DO $$ DECLARE r boolean; BEGIN BEGIN CALL queen.wait('wait', timeout => '0', ready => r); EXCEPTION WHEN invalid_transaction_termination THEN RAISE NOTICE '%', SQLERRM; END; END $$;
SELECT 1 \; CALL queen.wait('wait', timeout => '0');
-- A procedure that holds nothing may call it.
CREATE PROCEDURE waits(INOUT ready boolean) LANGUAGE plpgsql AS $$ BEGIN CALL queen.wait('wait', timeout => '0', ready => ready); END $$;
CALL waits(NULL);
SET default_transaction_read_only = on;
CALL queen.wait('wait', timeout => '0');
RESET default_transaction_read_only;
SET default_transaction_isolation = 'repeatable read';
CALL queen.wait('wait', timeout => '0');
RESET default_transaction_isolation;

-- Arguments.
CALL queen.wait(NULL);
CALL queen.wait('wait', NULL);
CALL queen.wait('wait', timeout => NULL);
CALL queen.wait('wait', timeout => '-1 us');
CALL queen.wait('wait', timeout => '1 day 1 us');
CALL queen.wait('wait', timeout => '1 month');
CALL queen.wait('');
CALL queen.wait('wait', E'a\nb');
CALL queen.wait('wait', partition => '');

-- A queue that is not there is not made; a group is.
CALL queen.wait('wait', timeout => '0');
CALL queen.wait('wait', timeout => '10 ms');
SELECT count(*) FROM queen.list_queues() WHERE queue = 'wait';
SELECT queen.create_queue('wait');
CALL queen.wait('wait', timeout => '0');
SELECT consumer_group FROM queen.list_groups('wait');
CALL queen.wait('wait', 'g', timeout => '10 ms');
CALL queen.wait('wait', 'g', timeout => '10 ms', partition => 'p');

-- Work, in any partition or in one; what was taken is none.
SELECT count(queen.push('wait', to_jsonb(i), 'p')) FROM generate_series(0, 9) i;
CALL queen.wait('wait', 'g');
CALL queen.wait('wait', 'g', partition => 'p');
CALL queen.wait('wait', 'g', '10 ms', 'other');
SELECT msg_offset FROM take('wait', 'g', 4);
CALL queen.wait('wait', 'g', '10 ms');
CALL queen.wait('wait', 'g', '10 ms', 'p');
CALL queen.wait('wait', 'default');
SELECT queen.ack(lease());
CALL queen.wait('wait', 'g');
CALL queen.wait('wait', 'g', partition => 'p');

-- Paused, by a queue or by a group: no work.
SELECT queen.pause('wait', 'g');
CALL queen.wait('wait', 'g', '10 ms');
CALL queen.wait('wait', 'g', '10 ms', 'p');
CALL queen.wait('wait', 'default');
SELECT queen.resume('wait', 'g'), queen.pause('wait');
CALL queen.wait('wait', 'default', '10 ms');
SELECT queen.resume('wait');
CALL queen.wait('wait', 'g');

-- What defers defers here: the time is waited for.
SELECT count(*) FROM queen.pop('wait', 'g', max_messages => 100, auto_ack => true);
SELECT queen.configure('wait', '{"delayed_processing": 0.2}') ->> 'delayed_processing' AS delay;
SELECT count(queen.push('wait', '"late"', 'p'));
CALL queen.wait('wait', 'g', '10 ms', 'p');
CALL queen.wait('wait', 'g', '10 s', 'p');
SELECT message FROM queen.pop('wait', 'g', auto_ack => true);
SELECT queen.configure('wait', '{"delayed_processing": null}') ->> 'delayed_processing' AS delay;

-- A pop that waits.
SELECT count(*) FROM queen.pop('no such queue', wait => '10 ms');
SELECT count(*) FROM queen.pop('wait', 'g', wait => '10 ms');
SELECT count(*) FROM queen.pop('wait', 'g', partition => 'p', wait => '10 ms');
SELECT count(queen.push('wait', '"pop"', 'p'));
SELECT message FROM take('wait', 'g');
SELECT queen.nack(lease(), delay => '200 ms');
SELECT message, attempt FROM queen.pop('wait', 'g', wait => '10 s', auto_ack => true);
-- In a transaction that has made queue and group itself.
BEGIN;
SELECT queen.create_queue('wait own');
SELECT count(*) FROM queen.pop('wait own', 'g', wait => '10 ms');
COMMIT;

-- The channel of a queue, whether it is there or not, and the option.
SELECT queen.notify_channel('wait') ~ '^queen_[0-9a-f]{16}$' AS is_plain, queen.notify_channel('wait') = queen.notify_channel('wait') AS stays,
	queen.notify_channel('wait') <> queen.notify_channel('Wait') AS differs;
SET queen.tenant = '123e4567-e89b-12d3-a456-426614174000';
SELECT queen.notify_channel('wait') AS other \gset
RESET queen.tenant;
SELECT queen.notify_channel('wait') <> :'other' AS other_tenants;
SELECT queen.configure('wait', '{"notify": true}') -> 'notify' AS notify;
SELECT queen.configure('wait', '{"notify": null}') -> 'notify' AS notify;
SELECT attempts($$SELECT queen.configure('wait', '{"notify": "on"}')$$, $$SELECT queen.configure('wait', '{"notify": 1}')$$);
