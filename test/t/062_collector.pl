# The keeper collects the state of queues: at its interval, for each database, after a crash; what happens when it fails; what there is no room for; what a
# standby shows; that its memory, which the change feed keeps up to date, says the same as a collection that remembers nothing.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('collector', streaming => 1, settings => "queen.state_queues = 192\nqueen.state_groups = 64\nmax_prepared_transactions = 5\nrestart_after_crash = on\nautovacuum = off\n");
my $sql = sub { my ($what, $db) = @_; return $node->safe_psql($db // 'postgres', $what) };
my $set = sub { $sql->("ALTER SYSTEM SET $_[0]"); $sql->('SELECT pg_reload_conf()') };
my $keeper = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'queen keeper' AND datname = current_database()";
my $wait = sub { my ($what, $why, $db) = @_; $node->poll_query_until($db // 'postgres', $what) or die "timed out: $why" };
# until a collection that began from now on is over
my $collected = sub { my ($db) = @_; $wait->("SELECT collected_at > '" . $sql->('SELECT clock_timestamp()', $db) . "' FROM queen.pg_stat_queen_collector", 'a collection', $db) };

# ---- at its interval, from the keeper's start ----

is($sql->('SELECT attempts FROM queen.pg_stat_queen_collector'), '0', 'queen.collect_interval = 0: nothing is collected');
is($sql->('SELECT count(*) FROM queen.pg_stat_queen_queues'), '0', 'and nothing shown');
$sql->(q{SELECT queen.create_queue('w', 'work'); SELECT count(*) FROM queen.enqueue_batch('w', '[1, 2, 3]')});
$sql->(q{SELECT queen.push('l', '1'), queen.push('l', '2')});
$set->("queen.collect_interval = '1 s'");
$collected->();
is($sql->(q{SELECT string_agg(concat_ws(' ', queue, priority, ready), ', ') FROM queen.pg_stat_queen_queues}), 'w high 0, w medium 3, w low 0, l 2', 'then it is, by itself');
$sql->(q{SELECT count(*) FROM queen.dequeue('w', 2, '1 s')});
$sql->(q{SELECT count(*) FROM queen.pop('l', 'g', 1, lease_time => '2 s')});
$collected->();
is($sql->(q{SELECT ready || '/' || in_flight FROM queen.pg_stat_queen_queues WHERE queue = 'w' AND priority = 'medium'}), '1/2', 'what is done to messages is seen');
is($sql->(q{SELECT ready || '/' || in_flight FROM queen.pg_stat_queen_groups WHERE queue = 'l'}), '1/1', 'and to logs');
sleep 2.2;
$collected->();
is($sql->(q{SELECT ready || '/' || in_flight FROM queen.pg_stat_queen_queues WHERE queue = 'w' AND priority = 'medium'}), '3/0', 'what time does, too');
is($sql->(q{SELECT ready || '/' || in_flight FROM queen.pg_stat_queen_groups WHERE queue = 'l'}), '2/0', 'to logs, too, of which nobody told');
# nothing has happened to messages then
$sql->(q{SELECT queen.pause('l', 'g'), queen.pause('w')});
$collected->();
is($sql->(q{SELECT DISTINCT q.paused, l.paused, g.paused FROM queen.pg_stat_queen_queues q, queen.pg_stat_queen_queues l, queen.pg_stat_queen_groups g WHERE q.queue = 'w' AND l.queue = 'l'}), 't|f|t', 'that nothing is delivered');
$sql->(q{SELECT queen.resume('l', 'g'), queen.resume('w')});
my ($runs, $began) = ($sql->('SELECT attempts FROM queen.pg_stat_queen_collector'), time);
sleep 4;
my $rate = ($sql->('SELECT attempts FROM queen.pg_stat_queen_collector') - $runs) / (time - $began);
ok($rate > 0.4 && $rate < 1.3, 'once in a second') or diag($rate);

# ---- it remembers: what it says after any changes is what a collection says that remembers nothing ----

my $all = q{WITH q AS (SELECT *, extract(epoch FROM collected_at) - oldest_ready_age::numeric AS ready_at, extract(epoch FROM collected_at) - oldest_in_flight_age::numeric AS in_flight_at FROM queen.pg_stat_queen_queues),
	g AS (SELECT *, extract(epoch FROM collected_at) - oldest_ready_age::numeric AS ready_at, extract(epoch FROM collected_at) - oldest_in_flight_age::numeric AS in_flight_at FROM queen.pg_stat_queen_groups)
	SELECT string_agg(concat_ws(' ', 'queue', queue, priority, ready, in_flight, blocked, exhausted, expired, messages, dead, timers, CASE WHEN oldest_ready_age > 0 THEN round(ready_at, 3) END,
		CASE WHEN oldest_in_flight_age > 0 THEN round(in_flight_at, 3) END), E'\n' ORDER BY queue_id, priority) FROM q
	UNION ALL SELECT string_agg(concat_ws(' ', 'group', queue, consumer_group, ready, in_flight, blocked, CASE WHEN oldest_ready_age > 0 THEN round(ready_at, 3) END,
		CASE WHEN oldest_in_flight_age > 0 THEN round(in_flight_at, 3) END), E'\n' ORDER BY group_id) FROM g};
my $agrees = sub {
	my ($what) = @_;

	$collected->();
	my $remembered = $sql->($all);
	my $anew = $sql->("BEGIN READ ONLY; DO 'BEGIN PERFORM queen.collect(); END'; $all; COMMIT");
	is($remembered, $anew, "$what: the keeper's memory says what is there");
};
$sql->(q{SELECT count(queen.push('many', to_jsonb(i), partition => 'p' || i % 50)) FROM generate_series(1, 500) i});
$sql->(q{SELECT queen.subscribe('many', 'late', 'latest'), queen.subscribe('many', 'other')});
$agrees->('pushes, subscriptions');
for my $turn (1 .. 3)
{
	$sql->(q{SELECT count(*) FROM generate_series(1, 20), LATERAL queen.pop('many', 'g', 3, auto_ack => true, max_partitions => 2)}) for 1 .. 3;
	$sql->(q{SELECT count(queen.nack(lease, delay => '1 h')) FROM (SELECT DISTINCT lease FROM queen.pop('many', 'other', 10, max_partitions => 5)) d});
	$sql->(q{SELECT count(*) FROM queen.pop('many', 'late', 10, max_partitions => 5, lease_time => '1 h')});
	$sql->(q{SELECT count(queen.push('many', to_jsonb(i), partition => 'p' || i % 70)) FROM generate_series(1, 90) i});
	$agrees->("turn $turn");
}
$sql->(q{SELECT count(queen.seek('many', 'g', 2, 'p' || i)) FROM generate_series(1, 30) i});
$agrees->('cursors that go back');
$sql->(q{SELECT queen.configure('many', '{"retention": "1 s"}')});
sleep 1.2;
$sql->('CALL queen.maintain()');
$agrees->('what another session deletes');
$sql->(q{SELECT queen.unsubscribe('many', 'other'); SELECT queen.purge_queue('l'); SELECT queen.push('l', '1'); SELECT queen.drop_queue('many')});
$agrees->('a purge and a drop');
$sql->(q{BEGIN; SELECT queen.push('l', '2'); PREPARE TRANSACTION 'push'});
$collected->();
is($sql->(q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'l'}), '1', 'what is prepared is not counted');
$sql->(q{COMMIT PREPARED 'push'});
$agrees->('a prepared push');
is($sql->(q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'l'}), '2', 'but when it is committed');
$sql->(q{UPDATE queen.log_cursors SET committed = committed - 1 WHERE committed >= 0});
$agrees->('cursors that SQL writes');

# more partitions than are looked at beside what the feed tells of
$sql->(q{SELECT count(queen.push('wide', to_jsonb(i), partition => 'p' || i)) FROM generate_series(1, 5000) i});
$collected->();
$sql->(q{SELECT count(queen.push('wide', to_jsonb(i), partition => 'p' || i * 600)) FROM generate_series(1, 8) i});
$agrees->('pushes to a few of many partitions');
$sql->(q{SELECT queen.subscribe('wide', 'g'), queen.seek_to_end('wide', 'g'), queen.push('wide', '1', partition => 'p4999')});
$agrees->('a cursor in each, and one message');
$sql->(q{SELECT queen.drop_queue('wide')});
# more timers than are counted at a time
$sql->(q{SELECT count(queen.schedule('l', 'k' || i, '1', delay => '1 h')) FROM generate_series(1, 45000) i});
$wait->(q{SELECT timers = 45000 FROM queen.pg_stat_queen_queues WHERE queue = 'l'}, 'all timers to be counted');
pass('timers are counted, in several collections');
$agrees->('timers');
$set->("queen.collect_interval = '1 h'");
$node->restart;
$wait->('SELECT attempts > 0 FROM queen.pg_stat_queen_collector', 'the first collection of a keeper');
is($sql->(q{SELECT attempts, (SELECT timers FROM queen.pg_stat_queen_queues WHERE queue = 'l') FROM queen.pg_stat_queen_collector}), '1|45000', 'and as a whole, before the first collection of a keeper');
$set->("queen.collect_interval = '1 s'");
$sql->(q{SELECT queen.cancel_prefix('l', 'k')});

# ---- a failure is seen, the last state stays, a fresh keeper mends the counts and collects again ----

my $pid = $sql->($keeper);
$sql->(q{BEGIN; SELECT queen.create_queue('drift', 'work'); SELECT count(queen.enqueue('drift', '1')) FROM generate_series(1, 5); COMMIT});
$set->("queen.collect_interval = '3 s'");
$sql->(q{SELECT count(*) FROM queen.dequeue('drift', 5, '1 s')});
$sql->(q{UPDATE queen.queue_priority_state_shard s SET in_flight_count = 2 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'drift' AND in_flight_count > 0});
$wait->('SELECT failures = 1 FROM queen.pg_stat_queen_collector', 'a collection to fail');
$began = time;
like($sql->('SELECT last_sqlstate, last_error FROM queen.pg_stat_queen_collector'), qr/^QN004\|the state of queue "drift" is not known: its count of in-flight messages is wrong$/, 'a collection fails on a count that is too low');
isnt($sql->(q{SELECT count(*) FROM queen.pg_stat_queen_queues WHERE queue = 'w'}), '0', 'the last state stays');
my $age = $sql->('SELECT snapshot_age FROM queen.pg_stat_queen_collector');
sleep 0.2;
cmp_ok($sql->('SELECT snapshot_age FROM queen.pg_stat_queen_collector'), '>', $age + 0.1, 'and grows older');
$wait->("$keeper AND pid <> $pid" =~ s/SELECT pid/SELECT count(*) = 1/r, 'another keeper');
pass('the keeper has ended, and another one is there');
$wait->("SELECT rebuilds = 1 FROM queen.pg_stat_queen_rollup", 'the counts to be mended');
$collected->();
cmp_ok(time - $began, '>', 1.5, 'it collects an interval later, not at once');
is($sql->(q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'drift' AND priority = 'medium'}), '5', 'and then it is right');
is($sql->('SELECT failures FROM queen.pg_stat_queen_collector'), '1', 'one failure is what there was');
ok($node->log_contains(qr/ERROR: .*the state of queue "drift" is not known/), 'the log has the error');
ok($node->log_contains(qr/LOG: .*queen keeper ends after an error of its task "state"/), 'and the end of the keeper');
is($sql->(q{SELECT count(*) FROM queen.verify() WHERE item = 'counts'}), '0', 'counts agree');

# ---- several databases share the memory; who comes late finds what is left ----

$set->("queen.collect_interval = '1 s'");
$sql->('CREATE DATABASE other');
$sql->('CREATE EXTENSION queen', 'other');
$sql->(q{SELECT queen.enqueue('w', '1', 'high')}, 'other');
$collected->('other');
is($sql->(q{SELECT string_agg(concat_ws(' ', queue, priority, ready), ', ') FROM queen.pg_stat_queen_queues}, 'other'), 'w high 1, w medium 0, w low 0', 'each database sees its own queues');
$sql->(q{SELECT count(queen.create_queue('q' || i)), count(queen.subscribe('q' || i, 'g')) FROM generate_series(1, 150) i}, 'other');
$collected->('other');
# 3 chunks of 64: one has the first database
is($sql->('SELECT queues, left_out_queues, left_out_groups FROM queen.pg_stat_queen_collector', 'other'), '128|23|150', 'what has no room is left out, and counted');
is($sql->(q{SELECT string_agg(DISTINCT queue, ' ') FROM queen.pg_stat_queen_queues WHERE queue IN ('w', 'q126', 'q127', 'q128', 'q150')}, 'other'), 'q126 q127 w', 'the youngest are');
is($sql->('SELECT left_out_queues FROM queen.pg_stat_queen_collector'), '0', 'the other one keeps what it has');
like($sql->(q{SELECT string_agg(item || ' ' || state, ', ') FROM queen.status() WHERE item = 'state'}, 'other'), qr/^state incomplete$/, 'queen.status() says so');
$sql->(q{SELECT count(queen.drop_queue('q' || i)) FROM generate_series(1, 150) i}, 'other');
$collected->('other');
is($sql->('SELECT queues, left_out_queues FROM queen.pg_stat_queen_collector', 'other'), '1|0', 'what is dropped makes room');
$sql->(q{SELECT count(queen.create_queue('q' || i)) FROM generate_series(1, 140) i}, 'other');
$collected->('other');
is($sql->('SELECT left_out_queues FROM queen.pg_stat_queen_collector', 'other'), '13', 'which is taken again');
$sql->(q{SELECT count(queen.create_queue('p' || i)) FROM generate_series(1, 100) i});
$collected->();
is($sql->('SELECT queues > 0 AND left_out_queues > 0 FROM queen.pg_stat_queen_collector'), 't', 'now there is too little for the first one');
$sql->('DROP EXTENSION queen', 'other');
$wait->('SELECT left_out_queues = 0 FROM queen.pg_stat_queen_collector', 'the memory of the other one');
pass('an extension that is dropped gives its memory back');
$sql->('CREATE EXTENSION queen', 'other');
$collected->('other');
is($sql->('SELECT count(*) FROM queen.pg_stat_queen_queues', 'other'), '0', 'one that is made anew knows nothing of the old one');
$sql->('DROP DATABASE other');
$sql->(q{SELECT count(queen.drop_queue('p' || i)) FROM generate_series(1, 100) i});

# ---- a standby shows what is collected there, by hand ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('collector_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM queen.pg_stat_queen_queues'), '0', 'a standby collects nothing by itself');
is($standby->safe_psql('postgres', 'SELECT attempts, collected_at IS NULL FROM queen.pg_stat_queen_collector'), '0|t', 'and says so');
$standby->safe_psql('postgres', 'SELECT queen.collect()');
is($standby->safe_psql('postgres', q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'drift' AND priority = 'medium'}), '5', 'but when it is told to');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT attempts > 1 FROM queen.pg_stat_queen_collector') or die 'timed out: a collection';
pass('after its promotion it does');
$standby->stop;

