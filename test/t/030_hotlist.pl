# The hot-list inside the server: what a transaction tells it and when, who gets what a long transaction does not hold, crashes, other
# databases, settings, a pool that is too small, its views. What its answers are is tested by the regression and isolation tests, which
# run with it and without; its inner life by test/unit.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('hotlist', preload => 'queen_test, queen', settings => "max_prepared_transactions = 5\nqueen.hotlist_size = 1MB\nqueen.hotlist_reseed_interval = 0\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $err = sub { my ($db, $what) = @_; my ($rc, $out, $e) = $node->psql($db, "\\set VERBOSITY sqlstate\n$what"); return $e =~ s/^.*ERROR:\s*//sr };
my $ring = sub { my ($queue, $what) = @_; return $sql->("SELECT $what FROM queen.pg_stat_queen_hotlist WHERE queue = '$queue' ORDER BY consumer_group LIMIT 1") };
my $pop = sub { my ($queue, $n) = @_; return "SELECT coalesce(string_agg(partition || ':' || msg_offset, ' ' ORDER BY partition), '') FROM queen.pop('$queue', max_messages => $n, max_partitions => $n, auto_ack => true)" };
# a queue whose ring is there and has paid its first walk
my $queue = sub { my ($name) = @_; $sql->("SELECT queen.create_queue('$name'); SELECT queen.subscribe('$name', 'default')"); $sql->($pop->($name, 1)) };

is($sql->("SELECT string_agg(name || ' ' || setting || ' ' || context, ', ' ORDER BY name) FROM pg_settings WHERE name IN ('queen.hotlist_size', 'queen.hotlist_window_batch')"),
	'queen.hotlist_size 1024 postmaster, queen.hotlist_window_batch 100 postmaster', 'what is set at the start only');

# ---- when it is told ----

$queue->('told');
is($ring->('told', "ready || ' ' || owes"), '0 nothing', 'a ring is there when a pop has asked, and has paid its walk');
$sql->("BEGIN; SELECT queen.push('told', '0', 'a'); ROLLBACK");
is($ring->('told', 'marks'), '0', 'what is rolled back marks nothing');
$sql->("BEGIN; SAVEPOINT s; SELECT queen.push('told', '0', 'a'); ROLLBACK TO s; SELECT queen.push('told', '0', 'b'); COMMIT");
is($ring->('told', "marks || ' ' || ready"), '1 1', 'nor is what a savepoint took back');
my $pusher = background($node);
$pusher->query("BEGIN; SELECT queen.push('told', '0', 'c')");
is($ring->('told', 'marks'), '1', 'a push marks at its commit');
$pusher->query('COMMIT');
is($ring->('told', "marks || ' ' || ready"), '2 2', 'and not before');
is($sql->("SELECT string_agg(partition, ' ' ORDER BY partition) FROM queen.hotlist_candidates('told', 'default')"), 'b c', 'queen.hotlist_candidates says what it would name');
is($sql->($pop->('told', 9)), 'b:0 c:0', 'a pop is told both');
is($ring->('told', "ready + parked + checked_out || ' ' || clears"), '0 2', 'and what it has emptied is forgotten');
my $before = $ring->('told', 'takes');
$sql->($pop->('told', 9)) for 1 .. 5;
is($ring->('told', 'takes'), $before, 'a pop that has nothing to get looks at nothing');
$sql->("SELECT queen.push('told', '1', 'a')");
$sql->("BEGIN; SELECT queen.push('told', '1', 'b'); PREPARE TRANSACTION 'queen hot'");
is($ring->('told', 'ready'), '2', 'a prepared push marks');
is($sql->($pop->('told', 9)), 'a:0', 'but nothing of it is delivered');
is($ring->('told', "parked || ' ' || behind_push"), '1 1', 'who waits behind it is parked');
$sql->("COMMIT PREPARED 'queen hot'; SELECT pg_sleep(0.3)");
is($sql->($pop->('told', 9)), 'b:1', 'and is looked at soon after the second phase');

# what lies behind a batch and is prepared: a pop has not drained the partition
foreach my $most (1, 9)
{
	$sql->("SELECT queen.push('told', '2', 'c$most'); BEGIN; SELECT queen.push('told', '3', 'c$most'); PREPARE TRANSACTION 'queen hot'");
	is($sql->("SELECT string_agg(message::text, ' ') FROM queen.pop('told', max_messages => $most, auto_ack => true)"), '2', "a pop of $most takes what lies before a prepared push");
	$sql->("SELECT count(*) FROM queen.pop('told', auto_ack => true)");
	$sql->("COMMIT PREPARED 'queen hot'");
	$sql->('SELECT pg_sleep(0.3)');
	is($sql->("SELECT string_agg(message::text, ' ') FROM queen.pop('told', max_messages => $most, auto_ack => true)"), '3', 'and the partition is not forgotten meanwhile');
}

