# Timers by the pulse: in time, exactly once whatever is killed, without waking anybody for nothing, and without waiting for anybody long.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('timers', preload => 'queen', streaming => 1, settings => "restart_after_crash = on\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $setting = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };
# of both tasks: the other one runs whenever the pulse is woken
my $runs = sub { return $sql->(q{SELECT sum(runs) FROM queen.pg_stat_queen_workers w WHERE worker = 'pulse' AND w.database = current_database()}) };
# how late messages came that say when they were due, in milliseconds: the worst
my $lateness = sub { return $sql->("SELECT round(max(extract(epoch FROM m.enqueued_at) - (m.message ->> 'due')::numeric) * 1000) FROM queen.peek('$_[0]', max_messages => 100000) m") };
my $due_in = sub { my ($queue, $key, $seconds) = @_; return "SELECT s.verdict FROM (SELECT clock_timestamp() + interval '$seconds s') t (d), LATERAL queen.schedule('$queue', '$key', jsonb_build_object('due', extract(epoch FROM d)), deliver_at => d) s" };

$sql->(q{
	CREATE TABLE plan (n bigserial, key text, message bigint, gone boolean);
	CREATE SEQUENCE numbers;
	-- A timer is scheduled, moved or cancelled, and what came of it is written down by the same transaction. Who has a key has it to the end, so
	-- the last line of a key is the timer that is there.
	CREATE FUNCTION act(k text, number bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		answer text;
	BEGIN
		IF random() < 0.3 THEN
			answer := queen.cancel('load', k);
		ELSE
			SELECT s.verdict INTO answer FROM queen.schedule('load', k, to_jsonb(number), delay => make_interval(secs => random() * 1.5 - 0.3), partition => 'p' || number % 5) s;
		END IF;
		IF answer IN ('cancelled', 'rescheduled') THEN
			UPDATE plan SET gone = true WHERE n = (SELECT max(n) FROM plan WHERE key = k);
		END IF;
		IF answer IN ('scheduled', 'rescheduled') THEN
			INSERT INTO plan (key, message, gone) VALUES (k, number, false);
		END IF;
		IF random() < 0.1 THEN
			RAISE EXCEPTION 'rolled back';
		END IF;
	END $$;
	CREATE FUNCTION act(k text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM act(k, nextval('numbers'));
	EXCEPTION WHEN raise_exception THEN NULL;
	END $$});
wait_for_sql($node, q{SELECT count(*) > 0 FROM queen.pg_stat_queen_workers WHERE worker = 'pulse' AND task = 'timers' AND runs > 0}, 'the pulse');

# ---- in time, to a consumer that waits, on a server that has nothing else to do ----

my @late;
foreach my $i (1 .. 5)
{
	my $consumer = background($node);
	my $queue = $i < 3 ? 'end to end' : "end to end $i";    # that is there, or is not

	$sql->("SELECT queen.create_queue('$queue')") if $i == 1;
	sleep(1);
	$sql->($due_in->($queue, 'k', 2));
	push @late, $consumer->query_safe("SELECT round((extract(epoch FROM clock_timestamp()) - (message ->> 'due')::numeric) * 1000) FROM queen.pop('$queue', wait => '20 s', auto_ack => true)");
	$consumer->quit;
}
note("late by ms: @late");
cmp_ok((sort { $a <=> $b } @late)[2], '<=', 100, 'a timer of two seconds is with the consumer within 2.1');
cmp_ok((sort { $a <=> $b } @late)[4], '<=', 1000, 'and never waits for a poll');
cmp_ok((sort { $a <=> $b } @late)[0], '>=', 0, 'nor does it come too soon');

# ---- what is far away wakes nobody ----

sleep(0.5);
my $before = $runs->();
load($node, '-c 1 -t 200', far => q{SELECT queen.schedule('far', 'k' || random(), '1', delay => '1 day')})->{h}->finish;
cmp_ok($runs->() - $before, '<=', 10, '200 commits of timers that are due tomorrow');
is($sql->("SELECT queen.count_timers('far')"), '200', 'they wait');
$sql->("SELECT queen.cancel_prefix('far', 'k')");
# … nor is what was rolled back fired, a savepoint's or a transaction's
$sql->(q{BEGIN; SAVEPOINT s; SELECT queen.schedule('rolled back', 'a', '1', delay => '0.1 s'); ROLLBACK TO s; COMMIT; BEGIN; SELECT queen.schedule('rolled back', 'b', '1', delay => '0.1 s'); ROLLBACK});
sleep(0.5);
is($sql->("SELECT count(*) FROM queen.list_queues() WHERE queue = 'rolled back'"), '0', 'what was rolled back is nowhere');

# ---- a nearer time wakes at once; what somebody had is fired when it is let go ----

$sql->($due_in->('near', 'later', 8));
$sql->($due_in->('near', 'sooner', 0.2));
wait_for_sql($node, q{SELECT count(*) = 1 FROM queen.list_queues() q, queen.peek('near') WHERE q.queue = 'near'}, 'the nearer one');
cmp_ok($lateness->('near'), '<=', 500, 'a nearer time is told to who sleeps');
$sql->("SELECT queen.cancel('near', 'later')");

my $holder = background($node);
$sql->($due_in->('held', 'k', 2));
$holder->query_safe("BEGIN; SELECT queen.cancel('held', 'k')");
sleep(2.5);
# (its queue is there by now: the fire makes it before it finds that somebody has the timer)
is($sql->("SELECT count(*) FROM queen.log_segments JOIN queen.log_partitions USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'held'"), '0', 'what is being cancelled is not fired');
my $let_go = $sql->('SELECT extract(epoch FROM clock_timestamp())');
$holder->query_safe('ROLLBACK');
wait_for_sql($node, q{SELECT count(*) = 1 FROM queen.list_queues() q, queen.peek('held') WHERE q.queue = 'held'}, 'the one that was held');
cmp_ok($sql->("SELECT extract(epoch FROM enqueued_at) - $let_go FROM queen.peek('held')"), '<', 0.5, 'and is soon when that is rolled back');

# … also by somebody who fires by hand and thinks better of it: what he had was passed by
$setting->('queen.timers = off');
sleep(0.5);
# (its queue is there: what is seen is the timer, not a birth that is undone)
$sql->("SELECT queen.create_queue('by hand')");
$sql->($due_in->('by hand', 'k', 0));
$holder->query_safe('BEGIN; SELECT queen.fire_timers()');
$setting->('queen.timers = on');
sleep(1.5);
$let_go = $sql->('SELECT extract(epoch FROM clock_timestamp())');
$holder->query_safe('ROLLBACK');
wait_for_sql($node, q{SELECT count(*) = 1 FROM queen.list_queues() q, queen.peek('by hand') WHERE q.queue = 'by hand'}, 'the one that was fired by hand');
cmp_ok($sql->("SELECT extract(epoch FROM enqueued_at) - $let_go FROM queen.peek('by hand')"), '<', 0.5, 'what a fire by hand gives back comes soon');

# ---- off is off: nobody need wake the pulse ----

$setting->('queen.timers = off');
sleep(0.5);
$before = $runs->();
load($node, '-c 1 -t 200', off => q{SELECT queen.schedule('off', 'k' || random(), '1', delay => '0.1 s')})->{h}->finish;
cmp_ok($runs->() - $before, '<=', 10, '200 commits of timers while nothing is fired');
$sql->("SELECT queen.cancel_prefix('off', 'k')");
$setting->('queen.timers = on');

# ---- who holds a queue keeps its own timers, not others' ----

$sql->("SELECT queen.create_queue('stuck'), queen.create_queue('free')");
$holder->query_safe("BEGIN; SELECT queen.drop_queue('stuck')");
$sql->("SELECT count(queen.schedule('stuck', 'k' || n, '1', delay => '0.2 s', partition => 'p' || n)) FROM generate_series(1, 300) n");
$sql->("SELECT count(queen.schedule('free', 'k' || n, jsonb_build_object('due', extract(epoch FROM d)), deliver_at => d)) FROM generate_series(1, 40) n, LATERAL (SELECT clock_timestamp() + n * interval '0.1 s') s (d)");
wait_for_sql($node, q{SELECT queen.count_timers('free') = 0}, 'those of the free queue');
cmp_ok($lateness->('free'), '<=', 1500, 'a queue that somebody is dropping keeps nobody else');
my $xid = $sql->('SELECT pg_current_xact_id()');
sleep(3);
cmp_ok($sql->('SELECT pg_current_xact_id()') - $xid, '<=', 60, 'nor does it cost transactions all the time');
is($sql->(q{SELECT count(*) || ' ' || max(attempts) || ' ' || count(retry_at) FROM queen.list_timers('stuck', max_rows => 1000)}), '300 0 0', 'its own wait, and nothing is written');
like(slurp_file($node->logfile), qr/timers of queue "stuck" wait for a lock/, 'the log says so');
$holder->query_safe('ROLLBACK');
wait_for_sql($node, q{SELECT queen.count_timers('stuck') = 0}, 'those of the stuck queue');
is($sql->(q{SELECT sum(n) FROM generate_series(1, 300) p, LATERAL (SELECT count(*) AS n FROM queen.peek('stuck', 'p' || p)) s}), '300', 'and come when it is let go');
# a user has made the queue that the fire needs, and then wants its timers: the fire has nothing in its hands while it waits
$holder->query_safe("BEGIN; SELECT queen.create_queue('born')");
$sql->("SELECT count(queen.schedule('born', 'k' || n, '1', delay => '0')) FROM generate_series(1, 40) n");
my @answers = map { sleep(0.05); $holder->query_safe("SELECT queen.cancel('born', 'k$_')") } 1 .. 40;
is(join(' ', grep { $_ ne 'cancelled' } @answers), '', 'who has made a queue can cancel its timers');
$holder->query_safe('COMMIT');

# … fifty queues that somebody is making, and fifty that he purges, do not keep others, nor those that were due with them
$sql->("SELECT count(queen.create_queue('purged' || n)), count(queen.create_queue('innocent' || n)) FROM generate_series(1, 50) n");
$holder->query_safe("BEGIN; SELECT count(queen.create_queue('made' || n)), count(queen.purge_queue('purged' || n)) FROM generate_series(1, 50) n");
$sql->(q{SELECT count(queen.schedule(q || n, 'k', jsonb_build_object('due', extract(epoch FROM d)), deliver_at => d))
	FROM (SELECT clock_timestamp() + interval '0.5 s') s (d), generate_series(1, 50) n, unnest('{made,purged,innocent}'::text[]) q});
wait_for_sql($node, q{SELECT sum(queen.count_timers('innocent' || n)) = 0 FROM generate_series(1, 50) n}, 'the innocent');
cmp_ok($sql->(q{SELECT round(max(extract(epoch FROM m.enqueued_at) - (m.message ->> 'due')::numeric) * 1000) FROM generate_series(1, 50) n, queen.peek('innocent' || n) m}), '<=', 10000,
	'a hundred queues that are held cost others some seconds at first');
$sql->("SELECT count(queen.schedule('free', 'k' || n, jsonb_build_object('due', extract(epoch FROM d)), deliver_at => d)) FROM generate_series(1, 40) n, LATERAL (SELECT clock_timestamp() + n * interval '0.1 s') s (d)");
wait_for_sql($node, q{SELECT queen.count_timers('free') = 0}, 'those of the free queue again');
cmp_ok($sql->(q{SELECT round(max(extract(epoch FROM m.enqueued_at) - (m.message ->> 'due')::numeric) * 1000) FROM queen.peek('free', from_offset => 40, max_messages => 100) m}), '<=', 1000, 'and nothing later');
$holder->query_safe('ROLLBACK');
wait_for_sql($node, q{SELECT sum(queen.count_timers(q || n)) = 0 FROM generate_series(1, 50) n, unnest('{made,purged}'::text[]) q}, 'all of them, when it is over');

# ---- fair: one behind many ----

$setting->('queen.timers = off');
$sql->("SELECT count(queen.schedule('many', 'k' || n, '1', delay => '-1 hour')) FROM generate_series(1, 20000) n; SELECT queen.schedule('one', 'k', '1', delay => '-1 s'); SELECT queen.create_queue('many'), queen.create_queue('one')");
sleep(1);
is($sql->("SELECT queen.count_timers('one') + queen.count_timers('many')"), '20001', 'queen.timers = off keeps all');
$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT queen.count_timers('many') = 0}, 'twenty thousand');
cmp_ok($sql->(q{SELECT count(*) FROM queen.peek('many', max_messages => 100000) WHERE enqueued_at < (SELECT enqueued_at FROM queen.peek('one'))}), '<=', 3000, 'one that is a second late comes in the first batches');
is($sql->(q{SELECT count(DISTINCT message_id) || ' ' || count(*) FROM queen.peek('many', max_messages => 100000)}), '20000 20000', 'and all come once');
is($sql->('SELECT * FROM queen.verify()'), '', 'the tables agree');

