# Counts of work queues agree with the messages: after load with rollbacks, savepoints, direct writes, expiry and a kill; where logical replication
# applies changes; on a standby and after a restore. And the keeper mends what a commit has failed on.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('rollup', streaming => 1, settings => "wal_level = logical\nstatement_timeout = '60s'\nqueen.maintain_interval = 1\nautovacuum_naptime = 1\ndeadlock_timeout = '200ms'\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $drift = 'SELECT count(*) FROM queen.rollup_drift()';
my $counted = "SELECT coalesce(sum(ready_count) || '/' || sum(in_flight_count), 'none') FROM queen.queue_priority_state_shard JOIN queen.queues USING (log_id) WHERE name = ";

# ---- load ----

$sql->(q{SELECT queen.create_queue(name, 'work', '{"max_delivery_attempts": 3, "retry_delay": 0}') FROM (VALUES ('hot'), ('q1'), ('q2'), ('q3')) n(name)});
$sql->(<<'SQL');
CREATE FUNCTION one_of() RETURNS text LANGUAGE sql AS $$ SELECT (ARRAY['hot', 'hot', 'hot', 'q1', 'q2', 'q3'])[1 + floor(random() * 6)::int] $$;
CREATE FUNCTION priority() RETURNS text LANGUAGE sql AS $$ SELECT (ARRAY['high', 'medium', 'low'])[1 + floor(random() * 3)::int] $$;
CREATE FUNCTION put(n int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM queen.enqueue_batch(one_of(), to_jsonb(array_fill(1, ARRAY[n])), priority(), CASE WHEN random() < 0.2 THEN interval '1 s' END) $$;
-- what is to become of what is taken
CREATE FUNCTION work(n int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(CASE floor(random() * 6)::int
		WHEN 0 THEN queen.reject(message_id, receipt)
		WHEN 1 THEN queen.change_visibility(message_id, receipt, '0') IS NOT NULL
		WHEN 2 THEN true
		ELSE queen.acknowledge(message_id, receipt) END)
	FROM queen.dequeue(one_of(), n, '1 s') $$;
SQL
my %scripts = (
	'put@4' => "SELECT put(1);\n",
	'batch@2' => "SELECT put(30);\n",
	'work@5' => "SELECT work(1);\n",
	'works@3' => "SELECT work(50);\n",
	'two@2' => "BEGIN;\nSELECT put(3);\nSELECT work(5);\nSELECT put(2);\nCOMMIT;\n",
	'back@2' => "BEGIN;\nSELECT put(3);\nSELECT work(5);\nROLLBACK;\n",
	'points@2' => "BEGIN;\nSELECT put(2);\nSAVEPOINT a;\nSELECT work(3);\nSAVEPOINT b;\nSELECT put(2);\nRELEASE b;\nROLLBACK TO a;\nSELECT work(3);\nCOMMIT;\n",
	# an owner's
	'moved@1' => "UPDATE queen.messages SET priority = 1 + floor(random() * 3)::int, shard = floor(random() * 32)::int WHERE message_id IN (SELECT message_id FROM queen.messages WHERE state = 'READY' ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED);\n",
	'deleted@1' => "DELETE FROM queen.messages WHERE message_id IN (SELECT message_id FROM queen.messages ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED);\n",
);
my $load = load($node, '-c 10 -j 2 -T 6', %scripts);
sleep 2;
is($sql->($drift), '0', 'in the middle of it counts agree, in one snapshot');
$sql->('SELECT queen.rollup_rebuild()');
is($sql->($drift), '0', 'also behind a rebuild');
ok(finish_load($load, 'load'), 'nobody met a deadlock, or a count below zero');
is($sql->($drift), '0', 'and at its end');
is($sql->(q{SELECT count(*) FROM queen.verify() WHERE item = 'counts'}), '0', 'verify finds no fault in them');
cmp_ok($sql->(q{SELECT count(DISTINCT shard) FROM queen.queue_priority_shards JOIN queen.queues USING (log_id) WHERE name = 'hot'}), '>', 1, 'a hot queue is spread');

# ---- sixteen consumers whose every call buries a hundred, of all shards and priorities: no deadlock ----

$sql->(q{SELECT queen.create_queue('grave', 'work', '{"max_delivery_attempts": 1}')});
$sql->(q{SELECT count(queen.enqueue('grave', '1', (ARRAY['high', 'medium', 'low'])[1 + i % 3])) FROM generate_series(1, 24000) i});
$sql->(q{SELECT count(*) FROM queen.dequeue('grave', 10000, '1 s')}) for 1 .. 3;
# as if as many processes had had them
$sql->(q{UPDATE queen.messages m SET shard = floor(random() * 32)::int FROM queen.queues q WHERE q.log_id = m.log_id AND q.name = 'grave'});
sleep 1.1;
finish_load(load($node, '-c 16 -j 2 -t 30', bury => q{
	SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('grave', 8);
	SELECT queen.enqueue('grave', '2') IS NOT NULL;
}), 'consumers who bury as much as they may');
cmp_ok($sql->(q{SELECT count(*) FROM queen.dead_letters WHERE kind = 'work'}), '>=', 20000, 'have buried nearly all');
is($sql->($drift), '0', 'counts agree');

# ---- a kill in the middle ----

$load = load($node, '-c 10 -j 2 -T 30', %scripts);
sleep 2;
kill_and_revive($node, 0);
eval { $load->{h}->finish };
is($sql->($drift), '0', 'counts agree after a kill of the server');
is($sql->('SELECT failures FROM queen.pg_stat_queen_rollup'), '0', 'nobody has failed on them');

# ---- an open transaction slows nobody ----

$sql->(q{SELECT queen.create_queue('open', 'work')});
my $open = background($node);
$open->query(q{BEGIN; SELECT queen.enqueue('open', '1'); SELECT message FROM queen.dequeue('open')});
$load = load($node, '-c 4 -T 2', put => "SELECT queen.enqueue('open', '1');\n");
finish_load($load, 'producers of a queue into which an open transaction has put');
cmp_ok($sql->(q{SELECT sum(ready_count) FROM queen.queue_priority_state_shard JOIN queen.queues USING (log_id) WHERE name = 'open'}), '>', 100, 'go on');
$open->query('COMMIT');
is($sql->($drift), '0', 'and are counted, with it');

# ---- drift: a commit fails on it, the keeper mends it ----

$sql->(q{SELECT queen.create_queue('drift', 'work'); SELECT queen.enqueue_batch('drift', '[1, 2, 3]')});
$sql->(q{UPDATE queen.queue_priority_state_shard s SET ready_count = 1 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'drift'});
my (undef, undef, $err) = $node->psql('postgres', q{SELECT count(*) FROM queen.dequeue('drift', 3)});
like($err, qr/the count of ready messages of queue "drift" would fall below zero/, 'a commit fails on wrong counts');
wait_for_sql($node, "SELECT rebuilds = 1 FROM queen.pg_stat_queen_rollup", 'the keeper to mend them');
is($sql->($drift), '0', 'the keeper mends them');
# else each would come alone, because it had a delivery that rolled back, and after some of them be buried
is($sql->(q{SELECT string_agg(concat(message, ':', attempt), ' ') FROM queen.dequeue('drift', 3)}), '1:1 2:1 3:1', 'and it can be tried again: no message has failed');
is($sql->($counted . "'drift'"), '0/3', 'and is counted');
is($sql->('SELECT failures, rebuilds, mended, last_failure < last_rebuild FROM queen.pg_stat_queen_rollup'), '1|1|1|t', 'all of that is counted, too');
ok($node->log_contains(qr/LOG: .*1 counts of queue "drift" did not agree with its messages/), 'and said in the log');

# ---- a database without a keeper tells of more queues than there is room for: nobody elsewhere waits for it ----

sub set
{
	$sql->("ALTER SYSTEM SET $_[0]");
	$sql->('SELECT pg_reload_conf()');
}
# whoever counts only failures: how often a keeper has mended since
my $mended = $sql->('SELECT rebuilds FROM queen.pg_stat_queen_rollup');
my $wait_mended = sub { my ($n, $what) = @_; $mended += $n; wait_for_sql($node, "SELECT rebuilds = $mended FROM queen.pg_stat_queen_rollup", $what) };
my $damage = sub { return "UPDATE queen.queue_priority_state_shard s SET ready_count = 0 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name ~ '$_[0]';" };
my $keeper = sub { my ($n, $what) = @_; wait_for_sql($node, "SELECT count(*) = $n FROM pg_stat_activity WHERE datname = 'left' AND backend_type = 'queen keeper'", $what) };

$sql->('CREATE DATABASE "left"');
$node->safe_psql('left', q{CREATE EXTENSION queen; SELECT queen.create_queue('z' || i, 'work') FROM generate_series(1, 70) i});
$node->safe_psql('left', q{SELECT count(queen.enqueue('z' || i, '1')) FROM generate_series(1, 70) i});
set(q{queen.databases = 'postgres'});
$keeper->(0, 'the keeper of a database that is left out to go');
my $fail = sub {
	$err = ($node->psql('left', $damage->('z') . join(';', map { "SELECT queen.dequeue('z$_')" } 1 .. 70), on_error_stop => 0))[2];
	is(scalar(() = $err =~ /would fall below zero/g), 70, 'seventy queues are told of there');
};
$fail->();
$sql->(q{SELECT queen.create_queue('near', 'work'); SELECT queen.enqueue('near', '1')});
$sql->($damage->('near'));
$node->psql('postgres', q{SELECT queen.dequeue('near')});
$wait_mended->(1, 'one to be mended here');
is($sql->(q{SELECT message FROM queen.dequeue('near')}), '1', 'here one is mended all the same');
$fail->();
# less is counted in flight than is over
$sql->(q{SELECT queen.enqueue_batch('near', '[2, 3]')});
$sql->(q{SELECT queen.dequeue('near', 2, '1 s')});
$sql->(q{UPDATE queen.queue_priority_state_shard s SET in_flight_count = 1 FROM queen.queues q WHERE q.log_id = s.log_id AND q.name = 'near' AND in_flight_count > 0});
sleep 1.1;
set('queen.collect_interval = 1');
$wait_mended->(1, 'what a collection has met to be mended');
is($sql->($drift), '0', 'so is what the keeper itself has failed on');
set('queen.collect_interval = 0');

# ---- the keeper waits for nobody who mends, or drops ----

$sql->(q{SELECT queen.create_queue(n, 'work') FROM unnest(ARRAY['held', 'dropped', 'free']) n});
$sql->(q{SELECT queen.enqueue(n, '1') FROM unnest(ARRAY['held', 'dropped', 'free']) n});
my ($mender, $dropper) = map { background($node) } 1 .. 2;
$mender->query(q{BEGIN; SELECT queen.rollup_rebuild('held')});
$dropper->query(q{BEGIN; SELECT queen.drop_queue('dropped')});
$sql->($damage->('^(held|dropped|free)$'));
my $began = time;
$err = join '', map { ($node->psql('postgres', "SELECT queen.dequeue('$_')"))[2] } 'held', 'dropped', 'free';
is(scalar(() = $err =~ /would fall below zero/g), 3, 'three are wrong, two of them are held');
$wait_mended->(1, 'the one that nobody holds to be mended');
cmp_ok(time - $began, '<', 8, 'at once: nobody was waited for, as long as that may take');
is($sql->($drift), '2', 'the others are as they were');
$_->query('ROLLBACK'), $wait_mended->(1, 'what was held to be mended') foreach $mender, $dropper;
$_->quit foreach $mender, $dropper;
is($sql->($drift), '0', 'they are mended when nobody holds them any more');
ok(!$node->log_contains(qr/somebody else is mending|stayed locked/), 'and no task has failed on it');

# ---- reports go with their keeper ----

$node->safe_psql('left', 'SELECT queen.rollup_rebuild()');
set(q{queen.databases = 'postgres, left'});
$keeper->(1, 'the keeper that was left out to come back');
$mender = $node->background_psql('left', on_error_stop => 0);
$mender->query(q{BEGIN; SELECT queen.rollup_rebuild('z1')});
$node->psql('left', $damage->('^z1$') . "SELECT queen.dequeue('z1')", on_error_stop => 0);
set(q{queen.databases = 'postgres'});
$keeper->(0, 'it to go again');
$mender->query('ROLLBACK');
$mender->quit;
set(q{queen.databases = 'postgres, left'});
$keeper->(1, 'the next one');
$node->psql('left', $damage->('^z2$') . "SELECT queen.dequeue('z2')", on_error_stop => 0);
$wait_mended->(1, 'what is told of now to be mended');
is($node->safe_psql('left', q{SELECT string_agg(q.name, ' ') FROM queen.rollup_drift() d JOIN queen.queues q USING (log_id)}), 'z1', 'what was told of before its keeper left is not known any more');

# ---- a standby reads them, and looks whether they agree ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('rollup_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $drift), '0', 'on a standby they agree');
is($standby->safe_psql('postgres', $counted . "'drift'"), '0/3', 'and say the same');
(undef, undef, $err) = $standby->psql('postgres', 'SELECT queen.rollup_rebuild()');
like($err, qr/read-only|recovery/, 'and are not mended');
$standby->stop;

# ---- logical replication: who applies changes of messages counts them ----

my $copy = new_node('rollup_copy', settings => "wal_level = logical\n");
$copy->safe_psql('postgres', q{SELECT queen.create_queue('drift', 'work')});
$sql->(q{ALTER TABLE queen.messages REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE queen.messages});
$copy->safe_psql('postgres', 'CREATE SUBSCRIPTION s CONNECTION $$' . $node->connstr('postgres') . '$$ PUBLICATION p');
$copy->wait_for_subscription_sync($node, 's') if $copy->can('wait_for_subscription_sync');
wait_for_sql($copy, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')", 'the initial copy');
is($copy->safe_psql('postgres', $drift), '0', 'the initial copy is counted');
cmp_ok($copy->safe_psql('postgres', 'SELECT sum(ready_count + in_flight_count) FROM queen.queue_priority_state_shard'), '>', 2, 'all of it');
$sql->(q{SELECT queen.enqueue_batch('drift', '[4, 5, 6, 7]', 'high'); SELECT count(*) FROM queen.dequeue('drift', 2, '1 h');
	SELECT count(queen.acknowledge(message_id, receipt)) FROM queen.dequeue('drift', 1, '1 h')});
$node->wait_for_catchup('s');
is($copy->safe_psql('postgres', 'SELECT string_agg(state, \' \' ORDER BY state) FROM queen.messages WHERE priority = 3 AND log_id IN (SELECT m.log_id FROM queen.messages m WHERE m.message = \'7\')'), 'IN_FLIGHT IN_FLIGHT READY', 'what is applied');
is($copy->safe_psql('postgres', $drift), '0', 'is counted');
$sql->('TRUNCATE queen.messages');
$node->wait_for_catchup('s');
is($copy->safe_psql('postgres', 'SELECT count(*) FROM queen.messages') . $copy->safe_psql('postgres', $drift), '00', 'so is a TRUNCATE');
$copy->safe_psql('postgres', 'DROP SUBSCRIPTION s');

# ---- a restore: counts are not in the dump, and are there ----

$sql->(q{SELECT queen.enqueue_batch('drift', '[1, 2]'); SELECT message FROM queen.dequeue('drift', 1)});
command_ok([ 'pg_dump', '-Fc', '-f', $node->basedir . '/dump', '-d', $node->connstr('postgres') ], 'a dump');
$sql->('CREATE DATABASE restored');
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $node->basedir . '/dump' ], 'and its restore');
is($node->safe_psql('restored', $counted . "'drift'") . $node->safe_psql('restored', $drift), '1/10', 'has the counts that its messages make');

# ---- another library's PRE_COMMIT, behind ours, enqueues: nothing would write its counts later ----

my $late = new_node('rollup_late', preload => 'queen_test, queen');
$late->safe_psql('postgres', q{BEGIN; SELECT queen.enqueue('late', '1'); SELECT queen_test_run_at_commit($$SELECT queen.enqueue('late', '2', 'high'), queen.enqueue('late', '3')$$); COMMIT});
is($late->safe_psql('postgres', $counted . "'late'") . ' ' . $late->safe_psql('postgres', $drift), '3/0 0', 'what is enqueued behind the flush is counted');
$late->stop;

check_log($node);
$node->stop;
$copy->stop;
done_testing();