# ---- a crash: nothing is shown before the first collection, which comes at once ----

$set->("queen.collect_interval = '1 h'");
kill_and_revive($node, 0);
$wait->(q{SELECT count(*) > 0 FROM queen.pg_stat_queen_queues}, 'a collection after the crash');
is($sql->(q{SELECT attempts, failures FROM queen.pg_stat_queen_collector}), '1|0', 'after a crash it is collected at once, and once');
is($sql->(q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'drift' AND priority = 'medium'}), '5', 'all of it');

# ---- in the middle of load: exact in its snapshot, so it never fails ----

$sql->(q{SELECT queen.create_queue('load' || i, 'work', '{"max_delivery_attempts": 3, "retry_delay": 0}') FROM generate_series(1, 3) i});
$set->("queen.collect_interval = '1 s'");
my $load = load($node, '-c 8 -j 2 -T 5',
	'put@3' => "\\set q random(1, 3)\nSELECT queen.enqueue('load' || :q, '1', (ARRAY['high', 'medium', 'low'])[1 + :q % 3], CASE WHEN random() < 0.3 THEN interval '1 s' END);\n",
	'take@3' => "\\set q random(1, 3)\nSELECT count(queen.acknowledge(message_id, receipt)) FROM (SELECT * FROM queen.dequeue('load' || :q, 5, '1 s') OFFSET 1) d;\n",
	'push@1' => "\\set p random(1, 30)\nSELECT queen.push('log', '1', partition => 'p' || :p);\n",
	'pop@1' => "SELECT count(*) FROM queen.pop('log', 'g', 10, auto_ack => true, max_partitions => 3);\n",
	'clean@1' => "CALL queen.maintain();\n",
	'collect@1' => "SELECT queen.collect();\nSELECT count(*) FROM queen.pg_stat_queen_queues WHERE ready < 0 OR in_flight < 0;\n");
