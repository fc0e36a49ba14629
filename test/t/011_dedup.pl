# Many sessions bring the same dedup_keys in random orders, new and expired ones, some roll back: no deadlock, and each key
# is pushed once a window.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('dedup', settings => "deadlock_timeout = 100ms\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	SELECT queen.create_queue('q');
	-- hardly a window: each push takes its keys over, and meets the others at them
	SELECT queen.create_queue('busy', options => '{"dedup_window": 0.001}');
	SELECT queen.create_queue('window', options => '{"dedup_window": 0.2}');
	CREATE FUNCTION send(queue text, keys int, pushes int) RETURNS void LANGUAGE sql AS $$
		SELECT count(queen.push(send.queue, to_jsonb(key), partition => 'p' || key % 5, dedup_key => 'k' || key))
		FROM (SELECT floor(random() * keys)::int AS key FROM generate_series(1, pushes)) k $$;
});

my $script = <<'SQL';
\set lost random(1, 5)
BEGIN;
SELECT send('q', 12000, 40);
\if :lost = 1
ROLLBACK;
\else
COMMIT;
\endif
SELECT send('window', 30, 12);
SELECT send('busy', 40, 25);
SQL
$script =~ s/\\if :lost = 1/\\set rolls_back :lost = 1\n\\if :rolls_back/;
finish_load(load($node, '-c 16 -j 2 -T 4', keys => $script), 'no deadlock, no error');

is($sql->(q{SELECT count(*) FROM (SELECT 1 FROM generate_series(0, 4) p, queen.peek('q', 'p' || p, max_messages => 100000) GROUP BY message HAVING count(*) > 1) d}),
	'0', 'each key is there once');
cmp_ok($sql->(q{SELECT count(*) FROM generate_series(0, 4) p, queen.peek('q', 'p' || p, max_messages => 100000)}), '>', 500, 'and many were pushed');
is($sql->(q{
	SELECT count(*) FROM queen.log_txns t JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)
	WHERE q.name = 'q' AND NOT EXISTS (SELECT FROM queen.peek('q', p.name, max_messages => 100000) m WHERE m.message_id = t.message_id)}),
	'0', 'the owner of each key is in the log');
is($sql->('SELECT count(*) FROM (SELECT 1 FROM queen.log_txns GROUP BY partition_id, key_hash HAVING count(*) > 1) d'), '0', 'one row for each key');
# a key is taken when the commit begins, and its segment is stamped a moment later
is($sql->(q{
	SELECT count(*) FROM (SELECT enqueued_at - lag(enqueued_at) OVER (PARTITION BY message ORDER BY msg_offset) AS since
		FROM generate_series(0, 4) p, queen.peek('window', 'p' || p, max_messages => 100000)) s WHERE since < interval '0.1 s'}),
	'0', 'an expired key is taken over by one');
cmp_ok($sql->(q{SELECT max(n) FROM (SELECT count(*) AS n FROM generate_series(0, 4) p, queen.peek('window', 'p' || p, max_messages => 100000) GROUP BY message) c}),
	'>', 2, 'and again after each window');
check_partitions($node);
check_log($node);
$node->stop;
done_testing();
