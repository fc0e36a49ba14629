-- Names that are there twice, and segments of no partition.
SELECT (SELECT count(*) FROM (SELECT 1 FROM queen.queues GROUP BY tenant, name HAVING count(*) > 1) d) +
	(SELECT count(*) FROM (SELECT 1 FROM queen.log_partitions GROUP BY log_id, name HAVING count(*) > 1) d) +
	(SELECT count(*) FROM (SELECT 1 FROM queen.log_groups GROUP BY queue_id, name HAVING count(*) > 1) d) +
	(SELECT count(*) FROM queen.log_segments s WHERE NOT EXISTS (SELECT FROM queen.log_partitions p WHERE p.partition_id = s.partition_id))
