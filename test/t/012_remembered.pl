# What a server and its sessions remember for pushes: tails of partitions in shared memory, ids of names in each backend. None of it
# outlives what it was read from: transactions that fail behind their births and inserts, partitions beyond its room, the
# tables, the server.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

# loaded first, queen_test's callback comes last: behind the flush
my $node = new_node('remembered', preload => 'queen_test, queen');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $bases = q{SELECT string_agg(base_offset::text, ' ' ORDER BY base_offset) FROM queen.log_segments JOIN queen.log_partitions p USING (partition_id) JOIN queen.queues q USING (log_id) WHERE (q.name, p.name) =};
my $fail = 'SELECT queen_test_fail_at_commit(); COMMIT';

# ---- a transaction that fails behind its flush ----

# its births are gone; the same session makes them anew, and again, and knows them then
$node->psql('postgres', "BEGIN; SELECT queen.push('births', '0', 'p'); $fail; SELECT queen.push('births', '1', 'p'); SELECT queen.push('births', '2', 'p'); BEGIN; SELECT queen.push('births', '0', 'p2'); $fail; SELECT queen.push('births', '3', 'p2'); SELECT queen.push('births', '4', 'p2')", on_error_stop => 0);
is($sql->("SELECT string_agg(partition || ':' || message, ' ' ORDER BY partition, msg_offset) FROM queen.pop('births', max_messages => 10, max_partitions => 10)"), 'p:1 p:2 p2:3 p2:4',
	'a session whose births were rolled back pushes on');
is($sql->("SELECT count(*) FROM queen.log_segments s WHERE NOT EXISTS (SELECT FROM queen.log_partitions p WHERE p.partition_id = s.partition_id)"), '0', 'and writes to no partition that never was');

# its segment is a hole: the offsets behind a remembered tail are not given again, and readers step over them
$sql->("SELECT queen.push('holes', '0')");
$node->psql('postgres', "BEGIN; SELECT count(*) FROM queen.push_batch('holes', '[1, 2, 3]'); $fail", on_error_stop => 0);
$sql->("SELECT queen.push('holes', '4')");
is($sql->("$bases ('holes', 'Default')"), '0 4', 'a tail is remembered, whoever wrote it');
is($sql->("SELECT string_agg(msg_offset || '=' || message, ' ' ORDER BY msg_offset) FROM queen.pop('holes', max_messages => 10)"), '0=0 4=4', 'and what rolled back behind it is a hole');

# ---- more partitions than there is room for ----

$sql->("SELECT count(queen.push('many', to_jsonb(n), 'p' || n)) FROM generate_series(1, 40000) n") for 1 .. 2;
# what an other session has pushed between counts as well
$sql->("SELECT count(queen.push('many', to_jsonb(n), 'p' || n)) FROM generate_series(1, 40000, 7) n; SELECT count(queen.push('many', to_jsonb(n), 'p' || n)) FROM generate_series(40000, 1, -1) n");
is($sql->("SELECT count(*), sum(n), max(last) FROM (SELECT count(*) AS n, max(end_offset) AS last FROM queen.log_segments JOIN queen.log_partitions USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'many' GROUP BY partition_id HAVING max(end_offset) = count(*) - 1 AND min(base_offset) = 0) p"),
	'40000|125715|3', 'offsets of 40,000 partitions are contiguous');

# ---- the tables, and another database ----

# each time the first partition that is born, and so of the same id
$sql->('DROP EXTENSION queen; CREATE EXTENSION queen');
$sql->("SELECT queen.push('again', to_jsonb(n), 'p') FROM generate_series(1, 3) n");
$sql->('DROP EXTENSION queen; CREATE EXTENSION queen');
$sql->("SELECT queen.push('again', '1', 'p')");
is($sql->("$bases ('again', 'p')"), '0', 'tables that are made again begin at 0');
$sql->('CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION queen; SELECT queen.push('again', '1', 'p')");
is($node->safe_psql('other', "$bases ('again', 'p')"), '0', 'so does another database');
# a copy of a database has the tables of its template, and tails of its own
$sql->("SELECT queen.push('again', '2', 'p')");
$sql->('CREATE DATABASE copy TEMPLATE other');
$node->safe_psql('copy', "SELECT queen.push('again', '2', 'p') FROM generate_series(1, 2)");
$node->safe_psql('other', "SELECT queen.push('again', '2', 'p')");
is($node->safe_psql('copy', "$bases ('again', 'p')"), '0 1', 'and a copy of it goes on by itself');
is($node->safe_psql('other', "$bases ('again', 'p')"), '0 1', 'as does what it was copied from');

# and one that is made with the oid of another, which had the same tables
$sql->('CREATE DATABASE twin TEMPLATE other OID 100000');
$node->safe_psql('twin', "SELECT queen.push('again', '3', 'p')");
$sql->('DROP DATABASE twin');
$node->safe_psql('other', "SELECT queen.push('again', to_jsonb(n), 'p') FROM generate_series(3, 5) n");
$sql->('CREATE DATABASE twin TEMPLATE other OID 100000');
$node->safe_psql('twin', "SELECT queen.push('again', '6', 'p')");
is($node->safe_psql('twin', "$bases ('again', 'p')"), '0 1 2 5', 'a database with the oid of one that was dropped begins with nothing');

# ---- a drop that has been at a partition, and whose row a writer that it waits for notes again ----

my ($gate, $first, $second, $dropper, $late) = map { background($node) } 1 .. 5;
my $lock = 'BEGIN; SELECT queen_test_lock_partition(partition_id) FROM queen.log_partitions WHERE name =';
my $waiting = sub { wait_for_sql($node, "SELECT count(*) = $_[0] FROM pg_locks WHERE NOT granted", $_[1]) };
$sql->('CREATE EXTENSION queen_test') unless $sql->("SELECT count(*) FROM pg_extension WHERE extname = 'queen_test'");
# the drop goes by ids: a, b, ab; a push by names
$sql->("SELECT queen.push('dropped', '0', '$_')") for qw(a b ab);
$sql->("SELECT queen.push('later', '0', 'held')");
$_->query("SET queen.flush_timeout = '60 s'") for $first, $dropper, $late;
$second->query("$lock 'ab'");
$gate->query('BEGIN; SELECT queen_test_close_gate()');
$first->query("BEGIN; SELECT queen.push('dropped', '\"first\"', p) FROM unnest(ARRAY['a', 'ab', 'b']) p; NOTIFY gate");
$first->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
$waiting->(1, 'the push at ab');
$dropper->query_until(qr/dropping/, "\\echo dropping\nSELECT queen.drop_queue('dropped');\n");
$waiting->(2, 'the drop at ab, behind b');
$second->query('COMMIT');
$waiting->(2, 'the push at the gate, the drop for it');
$second->query("$lock 'held'");
$late->query("BEGIN; SELECT queen.push('dropped', '\"late\"', 'b'); SELECT queen.push('later', '0', 'held')");
$late->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
$waiting->(3, 'another push, for the drop or at held');
$gate->query('COMMIT');
$dropper->query('SELECT 1');
$second->query('COMMIT');
$late->query('SELECT 1');
is($sql->("$bases ('dropped', 'b')"), '0', 'what commits after the drop is in the new queue');
$_->quit for $gate, $first, $second, $dropper, $late;

# ---- the server ----

$node->stop('immediate');
$node->start;
$sql->("SELECT queen.push('again', '3', 'p')");
is($sql->("$bases ('again', 'p')"), '0 1 2', 'after a crash tails are searched');

check_log($node, qr/the commit fails/);
$node->stop;
done_testing;