# ---- acknowledgements, and what else moves a cursor ----

$queue->('acks');
$sql->("SELECT queen.push('acks', to_jsonb(n), 'p') FROM generate_series(1, 4) n");
$sql->("CREATE TABLE held AS SELECT * FROM queen.pop('acks', max_messages => 2)");
is($ring->('acks', "ready || ' ' || parked"), '0 1', 'what is under a lease is parked');
$sql->("SELECT queen.ack(lease) FROM held LIMIT 1");
is($ring->('acks', 'ready'), '1', 'the acknowledgement makes ready what has more');
$sql->("TRUNCATE held; INSERT INTO held SELECT * FROM queen.pop('acks', max_messages => 9); SELECT queen.ack(lease) FROM held LIMIT 1");
is($ring->('acks', "ready + parked + checked_out"), '0', 'and forgets what has not');
$sql->("SELECT queen.push('acks', '5', 'p'); TRUNCATE held; INSERT INTO held SELECT * FROM queen.pop('acks'); SELECT queen.nack(lease, delay => '0') FROM held");
is($sql->("SELECT attempt FROM queen.pop('acks')"), '2', 'a message that failed is there at once');
$sql->("TRUNCATE held; SELECT queen.push('acks', '6', 'q'); INSERT INTO held SELECT * FROM queen.pop('acks'); SELECT queen.release(lease) FROM held");
is($sql->($pop->('acks', 9)), 'q:0', 'one that was given back, too');
$sql->("SELECT queen.seek('acks', 'default', 0, 'q')");
is($sql->($pop->('acks', 9)), 'q:0', 'and what a seek went back to');
$sql->("BEGIN; SELECT queen.seek('acks', 'default', 0, 'q'); ROLLBACK; BEGIN; SELECT queen.seek_to_end('acks', 'default', 'q'); ROLLBACK");
is($sql->($pop->('acks', 9)), '', 'a seek that is rolled back changes nothing');
# what it says is its own, and may be rolled back
$sql->("SET statement_timeout = '10 s'; SELECT queen.push('acks', '7', 'q'); BEGIN; SELECT queen.seek_to_end('acks', 'default', 'q'); " . $pop->('acks', 9) . '; ROLLBACK');
is($sql->($pop->('acks', 9)), 'q:1', 'what a transaction found empty because of its own seek is not lost when it rolls back');

# its own ack, too: looked at when the lease's park has ended, and pending again when the lease has
$queue->('own');
$sql->("SELECT queen.push('own', '1', 'p'); TRUNCATE held; INSERT INTO held SELECT * FROM queen.pop('own', lease_time => '2 s')");
is($sql->("BEGIN; SELECT queen.ack(lease) FROM held; SELECT pg_sleep(1.2); " . $pop->('own', 9) . '; ROLLBACK; SELECT pg_sleep(1)'), "1\n\n\n", 'a transaction finds what it has acknowledged empty');
is($sql->($pop->('own', 9)), 'p:0', 'which is not lost when it rolls back');

# and what it finds deferred by options of its own
$sql->("SELECT queen.push('own', '2', 'p')");
is($sql->("BEGIN; SELECT queen.configure('own', '{\"delayed_processing\": 600}') IS NOT NULL; " . $pop->('own', 9) . '; ROLLBACK'), "t\n", 'a transaction finds deferred what it has configured so');
is($sql->($pop->('own', 9)), 'p:1', 'which is there when that is rolled back');

# ---- a transaction that takes and does not end ----

