# Waiting: what wakes who waits, how many wake, what a waiter holds meanwhile, and that a wake is never lost with the one who got it.
# queen.wait_poll_interval is stretched so far that nobody looks by himself: who is not told waits until the test gives up. The pulse is
# there only where a test says so.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('wait', preload => 'queen_test, queen', settings => "max_connections = 320\nqueen.hotlist_reseed_interval = 0\nqueen.wait_poll_interval = 1h\nmax_prepared_transactions = 5\nqueen.databases = 'none'\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $ring = sub { my ($queue, $what) = @_; return $sql->("SELECT $what FROM queen.pg_stat_queen_hotlist WHERE queue = '$queue' AND consumer_group = 'default'") };
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%waiter%' AND wait_event_type = 'Extension' AND pid <> pg_backend_pid()";

# Sessions that wait, each with what it will have said. More: settings that each begins with.
sub waiters
{
	my ($count, $statement, $more) = @_;
	my @waiters;

	foreach my $n (1 .. $count)
	{
		my $w = { out => '', err => '' };
		local $ENV{PGOPTIONS} = $more // '';
		$w->{h} = IPC::Run::start([ 'psql', '-qXAt', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-c', "$statement /* waiter */" ], '<', \undef, '>', \$w->{out}, '2>', \$w->{err});
		push @waiters, $w;
	}
	my $query = "$asleep AND query LIKE '%' || \$q\$$statement\$q\$ || '%'";
	my $end = time + 30;
	my $got;

	sleep(0.02) while ($got = $sql->($query)) != $count && time < $end;
	$got == $count or die "timed out: $got sleepers of $statement: " . join(' ', map { over($_); $_->{out} . $_->{err} } @waiters[0 .. ($#waiters > 3 ? 3 : $#waiters)]);
	return @waiters;
}
# Has its session ended? A harness whose process is gone dies when it is pumped.
sub over { my ($w) = @_; eval { $w->{h}->pump_nb if $w->{h}->pumpable }; return !$w->{h}->pumpable }
sub run { my ($queue, $more) = @_; return (waiters(1, "CALL queen.wait('$queue', timeout => '1 h'" . ($more // '') . ')'))[0] }

# A waiter wakes by what is done, says so, and in much less than the hour that it would have slept.
sub wakes
{
	my ($what, $waiter, $does, $answer) = @_;
	my $end = time + 60;

	ref $does ? $does->() : $sql->($does);
	sleep(0.005) while !over($waiter) && time < $end;
	if (!over($waiter)) { $waiter->{h}->kill_kill; return ok(0, "$what: it sleeps on") }
	$waiter->{h}->finish;
	is($waiter->{out} =~ s/\s+$//r, $answer // 't', $what) or diag($waiter->{err});
}
# … and does not by this
sub sleeps
{
	my ($what, $waiter, $does) = @_;

	$sql->($does);
	sleep(0.1);
	ok(!over($waiter) && $waiter->{out} eq '', $what) or diag($waiter->{out} . $waiter->{err});
}
my $empty = sub { my ($queue) = @_; $sql->("SELECT count(*) FROM queen.pop('$queue', max_messages => 1000, max_partitions => 1000, auto_ack => true);" x 4) };
my $lease = sub { return $sql->("SELECT lease FROM queen.pop('$_[0]', lease_time => '1 h')") };

$sql->("SELECT queen.create_queue(q), queen.subscribe(q, 'default') FROM unnest('{a,b,h}'::text[]) q; SELECT queen.push('a', '1', 'p')");
$empty->('a');

# ---- what a waiter holds ----

my ($w) = waiters(1, "CALL queen.wait('a', timeout => '1 h')");
is($sql->("SELECT coalesce(backend_xmin::text, 'none') || ' ' || coalesce(backend_xid::text, 'none') || ' ' || state FROM pg_stat_activity WHERE query LIKE '%waiter%' AND pid <> pg_backend_pid()"), 'none none active', 'who waits holds neither a snapshot nor a transaction id');
is($sql->("SELECT string_agg(locktype, ' ') FROM pg_locks WHERE pid = (SELECT pid FROM pg_stat_activity WHERE query LIKE '%waiter%' AND pid <> pg_backend_pid())"), 'virtualxid', '… nor a lock');
is($ring->('a', 'waiting'), '1', '… and is seen');
wakes('a push wakes it', $w, "SELECT queen.push('a', '1', 'p')");
is($ring->('a', "waiting || ' ' || ready"), '0 1', '… and it has taken nothing');
$empty->('a');

# ---- what wakes: at a ring, at a partition, without a ring ----

# name => [ what comes before the wait, what wakes ]; %s is a lease
my @wakes = (
	[ 'a push', '', "SELECT queen.push('a', '1', 'p')" ],
	[ 'a transaction with several savepoints', '', "BEGIN; SAVEPOINT a; SELECT queen.push('a', '1', 'p'); RELEASE a; SAVEPOINT b; SELECT queen.push('b', '1'); ROLLBACK TO b; COMMIT" ],
	[ 'a nack', 'lease', "SELECT queen.nack('%s', delay => '0')" ],
	[ 'a release', 'lease', "SELECT queen.release('%s')" ],
	[ 'an acknowledgement in front of more', 'lease of two', "SELECT queen.ack('%s')" ],
	[ 'a seek', '', "SELECT queen.seek('a', 'default', 0, 'p')" ],
	[ 'a resume', 'pause', "SELECT queen.resume('a')" ],
	[ 'a resume of the group', 'pause group', "SELECT queen.resume('a', 'default')" ],
	[ 'a redrive', 'dead', "SELECT queen.redrive('a')" ],
	[ 'the end of a delay that is configured away', 'delay', "SELECT queen.configure('a', '{\"delayed_processing\": null}')" ],
);
foreach my $where ('a ring', 'a partition', 'no ring: the hot-list is off')
{
	foreach my $case (@wakes)
	{
		my ($name, $before, $does) = @$case;
		my $id = '';

		$sql->("SELECT queen.push('a', '1', 'p')" . ($before =~ /two/ ? ", queen.push('a', '2', 'p')" : '')) if $before =~ /lease|pause|dead/;
		$id = $lease->('a') if $before =~ /lease|dead/;
		$sql->("SELECT queen.nack('$id', dead => true)"), $empty->('a') if $before eq 'dead';
		$sql->($before eq 'pause' ? "SELECT queen.pause('a')" : "SELECT queen.pause('a', 'default')") if $before =~ /pause/;
		$sql->("SELECT queen.configure('a', '{\"delayed_processing\": \"1 h\"}'); SELECT count(*) FROM queen.pop('a'); SELECT queen.push('a', '1', 'p')") if $before eq 'delay';
		my ($waiter) = waiters(1, "CALL queen.wait('a', timeout => '1 h'" . ($where =~ /partition/ ? ", partition => 'p'" : '') . ')', $where =~ /off/ ? '-c queen.hotlist=off' : '');
		wakes("$where: $name wakes", $waiter, $does =~ s/%s/$id/r);
		$empty->('a');
	}

	# the end of another's transaction
	foreach my $end ('ROLLBACK', 'COMMIT')
	{
		my $other = background($node);

		$sql->("SELECT queen.push('a', '1', 'p'), queen.push('a', '2', 'p')");
		$other->query('BEGIN');
		$other->query("SELECT msg_offset FROM queen.pop('a', auto_ack => true)");
		# a look meets the locked row and looks again soon; at a ring it is told
		my ($waiter) = waiters(1, "CALL queen.wait('a', timeout => '1 h'" . ($where =~ /partition/ ? ", partition => 'p'" : '') . ')', $where =~ /off/ ? '-c queen.hotlist=off' : '');
		wakes("$where: the $end of who had taken it wakes", $waiter, sub { $other->query($end) });
		$other->quit;
		$empty->('a');
	}
}

# ---- births ----

wakes('a queue is born by a push', run('born'), "SELECT queen.push('born', '1')");
wakes('… or made, and then pushed to', run('made'), "SELECT queen.create_queue('made'); SELECT queen.push('made', '1')");
sleeps('what is born under another tenant is not', my $other_tenant = run('mine'), "SET queen.tenant = '123e4567-e89b-12d3-a456-426614174000'; SELECT queen.push('mine', '1')");
wakes('… is its own', $other_tenant, "SELECT queen.push('mine', '1')");
wakes('a partition is born', run('a', ", partition => 'unborn'"), "SELECT queen.push('a', '1', 'unborn')");
$empty->('a');
sleeps('a push to another partition is none of this one', my $p = run('a', ", partition => 'p'"), "SELECT queen.push('a', '1', 'unborn')");
wakes('… but this one is', $p, "SELECT queen.push('a', '1', 'p')");
$empty->('a');
my $subscriber = background($node);
$subscriber->query('BEGIN');
$subscriber->query("SELECT queen.subscribe('a', 'late')");
wakes('a group whose subscription runs', run('a', ", consumer_group => 'late'"), sub { $subscriber->query('COMMIT') });
$subscriber->quit;
$w = run('b');
$sql->("SELECT queen.drop_queue('b')");
wakes('who waits at a queue that is dropped waits for the next', $w, "SELECT queen.push('b', '1')");
$empty->('b');
$w = run('b');
$sql->("SELECT queen.purge_queue('b')");
wakes('… and at one that is purged goes on', $w, "SELECT queen.push('b', '1')");
$empty->('b');
$w = run('b');
$sql->("SELECT queen.unsubscribe('b', 'default')");
wakes('… and of a group that is unsubscribed subscribes anew', $w, "SELECT queen.push('b', '1')");
$empty->('b');
wakes('rows that SQL writes owe a walk', run('b'), "UPDATE queen.log_cursors SET committed = -1 WHERE partition_id IN (SELECT partition_id FROM queen.log_partitions JOIN queen.queues USING (log_id) WHERE queues.name = 'b')");
$empty->('b');

# ---- pauses ----

$sql->("SELECT queen.push('a', '1', 'p'); SELECT queen.pause('a')");
$w = run('a');
my $before = $sql->("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'");
sleeps('a push does not wake who waits at a paused queue', $w, "SELECT queen.push('a', '1', 'p2')");
is($ring->('a', 'waiting'), '0', '… nor does it stand at the ring, where it would spin');
wakes('… a resume does', $w, "SELECT queen.resume('a')");
$empty->('a');
$w = run('a');
$sql->("SELECT queen.pause('a')");
sleeps('who waited before the pause waits on', $w, "SELECT queen.push('a', '1', 'p')");
wakes('… for its end', $w, "SELECT queen.resume('a')");
$empty->('a');

# ---- deadlines: by the pulse, and by who knows them ----

my $pulse = background($node);
$pulse->query_until(qr/attending/, "\\echo attending\nSELECT queen_test_attend(30000);\n");
$sql->("SELECT queen.push('a', '1', 'p'); SELECT count(*) FROM queen.pop('a', lease_time => '1 s')");
wakes('a lease that ends by itself, by the pulse', run('a'), 'SELECT 1');
$empty->('a');
$sql->("SELECT queen.push('a', '1', 'p'); SELECT count(*) FROM queen.pop('a', lease_time => '1 s')");
wakes('… at a partition without it', run('a', ", partition => 'p'"), 'SELECT 1');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%queen_test_attend%' AND pid <> pg_backend_pid()");
$pulse->quit;
sleep(0.05) while $sql->("SELECT count(*) FROM queen.pop('a', auto_ack => true)") eq '0';
$empty->('a');

# ---- how many ----

my @crowd = waiters(200, "CALL queen.wait('h', timeout => '1 h')");
is($ring->('h', 'waiting'), '200', '200 wait');
my $wakes = $ring->('h', 'wakes');
my $count_gone = sub { my $gone = 0; foreach (@crowd) { $gone++ if over($_) } return $gone };
my $settles = sub { my ($n) = @_; my $end = time + 30; sleep(0.02) while $count_gone->() < $n && time < $end; sleep(0.3); return $count_gone->() };
$sql->("SELECT queen.push('h', '1', 'p')");
is($settles->(1), 1, 'one message: one of them wakes');
is($ring->('h', 'wakes') - $wakes, 1, '… and no other was woken in vain');
$empty->('h');
$sql->("SELECT queen.push('h', '1', 'p' || n) FROM generate_series(1, 10) n");
is($settles->(11), 11, 'ten partitions: ten');
$empty->('h');
# who is woken and ends before it looks: a stopped process is told, cannot answer, and the next is told when it dies
my $pids = sub { return split /\n/, $sql->("SELECT pid FROM pg_stat_activity WHERE query LIKE '%waiter%' AND query LIKE '%''h''%' AND pid <> pg_backend_pid() ORDER BY backend_start") };
my @pids = $pids->();
kill 'STOP', @pids;
$sql->("SELECT queen.push('h', '1', 'p')");
sleep(0.3);
my $left = $ring->('h', 'waiting');
is($left, 188, 'one that cannot run is woken');
# all that are stopped are told to end: whoever had the wake gives it to the next, to the last one who lives
my $survivor = pop @pids;
$sql->("SELECT pg_terminate_backend($_)") foreach @pids;
kill 'CONT', @pids, $survivor;
is($settles->(200), 200, 'when those that were woken are terminated, it comes to the last');
is(scalar(grep { $_->{out} =~ /^t/ } @crowd), 12, '… who is told that there is work');
$empty->('h');
$_->{h}->finish foreach @crowd;

# ---- two at once, one of them cancelled ----

@crowd = waiters(2, "CALL queen.wait('h', timeout => '1 h')");
@pids = $pids->();
kill 'STOP', $pids[0];
$sql->("SELECT queen.push('h', '1', 'p')");
sleep(0.2);
$sql->("SELECT pg_cancel_backend($pids[0])");
kill 'CONT', $pids[0];
is($settles->(2), 2, 'one is woken and cancelled: the other one wakes');
is(join(' ', sort map { $_->{out} =~ /^t/ ? 'ready' : $_->{err} =~ /canceling/ ? 'cancelled' : $_->{out} . $_->{err} } @crowd), 'cancelled ready', '… and says so');
$_->{h}->finish foreach @crowd;
$empty->('h');

# ---- while a wake has no answer, the others come with the tick, the next news, or the answer ----

$node->append_conf('postgresql.conf', "queen.wake_interval = 1s\n");
$node->reload;
sleep(0.2);
@crowd = waiters(3, "CALL queen.wait('h', timeout => '1 h')");
@pids = $pids->();
kill 'STOP', $pids[0];
$sql->("SELECT queen.push('h', '1', 'p1')");
$sql->("SELECT queen.push('h', '1', 'p2')");
sleep(0.3);
is($count_gone->(), 0, 'while a wake has no answer nobody else is woken');
kill 'CONT', $pids[0];
is($settles->(2), 2, '… and with the answer who is due is');
$empty->('h');
@crowd = (@crowd, waiters(2, "CALL queen.wait('h', timeout => '30 min')"));
@pids = $pids->();
kill 'STOP', $pids[0];
$sql->("SELECT queen.push('h', '1', 'p1')");
$pulse = background($node);
$pulse->query_until(qr/attending/, "\\echo attending\nSELECT queen_test_attend(10000);\n");
$sql->("SELECT queen.push('h', '1', 'p2')");
my $since = time;
is($settles->(3), 3, '… or with the pulse\'s tick, when the interval is over');
kill 'CONT', $pids[0];
is($settles->(4), 4, '… and who was late finds work, too');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%queen_test_attend%' AND pid <> pg_backend_pid()");
$pulse->quit;
$empty->('h');
wakes('the last one is there still', over($crowd[-1]) ? $crowd[-2] : $crowd[-1], "SELECT queen.push('h', '1', 'p')");
$_->{h}->finish foreach @crowd;
$empty->('h');

# ---- pop(wait) ----

wakes('a pop that waits', (waiters(1, "SELECT message FROM queen.pop('a', wait => '1 h', auto_ack => true)"))[0], "SELECT queen.push('a', '7', 'p')", '7');
wakes('… for a partition', (waiters(1, "SELECT message FROM queen.pop('a', partition => 'p', wait => '1 h', auto_ack => true)"))[0], "SELECT queen.push('a', '8', 'p')", '8');
wakes('… without a ring', (waiters(1, "SELECT message FROM queen.pop('a', wait => '1 h', auto_ack => true)", '-c queen.hotlist=off'))[0], "SELECT queen.push('a', '9', 'p')", '9');
is($sql->("SELECT count(*) FROM queen.pop('a', wait => '100 ms')"), '0', '… until its time is over');

# ---- a pipeline ----

# from 18 on the server itself makes a transaction block of a pipeline from its second statement on
my $refusal = $node->pg_version >= 18 ? qr/queen.wait\(\) cannot run inside a transaction block/ : qr/queen.wait\(\) cannot run behind other statements of a pipeline/;
my $script = PostgreSQL::Test::Utils::tempdir . '/pipeline.sql';
append_to_file($script, "\\startpipeline\nSELECT 1;\nCALL queen.wait('a', timeout => '0');\n\\endpipeline\n");
$node->command_fails_like([ 'pgbench', '-n', '-M', 'extended', '-t', '1', '-f', $script, 'postgres' ], $refusal, 'what a pipeline has done is not committed by a wait behind it');
append_to_file("$script.alone", "CALL queen.wait('a', timeout => '0');\n");
$node->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-t', '2', '-f', "$script.alone", 'postgres' ], '… alone it runs, prepared too');

# ---- NOTIFY: by the pulse, once for many pushes ----

$sql->("SELECT queen.configure('a', '{\"notify\": true}')");
my $channel = $sql->("SELECT queen.notify_channel('a')");
my $listener = background($node);
$listener->query("LISTEN $channel");
$pulse = background($node);
$pulse->query_until(qr/attending/, "\\echo attending\nSELECT queen_test_attend(1000);\n");
$sql->("SELECT 1") until $sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%queen_test_attend%' AND wait_event_type = 'Extension'") eq '1';
$sql->("SELECT queen.push('a', '1', 'p')"), $sql->("SELECT queen.push('h', '1', 'p')") for 1 .. 5;
$pulse->quit;
my $heard = $listener->query("SELECT 'heard'");
is(() = $heard =~ /Asynchronous notification "$channel"/g, 1, 'who listens is told once');
unlike($heard, qr/notification "(?!$channel)/, '… of queues with the option only');
$listener->quit;

# ---- a server whose hot-list has no room, and one without ----

foreach my $size ('1MB', '0')
{
	$node->append_conf('postgresql.conf', "queen.hotlist_size = $size\nqueen.wake_interval = 5ms\n");
	$node->restart;
	$sql->("SELECT queen.create_queue('f' || n), queen.subscribe('f' || n, 'default') FROM generate_series(1, 300) n");
	$sql->("SELECT count(*) FROM generate_series(1, 300) n, queen.pop('f' || n)") if $size ne '0';
	$w = run('f7');
	wakes("a push wakes, hotlist_size = $size", $w, "SELECT queen.push('f7', '1')");
	wakes("… by a partition's name", run('f8', ", partition => 'p'"), "SELECT queen.push('f8', '1', 'p')");
	$empty->($_) foreach 'f7', 'f8';
}

# ---- not preloaded: by looking ----

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$w = { out => '', err => '' };
$w->{h} = IPC::Run::start([ 'psql', '-qXAt', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-c', "LOAD 'queen'", '-c', 'SET queen.wait_poll_interval = 100', '-c', "CALL queen.wait('f9', timeout => '1 h') /* waiter */" ], '<', \undef, '>', \$w->{out}, '2>', \$w->{err});
$node->poll_query_until('postgres', $asleep, '1') or die;
wakes('without preload it looks', $w, "SELECT queen.push('f9', '1')");

check_log($node);
done_testing;
