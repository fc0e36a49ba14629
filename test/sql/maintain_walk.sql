-- queen.maintain() walks all partitions of all queues, whichever was born first.
\getenv inputdir PG_ABS_SRCDIR
\set topic maintain_walk
\set helpers :inputdir /sql/helpers.inc
\ir :helpers

SELECT queen.create_queue('walk_b');
SELECT queen.create_queue('walk_a', options => '{"completed_retention": 0}');
SELECT count(queen.push(q, '1', partition => p)) FROM (VALUES ('walk_a', 'p1'), ('walk_b', 'p1'), ('walk_a', 'p2'), ('walk_b', 'p2')) v (q, p);
-- those of a were born before the last one of b
SELECT count(*) FROM queen.pop('walk_a', max_messages => 10, max_partitions => 10, auto_ack => true);
SELECT pg_sleep(0.01);
CALL queen.maintain();
SELECT p.name, s.log_start, (SELECT count(*) FROM queen.log_segments l WHERE l.partition_id = p.partition_id) AS segments
FROM queen.queues q JOIN queen.log_partitions p USING (log_id) LEFT JOIN queen.log_starts s USING (partition_id)
WHERE q.name = 'walk_a' ORDER BY 1;
