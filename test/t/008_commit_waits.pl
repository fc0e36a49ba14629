# What a commit with pushes waits for: always bounded by queen.flush_timeout, and told by its SQLSTATE; the client's own
# limits do not count there. Locks on tables are taken at the push, where they do. And tables that cannot be found at the
# commit are no silent loss, unless the transaction dropped them.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('commit_waits');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{CREATE TABLE work (id int); SELECT queen.push('q', '0')});
my %waits = (
	'a partition' => q{SELECT queen_test_lock_partition(partition_id) FROM queen.log_partitions},
	"a queue's birth" => q{SELECT queen.create_queue('born')},
	map { +"table $_" => "LOCK TABLE queen.$_" } qw(queues log_partitions log_starts log_segments));
my $holder = background($node);
foreach my $what (sort keys %waits)
{
	my $queue = $what =~ /birth/ ? 'born' : 'q';
	my ($start, $err);

	$holder->query("BEGIN; $waits{$what}");
	$start = time;
	(undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n"
		. ($what =~ /^table/ ? "SET lock_timeout = '300 ms'; SET queen.flush_timeout = '20 s';" : "SET lock_timeout = '20 s'; SET queen.flush_timeout = '300 ms';")
		. "\nSET statement_timeout = '25 s';\nBEGIN; INSERT INTO work VALUES (1); SELECT queen.push('$queue', '1');\nCOMMIT;", timeout => 30);
	like($err, $what =~ /^table/ ? qr/55P03/ : qr/QN002/, "$what: the wait is bounded");
	cmp_ok(time - $start, '<', 5, "$what: in time");
	$holder->query('ROLLBACK');
	is($sql->('SELECT count(*) FROM work'), '0', "$what: nothing of the transaction is left");
	is($sql->("SELECT count(*) FROM queen.peek('q', from_offset => 1)"), '0', "$what: and no message");
}

# ---- tables cannot be found, and not by the transaction's own doing: its commit fails, or its message is there ----

my %hide = (
	'the schema' => [ 'ALTER SCHEMA queen RENAME TO elsewhere; ANALYZE elsewhere.log_segments, elsewhere.queues', 'ALTER SCHEMA elsewhere RENAME TO queen' ],
	'a sequence' => [ 'ALTER SEQUENCE queen.dead_ids RENAME TO elsewhere', 'ALTER SEQUENCE queen.elsewhere RENAME TO dead_ids' ]);
foreach my $what (sort keys %hide)
{
	my $pusher = background($node);

	$sql->('TRUNCATE work');
	my $before = $sql->(q{SELECT count(*) FROM queen.peek('q')});
	$pusher->query(q{BEGIN; INSERT INTO work VALUES (2); SELECT queen.push('q', '"mine"')});
	$sql->($hide{$what}[0]);
	$pusher->query('SELECT count(*) FROM pg_proc; COMMIT'); # the first brings the news
	$sql->($hide{$what}[1]);
	is($sql->(q{SELECT count(*) FROM queen.peek('q')}) - $before, $sql->('SELECT count(*) FROM work'), "$what is renamed: the message is there exactly if the work is");
	$pusher->quit;
	is($sql->(q{SELECT queen.push('q', '"next"') IS NOT NULL}), 't', "$what: found again");
}
$holder->quit;
check_partitions($node);
check_log($node);
$node->stop;
done_testing();