$queue->('long');
$sql->("SELECT queen.push('long', '0', 'p' || n) FROM generate_series(1, 100) n");
my $long = background($node);
$long->query('BEGIN; ' . $pop->('long', 1));
is($ring->('long', "ready || ' ' || checked_out"), '99 1', 'a transaction that has popped holds back one candidate');
is($sql->("SELECT count(*) FROM queen.pop('long', max_messages => 1000, max_partitions => 1000, auto_ack => true)"), '99', 'and the others are for everybody');
is($sql->($pop->('long', 9)), '', 'but not its own');
$long->query('ROLLBACK');
is($ring->('long', "ready || ' ' || checked_out"), '1 0', 'which its rollback gives back');
like($long->query('BEGIN; SAVEPOINT s; ' . $pop->('long', 1) . '; ROLLBACK TO s; ' . $pop->('long', 1)), qr/p\d+:0\n.*p\d+:0/s, 'as does that of a savepoint');
my $pid = $long->query('SELECT pg_backend_pid()') =~ s/\D//gr;
$sql->("SELECT pg_terminate_backend($pid, 10000)");
is($ring->('long', "ready || ' ' || checked_out"), '1 0', 'and the end of a session that is terminated');
$long->{run}->finish;
my $popper = background($node);
$popper->query('BEGIN; ' . $pop->('long', 1) . '; SELECT 1/0');
is($ring->('long', 'ready'), '1', 'and an error');
$popper->query('ROLLBACK');
# in one transaction the partition goes on behind what was taken of it
$sql->("SELECT queen.push('long', to_jsonb(n), 'more') FROM generate_series(1, 3) n; SELECT queen.seek_to_end('long', 'default', partition) FROM (SELECT DISTINCT partition FROM queen.lag('long', 'default') WHERE partition <> 'more') p");
is($sql->("BEGIN; SELECT string_agg(message::text, ' ') FROM (SELECT message FROM queen.pop('long', auto_ack => true) UNION ALL SELECT message FROM queen.pop('long', auto_ack => true) UNION ALL SELECT message FROM queen.pop('long', auto_ack => true)) m; COMMIT"), '1 2 3',
	'pops of one transaction go on in a partition');
is($ring->('long', "ready + parked + checked_out"), '0', 'which is idle at its commit');

# who has met a locked row is told when it is free, and does not wait for its park to end
$queue->('named');
$sql->("SELECT queen.push('named', to_jsonb(n), 'p') FROM generate_series(1, 3) n");
my $holder = background($node);
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$holder->query("BEGIN; SELECT count(*) FROM queen.pop('named', partition => 'p', auto_ack => true)");
	is($sql->($pop->('named', 1)), '', 'a partition that another one has popped by its name is locked');
	is($ring->('named', 'parked'), '1', 'and parked');
	$holder->query($end);
	is($ring->('named', "ready || ' ' || parked"), '1 0', "until its $end");
}
is($sql->("SELECT string_agg(message::text, ' ') FROM queen.pop('named', max_messages => 9, auto_ack => true)"), '2 3', 'and the rest is there at once');
$holder->quit;

# ---- groups and queues that come and go ----

$sql->("SELECT queen.push('unborn', '1')");
is($sql->("BEGIN; SELECT message FROM queen.pop('unborn', 'new', auto_ack => true); SELECT count(*) FROM queen.pg_stat_queen_hotlist WHERE queue = 'unborn'; ROLLBACK"), "1\n0", 'a group gets a ring when it is committed');
$sql->("SELECT queen.push('unborn', '1'); " . $pop->('unborn', 1) . '; ' . $pop->('unborn', 1));
is($sql->("SELECT count(*) FROM queen.pg_stat_queen_hotlist WHERE queue = 'unborn'"), '1', 'and not sooner');
$sql->("SELECT queen.unsubscribe('unborn', 'default')");
is($sql->("SELECT count(*) FROM queen.pg_stat_queen_hotlist h JOIN queen.queues q USING (queue_id) WHERE q.name = 'unborn'"), '0', 'it goes with its group');
$sql->("SELECT queen.purge_queue('told'); SELECT queen.push('told', '1', 'new')");
is($sql->("SELECT count(*) FROM queen.pg_stat_queen_hotlist WHERE queue = 'told'"), '0', 'and with its queue\'s log');
is($sql->($pop->('told', 9)), 'new:0', 'what comes behind a purge is found');
# a queue that defers less than before
$sql->("SELECT queen.create_queue('late', options => '{\"delayed_processing\": 600}'); SELECT queen.subscribe('late', 'default')");
$sql->($pop->('late', 1));
$sql->("SELECT queen.push('late', '1')");
is($ring->('late', "ready || ' ' || parked"), '0 1', 'what is delayed is parked');
$sql->("SELECT queen.configure('late', '{\"delayed_processing\": 0}')");
is($sql->($pop->('late', 9)), 'Default:0', 'and looked at when the queue delays no more');

# ---- what SQL writes ----

$sql->("SELECT queen.push('told', '2', 'new'); " . $pop->('told', 9));
$sql->("UPDATE queen.log_cursors c SET committed = -1 FROM queen.log_groups g JOIN queen.queues q USING (queue_id) WHERE q.name = 'told' AND c.group_id = g.group_id");
is($sql->($pop->('told', 9)), 'new:0 new:1', 'a cursor that a superuser has moved is found');

