# A prepared push holds its place: across a crash, on a standby and through its promotion a reader waits for it, and delivers
# it in order or steps over its hole. The session that prepared it goes on with an empty buffer.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('prepared', streaming => 1, settings => "max_prepared_transactions = 10\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $pop = sub { return $sql->(q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.pop('q', max_messages => 10, auto_ack => true)}) };
my $peek = q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.peek('q')};

$sql->(q{CREATE TABLE work (id int); SELECT queen.push('q', '0')});
is($pop->(), '0:0', 'the partition is there');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# one session: prepares two pushes, rolls back a third, and goes on pushing
$sql->(q{
	BEGIN; INSERT INTO work VALUES (1); SELECT queen.push('q', '"kept"'); PREPARE TRANSACTION 'kept';
	SELECT queen.push('q', '"between"');
	BEGIN; SELECT queen.push('q', '"dropped"'); SAVEPOINT a; SELECT queen.push('q', '"back"'); ROLLBACK TO a; PREPARE TRANSACTION 'dropped';
	BEGIN; SELECT queen.push('q', '"never"'); ROLLBACK;
	SELECT queen.push('q', '"last"');
});
is($pop->(), '', 'nothing is delivered behind a prepared push');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $peek), '0:0', 'on a standby neither');
$node->stop('immediate');
$node->start;
is($pop->(), '', 'nor after a crash');
# nobody tells of a second phase: who waits behind it looks again within a quarter of a second
my $again = sub { $sql->('SELECT pg_sleep(0.3)') };
$sql->("COMMIT PREPARED 'kept'");
$again->();
is($sql->('SELECT count(*) FROM work'), '1', 'its other work is committed with it');
is($pop->(), '1:"kept" 2:"between"', 'committed: in its place, up to the next one');
is($pop->(), '', 'which is waited for');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $peek), '0:0 1:"kept" 2:"between"', 'the same on the standby');
$sql->("ROLLBACK PREPARED 'dropped'");
$again->();
is($pop->(), '4:"last"', 'rolled back: its hole is stepped over');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $peek), '0:0 1:"kept" 2:"between" 4:"last"', 'the same on the standby');

# the session's next transaction begins anew: what it pushes waits for its commit, and nobody waits for it
my $session = background($node);
$session->query(q{BEGIN; SELECT queen.push('q', '"p"'); PREPARE TRANSACTION 'p'; BEGIN; SELECT queen.push('q', '"open"')});
$sql->(q{COMMIT PREPARED 'p'; SELECT queen.push('q', '"other"')});
is($pop->(), '5:"p" 6:"other"', 'a push after a prepared one is written at its commit');
$session->query('COMMIT');
$session->quit;
is($pop->(), '7:"open"', 'and delivered then');

foreach my $refused ("queen.push('new', '1')", "queen.push('q', '1', partition => 'new')", "count(*) FROM queen.pop('q')")
{
	my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nBEGIN; SELECT $refused; PREPARE TRANSACTION 'no'; ", on_error_stop => 1);
	like($err, qr/0A000/, "with $refused a transaction cannot be prepared");
}
is($sql->(q{SELECT count(*) FROM pg_prepared_xacts}), '0', 'none is left');
is($sql->(q{SELECT count(*) FROM queen.queues}) . $sql->(q{SELECT count(*) FROM queen.log_partitions}), '11', 'nothing was born');

# ---- deletion stops at a prepared push, and a drop waits for it ----

