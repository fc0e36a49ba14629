-- Dropping, purging, and cleaning up.

CREATE FUNCTION queen.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_drop_queue';
COMMENT ON FUNCTION queen.drop_queue(text) IS
'Drop a queue with its messages, consumer groups, leases, timers, rules of recurring ones and dead letters, and with what this transaction has pushed to it; whether any of that was there: timers may be without a queue. Gone with the commit; queen.maintain() frees the space in steps. Waits for transactions that have begun to commit pushes to it, a prepared one included, and up to queen.flush_timeout (QN002) for those that have enqueued into it; pushes that commit afterwards make a new queue (or fail, with queen.auto_create off). Until the commit such pushes wait, at most their queen.flush_timeout.';

CREATE FUNCTION queen.purge_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_purge_queue';
COMMENT ON FUNCTION queen.purge_queue(text) IS
'Empty a queue: all its messages go, and what this transaction has pushed to it; leases are lost (QN001), so are receipts, and offsets begin at 0 again. Options, consumer groups, timers and dead letters stay. Whether the queue was there. Waits and makes others wait as queen.drop_queue does.';

CREATE PROCEDURE queen.maintain()
LANGUAGE C AS 'MODULE_PATHNAME', 'queen_maintain';
COMMENT ON PROCEDURE queen.maintain() IS
'Clean up in all queues of all tenants, in bounded steps with a commit after each: messages that the options retention and completed_retention give up (whole segments of up to 1,000 messages), dedup_keys beyond their window, dead letters beyond dead_retention, expired messages of work queues, partitions that have been empty for queen.partition_expiry, and what is left of dropped and purged queues and of groups that were unsubscribed. Nothing that a group has not completed is deleted unless retention or group_expiry says so. Cannot run in a transaction block (2D000). May run beside anything, itself included.';
