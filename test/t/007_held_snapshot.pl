# Cursors under a snapshot that is held: what is read stays right, and cheap, also after an ANALYZE.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('held', settings => "autovacuum_naptime = 1s\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE sent (n bigserial, part text);
	CREATE TABLE got (n bigint PRIMARY KEY, part text, off bigint);
	SELECT count(queen.push('q', '0', partition => 'p' || n)) FROM generate_series(1, 3) n;
	SELECT count(*) FROM queen.pop('q', 'g', 10, max_partitions => 10, auto_ack => true);
});
my $holder = background($node);
$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sent');

my $script = <<'SQL';
\set p random(1, 3)
WITH s AS (INSERT INTO sent (part) VALUES ('p' || :p) RETURNING n) SELECT queen.push('q', to_jsonb(n), partition => 'p' || :p) FROM s;
BEGIN;
WITH m AS MATERIALIZED (SELECT * FROM queen.pop('q', 'g', 10)), i AS (INSERT INTO got SELECT message::bigint, partition, msg_offset FROM m), l AS (SELECT DISTINCT lease FROM m) SELECT sum(queen.extend(lease) - now()), sum(queen.ack(lease)) FROM l;
COMMIT;
SQL
finish_load(load($node, '-c 4 -t 400', held => $script), 'push, pop, extend and ack while a snapshot is held');
$sql->('ANALYZE; VACUUM');
finish_load(load($node, '-c 4 -t 200', held => $script), 'and after an ANALYZE');
for (1 .. 100)
{
	last if $sql->("WITH i AS (INSERT INTO got SELECT message::bigint, partition, msg_offset FROM queen.pop('q', 'g', 1000, max_partitions => 9, auto_ack => true) RETURNING 1) SELECT count(*) FROM i") eq '0';
}
is($sql->('SELECT count(*) FROM sent FULL JOIN got USING (n, part) WHERE sent.* IS NULL OR got.* IS NULL'), '0', 'every message exactly once');
cmp_ok($sql->('SELECT min(changes) FROM queen.log_cursors'), '>', 1000, 'the cursors have changed often');

# The whole cost of one pop: the pages it looks at. Thousands of dead versions lie in the table.
my $pages = sub {
	my ($call) = @_;
	my $plan = $sql->("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM $call");
	my ($hit) = $plan =~ /shared hit=(\d+)/;
	my ($read) = $plan =~ /shared hit=\d+ read=(\d+)/;
	return $hit + ($read // 0);
};
cmp_ok($sql->("SELECT pg_relation_size('queen.log_cursors') / 8192"), '>', 40, 'dead versions fill pages');
$sql->(q{SELECT queen.push('q', '-1', partition => 'p1')});
$pages->(q{queen.pop('q', 'g', partition => 'nowhere')}); # caches
my $warm = q{SELECT count(*) FROM queen.pop('q', 'other', auto_ack => true);};
my $cost = $sql->($warm . q{EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM queen.pop('q', 'g', partition => 'p1', auto_ack => true)});
my ($touched) = $cost =~ /shared hit=(\d+)/;
diag("a pop touches $touched pages");
cmp_ok($touched, '<', 60, 'a pop does not walk the dead versions');
check_cursors($node);

# ---- the statement's own view of cursors that moved in its transaction ----

is($sql->(q{
	SELECT queen.push('b', '1');
	SELECT count(*) FROM (SELECT queen.extend(lease) FROM queen.pop('b', 'g'), generate_series(1, 20)) e;
	SELECT count(*), count(DISTINCT consumer_group) FROM queen.pg_stat_queen_blocked}) =~ s/^.*\n//sr, '0|0', 'nothing is blocked');

# ---- cleaning up after a drop ----

# what the index is asked for grows with the partitions, not with their square: each piece begins behind the last one
$sql->("SELECT count(queen.push('dropped', to_jsonb(n), partition => 'p' || n)) FROM generate_series(1, 4000) n; SELECT queen.drop_queue('dropped')");
$holder->query('COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sent');
my $read = q{SELECT sum(pg_stat_get_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'queen.log_partitions'::regclass};
my $before = $sql->($read);
$sql->('CALL queen.maintain()');
is($sql->("SELECT count(*) FROM queen.log_dropped"), '0', 'a drop is cleaned up under a snapshot that was taken after it');
cmp_ok($sql->($read) - $before, '<', 100000, 'and no piece goes over what the ones before have deleted');
$holder->query('COMMIT');
$holder->quit;
$sql->('VACUUM');
finish_load(load($node, '-c 4 -t 100', after => $script), 'and when it is released');
for (1 .. 100)
{
	last if $sql->("WITH i AS (INSERT INTO got SELECT message::bigint, partition, msg_offset FROM queen.pop('q', 'g', 1000, max_partitions => 9, auto_ack => true) RETURNING 1) SELECT count(*) FROM i") eq '0';
}
is($sql->('SELECT count(*) FROM sent FULL JOIN got USING (n, part) WHERE sent.* IS NULL OR got.* IS NULL'), '0', 'every message exactly once');
check_cursors($node);
check_log($node);
$node->stop;
done_testing();