finish_load($load, "collections in the middle of load, by several at once, do not fail");
is($sql->('SELECT failures FROM queen.pg_stat_queen_collector'), '0', 'none of them');

# ---- waiting for a lock is no work, which a rest would follow; what a session's call comes to is the session's ----

$set->("queen.collect_interval = '1 s'");
my $locker = background($node);
$locker->query_safe('BEGIN; LOCK TABLE queen.messages');
my $attempts = $sql->('SELECT attempts FROM queen.pg_stat_queen_collector');
(undef, undef, my $cancelled) = $node->psql('postgres', q{SET statement_timeout = '100 ms'; SELECT queen.collect()});
like($cancelled, qr/canceling statement/, 'a session gives up waiting for a lock');
sleep 4;
$locker->query_safe('COMMIT');
$locker->quit;
sleep 5;
cmp_ok($sql->('SELECT attempts FROM queen.pg_stat_queen_collector'), '>=', $attempts + 3, 'a collection that has waited for a lock puts off no other');
is($sql->('SELECT failures FROM queen.pg_stat_queen_collector'), '0', 'and has not failed, nor has the one that was cancelled');

# ---- a held snapshot keeps what was taken in the indexes: collections begin behind it then, and say the same ----

$set->('queen.collect_interval = 0');
# a message that is older would end what looks beyond those that have expired
$sql->('DELETE FROM queen.messages');
my $holder = background($node);
$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$sql->(q{SELECT queen.create_queue('kept', 'work', '{"max_delivery_attempts": 3}')});
for (1 .. 40)
{
	$sql->(q{SELECT count(*) FROM generate_series(1, 100) i, LATERAL queen.enqueue_batch('kept', (SELECT jsonb_agg(j) FROM generate_series(1, 100) j WHERE i > 0))});
	$sql->(q{SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('kept', 10000, '1 s')});
}
# what follows is looked for from a second before it on
sleep 1.1;
# one of each kind: ready again, exhausted, expired in flight, in flight, never delivered, expired
$sql->(q{SELECT count(*) FROM queen.enqueue_batch('kept', '[1, 2, 3, 4, 5, 6, 7, 8]') a, queen.enqueue_batch('kept', '[1, 2, 3, 4]', 'high', '2 s') b});
$sql->(q{SELECT count(*) FROM queen.dequeue('kept', 3, '1 s')});
$sql->(q{SELECT count(*) FROM queen.enqueue_batch('kept', '[1, 2, 3]', 'high', '2 s')});
$sql->(q{SELECT count(queen.change_visibility(message_id, receipt, '1 h')) FROM queen.dequeue('kept', 1)});
$sql->(q{SELECT count(*) FROM queen.dequeue('kept', 7, '1 s')});
sleep 2.1;
# what expires is passed by, and the mark rises above it
$sql->(q{SELECT count(*) FROM queen.dequeue('kept', 3, '1 h')});
my $kept = q{SELECT string_agg(concat_ws(' ', v.priority, v.ready, v.in_flight, v.exhausted, v.expired, v.oldest_in_flight_age > 0, abs(v.oldest_ready_age - coalesce(extract(epoch FROM v.collected_at - c.oldest_at), 0)) < 0.001), ', '),
	bool_and((v.ready, v.in_flight, v.exhausted, v.expired) = (c.ready, c.in_flight, c.exhausted, c.expired)), round(min(extract(epoch FROM v.collected_at) - v.oldest_in_flight_age::numeric) FILTER (WHERE v.in_flight > 0), 3)
	FROM queen.pg_stat_queen_queues v JOIN queen.count_messages('kept') c USING (priority) WHERE v.queue = 'kept'};
