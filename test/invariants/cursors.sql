-- Cursors that have not exactly one live state row, of the era that its changes ask for; but for those that are being deleted.
SELECT (SELECT count(*) FROM (SELECT 1 FROM queen.log_cursors GROUP BY partition_id, group_id HAVING count(*) > 1) d) +
	(SELECT count(*) FROM queen.log_consumers i FULL JOIN queen.log_cursors c USING (partition_id, group_id)
		WHERE (i.created_at IS NULL OR c.era IS NULL) AND NOT EXISTS (SELECT FROM queen.log_dropped d
			WHERE d.partition_id = coalesce(i.partition_id, c.partition_id) OR
				d.log_id = (SELECT log_id FROM queen.log_partitions p WHERE p.partition_id = coalesce(i.partition_id, c.partition_id)))) +
	(SELECT count(*) FROM queen.log_cursors WHERE era <> changes / 16)
