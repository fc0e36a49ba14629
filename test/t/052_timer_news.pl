# Timers and savepoints: what a rolled back one had held is fired at once, and what it had fired does not count. And what many timers cost a call.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('timer_news', preload => 'queen');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $setting = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };
my $user = background($node);
wait_for_sql($node, q{SELECT count(*) > 0 FROM queen.pg_stat_queen_workers WHERE worker = 'pulse' AND task = 'timers' AND runs > 0}, 'the pulse');

# ---- a cancel that is undone, while the transaction around it goes on ----

# Savepoints, each with a timer of its own: those that are far away are nobody's news.
my $nested = sub { my ($from, $to) = @_; return join('', map { "SAVEPOINT s$_; SELECT queen.schedule('far', 's$_', '1', delay => '1 day'); " } $from .. $to) };
my @undone = (
	[ 'a savepoint', "SAVEPOINT s; SELECT queen.cancel('QUEUE', 'k')", 'ROLLBACK TO s' ],
	[ 'one inside of it, released', "SAVEPOINT s; SAVEPOINT t; SELECT queen.cancel('QUEUE', 'k'); RELEASE t", 'ROLLBACK TO s' ],
	[ 'one beside it, rolled back', "SAVEPOINT s; SELECT queen.cancel('QUEUE', 'k'); SAVEPOINT t; SELECT queen.schedule('far', 't', '1', delay => '1 day'); ROLLBACK TO t", 'ROLLBACK TO s' ],
	[ 'a block of PL/pgSQL', '', "DO \$\$ BEGIN PERFORM queen.cancel('QUEUE', 'k'), pg_sleep(1.5); RAISE 'undone'; EXCEPTION WHEN raise_exception THEN NULL; END \$\$" ],
	[ 'more than are told apart', $nested->(1, 80) . "SELECT queen.cancel('QUEUE', 'k'); " . $nested->(81, 90), 'ROLLBACK TO s80' ],
	[ 'a prefix', "SAVEPOINT s; SELECT queen.cancel_prefix('QUEUE', 'k')", 'ROLLBACK TO s' ],
	[ 'another time', "SAVEPOINT s; SELECT queen.schedule('QUEUE', 'k', '1', delay => '1 day')", 'ROLLBACK TO s' ]);
