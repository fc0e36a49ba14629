# Recurring timers by the pulse: in time, each occurrence once whatever is killed, one message for what was missed, and on from where a dump has
# stopped.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('cron', preload => 'queen', settings => "restart_after_crash = on\nstatement_timeout = '100 s'\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $setting = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };
# with the pulse between two runs, so that what is read by several snapshots is one state
my $stop_firing = sub { $setting->('queen.timers = off'); sleep(1) };

# Every message says when it was due and when the next one is: is the next one due then, and the rule where the last one says? first: when the rule's
# first one was due.
my $functions = q{
	CREATE TABLE rules (queue text, timer_key text, first_at timestamptz);
	CREATE FUNCTION occurrences(of_queue text) RETURNS TABLE (timer_key text, at timestamptz, next timestamptz, pushed_at timestamptz, n bigint) LANGUAGE sql AS $$
		SELECT h ->> 'timer_key', (h ->> 'at')::timestamptz, (h ->> 'next')::timestamptz, m.enqueued_at, row_number() OVER (PARTITION BY h ->> 'timer_key' ORDER BY m.msg_offset)
		FROM queen.list_queues() q, queen.peek(of_queue, max_messages => 100000) m, LATERAL (SELECT m.headers -> 'queen_cron') s (h) WHERE q.queue = of_queue AND h IS NOT NULL
	$$;
	CREATE FUNCTION breaks(of_queue text) RETURNS TABLE (timer_key text, n bigint, problem text) LANGUAGE sql AS $$
		SELECT timer_key, n, problem FROM (
			SELECT o.timer_key, o.n,
				CASE
					WHEN o.n = 1 AND o.at <> r.first_at THEN format('the first is of %s, and was to be of %s', o.at, r.first_at)
					WHEN o.at <> lag(o.next) OVER w THEN format('is of %s, and the one before has told %s', o.at, lag(o.next) OVER w)
					WHEN o.next <> coalesce(lead(o.at) OVER w, c.next_at) THEN format('has told %s, and what waits is of %s', o.next, c.next_at)
					WHEN c.next_at IS NULL OR c.message_id IS NULL THEN 'nothing waits'
				END AS problem
			FROM rules r LEFT JOIN occurrences(of_queue) o USING (timer_key) LEFT JOIN queen.list_crons(of_queue) c USING (timer_key) WHERE r.queue = of_queue WINDOW w AS (PARTITION BY o.timer_key ORDER BY o.n)) s
		WHERE problem IS NOT NULL
	$$};
my $start = sub { my ($queue, $key, $cron) = @_; return "INSERT INTO rules SELECT '$queue', '$key', s.next_at FROM queen.schedule_cron('$queue', '$key', '$cron', '1') s" };
$sql->($functions);
wait_for_sql($node, q{SELECT count(*) > 0 FROM queen.pg_stat_queen_workers WHERE worker = 'pulse' AND task = 'timers' AND runs > 0}, 'the pulse');

# ---- in time, while nothing else happens ----

sleep(1);
$sql->($start->('idle', 'k', '@every 1s'));
wait_for_sql($node, q{SELECT count(*) >= 5 FROM occurrences('idle')}, 'five of each second');
$stop_firing->();
is($sql->(q{SELECT * FROM breaks('idle')}), '', 'each occurrence is there once, in its order');
is($sql->(q{SELECT count(*) FROM occurrences('idle') WHERE next - at <> interval '1 s'}), '0', 'none is passed over');
cmp_ok($sql->(q{SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM pushed_at - at)) FROM occurrences('idle')}), '<=', 0.1, 'in time');
cmp_ok($sql->(q{SELECT min(extract(epoch FROM pushed_at - at)) FROM occurrences('idle')}), '>=', 0, 'and never too soon');
is($sql->(q{SELECT count(*) FROM queen.verify()}), '0', 'the tables agree');

# ---- a time when nothing fires: one message for all that was missed, also over a restart ----

$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT count(*) > 0 FROM occurrences('idle') WHERE pushed_at > now() - interval '1 s'}, 'the first one again');
my $before = $sql->(q{SELECT clock_timestamp()});
$node->stop;
sleep(4);
$node->start;
wait_for_sql($node, q{SELECT count(*) >= 2 FROM occurrences('idle') WHERE pushed_at > pg_postmaster_start_time()}, 'two behind the restart');
$stop_firing->();
is($sql->(q{SELECT * FROM breaks('idle')}), '', 'each occurrence is there once');
cmp_ok($sql->("SELECT count(*) FROM occurrences('idle') WHERE at > '$before' AND at <= pg_postmaster_start_time()"), '<=', 2, 'one message for those that were missed, and perhaps one before the stop');
is($sql->(q{SELECT count(*) FROM occurrences('idle') WHERE next - at > interval '3 s' AND pushed_at > pg_postmaster_start_time()}), '1', 'it tells the next one, behind the time that was missed');
$sql->(q{SELECT queen.unschedule_cron('idle', 'k')});

# ---- overdue by more than is wanted: dropped, with a word in the log, and the rule goes on ----

