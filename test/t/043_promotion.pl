# A standby is promoted under load: consumers that wait go on against the new primary, its workers start, and what was acknowledged is not
# delivered again. Commits wait for the standby, so whatever a client was told is there.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(sleep);

my $primary = new_node('primary', streaming => 1, settings => "queen.hotlist_reseed_interval = 1\n");
$primary->safe_psql('postgres', q{SELECT queen.create_queue('q', options => '{"completed_retention": "off"}'), queen.subscribe('q', 'g'); CREATE TABLE got (partition text, msg_offset bigint, message_id uuid, server text)});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '*'");
$primary->reload;
wait_for_sql($primary, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'", 'the standby to be waited for');

my $workers = "SELECT string_agg(worker || ' ' || state, ', ' ORDER BY worker) FROM (SELECT DISTINCT worker, state FROM queen.pg_stat_queen_workers WHERE database = 'postgres') w";
my $run = sub {
	my ($node, $seconds) = @_;
	my $name = $node->name;

	return (
		load($node, "-c 3 -j 1 -T $seconds --max-tries=1", push => "\\set p random(1, 20)\nSELECT queen.push('q', '1', 'p' || :p);\n"),
		load($node, "-c 4 -j 1 -T $seconds", pop => "CALL queen.wait('q', 'g', '1 s');\nINSERT INTO got SELECT partition, msg_offset, message_id, '$name' FROM queen.pop('q', 'g', 20, max_partitions => 5, auto_ack => true);\n"));
};

is($standby->safe_psql('postgres', 'SELECT count(pid) FROM queen.pg_stat_queen_workers'), '0', 'a standby has no workers');
my @loads = $run->($primary, 60);
wait_for_sql($primary, 'SELECT count(*) > 500 FROM got', 'messages to be delivered');
$primary->stop('immediate');
$_->{h}->finish foreach @loads;
$standby->promote;
wait_for_sql($standby, "SELECT ($workers) = 'keeper running, pulse running'", 'the workers to start');

my $before = $standby->safe_psql('postgres', 'SELECT count(*) FROM got');
cmp_ok($before, '>', 500, 'what was delivered is there');
$standby->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
$standby->reload;
@loads = $run->($standby, 5);
finish_load($loads[0], 'pushes go on');
finish_load($loads[1], 'and consumers');
cmp_ok($standby->safe_psql('postgres', "SELECT count(*) FROM got WHERE server = 'standby'"), '>', 100, 'the new primary delivers');
wait_for_sql($standby, "SELECT runs > 1 FROM queen.pg_stat_queen_workers WHERE database = 'postgres' AND task = 'floor'", 'floors to be walked there');

1 while $standby->safe_psql('postgres', "WITH p AS (SELECT * FROM queen.pop('q', 'g', 1000, max_partitions => 100, auto_ack => true)), i AS (INSERT INTO got SELECT partition, msg_offset, message_id, 'end' FROM p RETURNING 1) SELECT count(*) FROM i") > 0;
is($standby->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT (partition, msg_offset)) FROM got'), '0', 'nothing that was acknowledged came again');
is($standby->safe_psql('postgres', 'SELECT count(DISTINCT message_id) FROM got'), $standby->safe_psql('postgres', 'SELECT sum(end_offset - base_offset + 1) FROM queen.log_segments'), 'and everything was delivered');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM queen.verify()'), '0', 'the tables agree');
is($standby->safe_psql('postgres', 'SELECT coalesce(sum(reseed_repairs), 0) FROM queen.pg_stat_queen_hotlist'), '0', 'the hot-list lost nothing');
check_partitions($standby);
check_cursors($standby);
$standby->stop;
check_log($_) foreach $primary, $standby;
done_testing();
