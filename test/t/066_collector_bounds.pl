# What bounds the collection of queues' state: more databases than there are places for; a wall clock that is set back.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(sleep);

# The servers' clock: gettimeofday and so many seconds, as a file says that all of its processes share.
my $dir = PostgreSQL::Test::Utils::tempdir;
append_to_file("$dir/clock.c", <<'C');
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/time.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static const volatile long *offset;
	struct timespec now;

	(void) tz;
	if (offset == NULL)
	{
		offset = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, open(getenv("CLOCK_OFFSET"), O_RDONLY), 0);
		if (offset == MAP_FAILED)
			abort();
	}
	clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec + *offset;
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}
C
my $clock = sub { open(my $file, '+<', "$dir/offset") or die $!; syswrite($file, pack('q', $_[0])); close($file) };
append_to_file("$dir/offset", pack('q', 0));
system_or_bail('cc', '-shared', '-fPIC', '-o', "$dir/clock.so", "$dir/clock.c");

my $node;
{
	local $ENV{CLOCK_OFFSET} = "$dir/offset";
	local $ENV{LD_PRELOAD} = "$dir/clock.so";
	$node = new_node('collector_bounds', settings => "queen.databases = 'postgres, d1'\nautovacuum = off\n");
}
my $sql = sub { my ($what, $db) = @_; return $node->safe_psql($db // 'postgres', $what) };
my $set = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };
my $record = 'queen.pg_stat_queen_collector';

# ---- more databases than there are places for ----

$sql->('CREATE DATABASE base');
$sql->('CREATE EXTENSION queen', 'base');
for my $i (1 .. 64)
{
	$sql->("CREATE DATABASE d$i TEMPLATE base");
	$sql->('SELECT queen.collect()', "d$i");
}
my $state = q{SELECT state FROM queen.status() WHERE item = 'state'};
is($sql->($state, 'd64'), 'off', 'the 64th database has its place');
is($sql->($state), 'no room', 'the next one has none, and queen.status() says so');
my ($status, $out, $err) = $node->psql('postgres', 'SELECT queen.collect()', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  53400: there is no room for the state of another database/, 'queen.collect() does');
$set->("queen.collect_interval = '1 s'");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'queen keeper' AND datname = 'postgres'}) or die 'timed out: a keeper';
my $runs = q{SELECT runs FROM queen.pg_stat_queen_workers WHERE worker = 'keeper' AND task = 'state' AND database = current_database()};
sleep 2;
my $before = $sql->($runs);
sleep 4;
cmp_ok($sql->($runs) - $before, '<', 20, 'its keeper does not collect all the time what nobody would see');
$set->("queen.databases = 'postgres'");
$node->poll_query_until('postgres', "SELECT collected_at IS NOT NULL FROM $record") or die 'timed out: a collection';
pass('when another database gives its place back, it collects');
is($sql->($state), 'collected', 'and says that it does');

# ---- the clock is set back by an hour ----

$clock->(-3600);
my $attempts = $sql->("SELECT attempts FROM $record");
sleep 4;
cmp_ok($sql->("SELECT attempts FROM $record") - $attempts, '>=', 2, 'where the clock is set back, collections go on');
is($sql->("SELECT collected_at BETWEEN clock_timestamp() - interval '3 s' AND clock_timestamp() FROM $record"), 't', 'and what they find is shown');
$set->('queen.collect_interval = 0');
sleep 1.2;
$clock->(-7200);
my $age = $sql->("SELECT snapshot_age FROM $record");
sleep 1;
cmp_ok($sql->("SELECT snapshot_age FROM $record"), '>', $age + 0.9, 'what is shown grows older, whatever the clock says');
is($sql->("SELECT longest_time >= 0 AND total_time >= 0 AND last_time >= 0 FROM $record"), 't', 'and nothing takes less than no time');

check_log($node);
$node->stop;
done_testing();
