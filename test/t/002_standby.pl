# A standby: what writes is refused with 25006, reading works by the same rule at gaps; after a promotion all goes on.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $primary = new_node('primary', streaming => 1);
my $sql = sub { return $primary->safe_psql('postgres', $_[0]) };

$sql->(q{SELECT queen.push_batch('q', '[0, 1, 2]')});
my $lease = $sql->(q{SELECT DISTINCT lease FROM queen.pop('q', 'g', 2, lease_time => '1 h')});
my $nacked = $sql->(q{SELECT queen.nack(lease, delay => '1 h') FROM queen.pop('q', 'blocked')});
is($nacked, 'retry', 'a head is blocked');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
my $there = sub { return $standby->safe_psql('postgres', $_[0]) };
my $caught_up = sub { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')) };
$caught_up->();

foreach my $call (
	"queen.push('q', '1')", "queen.push_batch('q', '[1]')", "queen.push_bytes('q', '1')", "queen.pop('q', 'g')",
	"queen.pop('q', 'new')", "queen.pop('q', 'g', auto_ack => true)", "queen.pop('nowhere')", "queen.ack('$lease')",
	"queen.ack('$lease', 0)", "queen.ack_all(ARRAY['$lease'::uuid])", "queen.nack('$lease')", "queen.extend('$lease')",
	"queen.release('$lease')", "queen.create_queue('other')", "queen.create_queue('q')", "queen.configure('q', '{}')",
	"queen.subscribe('q', 'g')", "queen.unsubscribe('q', 'g')", "queen.seek('q', 'g', 0)", "queen.seek_to_time('q', 'g', 'now')",
	"queen.seek_to_end('q', 'g')", "queen.pause('q')", "queen.resume('q', 'g')")
{
	my (undef, undef, $err) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT $call");
	like($err, qr/ERROR:\s+25006/, "on a standby $call is refused");
}
is($there->(q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.peek('q')}), '0:0 1:1 2:2', 'peek works there');
is($there->(q{SELECT queue || partitions FROM queen.list_queues()}), 'q1', 'list_queues too');
cmp_ok($there->(q{SELECT count(*) FROM queen.status()}), '>', 0, 'status too');
is($there->(q{SELECT consumer_group || msg_offset FROM queen.pg_stat_queen_blocked}), 'blocked0', 'and what is blocked');
is($there->(q{SELECT string_agg(concat_ws(' ', consumer_group, lag, leased, blocked), ', ') FROM queen.list_groups('q')}), 'blocked 3 0 1, g 3 1 0', 'and groups');
is($there->(q{SELECT concat_ws(' ', partition, committed, end_offset, lag, state) FROM queen.lag('q', 'g')}), 'Default -1 2 3 leased', 'and their lag');

# ---- the rule at gaps: a push that runs on the primary, written and not committed, and one behind it ----

my $gate = background($primary);
$gate->query('BEGIN; SELECT queen_test_close_gate()');
my $low = background($primary);
$low->query(q{BEGIN; SELECT queen.push('q', '"low"'); NOTIFY gate});
$low->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
wait_for_sql($primary, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'COMMIT;' AND wait_event_type = 'Lock'", 'the commit to be held');
$sql->(q{SELECT queen.push('q', '"high"')});
$caught_up->();
is($there->(q{SELECT count(*) FROM queen.peek('q', from_offset => 3)}), '0', 'on the standby nothing is seen behind a push that runs');
$gate->query('COMMIT');
$low->query('SELECT 1');
$caught_up->();
is($there->(q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.peek('q', from_offset => 3)}), '3:"low" 4:"high"', 'then both, in order');
$_->quit foreach $gate, $low;

# ---- a primary that is gone, with a push in the middle of its commit ----

$gate = background($primary);
$gate->query('BEGIN; SELECT queen_test_close_gate()');
$low = background($primary);
$low->query(q{BEGIN; SELECT queen.push('q', '"lost"'); NOTIFY gate});
$low->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
wait_for_sql($primary, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query = 'COMMIT;' AND wait_event_type = 'Lock'", 'the commit to be held');
$sql->(q{SELECT queen.push('q', '"last"')});
$caught_up->();
$primary->stop('immediate');
$_->{run}->kill_kill foreach $gate, $low;
$standby->promote;
is($there->(q{SELECT string_agg(msg_offset || ':' || message, ' ' ORDER BY msg_offset) FROM queen.peek('q', from_offset => 3)}),
	'3:"low" 4:"high" 6:"last"', 'promoted: the reader steps over what was lost with the primary');
is($there->("SELECT queen.ack('$lease')"), '2', 'a lease of the old primary is acknowledged');
is($there->(q{SELECT string_agg(msg_offset::text, ' ') FROM queen.pop('q', 'g', 10, auto_ack => true)}), '2 3 4 6', 'its group goes on');
is($there->(q{SELECT queen.push('q', '"new"') IS NOT NULL}), 't', 'a push is taken');
is($there->(q{SELECT string_agg(msg_offset || ':' || message, ' ') FROM queen.pop('q', 'g', 10, auto_ack => true)}), '7:"new"', 'and delivered');
check_partitions($standby);
check_cursors($standby);
check_log($_) foreach $primary, $standby;
$standby->stop;
done_testing();
