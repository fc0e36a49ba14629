# The reseed floor by one process for all rings: a partition that a ring has lost is found within the interval, also while the ring is busy, and
# however many rings there are walks take no more than their share. Here a session does the steps; that the keeper does them is 040's matter.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('floor', preload => 'queen', settings => "queen.databases = 'nobody'\nqueen.hotlist_reseed_interval = 3600\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $keeper = $node->background_psql('postgres', on_error_stop => 0);
my $step = sub { return $keeper->query_safe('SELECT queen_test_ring_floor_step()') / 1e6 };
my $ring = sub { my ($queue, $what) = @_; return $sql->("SELECT $what FROM queen.pg_stat_queen_hotlist WHERE queue = '$queue' AND consumer_group = 'g'") };
my $lose = sub {
	my ($queue, $partition) = @_;
	return $sql->("SELECT queen_test_false_clear(q.queue_id, g.group_id, p.partition_id) FROM queen.queues q JOIN queen.log_groups g USING (queue_id) JOIN queen.log_partitions p USING (log_id) WHERE q.name = '$queue' AND g.name = 'g' AND p.name = '$partition'");
};
my $interval = sub { $node->adjust_conf('postgresql.conf', 'queen.hotlist_reseed_interval', "'$_[0]'"); $node->reload };
my $pop = sub { return "SELECT coalesce(string_agg(partition, ' ' ORDER BY partition), '') FROM queen.pop('$_[0]', 'g', max_partitions => " . ($_[1] // 100) . ', max_messages => 100, auto_ack => true)' };

is($step->(), 3600, 'without a ring the next look is after an interval');

# a ring that owes nothing, of a queue with three partitions
$sql->("SELECT queen.subscribe('q', 'g')");
$sql->($pop->('q'));
$sql->("SELECT queen.push('q', '1', p) FROM unnest('{a,b,c}'::text[]) p");
is($ring->('q', "ready || owes"), '3nothing', 'three partitions are ready');
is($lose->('q', 'b'), 't', 'one is forgotten');
is($sql->($pop->('q')), 'a c', 'so nobody is told of it');
is($sql->($pop->('q')), '', 'not later either');

$interval->('1 s');
my $next = 0;
my $end = time + 10;
while (time < $end && $ring->('q', 'ready') eq '0') { $next = $step->(); sleep(0.1) }
is($ring->('q', "ready || ' ' || reseed_repairs"), '1 1', 'the floor finds it and counts it');
is($sql->($pop->('q')), 'b', 'and it is delivered');

# ---- a busy ring ----

$sql->("SELECT queen.push('q', to_jsonb(n), p) FROM unnest('{a,b,c}'::text[]) p, generate_series(1, 200) n");
is($lose->('q', 'c'), 't', 'a busy ring forgets one');
$end = time + 20;
my $turns = 0;
while (time < $end && $ring->('q', 'reseed_repairs') eq '1')
{
	# the other two are ready at all times
	$sql->("SELECT queen.push('q', '0', p) FROM unnest('{a,b}'::text[]) p; SELECT count(*) FROM queen.pop('q', 'g', 1, auto_ack => true)");
	$step->();
	$turns++;
}
is($ring->('q', 'reseed_repairs'), '2', 'its floor finds that as well') or diag("$turns turns");

# ---- the share ----

$sql->("SELECT count(queen.push('big', '1', 'p' || n)) FROM generate_series(1, 5000) n; SELECT queen.subscribe('big', 'g')");
$sql->($pop->('big', 1));
my $walks = $ring->('big', 'reseeds');
my $took = 0;
$end = time + 20;
while (time < $end && $ring->('big', 'reseeds') eq $walks)
{
	my $began = time;
	$next = $step->();
	$took = time - $began;
	sleep(0.1);
}
cmp_ok($ring->('big', 'reseeds'), '>', $walks, 'a large queue has its walk');
my $walk_took = $ring->('big', 'last_reseed_time') / 1000;
cmp_ok($next, '>=', 99 * $walk_took, 'and the next one waits for ninety-nine times as long');

# ---- what is gone ----

$interval->('1 s');
$sql->("SELECT queen.subscribe('gone', 'g')");
$sql->($pop->('gone'));
$keeper->query_safe("SET statement_timeout = '60 s'");
$sql->("SELECT queen.drop_queue('gone')");
cmp_ok($step->(), '>', 0, 'a ring of a queue that is gone is no matter');

$keeper->quit;

# ---- the keeper ----

$sql->("SELECT queen.subscribe('kept', 'g')");
$sql->($pop->('kept'));
$sql->("SELECT queen.push('kept', '1', p) FROM unnest('{a,b}'::text[]) p");
is($lose->('kept', 'a'), 't', 'a ring forgets one more');
$sql->("ALTER SYSTEM SET queen.databases = 'postgres'");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT sum(reseed_repairs) = 1 FROM queen.pg_stat_queen_hotlist WHERE queue = 'kept'"), 'and the keeper finds it, though nobody pops');
is($sql->($pop->('kept')), 'a b', 'so it is delivered');

$node->stop;
check_log($node);
done_testing();
