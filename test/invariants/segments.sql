-- Segments that overlap another one of their partition, or step back in time.
SELECT count(*) FROM (
	SELECT base_offset <= lag(end_offset) OVER w OR end_offset < base_offset OR created_at < lag(created_at) OVER w AS bad
	FROM queen.log_segments WINDOW w AS (PARTITION BY partition_id ORDER BY base_offset, end_offset)) s
WHERE bad