# one session, which remembers
my $collector = background($node);
my $met = q{SELECT pg_stat_force_next_flush(); SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE relid = 'queen.messages'::regclass;};
my $answers = sub { return grep { /\S/ } split /\n/, $collector->query_safe("$_[0]") };
$answers->('SET jit = off');
# a collection: how many entries of indexes it meets, and what it comes to
sub met
{
	my ($from, $to, $is) = $answers->("$met DO 'BEGIN PERFORM queen.collect(); END'; $met $kept;");
	return ($to - $from, $is);
}
my ($at_first, $by_bottom) = met();
my ($then, $by_floors) = met();
like($by_bottom, qr/\|t\|/, 'with a held snapshot what is collected is what is counted') or diag($by_bottom);
is($by_floors, $by_bottom, 'behind what was dead it is the same');
cmp_ok($at_first, '>', 400000, 'what is dead is met');
cmp_ok($then, '<', 5000, 'once');
# what dies from one collection to the next is met once, and what lives among it is found
for my $round (1 .. 3)
{
	$sql->(q{SELECT count(*) FROM generate_series(1, 50) i, LATERAL queen.enqueue_batch('kept', (SELECT jsonb_agg(j) FROM generate_series(1, 100) j WHERE i > 0))});
	$sql->(q{SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('kept', 5000, '1 h')});
	$sql->(q{SELECT count(*) FROM queen.enqueue_batch('kept', '[1, 2]')});
	my ($entries, $is) = met();
	like($is, qr/\|t\|/, "round $round: what is collected is what is counted") or diag($is);
	cmp_ok($entries, '<', 25000, "round $round: of 400,000 dead entries of each index only the new ones are met");
}
# what somebody is taking while a collection looks is not passed by when it is taken
$sql->(q{SELECT queen.create_queue('taken', 'work'); SELECT queen.enqueue('taken', '1')});
sleep 2.2;
$sql->(q{SELECT queen.enqueue('taken', '2')});
my $taker = background($node);
$taker->query_safe(q{BEGIN; SELECT count(*) FROM queen.dequeue('taken', 1, '1 h')});
my $taken = q{SELECT ready, in_flight, oldest_in_flight_age > 2 FROM queen.pg_stat_queen_queues WHERE queue = 'taken' AND priority = 'medium'};
is(join(' ', $answers->("DO 'BEGIN PERFORM queen.collect(); END'; $taken")), '2|0|f', 'behind the held snapshot one is being taken');
$taker->query_safe('COMMIT');
$taker->quit;
is(join(' ', $answers->("DO 'BEGIN PERFORM queen.collect(); END'; $taken")), '1|1|t', 'and then it is the oldest in flight');
# the last one that was taken had its whole time to live before it
my $walked = q{SELECT pg_stat_force_next_flush(); SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE indexrelid = 'queen.messages_expires_at_idx'::regclass};
my ($before, $behind) = grep { /\d/ } split /\n/, $sql->("$walked; SELECT FROM queen.collect(); $walked");
cmp_ok($behind - $before, '<', 1000, 'what is consumed is not met again by its time to live');
# until it is let go what SQL writes below is passed by, and then it is found
$sql->(q{UPDATE queen.messages SET enqueued_at = enqueued_at - interval '1 day' WHERE message_id = (SELECT message_id FROM queen.messages WHERE state = 'IN_FLIGHT' AND visible_at > now() LIMIT 1)});
my $oldest = "DO 'BEGIN PERFORM queen.collect(); END'; SELECT max(oldest_in_flight_age) > 80000 FROM queen.pg_stat_queen_queues;";
is(join(' ', $answers->($oldest)), 'f', 'behind the held snapshot an older one is not looked for');
$holder->query('COMMIT');
is(join(' ', $answers->($oldest)), 't', 'when that has gone it is found');
$collector->quit;

