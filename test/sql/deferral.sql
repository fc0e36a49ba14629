-- delayed_processing and window_buffer: what is pushed is not delivered at once.
\getenv inputdir PG_ABS_SRCDIR
\set topic deferral
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

-- Time passes for what is in the log of a queue: as if its messages had been pushed that much earlier.
CREATE FUNCTION grow_older(of_queue text, amount interval) RETURNS void LANGUAGE sql AS $$
	UPDATE queen.log_segments s SET created_at = s.created_at - amount
	FROM queen.log_partitions p JOIN queen.queues q USING (log_id) WHERE p.partition_id = s.partition_id AND q.name = of_queue
$$;
CREATE FUNCTION push_it(queue text, message jsonb, partition text DEFAULT 'Default') RETURNS bool LANGUAGE sql AS $$
	SELECT queen.push(push_it.queue, message, push_it.partition) IS NOT NULL
$$;
CREATE FUNCTION pop_all(queue text, consumer_group text DEFAULT 'default') RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(message::text, ' ') FROM queen.pop(pop_all.queue, pop_all.consumer_group, auto_ack => true, max_messages => 100)
$$;

-- delayed: a message no sooner than its time, and nothing that is too young in the batch of one that is not
SELECT queen.create_queue('delayed', options => '{"delayed_processing": 60}');
SELECT push_it('delayed', '1');
SELECT pop_all('delayed');
SELECT grow_older('delayed', '30 s');
SELECT push_it('delayed', '2');
SELECT grow_older('delayed', '31 s');
SELECT pop_all('delayed');
SELECT pop_all('delayed');
-- another partition does not wait for it
SELECT push_it('delayed', '3', 'other');
SELECT grow_older('delayed', '30 s');
SELECT pop_all('delayed');
SELECT grow_older('delayed', '30 s');
SELECT pop_all('delayed');
-- the option changes: what waits follows
SELECT push_it('delayed', '4');
SELECT pop_all('delayed');
SELECT queen.configure('delayed', '{"delayed_processing": null}')->>'delayed_processing' AS delayed_processing;
SELECT pop_all('delayed');

-- window: a partition delivers when it was quiet that long, then all of it
SELECT queen.create_queue('window', options => '{"window_buffer": "60 s"}');
SELECT push_it('window', '1');
SELECT pop_all('window');
SELECT grow_older('window', '40 s');
SELECT push_it('window', '2');
SELECT grow_older('window', '40 s');
SELECT pop_all('window');
SELECT grow_older('window', '21 s');
SELECT pop_all('window');
-- a group that met the partition while it was held has missed nothing
SELECT push_it('window', '3');
SELECT pop_all('window', 'late');
SELECT grow_older('window', '61 s');
SELECT pop_all('window', 'late');
SELECT pop_all('window');
-- a retry of what was delivered is not deferred again
SELECT push_it('window', '4');
SELECT grow_older('window', '61 s');
SELECT lease AS lease FROM queen.pop('window') \gset
SELECT queen.nack(:'lease', delay => '0');
SELECT pop_all('window');

-- ranges
SELECT attempts(
	$$ SELECT queen.configure('window', '{"window_buffer": -1}') $$,
	$$ SELECT queen.configure('window', '{"window_buffer": "8 days"}') $$,
	$$ SELECT queen.configure('window', '{"delayed_processing": "soon"}') $$,
	$$ SELECT queen.configure('window', '{"delayed_processing": true}') $$);
SELECT queen.configure('window', '{"delayed_processing": "7 days", "window_buffer": 0.5}');
