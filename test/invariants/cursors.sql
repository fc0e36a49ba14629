-- Cursors that have not exactly one live state row, of the era that its changes ask for.
SELECT (SELECT count(*) FROM (SELECT 1 FROM queen.log_cursors GROUP BY partition_id, group_id HAVING count(*) > 1) d) +
	(SELECT count(*) FROM queen.log_consumers i FULL JOIN queen.log_cursors c USING (partition_id, group_id)
		WHERE i.created_at IS NULL OR c.era IS NULL) +
	(SELECT count(*) FROM queen.log_cursors WHERE era <> changes / 16)
