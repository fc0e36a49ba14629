# The hot-list and what happens around it: pushes that meet a pop which has found its partition empty, leases that end by themselves, several
# groups, a partition that is lost by force and found by a walk, databases that take the place of others, a standby that is promoted.
# No walk but the first is made unless a test asks for one.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('events', preload => 'queen_test, queen', streaming => 1, settings => "queen.hotlist_reseed_interval = 0\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $ring = sub { my ($queue, $what, $group) = @_; return $sql->("SELECT $what FROM queen.pg_stat_queen_hotlist WHERE queue = '$queue' AND consumer_group = '" . ($group // 'default') . "'") };
my $pop = sub { my ($queue, $group, $more) = @_; return "SELECT coalesce(string_agg(partition || ':' || msg_offset, ' ' ORDER BY partition, msg_offset), '') FROM queen.pop('$queue', '" . ($group // 'default') . "', max_messages => 100, max_partitions => 100, " . ($more // 'auto_ack => true') . ')' };
# a queue whose groups have rings that have paid their first walk
my $queue = sub {
	my ($name, @groups) = @_;
	$sql->("SELECT queen.create_queue('$name')");
	foreach my $group (@groups ? @groups : 'default') { $sql->("SELECT queen.subscribe('$name', '$group')"); $sql->($pop->($name, $group)) }
};
my $until = sub { my ($query, $wanted) = @_; my $end = time + 10; my $got; do { $got = $sql->($query); sleep(0.02) if $got ne $wanted } while ($got ne $wanted && time < $end); return $got };

# ---- a push while a pop holds the partition that it has emptied ----

$queue->('met');
my $other = background($node);
foreach my $end ('COMMIT', 'ROLLBACK')
{
	$sql->("SELECT queen.push('met', '1', 'a')");
	$other->query('BEGIN');
	like($other->query($pop->('met')), qr/a:\d/, 'a transaction takes all that a partition has');
	$sql->("SELECT queen.push('met', '2', 'a')");
	is($sql->($pop->('met')), '', '… and meanwhile nobody gets what comes behind it');
	$other->query($end);
	is($ring->('met', "ready || ' ' || checked_out"), '1 0', "its $end does not forget what was pushed meanwhile");
	# what was rolled back was delivered, so its next delivery comes alone
	is(join(' ', map { $sql->("SELECT string_agg(message::text, ' ') FROM queen.pop('met', max_messages => 9, auto_ack => true)") } $end eq 'COMMIT' ? 1 : (1, 2)), $end eq 'COMMIT' ? '2' : '1 2', '… which is delivered');
	is($ring->('met', 'ready + parked + checked_out'), '0', '… and forgotten');
}
$sql->("SELECT queen.push('met', '1', 'b'); CREATE TABLE held AS SELECT * FROM queen.pop('met')");
$sql->("SELECT queen.push('met', '2', 'b'); SELECT queen.ack(lease) FROM held");
like($sql->($pop->('met')), qr/^b:\d$/, 'nor does the acknowledgement of a lease forget what was pushed under it');
# the pop's own transaction pushes behind what it has emptied
$sql->("SELECT queen.push('met', '1', 'c'); BEGIN; " . $pop->('met') . "; SELECT queen.push('met', '2', 'c'); COMMIT");
like($sql->($pop->('met')), qr/^c:\d$/, 'nor a transaction what it has pushed itself');

# ---- leases and delays that end by themselves ----

$queue->('ends');
$sql->("SELECT queen.push('ends', '1', 'a'); SELECT count(*) FROM queen.pop('ends', lease_time => '1 s')");
is($sql->($pop->('ends')), '', 'a lease keeps others away');
is($until->($pop->('ends'), 'a:0'), 'a:0', '… until it has ended, though nobody says so');
$sql->("SELECT queen.push('ends', '2', 'a'); TRUNCATE held; INSERT INTO held SELECT * FROM queen.pop('ends', lease_time => '1 h')");
my $takes = $ring->('ends', 'takes');
$sql->($pop->('ends')) for 1 .. 30;
cmp_ok($ring->('ends', 'takes') - $takes, '<=', 3, 'who is under a long lease is looked at seldom');
my $began = time;
$sql->("SELECT queen.nack(lease, delay => '400 ms') FROM held");
is($until->($pop->('ends'), 'a:1'), 'a:1', 'a nacked message comes back');
cmp_ok(time - $began, '>=', 0.4, '… not before its delay has passed');
my (undef, undef, $error) = $node->psql('postgres', "SELECT queen.push('ends', '3', 'a'); SET statement_timeout = '200 ms'; SELECT count(*), pg_sleep(5) FROM queen.pop('ends', auto_ack => true)");
like($error, qr/statement timeout/, 'a statement that has popped is cancelled');
is($sql->($pop->('ends')), 'a:2', '… and its candidate is there at once');

# ---- groups do not clear what is each other's ----

$queue->('groups', 'one', 'two');
$sql->("SELECT queen.push('groups', '1', 'p' || n) FROM generate_series(1, 20) n; SELECT queen.subscribe('groups', 'late', 'latest')");
is($sql->('SELECT count(*) FROM (' . $pop->('groups', 'one') . ') p') . $ring->('groups', 'ready', 'one') . ' ' . $ring->('groups', 'ready', 'two'), '10 20', 'one group has emptied its ring, the other one\'s is full');
is($sql->($pop->('groups', 'late')), '', 'one that subscribed later gets nothing of it');
is($ring->('groups', 'ready', 'late'), '0', '… nor is it told');
$sql->("SELECT queen.push('groups', '2', 'p7')");
is(join(' ', map { $ring->('groups', 'ready', $_) } 'one', 'two', 'late'), '1 20 1', 'a push is told to all of them');
is($sql->($pop->('groups', 'late')), 'p7:1', '… and everybody gets what is its own');
is($sql->("SELECT count(*) FROM queen.pop('groups', 'two', max_messages => 100, max_partitions => 100, auto_ack => true)"), '21', '… and all of it');

# ---- lost by force ----

$queue->('lost');
$sql->("SELECT queen.push('lost', '1', 'p' || n) FROM generate_series(1, 3) n; " . $pop->('lost'));
# behind the back of the trigger that owes a walk
my $lose = sub { $sql->("ALTER TABLE queen.log_cursors DISABLE TRIGGER loaded; UPDATE queen.log_cursors c SET committed = -1 FROM queen.log_partitions p, queen.queues q WHERE p.partition_id = c.partition_id AND q.log_id = p.log_id AND q.name = 'lost' AND p.name = 'p2'; ALTER TABLE queen.log_cursors ENABLE ALWAYS TRIGGER loaded") };
$lose->();
is($ring->('lost', "owes || ' ' || ready + parked + checked_out || ' ' || reseed_repairs"), 'nothing 0 0', 'a ring that does not know what it should');
is($sql->($pop->('lost')), '', '… a pop believes');
is($sql->('SET queen.hotlist = off; ' . $pop->('lost', 'default', "lease_time => '1 s'")), 'p2:0', '… and one that does not ask it gets it');
sleep(1.05);
my $log = -s $node->logfile;
is($sql->("SELECT queen.hotlist_reseed('lost', 'default')"), 't', 'a walk');
is($ring->('lost', "reseed_repairs || ' ' || ready"), '1 1', '… finds it, and counts it');
like(slurp_file($node->logfile, $log), qr/LOG:  queen: the hot-list had lost partition \d+ of consumer group "default"/, '… and says so in the log');
is($sql->($pop->('lost')), 'p2:0', '… and it is delivered');
$lose->();
$node->append_conf('postgresql.conf', 'queen.hotlist_reseed_interval = 1s');
$node->reload;
is($until->($pop->('lost'), 'p2:0'), 'p2:0', 'the walks of queen.hotlist_reseed_interval find it, too');
is($ring->('lost', 'reseed_repairs'), '2', '… and count it');
$node->append_conf('postgresql.conf', 'queen.hotlist_reseed_interval = 0');
$node->reload;

# ---- a database in the place of another one ----

$sql->('CREATE DATABASE model');
my $in = sub { my ($db, $what) = @_; return $node->safe_psql($db, $what) };
$in->('model', "CREATE EXTENSION queen; SELECT queen.create_queue('q'); SELECT queen.subscribe('q', 'default'); SELECT queen.push('q', '1', 'a')");
$sql->('CREATE DATABASE twin TEMPLATE model');
my $oid = $sql->("SELECT oid FROM pg_database WHERE datname = 'twin'");
is($in->('twin', $pop->('q')), 'a:0', 'a copy of a database has what the original has');
is($in->('twin', $pop->('q')), '', '… once');
is($in->('model', $pop->('q', 'default', "lease_time => '1 s'")), 'a:0', '… as has the original');
$sql->('DROP DATABASE twin');
$sql->("CREATE DATABASE twin TEMPLATE model OID = $oid");
is($in->('twin', $pop->('q')), 'a:0', 'one that takes the place, and the number, of another one does not take its ring') if $sql->("SELECT pg_sleep(1.05) IS NOT NULL") eq 't';

# ---- a standby that is promoted ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('promoted');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$sql->("SELECT queen.push('met', to_jsonb(n), 's' || n) FROM generate_series(1, 50) n; SELECT count(*) FROM queen.pop('met', max_partitions => 10, max_messages => 10, auto_ack => true)");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', 'SELECT count(*) FROM queen.pg_stat_queen_hotlist'), '0', 'a standby has no ring');
$node->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', "SELECT count(*) FROM queen.pop('met', max_messages => 100, max_partitions => 100, auto_ack => true)"), '40', 'promoted, it walks, and delivers what the primary has not');
is($standby->safe_psql('postgres', "SELECT reseeds || ' ' || reseed_repairs FROM queen.pg_stat_queen_hotlist WHERE queue = 'met'"), '1 0', '… once');

check_log($_) foreach $node, $standby;
$standby->stop;
done_testing;