$sql->($start->('overdue', 'k', '@every 1h'));
$sql->(q{UPDATE queen.log_timers SET deliver_at = deliver_at - interval '62 min' WHERE queue = 'overdue'; UPDATE queen.log_timer_rules SET next_at = next_at - interval '62 min', anchor_at = anchor_at - interval '62 min' WHERE queue = 'overdue'});
$setting->("queen.overdue_limit = '1 min'");
my $log_at = -s $node->logfile;
$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT next_at > now() FROM queen.list_crons('overdue')}, 'the next one');
is($sql->(q{SELECT count(*) FROM occurrences('overdue')}), '0', 'it was not pushed');
is($sql->(q{SELECT last_at IS NULL AND next_at < now() + interval '1 hour' AND message_id IS NOT NULL FROM queen.list_crons('overdue')}), 't', 'the next one waits');
like(substr(slurp_file($node->logfile), $log_at), qr/an occurrence of rule "k" of queue "overdue" was due at .* and is dropped/, 'the log tells of it');
is($sql->(q{SELECT concat_ws(' ', pending, due, fired, failed, dropped) FROM queen.pg_stat_queen_timers WHERE queue = 'overdue'}), '1 0 0 0 1', 'and it is counted');
$setting->('queen.overdue_limit = 0');
$sql->(q{SELECT queen.drop_queue('overdue')});

# ---- under load, whatever is killed ----

$sql->("SELECT queen.create_queue('load')");
$sql->($start->('load', "r$_", '@every 1s')) for 1 .. 30;
foreach my $round (1 .. 6)
{
	# who says the same rule again puts nothing off
	my $load = load($node, '-c 3 -T 30 -M prepared', push => "SELECT queen.push('load', '1', 'pushes')\n",
		same => "\\set k random(1, 30)\nSELECT queen.schedule_cron('load', 'r' || :k::int, '\@every 1s', to_jsonb(:k::int))\n");

	sleep(1.5 + rand());
	kill_and_revive($node, $sql->(
		$round % 3 == 0 ? 'SELECT 0'
		: $round % 3 == 1 ? q{SELECT pid FROM queen.pg_stat_queen_workers w WHERE worker = 'pulse' AND w.database = current_database() LIMIT 1}
		: q{SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1}));
	$load->{h}->kill_kill;
}
wait_for_sql($node, q{SELECT count(DISTINCT timer_key) = 30 FROM occurrences('load') WHERE pushed_at > pg_postmaster_start_time()}, 'all go on');
$stop_firing->();
cmp_ok($sql->(q{SELECT least(count(*), (SELECT count(*) FROM queen.peek('load', 'pushes', max_messages => 1000)), 10 * (SELECT count(*) FROM queen.list_crons('load') WHERE message <> '1')) FROM occurrences('load')}), '>', 200, 'a load that is one');
is($sql->(q{SELECT * FROM breaks('load') LIMIT 5}), '', 'no occurrence is lost, and none comes twice');
is($sql->(q{SELECT count(*) FROM (SELECT FROM occurrences('load') GROUP BY timer_key, at HAVING count(*) > 1) s}), '0', 'none at all');
is($sql->(q{SELECT count(*) FROM queen.verify()}), '0', 'the tables agree');
check_partitions($node);

# ---- a dump goes on where it stopped ----

$sql->(q{SELECT queen.schedule('plain', 'k', '"plain"', delay => '1 s')});
$sql->(q{SELECT queen.schedule_cron('by the clock', 'k', '0 0 29 2 *', '1', 'Europe/Berlin')});
my $state = q{SELECT r, t.message_id, t.visible_at FROM queen.log_timer_rules r FULL JOIN queen.log_timers t ON t.queue = r.queue AND t.timer_key = E'\x01' || r.timer_key ORDER BY t.queue, t.timer_key};
my $dump = $node->backup_dir . '/dump';
mkdir $node->backup_dir;
$node->command_ok([ 'pg_dump', '-Fc', '-h', $node->host, '-p', $node->port, '-f', $dump, 'postgres' ], 'a dump');
my $dumped = $sql->($state);
$sql->('CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-h', $node->host, '-p', $node->port, '-d', 'copy', '--exit-on-error', $dump ], 'restored while queen.timers is off');
sleep(3);
is($node->safe_psql('copy', $state), $dumped, 'rules and timers are what they were, and nothing fires');
is($node->safe_psql('copy', q{SELECT count(*) FROM queen.verify()}), '0', 'the tables of the copy agree');
$setting->('queen.timers = on');
foreach my $database ('copy', 'postgres')
{
	$node->poll_query_until($database, q{SELECT count(*) = 30 FROM occurrences('load') o JOIN rules r USING (timer_key) WHERE pushed_at > now() - interval '1.5 s'}) or die "$database does not go on";
}
$stop_firing->();
foreach my $database ('copy', 'postgres')
{
	is($node->safe_psql($database, q{SELECT * FROM breaks('load') LIMIT 5}), '', "$database goes on where it stopped");
	is($node->safe_psql($database, q{SELECT message FROM queen.peek('plain')}), '"plain"', 'with its timers');
	is($node->safe_psql($database, q{SELECT count(*) FROM queen.verify()}), '0', 'and its tables agree');
}
check_log($node, qr/terminated by signal 9/);
$node->stop;
done_testing();
