# Workers.pm: what the tests of background workers ask of a server.
package Workers;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(workers pids come go nobody quickly same check_worker_log);

# How long anything may take that is to happen at once, on a machine that does much else.
my $at_once = 4;

# The workers of a database as "keeper running pulse running"; asked in postgres.
sub workers
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres', "SELECT coalesce(string_agg(DISTINCT worker || ' ' || state, ' '), '') FROM queen.pg_stat_queen_workers WHERE database = '$database'");
}

# Their processes as the server knows them.
sub pids
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres', "SELECT coalesce(string_agg(backend_type || ' ' || pid, ', ' ORDER BY backend_type), '') FROM pg_stat_activity WHERE datname = '$database' AND backend_type LIKE 'queen %'");
}

sub soon
{
	my ($test, $most) = @_;
	my $began = time;

	until ($test->())
	{
		return 0 if time - $began > $most;
		sleep 0.02;
	}
	return 1;
}

# Both workers come at once (or within some seconds).
sub come
{
	my ($node, $database, $what, $most) = @_;
	my $ok = soon(sub { pids($node, $database) =~ /^queen keeper \d+, queen pulse \d+$/ && workers($node, $database) eq 'keeper running pulse running' }, $most // $at_once);

	ok($ok, "$what: they come") or diag(workers($node, $database), ' / ', pids($node, $database));
}

# Nobody works there, and soon nobody is at it: of a database that is new to it the launcher knows for a moment only that it is there.
sub nobody
{
	my ($node, $database, $what) = @_;

	unlike(workers($node, $database), qr/running|starting|leaving/, "$what: nobody works there");
	ok(soon(sub { workers($node, $database) . pids($node, $database) eq '' }, $at_once), $what) or diag(workers($node, $database), ' / ', pids($node, $database));
}

# Both go at once, from the server's list too; state: what the view says of them then.
sub go
{
	my ($node, $database, $what) = @_;

	ok(soon(sub { pids($node, $database) eq '' }, $at_once), "$what: they go") or diag(workers($node, $database), ' / ', pids($node, $database));
}

# They are those that they were; some time is given to them to make a mistake.
sub same
{
	my ($node, $database, $before, $what) = @_;

	sleep 0.3;
	is(pids($node, $database), $before, "$what: they stay");
}

# A statement that must not wait.
sub quickly
{
	my ($node, $database, $statement, $what) = @_;
	my $began = time;
	my ($rc, $out, $err) = $node->psql($database, $statement);
	my $took = time - $began;

	is($rc, 0, $what) or diag($err);
	cmp_ok($took, '<', $at_once, "$what: at once");
	return $out;
}

# Nothing of what workers have brought into logs elsewhere. allowed: FATAL lines that a test asks for. A client's session may be still about to go when
# the server stops; what ends a worker has another wording.
sub check_worker_log
{
	my ($node, $allowed) = @_;
	my $log = slurp_file($node->logfile);
	my @bad = grep { /still waiting for backend with PID|could not find|is being accessed by other users|FATAL:  (?!terminating connection due to administrator command)/ } split /\n/, $log;

	@bad = grep { $_ !~ $allowed } @bad if defined $allowed;
	is(scalar @bad, 0, 'the server log tells of no worker that was in the way, or died of something') or diag(join("\n", @bad[0 .. ($#bad > 10 ? 10 : $#bad)]));
	check_log($node, qr/terminated by signal 9/);
}

1;
