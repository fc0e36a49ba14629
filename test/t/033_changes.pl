# The change feed: every partition that a committed push wrote to is named once to every reader of its database's tables, and named only
# when it can be seen; whoever comes too late is told. It is in shared memory, so this needs a server that has preloaded queen.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

# queen_test is loaded first, so that its callback comes last: what fails there was written
my $node = new_node('changes', preload => 'queen_test, queen', settings => "max_prepared_transactions = 5\n");
my $db = 'postgres';
my $sql = sub { return $node->safe_psql($db, $_[0]) };
my $end = sub { return $sql->('SELECT "position" FROM queen_test_changes(NULL)') };
my $at = $end->();

# what came since, as partitions' names, * for a queue as a whole; and who reads is at the end
my $changes = sub {
	my @rows = split /\n/, $sql->("SELECT \"position\", overrun, c.queue_id, c.partition_id, p.name FROM queen_test_changes($at) c LEFT JOIN queen.log_partitions p USING (partition_id)");
	my @seen;

	foreach my $row (@rows)
	{
		my ($position, $overrun, $queue, $partition, $name) = split /\|/, $row, -1;
		$at = $position;
		push @seen, $overrun eq 't' ? 'overrun' : $queue eq '' ? () : $partition eq '0' ? '*' : $name;
	}
	return join(' ', @seen);
};

# ---- what is named ----

is($changes->(), '', 'nothing so far');
$sql->("SELECT queen.push('q', '1', 'a')");
is($changes->(), 'a', 'a partition that is born');
is($changes->(), '', 'is named once');
$sql->("SELECT count(queen.push('q', to_jsonb(n), 'p' || n % 2)) FROM generate_series(1, 5000) n");
is($changes->(), 'p0 p1', 'several segments of a partition are one change');
$sql->("BEGIN; SELECT queen.push('q', '1', 'a'); SELECT queen.push('r', '1', 'b'); SELECT queen.push('q', '1', 'p0'); COMMIT");
is($changes->(), 'a p0 b', 'partitions of two queues');
$sql->("SELECT * FROM queen.pop('q'); SELECT queen.seek('q', 'default', 0)");
is($changes->(), '', 'a pop and a seek change no partition');

# ---- what is not ----

$sql->("BEGIN; SELECT queen.push('q', '2', 'a'); ROLLBACK");
is($changes->(), '', 'a push that is rolled back');
$sql->("BEGIN; SELECT queen.push('q', '2', 'a'); SAVEPOINT s; SELECT queen.push('q', '2', 'p0'); ROLLBACK TO s; SAVEPOINT s; SELECT queen.push('q', '2', 'p1'); RELEASE s; COMMIT");
is($changes->(), 'a p1', 'nor one before a savepoint, but one in a savepoint that is released');
isnt($node->psql($db, "BEGIN; SELECT queen.push('q', '3', 'a'); SELECT queen_test_fail_at_commit(); COMMIT", on_error_stop => 1), 0, 'a commit that fails');
is($changes->(), '', 'behind its flush');
$sql->("SELECT queen.push('q', '3', 'p0')");
is($changes->(), 'p0', 'leaves nothing to the next transaction');

# ---- two phases ----

$sql->("BEGIN; SELECT queen.push('q', '4', 'a'); PREPARE TRANSACTION 'x'; SELECT queen.push('q', '4', 'p1')");
is($changes->(), 'a p1', 'what is prepared is named when it is');
$sql->("COMMIT PREPARED 'x'");
is($changes->(), '', 'and not when it is committed');

# ---- whose it is ----

$sql->('CREATE DATABASE copy TEMPLATE postgres');
$db = 'copy';
my $other = $end->();
$sql->("SELECT queen.push('q', '5', 'p0')");
$db = 'postgres';
is($changes->(), '', 'a copy with the same ids is not read');
cmp_ok($at, '>', $other, 'but passed');
$sql->("SELECT queen.push('q', '5', 'p1')");
is($changes->(), 'p1', 'and what is ours is');
$db = 'copy';
$at = $other;
is($changes->(), 'p0', 'the copy reads its own');
$db = 'postgres';
$at = $end->();
$sql->("SELECT queen.push('q', '6', 'p1'); DROP EXTENSION queen; CREATE EXTENSION queen; SELECT queen.push('q', '1', 'new')");
is($changes->(), 'new', 'of tables that are made again nothing of before');

# ---- named when it can be seen: who reads and then looks misses nothing ----

$sql->("CREATE TABLE seen (partition_id bigint PRIMARY KEY); CREATE TABLE stop (); CREATE SEQUENCE births");
my $follower = background($node);
$follower->query_until(qr/began/, q{\echo began
	DO $$
	DECLARE
		at bigint := (SELECT "position" FROM queen_test_changes(NULL));
		changed bigint[];
	BEGIN
		LOOP
			SELECT max(c."position"), array_agg(c.partition_id) FILTER (WHERE c.partition_id IS NOT NULL) INTO at, changed FROM queen_test_changes(at) c;
			INSERT INTO seen SELECT partition_id FROM queen.log_segments WHERE partition_id = ANY (changed) AND end_offset = 0;
			EXIT WHEN changed IS NULL AND EXISTS (SELECT FROM pg_class WHERE relname = 'stopped');
		END LOOP;
	END $$;
});
my $load = load($node, '-c 4 -t 500', push => "SELECT queen.push('load', '1', 'p' || nextval('births'));\n");
finish_load($load, 'a load');
$sql->('ALTER TABLE stop RENAME TO stopped');
$follower->quit;
is($sql->('SELECT count(*) FROM seen'), '2000', 'a follower has seen all of it');

# ---- too much ----

$at = $end->();
$sql->("SELECT count(queen.push('many', '1', 'p' || n)) FROM generate_series(1, 10050) n");
is($sql->("SELECT \"position\" - $at FROM queen_test_changes(NULL)"), '10001', 'a transaction names 10,000 partitions');
my $whole = $at + 10000;
is($sql->("SELECT partition_id FROM queen_test_changes($whole)"), '0', 'and then its queue');
is($sql->("SELECT count(*), bool_or(overrun) FROM queen_test_changes($at)"), '1000|f', 'which are read in steps');
$sql->("SELECT count(queen.push('many', '1', 'p' || n)) FROM generate_series(1, 10050) n") for 1 .. 6;
is($changes->(), 'overrun', 'who comes too late is told');
is($changes->(), '', 'once');
$sql->("SELECT queen.push('q', '1', 'new')");
is($changes->(), 'new', 'and goes on');

# ---- without a hot-list, after a crash, without preload ----

$node->append_conf('postgresql.conf', 'queen.hotlist_size = 0');
$node->stop('immediate');
$node->start;
is($changes->(), 'overrun', 'a position of before a crash is told');
$sql->("SELECT queen.push('q', '1', 'new')");
is($changes->(), 'new', 'it needs no hot-list');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
$sql->("SELECT queen.push('q', '1', 'new')");
isnt($node->psql($db, 'SELECT * FROM queen_test_changes(NULL)'), 0, 'without preload there is none');

check_log($node);
$node->stop;
done_testing;