# ---- one transaction carries some megabytes ----

$setting->('queen.timers = off');
$sql->(q{SELECT count(queen.schedule('large', 'k' || n, jsonb_build_object('filler', repeat('x', 2000000)), delay => '-1 s')) FROM generate_series(1, 12) n});
$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT queen.count_timers('large') = 0}, 'large ones');
is($sql->(q{SELECT count(DISTINCT s.xmin::text) || ' ' || sum(s.end_offset - s.base_offset + 1) FROM queen.log_segments s JOIN queen.log_partitions USING (partition_id) JOIN queen.queues q USING (log_id) WHERE q.name = 'large'}),
	'3 12', 'twelve timers of two megabytes are three transactions');

# ---- what a user was allowed to schedule is pushed, whatever the limits of sessions are ----

$setting->('queen.timers = off');
$setting->('queen.push_buffer_size = 64');
$setting->("temp_file_limit = '1MB'");
$sql->(q{SELECT queen.schedule('spilled', 'large', jsonb_build_object('filler', repeat('x', 3000000)), delay => '-1 s')});
$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT queen.count_timers('spilled') = 0}, 'a message that does not fit into memory or a file');
$setting->('temp_file_limit = -1');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET queen.push_buffer_size');
$setting->('queen.timers = on');

# ---- a row that came another way (a restore, logical apply): nobody told, and it is below what has been fired ----