# ---- ten thousand queues, of which each has what it has ----

$node->append_conf('postgresql.conf', "queen.state_queues = 20000\n");
$set->('queen.collect_interval = 0');
$node->restart;
$sql->(q{SELECT count(queen.create_queue('s' || i, 'work')) FROM generate_series(1, 10000) i});
$sql->(q{SELECT count(queen.enqueue('s' || i, '1', (ARRAY['high', 'medium', 'low'])[1 + i % 3])) FROM generate_series(1, 10000) i, generate_series(1, 1 + i % 4)});
$sql->(q{SELECT queen.collect()});
my $each = q{SELECT count(*), count(*) FILTER (WHERE ready = CASE priority WHEN (ARRAY['high', 'medium', 'low'])[1 + n % 3] THEN 1 + n % 4 ELSE 0 END AND messages = ready AND (oldest_ready_age > 0) = (ready > 0))
	FROM (SELECT *, substr(queue, 2)::int AS n FROM queen.pg_stat_queen_queues WHERE queue ~ '^s\d') q};
is($sql->($each), '30000|30000', 'ten thousand queues, a row for each of three priorities');
# the other way: a table that is much larger than its messages
$sql->(q{SELECT queen.create_queue('bloat', 'work'); SELECT count(*) FROM generate_series(1, 1500) i, LATERAL queen.enqueue_batch('bloat', (SELECT jsonb_agg(repeat(md5(i::text || j), 50)) FROM generate_series(1, 100) j))});
$sql->(q{SELECT queen.collect()});
is($sql->($each), '30000|30000', 'the same by the indexes');
is($sql->(q{SELECT ready FROM queen.pg_stat_queen_queues WHERE queue = 'bloat' AND priority = 'medium'}), '150000', 'and a deep one beside');

check_log($node, qr/the state of queue "drift"/);
$node->stop;
done_testing();
