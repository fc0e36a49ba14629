-- Waiting for messages.

CREATE PROCEDURE queen.wait(queue text, consumer_group text DEFAULT 'default', timeout interval DEFAULT '30s',
	partition text DEFAULT NULL, INOUT ready boolean DEFAULT NULL)
LANGUAGE C AS 'MODULE_PATHNAME', 'queen_wait';
COMMENT ON PROCEDURE queen.wait(text, text, interval, text, boolean) IS
'Sleep until a pop of the group may find something, in any partition or in the one named, and answer ready: true, or false when timeout is over (0 to 1 day; 0 looks once). Others may be quicker: pop, and wait again when that gives nothing. Commits before it sleeps, so that it holds no snapshot, no transaction id and no lock meanwhile, and holds up no vacuum; the session is taken, so poolers need one connection for each that waits. Refused in a transaction block, a function, or a pipeline behind other statements (2D000), in a read-only transaction or on a standby (25006), outside READ COMMITTED (25000). An unknown group of a known queue is subscribed as by queen.pop(); an unknown queue or partition is waited for. Pushes, leases that end, nacks, delays, seeks and resumes wake it, as many waiters as there are partitions with work. Without the library in shared_preload_libraries nobody is woken: it looks every 100 ms, and ever more rarely up to queen.wait_poll_interval.';

CREATE FUNCTION queen.notify_channel(queue text)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'queen_notify_channel';
COMMENT ON FUNCTION queen.notify_channel(text) IS
'The channel on which a queue with the option notify tells those who LISTEN that there may be work: queen_ and 16 hexadecimal digits, so it needs no quotes. The same for the tenant and name in all databases and servers of one version of PostgreSQL, whether or not the queue is there. A background process notifies, soon after the commits and once for many of them; never the push itself, which would make commits wait for each other. Needs the library in shared_preload_libraries. For who waits through a pooler: one connection listens for many consumers.';
