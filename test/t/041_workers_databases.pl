# Background workers and databases that have to be empty: whoever drops, copies, renames or moves one does not wait for them, and they
# are back where they belong, commit or abort. And: a standby, its promotion, too few slots.
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

my $node = new_node('databases', streaming => 1, settings => "max_worker_processes = 32\n");
my $sql = sub { my ($what, $db) = @_; return $node->safe_psql($db // 'postgres', $what) };

$sql->('CREATE DATABASE app');
$sql->("CREATE EXTENSION queen; SELECT queen.push('q', '1')", 'app');
come($node, 'app', 'a database with the extension');

# ---- copy, rename, move, drop ----

quickly($node, 'postgres', 'CREATE DATABASE copy TEMPLATE app', 'CREATE DATABASE … TEMPLATE');
come($node, 'app', 'the original');
come($node, 'copy', 'a copy has the extension, too');
quickly($node, 'app', 'CREATE DATABASE own TEMPLATE app', 'a copy of the own database');
come($node, $_, 'copied by a session in it') foreach 'app', 'own';
quickly($node, 'postgres', 'ALTER DATABASE copy RENAME TO renamed', 'RENAME');
come($node, 'renamed', 'renamed');
my $tablespace = PostgreSQL::Test::Utils::tempdir;
$sql->("CREATE TABLESPACE elsewhere LOCATION '$tablespace'");
quickly($node, 'postgres', 'ALTER DATABASE renamed SET TABLESPACE elsewhere', 'SET TABLESPACE');
come($node, 'renamed', 'moved');
quickly($node, 'postgres', 'ALTER DATABASE renamed SET TABLESPACE pg_default', 'and back');
come($node, 'renamed', 'moved back');
$sql->('DROP TABLESPACE elsewhere');
quickly($node, 'postgres', 'DROP DATABASE renamed', 'DROP DATABASE');
nobody($node, 'renamed', 'nothing is left of them');
quickly($node, 'postgres', 'DROP DATABASE own WITH (FORCE)', 'DROP DATABASE … FORCE');
is($sql->("SELECT count(*) FROM queen.pg_stat_queen_workers WHERE database_id IS NOT NULL AND database IS NULL"), '0', 'no entry of a database that is gone');

# a database that others copy at the same time
my @copies = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
$copies[$_]->query_until(qr/go/, "\\echo go\nCREATE DATABASE many$_ TEMPLATE app;\n") foreach 0 .. 2;
$_->quit foreach @copies;
is($sql->("SELECT count(*) FROM pg_database WHERE datname ~ 'many'"), '3', 'copies beside each other');
come($node, $_, 'copied beside others', 20) foreach 'app', 'many0', 'many1', 'many2';
foreach my $n (0 .. 2)
{
	quickly($node, 'postgres', "DROP DATABASE many$n", "drop $n beside workers of other databases");
}
# one that is dropped while its workers start
for my $n (1 .. 5)
{
	quickly($node, 'postgres', "CREATE DATABASE brief TEMPLATE app", "a brief one, $n");
	quickly($node, 'postgres', "DROP DATABASE brief", "dropped while its workers start, $n");
}
come($node, 'app', 'after all of that');

# ---- what does not come about ----

my $guest = $node->background_psql('app', on_error_stop => 0);
$guest->query('SELECT 1');
my (undef, undef, $err) = $node->psql('postgres', 'DROP DATABASE app');
like($err, qr/is being accessed by other users.*There is 1 other session/s, 'a drop that fails for a session of somebody else, and only for that');
come($node, 'app', 'a drop that failed');
$guest->quit;

my $pids = pids($node, 'app');
$sql->('CREATE ROLE stranger LOGIN; CREATE ROLE maker LOGIN CREATEDB');
foreach my $what (['stranger', 'DROP DATABASE app'], ['stranger', 'CREATE DATABASE mine TEMPLATE app'], ['maker', 'CREATE DATABASE mine TEMPLATE app'],
	['stranger', 'ALTER DATABASE app RENAME TO mine'], ['maker', 'ALTER DATABASE app SET TABLESPACE pg_default'],
	['postgres', 'BEGIN; DROP DATABASE app'], ['postgres', 'BEGIN; CREATE DATABASE mine TEMPLATE app'], ['postgres', 'DROP DATABASE postgres'])
{
	my ($role, $statement) = @$what;
	my ($rc) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $statement", on_error_stop => 1);
	isnt($rc, 0, "$statement by $role is refused");
}
same($node, 'app', $pids, 'what is refused disturbs nobody');

my $renamer = background($node);
$renamer->query('BEGIN; ALTER DATABASE app RENAME TO other');
is(workers($node, 'app'), 'keeper evicted pulse evicted', 'a rename that is not committed keeps them away');
is($sql->("SELECT item || ' ' || state FROM queen.status() WHERE item = 'launcher'"), 'launcher running', 'and the launcher does not wait for it');
$renamer->query('ROLLBACK');
come($node, 'app', 'a rename that is rolled back');
$renamer->query('BEGIN; ALTER DATABASE app RENAME TO other; COMMIT');
come($node, 'other', 'and one that is committed');
$renamer->query('ALTER DATABASE other RENAME TO app');
$renamer->quit;
come($node, 'app', 'and back');

# ---- templates, and databases that allow no connection ----

$sql->('ALTER DATABASE app IS_TEMPLATE true');
go($node, 'app', 'a template');
quickly($node, 'postgres', 'CREATE DATABASE from_template TEMPLATE app', 'a database from a template with the extension');
come($node, 'from_template', 'made from a template');
is(pids($node, 'app'), '', 'the template has none');
$sql->('ALTER DATABASE app IS_TEMPLATE false');
come($node, 'app', 'no template any more');
$sql->('ALTER DATABASE app ALLOW_CONNECTIONS false');
go($node, 'app', 'no connection allowed');
$sql->('ALTER DATABASE app ALLOW_CONNECTIONS true');
come($node, 'app', 'connections allowed');
$sql->('DROP DATABASE from_template');

# ---- a standby ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(pids($standby, 'postgres') . $standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'queen %'"), '0', 'a standby has none');
is($standby->safe_psql('postgres', "SELECT state FROM queen.status() WHERE item = 'workers'"), 'standby', 'and says so');
is($standby->safe_psql('postgres', 'SELECT count(pid) FROM queen.pg_stat_queen_workers'), '0', 'the view too');
$sql->('CREATE DATABASE replayed TEMPLATE app; DROP DATABASE replayed');
$sql->('CREATE DATABASE replayed TEMPLATE app');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'queen %'"), '0', 'whatever it replays');
check_worker_log($node, qr/is being accessed by other users|FATAL:  .*terminating walsender/);
$node->stop;
$standby->promote;
come($standby, $_, 'promoted', 10) foreach 'postgres', 'app', 'replayed';
quickly($standby, 'postgres', 'DROP DATABASE replayed', 'DROP DATABASE there');
check_worker_log($standby, qr/FATAL:  .*(?:could not (?:connect|receive|send)|terminating walreceiver)/);
$standby->stop;

# ---- too few slots: launcher, and two workers ----

my $small = new_node('small', settings => "max_worker_processes = 3\nmax_logical_replication_workers = 0\n");
come($small, 'postgres', 'there is room for one database');
$small->safe_psql('postgres', 'CREATE DATABASE second');
$small->safe_psql('second', 'CREATE EXTENSION queen');
ok($small->poll_query_until('postgres', "SELECT count(*) = 1 FROM queen.pg_stat_queen_workers WHERE database = 'second' AND worker = 'keeper' AND state = 'no slot' AND next_start IS NOT NULL AND failures >= 2"), 'who has no slot is shown, and tried again');
is($small->safe_psql('second', "SELECT string_agg(item || ' ' || state || ' ' || (hint ~ 'max_worker_processes'), ', ') FROM queen.status() WHERE item IN ('keeper', 'worker_slots')"),
	'keeper no slot true, worker_slots exhausted true', 'queen.status() says what to do');
my $lines = () = slurp_file($small->logfile) =~ /no slot for a background worker/g;
is($lines, 1, 'one line in the log');
is($small->safe_psql('second', "SELECT count(queen.push('q', '1')); SELECT count(*) FROM queen.pop('q')"), "1\n1", 'the queue works without');
quickly($small, 'postgres', 'CREATE DATABASE third TEMPLATE second', 'a copy of a database whose workers wait for slots');
$small->safe_psql('postgres', 'DROP DATABASE third');
$small->safe_psql('postgres', "ALTER SYSTEM SET queen.databases = second");
$small->safe_psql('postgres', 'SELECT pg_reload_conf()');
come($small, 'second', 'room is made', 70);
check_worker_log($small);
$small->stop;
done_testing();
