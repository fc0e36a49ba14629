# Background workers and the life of the extension and the server: they come and go by themselves, commit or abort; they come back
# whatever ends them; they do their work, show it, and rest after errors. Databases that have to be empty: 041.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(sleep);
use Workers;

my $node = new_node('workers', settings => "max_prepared_transactions = 5\nmax_worker_processes = 32\nrestart_after_crash = on\n");
my $sql = sub { my ($what, $db) = @_; return $node->safe_psql($db // 'postgres', $what) };
my $set = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };

# ---- where the extension is ----

come($node, 'postgres', 'created without a restart');
is($sql->("SELECT string_agg(item || ' ' || state, ', ') FROM queen.status() WHERE hint IS NULL AND item IN ('launcher', 'keeper', 'pulse', 'worker_slots')"),
	'launcher running, keeper running, pulse running, worker_slots enough', 'queen.status() says so');
is($sql->("SELECT string_agg(application_name, ', ' ORDER BY application_name) FROM pg_stat_activity WHERE backend_type LIKE 'queen %' AND state = 'idle'"),
	'queen keeper, queen launcher, queen pulse', 'they are idle, and say who they are');
is($sql->("SELECT count(*) FROM pg_stat_activity a WHERE backend_type LIKE 'queen %' AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid))"), '0', 'without a snapshot or a lock');
$node->restart;
come($node, 'postgres', 'a restart');

$sql->('CREATE DATABASE app; CREATE DATABASE "Other one"');
nobody($node, 'app', 'a database without it has none');
$sql->('BEGIN; CREATE EXTENSION queen; ROLLBACK', 'app');
$sql->('BEGIN; SAVEPOINT s; CREATE EXTENSION queen; ROLLBACK TO s; CREATE EXTENSION queen; ROLLBACK', 'app');
sleep 0.5;
nobody($node, 'app', 'nor when its creation is rolled back');
$sql->('BEGIN; SAVEPOINT s; CREATE EXTENSION queen; RELEASE s; COMMIT', 'app');
come($node, 'app', 'created in a savepoint');
$sql->(q{DO $$ BEGIN EXECUTE 'CREATE EXTENSION queen'; END $$}, 'Other one');
come($node, 'Other one', 'created by the way');

foreach my $what (
	['DROP EXTENSION', 'DROP EXTENSION queen', ''],
	['DROP … CASCADE', 'DROP EXTENSION queen CASCADE', 'CREATE TABLE uses (m queen.message)'],
	['DROP SCHEMA … CASCADE', 'DROP SCHEMA queen CASCADE', ''],
	['DROP OWNED', 'DROP OWNED BY boss CASCADE', ''])
{
	my ($name, $drop, $before) = @$what;
	my $pids;

	$sql->("DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'boss') THEN CREATE ROLE boss SUPERUSER; END IF; END \$\$");
	$sql->('DROP EXTENSION IF EXISTS queen CASCADE; DROP SCHEMA IF EXISTS queen', 'app');
	go($node, 'app', "$name, first");
	$sql->("SET ROLE boss; CREATE EXTENSION queen; $before", 'app');
	come($node, 'app', "$name, again");
	$pids = pids($node, 'app');
	$sql->("BEGIN; $drop; ROLLBACK", 'app');
	$sql->("BEGIN; SAVEPOINT s; $drop; ROLLBACK TO s; COMMIT", 'app');
	same($node, 'app', $pids, "$name that is rolled back");
	$sql->("BEGIN; $drop; CREATE EXTENSION queen; COMMIT", 'app');
	same($node, 'app', $pids, "$name and CREATE EXTENSION at once");
	$sql->('DROP EXTENSION queen; SET ROLE boss; CREATE EXTENSION queen', 'app');
	come($node, 'app', "$name, and again");
	quickly($node, 'app', $drop, $name);
	go($node, 'app', $name);
	nobody($node, 'app', "$name: nothing is left of them");
}
$sql->('DROP SCHEMA IF EXISTS queen; CREATE EXTENSION queen', 'app');
come($node, 'app', 'created after all');

$sql->("DROP EXTENSION queen;\nCREATE EXTENSION queen;\n" x 20, 'app');
come($node, 'app', 'dropped and created again and again');

foreach my $what ('DROP EXTENSION queen', 'DROP EXTENSION queen; CREATE EXTENSION queen')
{
	my (undef, undef, $err) = $node->psql('app', "\\set VERBOSITY sqlstate\nBEGIN; $what; PREPARE TRANSACTION 'queen workers'");
	like($err, qr/ERROR:\s+0A000/, "PREPARE after $what is refused");
}
$sql->("BEGIN; CREATE EXTENSION queen_test; PREPARE TRANSACTION 'queen workers'", 'app');
$sql->("ROLLBACK PREPARED 'queen workers'", 'app');
come($node, 'app', 'a PREPARE that was refused, and one of another extension');

# ---- work, while somebody is about to drop the extension, and behind ----

my $runs = sub { my ($task, $database) = @_; return $sql->("SELECT runs FROM queen.pg_stat_queen_workers WHERE task = '$task' AND database = '$database'") };
my $runs_on = sub {
	my ($task, $database, $what) = @_;
	my $before = $runs->($task, $database);
	ok($node->poll_query_until('postgres', "SELECT runs > $before FROM queen.pg_stat_queen_workers WHERE task = '$task' AND database = '$database'"), $what);
};

$sql->(q{SELECT queen.create_queue('old', options => '{"retention": 0}'); SELECT queen.push('old', '1')});
sleep 0.5;
is($sql->('SELECT count(*) FROM queen.log_segments'), '1', 'queen.maintain_interval = 0: nothing is cleaned up');
$set->("queen.maintain_interval = '1 s'");
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM queen.log_segments'), 'the keeper cleans up, in time');
my $dropper = background($node);
my $pids = pids($node, 'postgres');
$runs_on->('clean-up', 'postgres', 'and goes on');
$dropper->query('BEGIN; DROP EXTENSION queen_test; DROP EXTENSION queen');
my $held = $sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
sleep 1.5;
is($held . $sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), '00', 'nobody waits for an open DROP EXTENSION');
$dropper->query('ROLLBACK');
is(pids($node, 'postgres'), $pids, 'a drop that takes long and is rolled back: they stay');
$runs_on->('clean-up', 'postgres', 'and work again');
is($sql->("SELECT sum(errors) FROM queen.pg_stat_queen_workers"), '0', 'nothing of this is an error');
$dropper->quit;

