# The retention watch: when each partition is to be looked at, kept by one process and told by the change feed. Here a session does its
# steps; that the keeper does them is 040's matter.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('watch', preload => 'queen', settings => "queen.databases = 'nobody'\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $watcher = $node->background_psql('postgres', on_error_stop => 0);

# steps until the next one is not due at once: seconds until then, partitions known, with a time, walks, steps that it took
my $steps = sub {
	my $next = 0;
	my $count = 0;
	my @rest;

	while ($next == 0 && $count < 1000)
	{
		($next, @rest) = split /\|/, $watcher->query_safe('SELECT * FROM queen_test_retention_watch_step()');
		$count++;
	}
	return { next => $next / 1e6, partitions => $rest[0], queued => $rest[1], walks => $rest[2], walking => $rest[3], steps => $count };
};
my $segments = sub { return $sql->("SELECT coalesce(string_agg(q.name || '/' || p.name, ' ' ORDER BY 1), '') FROM queen.log_segments s JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id)") };

# until the feed has been read again: an interval of at most ten seconds
my $told = sub {
	my ($what, $is_so) = @_;
	my $seen = {};

	for (my $i = 0; $i < 300 && !$is_so->($seen = $steps->()); $i++)
	{
		select(undef, undef, undef, 0.2);
	}
	ok($is_so->($seen), $what) or diag(explain($seen));
	return $seen;
};

$sql->(q{
	SELECT queen.create_queue('short', options => '{"completed_retention": "1 second"}'), queen.create_queue('day'),
		queen.create_queue('never', options => '{"completed_retention": "off"}');
	SELECT count(queen.push(q, '1', p)) FROM unnest('{short,day,never}'::text[]) q, unnest('{a,b}'::text[]) p;
	SELECT queen.subscribe('short', 'g'), queen.subscribe('day', 'g')});

# ---- the walk at the begin ----

my $seen = $steps->();
is_deeply([@$seen{qw(partitions queued walks walking)}], [6, 4, 1, 'f'], 'a walk knows all, and what never is due has no time');
cmp_ok($seen->{next}, '<=', 10, 'the feed is read every ten seconds');

# ---- what is due ----

$sql->("SELECT count(*) FROM queen.pop('short', 'g', 100, partition => 'a', auto_ack => true)");
$told->('what is completed and old goes', sub { return $segments->() eq 'day/a day/b never/a never/b short/b' });
$seen = $steps->();
cmp_ok($seen->{next}, '>', 0, 'what a group needs is not looked at all the time');
$sql->("SELECT count(*) FROM queen.pop('short', 'g', 100, auto_ack => true)");
$told->('and goes when it is completed', sub { return $segments->() eq 'day/a day/b never/a never/b' });

# ---- what is pushed ----

$sql->("SELECT queen.push('short', '2', 'a'), queen.push('short', '2', 'c'), queen.push('new', '2', 'a')");
$seen = $told->('partitions and queues that are born are told', sub { return $_[0]->{partitions} == 8 });
is($seen->{walks}, 1, 'without a walk');
$sql->("SELECT count(*) FROM queen.pop('short', 'g', 100, max_partitions => 9, auto_ack => true)");
$told->('what was pushed since goes in its time', sub { return $segments->() eq 'day/a day/b never/a never/b new/a' });

# ---- options, and what is gone ----

$sql->(q{SELECT queen.configure('never', '{"retention": "1 second"}')});
$seen = $told->('an option that became shorter is seen', sub { return $segments->() eq 'day/a day/b new/a' });
is($seen->{walks}, 2, 'by a walk');
$sql->("SELECT queen.drop_queue('never'); SELECT queen.purge_queue('day')");
$sql->("SELECT queen.push('day', '3', 'd')");
$sql->("ALTER SYSTEM SET queen.partition_expiry = '100 d'"); $sql->('SELECT pg_reload_conf()');
$seen = $told->('what is gone is forgotten by a walk', sub { return $_[0]->{walks} == 3 && $_[0]->{walking} eq 'f' });
is($seen->{partitions}, 5, 'three of one queue, one of each of two others');

# ---- more than the feed holds ----

$sql->("SELECT count(queen.push('many', to_jsonb(n), 'p' || n % 700)) FROM generate_series(1, 700) n") for 1 .. 100;
$seen = $told->('a feed that has lost something owes a walk', sub { return $_[0]->{walks} == 4 && $_[0]->{walking} eq 'f' });
is($seen->{partitions}, 705, 'which knows all');

# ---- another incarnation ----

$watcher->quit;
$watcher = $node->background_psql('postgres', on_error_stop => 0);
is($steps->()->{partitions}, 705, 'another watcher begins anew');
$sql->('DROP EXTENSION queen CASCADE; DROP EXTENSION IF EXISTS queen_test; CREATE EXTENSION queen; CREATE EXTENSION queen_test');
$sql->("SELECT queen.push('q', '1')");
is($steps->()->{partitions}, 1, 'as does one that finds other tables');
$watcher->quit;

$node->stop;
check_log($node);
done_testing();
