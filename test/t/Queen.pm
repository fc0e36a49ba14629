# Queen.pm: what the TAP tests share: servers with queen, load, and the checks that hold after any load.
package Queen;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(new_node background load finish_load wait_for_sql kill_and_revive check_log check_partitions check_cursors);

# A server with the extension in database postgres; nothing is cleaned up or collected unless a test says so. settings: lines for postgresql.conf; preload: other libraries than queen.
sub new_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => $options{streaming});
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . ($options{preload} // 'queen') . "'");
	# a server that is killed keeps what it has committed: the system's cache survives
	$node->append_conf('postgresql.conf', "max_connections = 150\nlog_statement = none\nqueen.maintain_interval = 0\nqueen.collect_interval = 0\n" . ($options{settings} // ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION queen; CREATE EXTENSION queen_test') unless $options{no_extension};
	return $node;
}

# A session of its own.
sub background
{
	my ($node) = @_;
	return $node->background_psql('postgres', on_error_stop => 0);
}

# Start pgbench with scripts (name => text); options as it wants them. finish_load awaits it.
sub load
{
	my ($node, $options, %scripts) = @_;
	my (@files, $out, $err);
	my $dir = PostgreSQL::Test::Utils::tempdir;

	foreach my $name (sort keys %scripts)
	{
		my ($weight) = $name =~ /\@(\d+)$/;
		append_to_file("$dir/" . ($name =~ s/\@.*//r) . '.sql', $scripts{$name});
		push @files, '-f', "$dir/" . ($name =~ s/\@.*//r) . '.sql' . (defined $weight ? "\@$weight" : '');
	}
	my @command = ('pgbench', '-n', '-h', $node->host, '-p', $node->port, split(' ', $options), @files, 'postgres');
	local $ENV{PGOPTIONS} = '-c client_min_messages=warning';
	my $run = { out => '', err => '', started => time };
	$run->{h} = IPC::Run::start(\@command, '<', \undef, '>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# True when pgbench has ended well; says what it said otherwise.
sub finish_load
{
	my ($run, $what) = @_;
	my $well = $run->{h}->finish && $run->{err} !~ /aborted|ERROR/;

	$run->{seconds} = time - $run->{started};
	ok($well, $what) or diag(substr($run->{err}, -3000));
	return $well;
}

# Kill a process of a server, or the server itself (0), and wait until it is there again.
sub kill_and_revive
{
	my ($node, $process) = @_;
	my $is_up = $process != 0;

	if ($is_up)
	{
		kill 9, $process;
		# until the server has seen it, it looks as if all were well
		sleep(0.01) while kill 0, $process;
	}
	else
	{
		$node->kill9;
	}
	for (1 .. 300)
	{
		# its children go when they see that it is gone; a start that failed has taken the old number for its own
		if (!$is_up)
		{
			$node->{_pid} = undef;
			$is_up = $node->start(fail_ok => 1);
		}
		return if $is_up && system('pg_isready', '-q', '-h', $node->host, '-p', $node->port) == 0;
		sleep(0.1);
	}
	die 'the server does not come back';
}

# Poll until a query answers true; dies after two minutes.
sub wait_for_sql
{
	my ($node, $query, $what) = @_;
	$node->poll_query_until('postgres', $query) or die "timed out: $what";
}

# No crash, no assertion, no error that only a fault can raise.
sub check_log
{
	my ($node, $allowed) = @_;
	my $log = slurp_file($node->logfile);
	my @bad = grep { /PANIC|terminated by signal (?:6|11)|TRAP:|ERROR: .*(?:unexpected|could not read|duplicate key|attempted to (?:update|delete|lock) invisible|tuple concurrently|invalid memory|deadlock detected|corrupt)|WARNING: .*(?:leak|snapshot|still active|you don't own)/ }
		split /\n/, $log;

	@bad = grep { $_ !~ $allowed } @bad if defined $allowed;
	is(scalar @bad, 0, 'the server log tells of no fault') or diag(join("\n", @bad[0 .. ($#bad > 10 ? 10 : $#bad)]));
}

# What test/invariants counts must be none. The soak asks the same.
sub check_invariant
{
	my ($node, $database, $file, $what, $settings) = @_;
	my $query = slurp_file("$FindBin::RealBin/../invariants/$file.sql");

	is($node->safe_psql($database // 'postgres', ($settings // '') . $query), '0', $what);
}

# Offsets do not overlap and created_at never steps back, in any partition.
sub check_partitions
{
	my ($node, $database) = @_;

	check_invariant($node, $database, 'segments', 'segments neither overlap nor step back in time');
	check_invariant($node, $database, 'names', 'names are unique, no segment is an orphan');
}

# One live state for each identity, of the era that its changes ask for. Not by index: another plan must see the same.
sub check_cursors
{
	my ($node, $database) = @_;

	check_invariant($node, $database, 'cursors', 'one live state row for each cursor, in its era',
		'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;');
}

1;