$sql->(q{SELECT queen.schedule('untold', 'model', '"untold"', delay => '1 hour')});
$sql->(q{INSERT INTO queen.log_timers (tenant, queue, timer_key, partition, deliver_at, message_id, message, attempts, created_at, updated_at)
	SELECT tenant, queue, 'copy', partition, now() - interval '2 hours', gen_random_uuid(), message, attempts, created_at, updated_at FROM queen.log_timers WHERE queue = 'untold'});
my $written = time;
wait_for_sql($node, q{SELECT queen.count_timers('untold') = 1}, 'the one that nobody told of');
cmp_ok(time - $written, '<=', 16, 'is found by a look from the bottom');
$sql->(q{SELECT queen.cancel('untold', 'model')});

# ---- what is overdue by too much goes, with a word in the log ----

$setting->("queen.overdue_limit = '1 min'");
my $log_at = -s $node->logfile;
$sql->(q{SELECT queen.schedule('overdue', 'old', '"old"', delay => '-1 hour'), queen.schedule('overdue', 'new', '"new"', delay => '-1 s')});
wait_for_sql($node, q{SELECT queen.count_timers('overdue') = 0}, 'both are gone');
is($sql->(q{SELECT message FROM queen.peek('overdue')}), '"new"', 'one was pushed');
like(substr(slurp_file($node->logfile), $log_at), qr/timer "old" of queue "overdue" was due at .* and is dropped/, 'the other one is in the log');
$setting->('queen.overdue_limit = 0');

