# First contact of 50 consumers with 200 partitions at once: every message exactly once in effect, one live cursor each,
# also when half of the transactions roll back.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('first_contact');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE got (run text, part text, off bigint, attempt int, PRIMARY KEY (run, part, off));
	-- deliveries that roll back count, and half of them do
	SELECT queen.create_queue('q', options => '{"max_deliveries": 1000}');
	SELECT count(*) FROM generate_series(1, 200) n, queen.push_batch('q', '[1, 2, 3, 4, 5]', partition => 'p' || n);
});

my %scripts = (
	# the claim commits together with the work
	auto => <<'SQL',
INSERT INTO got SELECT 'RUN', partition, msg_offset, attempt FROM queen.pop('q', 'RUN', 5, max_partitions => 3, auto_ack => true);
SQL
	rolled_back => <<'SQL',
\set lost random(0, 1)
BEGIN;
INSERT INTO got SELECT 'RUN', partition, msg_offset, attempt FROM queen.pop('q', 'RUN', 10, max_partitions => 3, auto_ack => true);
\if :lost
ROLLBACK;
\else
COMMIT;
\endif
SQL
	# a claim, then an acknowledgement with the work in a second transaction; half of each roll back
	leases => <<'SQL',
\set lost random(0, 1)
\set lost2 random(0, 1)
BEGIN;
CREATE TEMP TABLE IF NOT EXISTS taken (part text, off bigint, attempt int, lease uuid);
DELETE FROM taken;
INSERT INTO taken SELECT partition, msg_offset, attempt, lease FROM queen.pop('q', 'RUN', 10, max_partitions => 2, lease_time => '1 h');
\if :lost
ROLLBACK;
\else
COMMIT;
BEGIN;
INSERT INTO got SELECT 'RUN', part, off, attempt FROM taken;
SELECT queen.ack_all(array_agg(DISTINCT lease)) FROM taken HAVING count(*) > 0;
\if :lost2
ROLLBACK;
SELECT count(queen.release(lease)) FROM (SELECT DISTINCT lease FROM taken) l;
\else
COMMIT;
\endif
\endif
SQL
);
foreach my $run (sort keys %scripts)
{
	my $load = load($node, '-c 50 -j 2 -t 25', $run => $scripts{$run} =~ s/RUN/$run/gr);
	finish_load($load, "$run: 50 consumers at once") or next;
	cmp_ok($load->{seconds}, '<', 60, "$run: in time");
	# what is left, by one consumer; what was delivered before comes alone
	for (1 .. 1200)
	{
		last if $sql->("WITH i AS (INSERT INTO got SELECT '$run', partition, msg_offset, attempt FROM queen.pop('q', '$run', 1000, max_partitions => 200, auto_ack => true) RETURNING 1) SELECT count(*) FROM i") eq '0';
	}
	is($sql->("SELECT count(*), count(DISTINCT part), min(off), max(off) FROM got WHERE run = '$run'"), '1000|200|0|4', "$run: every message exactly once");
	is($sql->("SELECT max(attempt) FROM got WHERE run = '$run'"), '1', "$run: each at its first delivery") if $run eq 'auto';
	is($sql->("SELECT count(*), count(DISTINCT partition_id), min(committed), count(lease) FROM queen.log_cursors JOIN queen.log_groups USING (group_id) WHERE name = '$run'"), '200|200|4|0', "$run: one cursor for each partition");
}
check_cursors($node);
check_partitions($node);
check_log($node);
$node->stop;
done_testing();