my @late;
foreach my $i (0 .. $#undone)
{
	my ($what, $hold, $undo) = map { s/QUEUE/undone $i/r } @{ $undone[$i] };

	$sql->("SELECT queen.create_queue('undone $i'), queen.schedule('undone $i', 'k', '1', delay => '1 s')");
	$user->query_safe("BEGIN; $hold");
	# the pulse passes it by, and sleeps
	sleep(1.5) if $hold ne '';
	$user->query_safe($undo);
	my $at = $sql->('SELECT extract(epoch FROM clock_timestamp())');
	wait_for_sql($node, "SELECT count(*) = 1 FROM queen.peek('undone $i')", $what);
	push @late, $sql->("SELECT round(1000 * (extract(epoch FROM enqueued_at) - $at)) FROM queen.peek('undone $i')");
	cmp_ok($late[-1], '<', 1000, "fired while the transaction goes on: $what");
	$user->query_safe('ROLLBACK');
}
note("late by ms: @late");

# what the transaction still holds wakes nobody, however many savepoints come and go
$sql->(q{SELECT queen.schedule('undone 0', 'held', '1', delay => '0.5 s')});
$user->query_safe(q{BEGIN; SELECT queen.cancel('undone 0', 'held')});
sleep(1.5);
my $runs = q{SELECT sum(runs) FROM queen.pg_stat_queen_workers w WHERE worker = 'pulse' AND w.database = current_database()};
my $before = $sql->($runs);
$user->query_safe(q{DO $$ BEGIN FOR n IN 1 .. 500 LOOP BEGIN PERFORM queen.schedule('far', 'k', '1', delay => '1 day'), pg_sleep(0.001); RAISE 'undone'; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$});
cmp_ok($sql->($runs) - $before, '<=', 10, 'who sleeps is not woken for what is held, or is far away');
$user->query_safe('COMMIT');

# ---- counts ----

my $counts = sub { return $sql->(q{SELECT concat_ws(' ', pending, fired) FROM queen.pg_stat_queen_timers WHERE queue = 'counted'}) };
$setting->('queen.timers = off');
sleep(1);
$sql->(q{SELECT queen.schedule('counted', 'k' || n, '1', delay => '-1 s') FROM generate_series(1, 2) n});
$sql->('BEGIN; SAVEPOINT s; SELECT queen.fire_timers(1); ROLLBACK TO s; COMMIT');
is($counts->(), '2', 'a fire that a savepoint has undone does not count');
$sql->('BEGIN; SAVEPOINT s; SELECT queen.fire_timers(1); SAVEPOINT t; SELECT queen.fire_timers(1); ROLLBACK TO t; RELEASE s; COMMIT');
is($counts->(), '1 1', 'and one before it does');
$sql->('BEGIN; SAVEPOINT s; SAVEPOINT t; SELECT queen.fire_timers(1); RELEASE t; ROLLBACK TO s; COMMIT');
is($counts->(), '1 1', 'also not one of a savepoint inside of it');
# what one database forgets is counted in the other
$sql->('CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION queen; SELECT queen.schedule('counted', 'k', '1', delay => '-1 s'); SELECT queen.fire_timers()});
my $counted = q{SELECT fired, since FROM queen.pg_stat_queen_timers WHERE queue = 'counted'};
my $there = $node->safe_psql('other', $counted);
my $here = $sql->($counted);
$sql->('SELECT queen.reset_timer_stats(), queen.fire_timers()');
is($node->safe_psql('other', $counted), $there, 'a reset is of one database');
like($there, qr/^1\|\d/, 'which counts since then');
isnt($sql->($counted), $here, 'the other one begins anew');
is($sql->(q{SELECT fired || ' ' || (since > now() - interval '1 minute' AND since <= now()) FROM queen.pg_stat_queen_timers WHERE queue = 'counted'}), '1 true', 'with its next timer');

# ---- a call that takes many timers back needs no memory for each ----

$user->query_safe(q{CREATE FUNCTION peak() RETURNS bigint LANGUAGE sql AS $$ SELECT substring(pg_read_file('/proc/self/status') FROM 'VmPeak:\s+(\d+)')::bigint $$});
my $fill = q{(SELECT to_jsonb(repeat('x', 1600))) s (message)};
$sql->("SELECT count(queen.schedule(q, 'k' || n, message, delay => '1 day')) FROM generate_series(1, 10000) n, unnest('{prefix,dropped}'::text[]) q, $fill");
$sql->("SELECT count(queen.schedule_cron('rules', 'k' || n, '\@hourly', message)) FROM generate_series(1, 10000) n, $fill");
foreach my $call ("queen.cancel_prefix('prefix', 'k')", "queen.drop_queue('dropped')", "queen.drop_queue('rules')")
{
	my $caller = background($node);
	# what a call needs once
	$caller->query_safe("SELECT queen.cancel_prefix('none', 'k'), queen.drop_queue('none')");
	my $peak = $caller->query_safe('SELECT peak()');
	if ($call =~ /dropped/)
	{
		# a drop looks again at each that somebody has moved while it waited
		$user->query_safe("BEGIN; SELECT count(queen.schedule('dropped', 'k' || n, message, delay => '2 days')) FROM generate_series(1, 10000) n, $fill");
		$caller->query_until(qr/waits/, "\\echo waits\nSELECT $call \\g /dev/null\n");
		wait_for_sql($node, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted}, 'the drop');
		$user->query_safe('COMMIT');
	}
	else
	{
		$caller->query_safe("SELECT $call");
	}
	cmp_ok($caller->query_safe('SELECT peak()') - $peak, '<', 4096, "kB for $call");
	$caller->quit;
}
is($sql->('SELECT count(*) FROM queen.log_timers t FULL JOIN queen.log_timer_rules r ON false WHERE coalesce(t.queue, r.queue) IN (\'prefix\', \'dropped\', \'rules\')'), '0', 'all are gone');

is($sql->('SELECT count(*) FROM queen.verify()'), '0', 'the tables agree');
$user->quit;
check_log($node);
$node->stop;
done_testing();