# ---- what became of them ----

my $counts = sub { return $sql->("SELECT concat_ws(' ', pending, due, backing_off, fired, failed, dead, dropped) FROM queen.pg_stat_queen_timers WHERE queue = '$_[0]'") };
is($counts->('overdue'), '0 0 0 1 0 0 1', 'one was fired, one was dropped');
is($counts->('many'), '0 0 0 20000 0 0 0', 'all of the many were fired');
is($sql->("SELECT late_p50 BETWEEN 3600000 AND late_p99 AND late_p99 <= late_max AND late_max < 5000000 FROM queen.pg_stat_queen_timers WHERE queue = 'many'"), 't', 'an hour late');
is($sql->("SELECT fired || ' ' || (failed = 0) FROM queen.pg_stat_queen_timers WHERE queue = 'stuck'"), '300 true', 'a lock is no failure');
$setting->('queen.timers = off');
$sql->("SELECT queen.schedule('counted', 'now', '1', delay => '-1 s'), queen.schedule('counted', 'later', '1', delay => '1 hour')");
sleep(1);
$sql->('BEGIN; SELECT queen.fire_timers(); ROLLBACK');
is($counts->('counted'), '2 1 0', 'a fire that was rolled back counts for nothing');
$sql->('SELECT queen.fire_timers()');
is($counts->('counted'), '1 0 0 1 0 0 0', 'by hand counts, too');
$sql->('SELECT queen.reset_timer_stats()');
is($counts->('counted') . $counts->('many'), '1 0 0', 'and is forgotten when that is wanted');
$sql->("SELECT queen.cancel('counted', 'later')");
$setting->('queen.timers = on');

