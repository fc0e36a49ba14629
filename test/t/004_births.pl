# A hundred sessions make their first push to new names at once: they wait side by side for the first of them, not in a
# chain, nothing is lost, no name is there twice. Also when the first rolls back.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('births', settings => "deadlock_timeout = 100ms\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE sent (queue text, part text, id int);
	CREATE SEQUENCE ids;
	CREATE FUNCTION send(q text, p text) RETURNS void LANGUAGE sql AS $$
		INSERT INTO sent SELECT q, p, currval('ids') WHERE nextval('ids') > 0;
		SELECT queen.push(q, to_jsonb(currval('ids')), partition => p) $$;
});

sub check_all_there
{
	my ($what) = @_;

	is($sql->(q{
		WITH there AS (SELECT s.queue, s.part, (m.message)::int AS id FROM (SELECT DISTINCT queue, part FROM sent) s, queen.peek(s.queue, s.part, max_messages => 10000) m)
		SELECT count(*) FROM there FULL JOIN sent USING (queue, part, id) WHERE there.* IS NULL OR sent.* IS NULL}), '0', "$what: nothing is lost, nothing is there twice");
}

# ---- all of them wait for one birth, which commits or rolls back ----

foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $queue = lc "same_$end";
	my $first = background($node);

	$first->query("BEGIN; SELECT queen.create_queue('$queue')");
	my $load = load($node, '-c 100 -j 2 -t 1', push => "SELECT send('$queue', 'p');\n");
	wait_for_sql($node, "SELECT count(*) = 100 FROM pg_stat_activity WHERE wait_event = 'transactionid'", 'a hundred waiting');
	my $start = time;
	$first->query($end);
	finish_load($load, "$end: all of them go on");
	cmp_ok(time - $start, '<', 20, "$end: in time");
	$first->quit;
	is($sql->("SELECT count(*) FROM sent WHERE queue = '$queue'"), '100', "$end: all have committed");
	check_all_there($end);
}

# ---- names in every order, births and pushes to what is there mixed; some roll back ----

my $mixed = load($node, '-c 100 -j 2 -t 4', mixed => <<'SQL');
\set a random(1, 12)
\set b random(1, 12)
\set c random(1, 12)
\set p random(1, 5)
\set lost random(1, 4)
BEGIN;
SELECT send('mixed' || :a, 'p' || :p);
SELECT send('mixed' || :b, 'p' || :a);
SELECT send('mixed' || :c, 'p' || :b);
SELECT send('mixed' || :b, 'p' || :c);
\if :lost = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL
finish_load($mixed, 'mixed: no deadlock, no duplicate key');
cmp_ok($mixed->{seconds}, '<', 40, 'mixed: in time');
check_all_there('mixed');

# ---- the same, each session's first push of its life, in the middle of a stream to an old partition that must not stop ----

my $stream = load($node, '-c 2 -T 3 -R 500', stream => "SELECT send('same_commit', 'p');\n");
my $more = load($node, '-c 100 -j 2 -t 1 -C', more => <<'SQL');
\set a random(1, 3)
SELECT send('more' || :a, 'p');
SQL
finish_load($more, 'first pushes beside a stream');
finish_load($stream, 'the stream goes on');
check_all_there('beside a stream');

check_partitions($node);
check_log($node);
$node->stop;
done_testing();