my $log = q{SELECT coalesce(min(log_start)::text, 'none') || ' ' || coalesce(string_agg(base_offset || '', ',' ORDER BY base_offset), 'empty') FROM queen.log_partitions LEFT JOIN queen.log_starts USING (partition_id) LEFT JOIN queen.log_segments USING (partition_id) WHERE name = 'short'};
$sql->(q{SELECT queen.create_queue('r', options => '{"retention": 0}'); SELECT queen.push('r', '0', partition => 'short')});
$sql->(q{BEGIN; SELECT queen.push('r', '1', partition => 'short'); PREPARE TRANSACTION 'held'; SELECT queen.push('r', '2', partition => 'short')});
$sql->('CALL queen.maintain()');
# the prepared one, at 1, is not to be seen yet
is($sql->($log), '1 2', 'what lies before a prepared push goes, what lies behind it stays');
$sql->("COMMIT PREPARED 'held'");
is($sql->(q{SELECT string_agg(message::text, ' ') FROM queen.peek('r', 'short')}), '1 2', 'and is read');
$sql->('CALL queen.maintain()');
is($sql->($log), '3 empty', 'then they go');
$sql->(q{BEGIN; SELECT queen.push('r', '3', partition => 'short'); PREPARE TRANSACTION 'held'});
foreach my $function ('purge_queue', 'drop_queue')
{
	my $waiting = background($node);
	$waiting->query_until(qr/begun/, "\\echo begun\nSELECT queen.$function('r');\n");
	wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%$function%' AND wait_event = 'transactionid' AND pid <> pg_backend_pid()", 'waiting for the prepared push');
	$sql->("COMMIT PREPARED 'held'");
	$waiting->quit;
	is($sql->(q{SELECT count(*) FROM queen.peek('r', 'short')}), '0', "$function waits for it and takes it along") if $function eq 'purge_queue';
	$sql->(q{SELECT queen.push('r', '4', partition => 'short'); BEGIN; SELECT queen.push('r', '5', partition => 'short'); PREPARE TRANSACTION 'held'}) if $function eq 'purge_queue';
}
is($sql->(q{SELECT count(*) FROM queen.list_queues() WHERE queue = 'r'}), '0', 'drop_queue waits for it, too');
$sql->('CALL queen.maintain()');
is($sql->(q{SELECT count(*) FROM queen.log_partitions WHERE name = 'short'}) . $sql->('SELECT count(*) FROM queen.log_dropped'), '00', 'and nothing is left');

# ---- a standby is promoted while pushes are prepared and leases run ----

$sql->(q{SELECT queen.push_batch('q', '[8, 9]'); SELECT queen.pop('q', 'late', 7, auto_ack => true)});
my $lease = $sql->(q{SELECT DISTINCT lease FROM queen.pop('q', 'late', 2, lease_time => '1 h')});
my $nacked = $sql->(q{SELECT queen.nack(lease, delay => '1 h') FROM queen.pop('q', 'nacks')});
$sql->(q{
	BEGIN; SELECT queen.push('q', '"first"'); PREPARE TRANSACTION 'first';
	SELECT queen.push('q', '"behind"');
	BEGIN; SELECT queen.push('q', '"second"'); PREPARE TRANSACTION 'second';
	BEGIN; SELECT queen.push('q', '"third"'); PREPARE TRANSACTION 'third'});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop('immediate');
$standby->promote;
my $there = sub { return $standby->safe_psql('postgres', $_[0]) };
my $take = sub { return $there->("SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.pop('q', '$_[0]', max_messages => 20, auto_ack => true)") };
is($there->(q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts}), 'first second third', 'promoted: they are still prepared');
is($there->(q{SELECT blocking_gid FROM queen.pg_stat_queen_blocked WHERE consumer_group = 'default' AND reason = 'behind a push'}), '', 'nothing is behind them for who has not come there');
is($take->('default'), '8:8 9:9', 'promoted: up to the first of them');
is($there->(q{SELECT blocking_gid FROM queen.pg_stat_queen_blocked WHERE consumer_group = 'default' AND reason = 'behind a push'}), 'first', 'which is named');
is($take->('late'), '', 'a lease runs on');
is($there->("SELECT queen.ack('$lease')"), '2', 'and is acknowledged');
is($take->('nacks'), '', 'so does the delay of a head that failed');
$there->(q{SELECT queen.push('q', '"new"')});
$there->("COMMIT PREPARED 'second'");
is($take->('default'), '', 'one that is committed before the first waits for it, and so does a new push');
$there->("COMMIT PREPARED 'first'");
$there->('SELECT pg_sleep(0.3)');
is($take->('default'), '10:"first" 11:"behind" 12:"second"', 'all in the order of their pushes, up to the next');
$there->("ROLLBACK PREPARED 'third'");
$there->('SELECT pg_sleep(0.3)');
is($take->('default'), '14:"new"', 'a new push came behind all that were prepared');
is($take->('late'), '10:"first" 11:"behind" 12:"second" 14:"new"', 'for each group');
check_cursors($standby);
check_partitions($standby);
check_log($_) foreach $node, $standby;
$standby->stop;
done_testing();