# ---- a copy that is not to fire, and is to ----

$node->backup('standby');
$sql->(q{SELECT queen.schedule('copied', 'k', '"copied"', delay => '6 s')});
my $dump = $node->backup_dir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-h', $node->host, '-p', $node->port, '-f', $dump, 'postgres' ], 'a dump');
my $copy = new_node('copy', preload => 'queen', settings => "queen.timers = off\n", no_extension => 1);
$copy->command_ok([ 'pg_restore', '-h', $copy->host, '-p', $copy->port, '-d', 'postgres', '--exit-on-error', $dump ], 'restored with queen.timers = off');
sleep(6);
is($copy->safe_psql('postgres', "SELECT queen.count_timers('copied')"), '1', 'nothing fires there');
$copy->safe_psql('postgres', 'ALTER SYSTEM SET queen.timers = on');
$copy->safe_psql('postgres', 'SELECT pg_reload_conf()');
$copy->poll_query_until('postgres', "SELECT queen.count_timers('copied') = 0") or die 'the copy does not fire';
is($copy->safe_psql('postgres', "SELECT message FROM queen.peek('copied')"), '"copied"', 'until it is on');
check_log($copy);
$copy->stop;

# ---- a standby fires when it is promoted ----

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
$sql->(q{SELECT queen.schedule('promoted', 'k', '"promoted"', delay => '5 s')});
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT timer_key FROM queen.list_timers('promoted')"), 'k', 'a standby shows timers');
$node->stop;
$standby->promote;
$standby->poll_query_until('postgres', "SELECT queen.count_timers('promoted') = 0") or die 'the standby does not fire';
is($standby->safe_psql('postgres', "SELECT message FROM queen.peek('promoted')"), '"promoted"', 'and fires once it is promoted');
check_log($standby);
$standby->stop;

# ---- exactly once, whatever is killed ----