# ---- many partitions in one transaction; more than there is room for ----

$queue->('many');
$sql->("SELECT count(queen.push('many', to_jsonb(n), 'p' || n)) FROM generate_series(1, 20000) n");
is($ring->('many', "marks || ' ' || owes"), '10000 full', 'from 10,000 partitions on the ring owes a walk instead');
is($sql->('SELECT candidates_used > 0.9 * candidates AND refused_candidates > 0 FROM queen.pg_stat_queen_hotlist_pool'), 't', 'the pool is full, and says so');
$sql->(q{
	CREATE TABLE got (partition text, message jsonb);
	DO $$
	DECLARE
		n int;
	BEGIN
		LOOP
			INSERT INTO got SELECT partition, message FROM queen.pop('many', max_messages => 500, max_partitions => 500, auto_ack => true);
			GET DIAGNOSTICS n = ROW_COUNT;
			COMMIT;
			EXIT WHEN n = 0;
		END LOOP;
	END
	$$});
is($sql->('SELECT count(*), count(DISTINCT partition) FROM got'), '20000|20000', 'everything is delivered, and once');
is($ring->('many', "ready + parked + checked_out || ' ' || owes"), '0 nothing', 'and nothing is left, nor owed');
is($sql->("SELECT bytes FROM queen.pg_stat_queen_hotlist_pool"), 1024 * 1024, 'in memory of the same size');

# ---- on and off ----

$sql->("SELECT queen.push('told', '3', 'new')");
is($sql->('SET queen.hotlist = off; ' . $pop->('told', 9)), 'new:2', 'without it pops ask the tables');
cmp_ok($sql->('SELECT by_tables_off FROM queen.pg_stat_queen_hotlist_pool'), '>', 0, 'which is counted');
$sql->("SELECT queen.push('told', '4', 'new')");
is($sql->($pop->('told', 9)), 'new:3', 'and it has been told meanwhile');
is($err->('postgres', "SET SESSION AUTHORIZATION pg_monitor; SET queen.hotlist = off"), "42501", 'only a superuser turns it off');

# ---- looking, by whom ----

is($sql->('SET SESSION AUTHORIZATION pg_monitor; SELECT count(*) > 0 FROM queen.pg_stat_queen_hotlist; SELECT count(*) FROM queen.pg_stat_queen_hotlist_pool; SELECT count(*) FROM queen.pg_stat_queen_aborted'), "t\n1\n1", 'pg_monitor reads the views');
$sql->('CREATE ROLE nobody');
is($err->('postgres', "SET SESSION AUTHORIZATION nobody; SELECT * FROM queen.pg_stat_queen_hotlist"), "42501", 'others do not');
is($err->('postgres', "SELECT queen.hotlist_candidates('none', 'g')"), "42704", 'an unknown queue');
is($err->('postgres', "SELECT queen.hotlist_reseed('told', 'none')"), "42704", 'an unknown group');
is($err->('postgres', "SELECT queen.hotlist_candidates('told', 'default', 0)"), "22023", 'a number that is out of range');
is($sql->("SELECT queen.hotlist_reseed('told', 'default')"), 't', 'a walk by hand');
$sql->('SELECT queen.reset_hotlist_stats()');
is($ring->('told', "marks || ' ' || reseeds"), '0 0', 'counters begin anew');
my $log = -s $node->logfile;
$sql->("SET queen.hotlist_trace = 'tol'; SELECT queen.push('told', '5', 'new'); " . $pop->('told', 9) . '; ' . $pop->('acks', 1));
my $lines = slurp_file($node->logfile, $log);
like($lines, qr/hot-list trace: queue "told", group "default": served 1 messages of 1 partitions by the ring/, 'a trace of the queues whose names begin so');
unlike($lines, qr/trace: queue "acks"/, 'and of no others');
$node->append_conf('postgresql.conf', "queen.log_hotlist = on\nqueen.hotlist_idle_sweep_interval = 1s\n");
$node->reload;
$sql->("SELECT queen.push('acks', '1', 'logged')");
wait_for_sql($node, "SELECT count(*) >= 0 AND pg_sleep(0.2) IS NOT NULL FROM queen.pop('told')", 'a reload');
$node->wait_for_log(qr/queen: hot-list: database \d+, queue \d+, group \d+: \d+ ready/);
pass('the busiest rings are in the log when it is asked for');
wait_for_sql($node, "SELECT pg_sleep(0.5) IS NOT NULL AND count(*) >= 0 AND (SELECT count(*) FROM queen.pg_stat_queen_hotlist) = 1 FROM queen.pop('told')", 'the sweep');
pass('rings that nobody uses are forgotten');
is($sql->($pop->('acks', 1)), 'logged:0', 'and begin anew when somebody does');
# what follows makes databases meanwhile, which takes its time
$node->append_conf('postgresql.conf', "queen.hotlist_idle_sweep_interval = 300s\n");
$node->reload;

