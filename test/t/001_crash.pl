# The server is killed: between the flush of a push and its commit, with leases alive, and again and again under load.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node('crash');

sub start_again
{
	for (1 .. 100)
	{
		return if $node->start(fail_ok => 1);
		sleep 0.1; # orphans of the killed server are still there
		$node->{_pid} = undef; # what it left is taken for a running one
	}
	die 'the server does not start';
}

my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

# ---- a lower offset whose server is killed between flush and commit; leases that are alive then ----

foreach my $how ('kill9', 'immediate')
{
	my $q = "q_$how";

	$sql->("SELECT queen.push_batch('$q', '[0, 1, 2]')");
	# three groups: one that acknowledges after the crash, one whose lease ends, one that has consumed all
	my $long = $sql->("SELECT DISTINCT lease FROM queen.pop('$q', 'long', 2, lease_time => '1 h')");
	my $short = $sql->("SELECT DISTINCT lease FROM queen.pop('$q', 'short', 2, lease_time => '1 s')");
	$sql->("SELECT count(*) FROM queen.pop('$q', 'done', 10, auto_ack => true)");

	my $gate = background($node);
	$gate->query('BEGIN; SELECT queen_test_close_gate()');
	my $low = background($node);
	$low->query("BEGIN; SELECT queen.push('$q', '\"low\"'); SELECT count(*) FROM queen.pop('$q', 'dying', 1); NOTIFY gate");
	$low->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
	wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'COMMIT;' AND wait_event_type = 'Lock'", 'the commit to be held');
	$sql->("SELECT queen.push('$q', '\"high\"')");
	is($sql->("SELECT count(*) FROM queen.pop('$q', 'done', 10, auto_ack => true)"), '0', "$how: nothing is delivered behind the push that runs");

	# that backend first: a postmaster's death opens the gate
	my $pid = $sql->("SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT;' AND wait_event_type = 'Lock'");
	kill 'KILL', $pid if $how eq 'kill9';
	$how eq 'kill9' ? $node->kill9 : $node->stop('immediate');
	{
		local $SIG{PIPE} = 'IGNORE';
		$_->{run}->kill_kill foreach $gate, $low;
	}
	start_again();

	is($sql->("SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.peek('$q', max_messages => 100)"),
		'0:0 1:1 2:2 4:"high"', "$how: what was committed is there, with a hole");
	is($sql->("SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.pop('$q', 'done', 10, auto_ack => true)"),
		'4:"high"', "$how: the reader steps over the hole");
	is($sql->("SELECT string_agg(msg_offset || ':' || attempt, ' ' ORDER BY msg_offset) FROM queen.pop('$q', 'dying', 10, auto_ack => true)"),
		'0:1 1:1 2:1 4:1', "$how: a claim that died with the server left nothing");
	is($sql->("SELECT count(*) FROM queen.pop('$q', 'long', 10)"), '0', "$how: a lease outlives the server");
	is($sql->("SELECT queen.ack('$long')"), '2', "$how: and is acknowledged");
	is($sql->("SELECT string_agg(msg_offset || ':' || attempt, ' ' ORDER BY msg_offset) FROM queen.pop('$q', 'long', 10)"), '2:1 4:1', "$how: what follows it is delivered");
	sleep 1.1;
	is($sql->("SELECT string_agg(msg_offset || ':' || attempt, ' ' ORDER BY msg_offset) FROM queen.pop('$q', 'short', 10)"), '0:2', "$how: a lease that ended is delivered again, its head alone");
	my ($rc, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT queen.ack('$short')");
	like($err, qr/QN001/, "$how: and is lost to its first owner");
	is($sql->("SELECT queen.push('$q', '\"next\"') IS NOT NULL"), 't', "$how: pushing goes on");
	is($sql->("SELECT string_agg(msg_offset || ':' || message, ' ') FROM queen.pop('$q', 'done', 10, auto_ack => true)"), '5:"next"', "$how: behind all of it");
}

# ---- killed under load: what a table of the user's says was pushed and consumed in the same transactions ----

$sql->(q{
	CREATE TABLE sent (id text PRIMARY KEY);
	CREATE TABLE got (id text PRIMARY KEY, off bigint, part text);
	SELECT queen.create_queue('load');
});
for my $round (1 .. 2)
{
	my @runs = (
		load($node, '-c 6 -T 60', push => <<'SQL'),
\set p random(1, 3)
BEGIN;
WITH m AS (SELECT gen_random_uuid()::text AS id FROM generate_series(1, 3)), s AS (INSERT INTO sent SELECT id FROM m)
SELECT count(queen.push('load', to_jsonb(id), partition => 'p' || :p)) FROM m;
COMMIT;
SQL
		load($node, '-c 3 -T 60', pop => <<'SQL'));
INSERT INTO got SELECT message #>> '{}', msg_offset, partition FROM queen.pop('load', 'g', 20, max_partitions => 2, auto_ack => true);
SQL
	sleep 2;
	$node->kill9;
	$_->{h}->finish foreach @runs;
	start_again();
}
cmp_ok($sql->('SELECT count(*) FROM sent'), '>', 100, 'there was load');
for (1 .. 1000)
{
	last if $sql->("WITH m AS (SELECT * FROM queen.pop('load', 'g', 1000, max_partitions => 9, auto_ack => true)), i AS (INSERT INTO got SELECT message #>> '{}', msg_offset, partition FROM m) SELECT count(*) FROM m") eq '0';
}
is($sql->('SELECT count(*) FROM sent FULL JOIN got USING (id) WHERE sent.id IS NULL OR got.id IS NULL'), '0',
	'after every kill: exactly what was committed is delivered, once');
check_partitions($node);
check_cursors($node);
check_log($node);
$node->stop;
done_testing();