$node->start;
foreach my $round (1 .. 5)
{
	my $load = load($node, '-c 4 -T 20 -M prepared', act => "\\set k random(1, 500)\nSELECT act('k' || :k)\n");

	sleep(1 + rand());
	kill_and_revive($node, $sql->(
		$round % 3 == 0 ? 'SELECT 0'
		: $round % 3 == 1 ? q{SELECT pid FROM queen.pg_stat_queen_workers w WHERE worker = 'pulse' AND w.database = current_database() LIMIT 1}
		: q{SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1}));
	$load->{h}->kill_kill;
}
wait_for_sql($node, q{SELECT queen.count_timers('load') = 0}, 'all timers of the load');

# In the middle of a backlog, in small steps: whoever is killed is in one of them. Each time all of it is a timer or a message, and none is both.
my $backlog = 20000;
my $middle = 0;

$setting->('queen.timers = off');
$setting->('queen.timer_batch = 5');
$sql->("SELECT count(queen.schedule('backlog', 'k' || n, to_jsonb(n), delay => '-1 s', partition => 'p' || n % 3)) FROM generate_series(1, $backlog) n");
foreach my $round (1 .. 6)
{
	$setting->('queen.timers = on');
	wait_for_sql($node, q{SELECT count(*) > 0 FROM queen.pg_stat_queen_workers WHERE worker = 'pulse' AND task = 'timers' AND runs > 0}, 'the pulse');
	sleep(0.1 + rand() * 0.3);
	my $pulse = $sql->(q{SELECT pid FROM queen.pg_stat_queen_workers w WHERE worker = 'pulse' AND w.database = current_database() LIMIT 1});
	$sql->('ALTER SYSTEM SET queen.timers = off');    # for those who come behind it
	kill_and_revive($node, $round % 3 == 0 ? 0 : $pulse);
	# a postmaster that goes on has the old settings
	$sql->('SELECT pg_reload_conf()');
	for (my ($before, $now) = (-1, 0); $before != $now; sleep(0.3))
	{
		($before, $now) = ($now, $sql->("SELECT queen.count_timers('backlog')"));
	}
	my ($left, $came, $distinct) = split / /, $sql->(q{
		SELECT concat_ws(' ', (SELECT count(*) FROM queen.list_timers('backlog', max_rows => 100000)), count(*), count(DISTINCT message_id))
		FROM (SELECT message_id FROM generate_series(0, 2) p, queen.peek('backlog', 'p' || p, max_messages => 100000)
			UNION ALL SELECT message_id FROM queen.list_timers('backlog', max_rows => 100000)) m});
	is("$came $distinct", "$backlog $backlog", "killed with $left timers left: each is a timer or a message");
	$middle++ if $left > 0 && $left < $backlog;
}
cmp_ok($middle, '>=', 2, 'in the middle of it');
$setting->('queen.timer_batch = 1000');
$setting->('queen.timers = on');
wait_for_sql($node, q{SELECT queen.count_timers('backlog') = 0}, 'the rest of the backlog');
is($sql->(q{SELECT count(DISTINCT m.message) || ' ' || count(*) FROM generate_series(0, 2) p, queen.peek('backlog', 'p' || p, max_messages => 100000) m}), "$backlog $backlog", 'all of it came once');

$sql->(q{CREATE TABLE arrived AS SELECT m.message::bigint AS message, m.message_id FROM generate_series(0, 4) p, queen.peek('load', 'p' || p, max_messages => 100000) m});
cmp_ok($sql->('SELECT count(*) FROM arrived'), '>', 500, 'a load that is one');
is($sql->('SELECT count(*) - count(DISTINCT message) FROM arrived'), '0', 'no message came twice');
is($sql->('SELECT count(*) FROM plan WHERE NOT gone AND message NOT IN (SELECT message FROM arrived)'), '0', 'none is missing');
is($sql->('SELECT count(*) FROM arrived WHERE message NOT IN (SELECT message FROM plan WHERE NOT gone)'), '0', 'none came that was cancelled or replaced');
is($sql->('SELECT * FROM queen.verify()'), '', 'the tables agree');
check_partitions($node);
check_log($node);
$node->stop;
done_testing();