# ---- other databases, other tables ----

$sql->('DROP EXTENSION queen CASCADE; CREATE EXTENSION queen');
$queue->('same');
$sql->('CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION queen; SELECT queen.create_queue('same'); SELECT queen.subscribe('same', 'default'); " . $pop->('same', 1));
is($sql->('SELECT count(DISTINCT (database_id, queue_id)) || \' \' || count(DISTINCT (queue_id, group_id)) FROM queen.pg_stat_queen_hotlist WHERE last_served > now() - interval \'10 s\' AND (database = \'other\' OR queue IS NOT NULL)'), '2 1', 'two databases with the same ids have a ring each');
$sql->("SELECT queen.push('same', '1', 'ours')");
is($node->safe_psql('other', $pop->('same', 9)), '', 'one does not get what is the other\'s');
is($sql->($pop->('same', 9)), 'ours:0', 'which has it');
$sql->("SELECT queen.push('same', '1', 'ours')");
$sql->('DROP EXTENSION queen CASCADE; CREATE EXTENSION queen');
$queue->('same');
is($sql->($pop->('same', 9)), '', 'tables that are made again begin with an empty ring');

# ---- racing commits, pops and walks: nothing is lost and found ----

$queue->('race');
my $run = load($node, '-c 8 -j 2 -T 6',
	'push@4' => "\\set p random(1, 40)\nSELECT queen.push('race', '1', 'p' || :p);\n",
	'take@3' => "SELECT count(*) FROM queen.pop('race', max_messages => 5, max_partitions => 3, auto_ack => true);\n",
	'lease@3' => "SELECT queen.ack_all(coalesce(array_agg(DISTINCT lease), '{}')) FROM queen.pop('race', max_messages => 5, max_partitions => 2);\n",
	'abort@1' => "BEGIN;\nSELECT count(*) FROM queen.pop('race', max_messages => 5, max_partitions => 3, auto_ack => true);\nROLLBACK;\n",
	'walk@1' => "SELECT queen.hotlist_reseed('race', 'default');\n");
finish_load($run, 'pushes, pops and walks side by side');
$sql->("SELECT queen.configure('race', '{\"max_deliveries\": 1000}')");
is($sql->('SELECT sum(reseed_repairs) FROM queen.pg_stat_queen_hotlist'), '0', 'no walk found what the ring had lost');
$sql->("DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM queen.pop('race', max_messages => 1000, max_partitions => 100, auto_ack => true); COMMIT; EXIT WHEN i % 20 = 0 AND (SELECT sum(lag) FROM queen.lag('race', 'default')) = 0; PERFORM pg_sleep(0.002); END LOOP; END \$\$");
is($sql->("SELECT sum(lag) FROM queen.lag('race', 'default')"), '0', 'everything is delivered without a walk');

# ---- a crash, no preload, no pool ----

$sql->("SELECT queen.push('same', to_jsonb(n), 'p' || n) FROM generate_series(1, 50) n");
$node->stop('immediate');
$node->start;
is($sql->("SELECT count(*) FROM queen.pop('same', max_messages => 100, max_partitions => 100, auto_ack => true)"), '50', 'behind a crash the first pop walks, and finds everything');
is($ring->('same', "reseeds || ' ' || reseed_rows || ' ' || ready"), '1 50 0', 'once');
$node->append_conf('postgresql.conf', 'queen.hotlist_size = 0');
$node->restart;
$sql->("SELECT queen.push('same', '1', 'x')");
is($sql->($pop->('same', 9)), 'x:0', 'without a pool pops ask the tables');
is($sql->('SELECT count(*) FROM queen.pg_stat_queen_hotlist_pool') . $err->('postgres', "SELECT queen.hotlist_reseed('same', 'default')"), "055000", 'and there is nothing to see');
$node->append_conf('postgresql.conf', 'queen.hotlist_size = 100kB');
$node->restart;
is($sql->('SHOW queen.hotlist_size'), '64MB', 'a pool that is too small is not made: the default is');
like(slurp_file($node->logfile), qr/invalid value for parameter "queen.hotlist_size": 100/, 'and the log says why');

check_log($node);
$node->stop;
done_testing;
