# Deliveries whose transaction rolls back are counted: a message that fails its worker inside a transaction ends in the dead letters, and
# only it. What is counted is in shared memory, so this needs a server that has preloaded queen.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('aborted');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $pop = sub { my ($queue, %more) = @_; return "SELECT coalesce(string_agg(msg_offset || '/' || attempt, ' ' ORDER BY msg_offset), '') FROM queen.pop('$queue', max_messages => 4, " . ($more{args} // 'auto_ack => true') . ')' };
my $aborted = sub { return $sql->("BEGIN; " . $pop->(@_) . '; ROLLBACK') };
my $taken = sub { return $sql->($pop->(@_)) };
my $dead = sub { return $sql->("SELECT coalesce(string_agg(msg_offset || '/' || attempts, ' ' ORDER BY dead_id), '') FROM queen.list_dead('$_[0]')") };
my $fill = sub { $sql->("SELECT queen.create_queue('$_[0]', options => '" . ($_[1] // '{}') . "'); SELECT queen.subscribe('$_[0]', 'default'); SELECT queen.push('$_[0]', to_jsonb(n)) FROM generate_series(0, 5) n") };

# ---- a message that fails six times is dead, and only it ----

$fill->('poison');
is(join(', ', map { $aborted->('poison') } 1 .. 5), '0/1 1/1 2/1 3/1, 0/2, 0/3, 0/4, 0/5', 'each delivery counts, the first redelivery comes alone');
is($dead->('poison'), '', 'it has used up its deliveries');
is($taken->('poison'), '', 'the sixth call buries it, and delivers nothing');
is($dead->('poison'), '0/5', 'it is dead');
is(join(', ', map { $taken->('poison') } 1 .. 5), '1/2, 2/2, 3/2, 4/1 5/1, ', 'what was delivered along with it comes alone, the rest as ever');
is($dead->('poison'), '0/5', 'and nothing else is dead');
is($sql->('SELECT used, evicted, lost FROM queen.pg_stat_queen_aborted'), '0|0|0', 'nothing is counted any more');

# ---- with a lease, by a savepoint, and both ----

$fill->('lease');
is(join(', ', map { $aborted->('lease', args => "lease_time => '1 h'") } 1 .. 2), '0/1 1/1 2/1 3/1, 0/2', 'a lease that was rolled back');
$sql->("CREATE TABLE held AS SELECT * FROM queen.pop('lease')");
is($sql->("SELECT attempt FROM held"), '3', 'is counted in the next');
$sql->('SELECT queen.nack(lease, delay => \'0\') FROM held');
is($aborted->('lease'), '0/4', 'and goes on in the row');
is($aborted->('lease'), '0/5', 'and beside it');
is($taken->('lease') . $dead->('lease'), '0/5', 'until it is dead');

$fill->('points');
is($sql->('BEGIN; SAVEPOINT a; ' . $pop->('points') . '; ROLLBACK TO a; SAVEPOINT b; ' . $pop->('points') . '; RELEASE b; ROLLBACK'), "0/1 1/1 2/1 3/1\n0/2", 'a savepoint that was rolled back counts within its transaction');
is($taken->('points'), '0/3', 'and one that was released with its transaction');
is($taken->('points'), '1/2', 'and the message behind it was delivered before');

# what was counted of a message stays when a later one fails in a savepoint, and then all of it
$fill->('later');
my $later = sub { return $sql->('BEGIN; ' . $pop->('later', args => 'auto_ack => true, max_messages => 1') =~ s/max_messages => 4, //r . '; SAVEPOINT a; ' . $pop->('later') . '; ROLLBACK TO a; ROLLBACK') =~ s/\n/, /r };
is(join('; ', map { $later->() } 1 .. 3), '0/1, 1/1 2/1 3/1 4/1; 0/2, 1/2; 0/3, 1/2', 'a later message fails in a savepoint');
$later->() for 4 .. 5;
is($taken->('later') . $dead->('later'), '0/5', 'and then all of it: the first is dead in the end');

# a seek that is rolled back leaves what was counted
$fill->('sought');
$aborted->('sought');
$sql->('BEGIN; ' . $pop->('sought') . "; SELECT queen.seek('sought', 'default', 0); ROLLBACK");
is($taken->('sought'), '0/3', 'a seek that was rolled back');

# what a claim has written is not added by the next one of the same transaction
$fill->('again');
$aborted->('again') for 1 .. 2;
$sql->("BEGIN; CREATE TEMP TABLE t ON COMMIT DROP AS SELECT * FROM queen.pop('again'); SELECT queen.nack(lease, delay => '0') FROM t; CREATE TABLE again AS SELECT * FROM queen.pop('again'); COMMIT");
is($sql->('SELECT msg_offset, attempt FROM again'), '0|4', 'two deliveries in a transaction after two that rolled back');

# several deliveries of one partition in one transaction are one each
$fill->('twice');
is($sql->('BEGIN; ' . $pop->('twice') . '; ' . $pop->('twice') . '; ROLLBACK'), "0/1 1/1 2/1 3/1\n4/1 5/1", 'a transaction that goes on in a partition');
is(join(', ', map { $taken->('twice') } 1 .. 6), '0/2, 1/2, 2/2, 3/2, 4/2, 5/2', 'has delivered all of it once');

# ---- what is no delivery ----

$fill->('few', '{"max_deliveries": 1}');
$aborted->('few');
is($aborted->('few') . $dead->('few'), '', 'a burial that is rolled back');
is($taken->('few') . $dead->('few'), '0/1', 'is done by the next, once');
$fill->('behind', '{"max_deliveries": 2}');
my $behind = sub { return $sql->('BEGIN; ' . $pop->('behind') . '; ' . $pop->('behind') . "; $_[0]") =~ s/\n/, /r };
is($behind->('ROLLBACK'), '0/1 1/1 2/1 3/1, 4/1 5/1', 'a transaction that takes again and again');
is($behind->('ROLLBACK'), '0/2, 1/2', 'and rolls back');
is($behind->('ROLLBACK'), ', ', 'takes nothing behind a message that it has buried');
is($behind->('COMMIT') . $dead->('behind'), ', 0/2', 'and so the burial is not taken along when what lies behind fails, too');
is($behind->('ROLLBACK'), '1/2, 2/2', 'the next goes on');
$fill->('moved');
$aborted->('moved');
$sql->("SELECT queen.seek('moved', 'default', 0)");
is($taken->('moved'), '0/1 1/1 2/1 3/1', 'a seek begins anew');

# ---- whose it is ----

$fill->('groups');
$sql->("SELECT queen.subscribe('groups', 'other')");
$aborted->('groups');
is($taken->('groups', args => "consumer_group => 'other', auto_ack => true"), '0/1 1/1 2/1 3/1', 'another group is not concerned');
$sql->('CREATE DATABASE copy TEMPLATE postgres');
is($node->safe_psql('copy', $pop->('groups')), '0/1 1/1 2/1 3/1', 'nor is a database with the same ids');
is($taken->('groups'), '0/2', 'but this one');

# ---- a session that is terminated; a crash ----

$fill->('ended');
my $session = background($node);
$session->query('BEGIN; ' . $pop->('ended'));
my $pid = $session->query('SELECT pg_backend_pid()') =~ s/\D//gr;
$sql->("SELECT pg_terminate_backend($pid, 10000)");
is($aborted->('ended'), '0/2', 'the end of a session counts');
$session->{run}->finish;
$node->stop('immediate');
$node->start;
is(join(', ', map { $aborted->('ended') } 1 .. 2), '0/1 1/1 2/1 3/1, 0/2', 'a crash of the server begins anew');

# ---- more than there is room for ----

$sql->("SELECT count(queen.push('much', to_jsonb(n), 'p' || n)) FROM generate_series(1, 12000) n; SELECT queen.subscribe('much', 'default')");
$fill->('kept');
$aborted->('kept') for 1 .. 2;
is($sql->("BEGIN; SELECT sum(n) FROM (SELECT (SELECT count(*) FROM queen.pop('much', max_messages => 1000 + 0 * i, max_partitions => 1000, auto_ack => true)) AS n FROM generate_series(1, 12) i) s; ROLLBACK"), '12000', '12,000 deliveries of one transaction');
is($sql->("SELECT used <= places AND evicted > 3000 AND evicted + lost + used BETWEEN 12000 AND 12100 FROM queen.pg_stat_queen_aborted"), 't', 'those that have no place are told');
is($taken->('kept'), '0/3', 'a higher count has kept its own');
$aborted->('ended');
cmp_ok($sql->('SELECT sum(attempt) FROM queen.pop(\'much\', max_messages => 1, max_partitions => 1)'), '>=', 1, 'and work goes on');

check_log($node);
$node->stop;
done_testing;
