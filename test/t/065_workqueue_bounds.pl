# What work queues' calls cost where much has piled up, counted in index entries read: exhausted messages, a long lease on what has expired, a purged queue
# under a held snapshot; and what a long wait costs in memory.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('bounds', settings => "statement_timeout = '120s'\nqueen.databases = 'none'\nautovacuum = off\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $fill = sub { my ($queue, $n) = @_; $sql->("SELECT count(*) FROM queen.enqueue_batch('$queue', (SELECT jsonb_agg(i ORDER BY i) FROM generate_series(1, $n) i))") };
my $take = sub { my ($queue, $n, $more) = @_; return $sql->("SELECT coalesce(string_agg(message::text || '/' || attempt, ' ' ORDER BY message), '') FROM queen.dequeue('$queue', $n" . ($more // '') . ')') };
# index entries that a statement reads (a session's counts are shown when it has ended)
my $reads = sub {
	my ($index, $statement) = @_;
	my $count = "SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE indexrelname ~ '$index'";
	my $before = $sql->($count);

	$sql->($statement);
	return $sql->($count) - $before;
};

# ---- exhausted ----

$sql->(q{SELECT queen.create_queue('lowered', 'work')});
$fill->('lowered', 5000);
$sql->(q{SELECT count(*) FROM queen.dequeue('lowered', 5000, '1 s')});
$sql->(q{SELECT queen.enqueue('lowered', '"last"')});
$sql->(q{SELECT count(*) FROM queen.dequeue('lowered', 1, '1 s')});
sleep(1.1);
$sql->(q{SELECT queen.create_queue('lowered', 'work', '{"max_delivery_attempts": 1}')});
$sql->(q{UPDATE queen.messages SET delivery_attempts = 1});
$sql->('VACUUM queen.messages');
$sql->(q{SELECT queen.enqueue('lowered', '"new"'), queen.enqueue('lowered', '"low"', 'low')});
# 100 buried and 1,000 left of those in flight
cmp_ok($reads->('in_flight', q{SELECT count(*) FROM queen.dequeue('lowered')}), '<', 1300, 'a call does not read all that are exhausted');
is($sql->(q{SELECT exhausted FROM queen.count_messages('lowered') WHERE priority = 'medium'}), 4901, '… moves some to the dead letters');
is($take->('lowered', 10), '"low"/1', 'neither an index nor a priority waits for what is left in another') or diag($take->('lowered', 10));
my $began = time;
is($take->('lowered', 10, ", wait => '20 s'"), '', 'a wait does not go on behind burials');
cmp_ok(time - $began, '<', 10, '… but ends, so that they are committed');
is($sql->(q{SELECT sum(n) FROM (SELECT (SELECT count(*) FROM queen.dequeue('lowered', 1, wait => '20 s')) AS n FROM generate_series(1, 3)) s}), 0, 'so in one transaction');
cmp_ok(time - $began, '<', 15, '…');
my $calls = 0;
$calls++ while $sql->(q{SELECT count(*) FROM queen.dequeue('lowered', 1) HAVING count(*) > 0 OR (SELECT exhausted FROM queen.count_messages('lowered') WHERE priority = 'medium') = 0}) eq '' && $calls < 100;
cmp_ok($calls, '<', 60, 'calls get to the end of them');
is($sql->(q{SELECT count(*) FROM queen.list_dead('lowered', max_rows => 10000)}), 5001, 'all are dead');

# ---- in a transaction that has buried ----

$fill->('buried', 2);
$sql->(q{SELECT queen.create_queue('buried', 'work', '{"max_delivery_attempts": 1}')});
$sql->(q{BEGIN; SELECT count(*) FROM queen.dequeue('buried', 1); ROLLBACK});
$began = time;
is($sql->(q{BEGIN; SELECT count(*) FROM queen.dequeue('buried'); SELECT count(*) FROM queen.dequeue('buried', wait => '30 s'); COMMIT}), "0\n0", 'a call that has buried gives nothing, nor does a wait behind it');
cmp_ok(time - $began, '<', 15, '… and it does not wait for what it cannot take');

# ---- a row that was locked by SQL is found by a scan from the bottom, whatever is ready otherwise ----

my $lock = background($node);
$sql->(q{SELECT queen.create_queue('bottom', 'work', '{"retry_delay": 0}'); SELECT queen.enqueue('bottom', '"locked"')});
$lock->query_safe(q{BEGIN; SELECT FROM queen.messages m WHERE m.message = '"locked"' FOR UPDATE});
is($take->('bottom', 1), '', 'somebody is at it');
$lock->query_safe('COMMIT');
$sql->(q{SELECT queen.enqueue('bottom', '"again"'), queen.enqueue('bottom', '"again"')});
$sql->(q{SELECT queen.reject(message_id, receipt) FROM queen.dequeue('bottom', 2) d WHERE message = '"again"'}) for 1 .. 1;
sleep(5.2);
is($take->('bottom', 1), '"again"/2', 'what comes again fills a call');
is($take->('bottom', 1), '"again"/2', 'and the next one');
is($take->('bottom', 1), '"locked"/1', '… which did not use up the turn of the other index');
$lock->quit;

# ---- what has expired under a long lease ----

my $holder = background($node);
$sql->(q{SELECT count(queen.enqueue('ttl', '0', ttl => '1 s')) FROM generate_series(1, 2)});
$sql->(q{SELECT count(*) FROM queen.dequeue('ttl', 1, '1 h')});
sleep(0.01);
$sql->(q{SELECT count(queen.enqueue('ttl', '1', ttl => '1 s')) FROM generate_series(1, 3000)});
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sleep(1.1);
$sql->('CALL queen.maintain()');
is($sql->(q{SELECT count(*) FROM queen.messages WHERE expires_at < now()}), 1, 'one is under a lease');
my $least = 1e9;
foreach (1 .. 3)
{
	my $n = $reads->('expires_at', 'CALL queen.maintain()');
	$least = $n if $n < $least;
}
cmp_ok($least, '<', 100, 'the cleaner does not begin at it again and again');
$holder->query_safe('COMMIT');

# ---- a purged queue, with a snapshot held since ----

$fill->('purged', 10000) for 1 .. 2;
$sql->(q{SELECT count(*) FROM queen.dequeue('purged', 5000)});
$sql->(q{SELECT queen.purge_queue('purged')});
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $read = $reads->('ready|in_flight', q{DO $$
	DECLARE pass record := (0::bigint, 0::bigint);
	BEGIN
		FOR i IN 1 .. 1000 LOOP
			SELECT * INTO pass FROM queen_test_dropped_step(coalesce((SELECT min(dropped_id) FROM queen.log_dropped), 0), 0);
			COMMIT;
			EXIT WHEN NOT EXISTS (SELECT FROM queen.log_dropped);
		END LOOP;
	END $$});
is($sql->(q{SELECT count(*) FROM queen.log_dropped}), 0, 'it is cleaned');
is($sql->(q{SELECT count(*) FROM queen.messages m WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.log_id = m.log_id)}), 0, '… whole');
cmp_ok($read, '<', 60000, 'each step begins where the last one ended');
$holder->query_safe('COMMIT');
$holder->quit;

# ---- memory of a wait ----

$sql->(q{SELECT queen.create_queue('long', 'work')});
my $waiter = background($node);
my $pid = $waiter->query_safe('SELECT pg_backend_pid()');
$waiter->query_until(qr/go/, "\\echo go\nSELECT count(*) FROM queen.dequeue('long', wait => '60 s') \\;\n SELECT 'end';\n");
wait_for_sql($node, "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid", 'the waiter');
my $size = sub {
	my $from = -s $node->logfile;
	my $total;

	$sql->("SELECT pg_log_backend_memory_contexts($pid)");
	for (1 .. 200)
	{
		# the server's caches double now and then
		my ($cache, $all) = substr(slurp_file($node->logfile), $from) =~ /CacheMemoryContext: (\d+) total.*Grand total: (\d+) bytes/s;
		$total = $all - $cache and last if defined $all;
		sleep(0.05);
	}
	return $total // die 'no sizes in the log';
};
my $churn = sub {
	$sql->("DO \$\$ BEGIN FOR i IN 1 .. $_[0] LOOP PERFORM queen.pause('long'); COMMIT; PERFORM queen.resume('long'); COMMIT; PERFORM pg_sleep(0.004); END LOOP; END \$\$");
};
$churn->(50);
my $before = $size->();
$churn->(300);
cmp_ok($size->() - $before, '<', 200_000, 'looks leave nothing in memory') or diag("from $before");
$sql->(q{SELECT queen.enqueue('long', '1')});
$waiter->query_until(qr/end/, '');
$waiter->quit;

check_log($node);
$node->stop;
done_testing();