# a ring that nobody uses is forgotten without a pop
$sql->("SELECT queen.push('ring', '1'); SELECT count(*) FROM queen.pop('ring', auto_ack => true); SELECT count(*) FROM queen.pop('ring')");
is($sql->("SELECT count(*) FROM queen.pg_stat_queen_hotlist WHERE queue = 'ring'"), '1', 'a ring is there');
$set->("queen.hotlist_idle_sweep_interval = '1 s'");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM queen.pg_stat_queen_hotlist WHERE queue = 'ring'"), 'the keeper sweeps it');

# ---- errors: counted, logged, a rest, and on ----

$sql->('ALTER TABLE queen.log_dropped RENAME TO hidden');
ok($node->poll_query_until('postgres', "SELECT errors >= 2 AND last_sqlstate = '42P01' AND last_error ~ 'tables of extension queen' AND last_error_at > now() - interval '1 min' FROM queen.pg_stat_queen_workers WHERE task = 'clean-up' AND database = 'postgres'"), 'an error of a task is counted, with what it says');
is(pids($node, 'postgres'), $pids, 'and ends no process');
like($sql->("SELECT next_run - last_run FROM queen.pg_stat_queen_workers WHERE task = 'clean-up' AND database = 'postgres'"), qr/^00:00:0[1-9]/, 'the task rests');
$sql->('ALTER TABLE queen.hidden RENAME TO log_dropped');
my $errors = $sql->("SELECT errors FROM queen.pg_stat_queen_workers WHERE task = 'clean-up' AND database = 'postgres'");
$runs_on->('clean-up', 'postgres', 'and runs again');
cmp_ok($sql->("SELECT max(runs) FROM queen.pg_stat_queen_workers WHERE task = 'clean-up' AND database = 'app'"), '>', 0, 'other databases go on meanwhile');

# ---- ends that nobody meant ----

foreach my $worker ('keeper', 'pulse', 'launcher')
{
	my $pid = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'queen $worker' AND coalesce(datname, 'postgres') = 'postgres'");

	$sql->("SELECT pg_cancel_backend($pid)");
	sleep 0.2;
	is($sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid"), '1', "$worker: a cancel ends nothing");
	$sql->("SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'queen $worker' AND coalesce(datname, 'postgres') = 'postgres' AND pid <> $pid"), "$worker: terminated, another comes");
	come($node, 'postgres', "$worker was terminated");
}
# a launcher that comes anew knows whom it finds, and has not forgotten how to start others
$pids = pids($node, 'postgres');
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'queen launcher'");
$sql->('CREATE DATABASE late');
$sql->('CREATE EXTENSION queen', 'late');
come($node, 'late', 'created while there is no launcher', 10);
is(pids($node, 'postgres'), $pids, 'those that were there stay');
my $victim = background($node);
my $pid = $victim->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
$victim->{run}->kill_kill;
my $again = 0;
for (1 .. 200)
{
	$again = slurp_file($node->logfile) =~ /reinitializing/ && !system('pg_isready', '-q', '-h', $node->host, '-p', $node->port);
	last if $again;
	sleep 0.1;
}
ok($again, 'the server starts anew after a crash');
come($node, $_, 'after a crash', 10) foreach 'postgres', 'app', 'Other one', 'late';

# ---- which databases ----

$pids = pids($node, 'Other one');
$set->(q{queen.databases = 'app, "Other one"'});
go($node, $_, 'not named in queen.databases') foreach 'postgres', 'late';
is($sql->("SELECT item || ' ' || state || ' ' || (hint ~ 'queen.databases') FROM queen.status() WHERE item = 'keeper'"), 'keeper absent true', 'queen.status() says what it may be');
is(pids($node, 'Other one'), $pids, 'who is named stays');
my (undef, undef, $err) = $node->psql('postgres', q{ALTER SYSTEM SET queen.databases = 'a,,b'});
like($err, qr/invalid value for parameter "queen.databases"/, 'what is no list is refused');
$set->(q{queen.databases = ''});
come($node, $_, 'all of them') foreach 'postgres', 'late';

check_worker_log($node, qr/terminating background worker "queen|terminating connection because of crash|the database system is (?:in recovery mode|not yet accepting|starting up)/);
$node->stop;

# ---- pg_upgrade's mode ----

system_or_bail('pg_ctl', '-D', $node->data_dir, '-l', $node->logfile, '-w', '-o', '-b', 'start');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'queen %'"), '0', 'none in a binary upgrade');
system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-w', 'stop');
done_testing();
