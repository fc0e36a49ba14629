# Work queues where shared memory is there: deliveries that roll back, marks, waiting, the cleaner, a crash.
# queen.wait_poll_interval is stretched so far that nobody looks by himself: who is not told waits until the test gives up.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('workqueue', settings => "statement_timeout = '60s'\nqueen.wait_poll_interval = 1h\nqueen.databases = 'none'\nautovacuum = off\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $take = sub { my ($queue, $n, $more) = @_; return "SELECT coalesce(string_agg(message::text || '/' || attempt, ' ' ORDER BY message), '') FROM queen.dequeue('$queue', $n" . ($more // '') . ')' };
my $taken = sub { return $sql->($take->(@_)) };
my $rolled_back = sub { return $sql->('BEGIN; ' . $take->(@_) . '; ROLLBACK') };
my $dead = sub { return $sql->("SELECT coalesce(string_agg(message::text || '/' || attempts, ' ' ORDER BY dead_id), '') FROM queen.list_dead('$_[0]')") };
my $fill = sub { my ($queue, $n) = @_; $sql->("SELECT count(*) FROM queen.enqueue_batch('$queue', (SELECT jsonb_agg(i ORDER BY i) FROM generate_series(1, $n) i))") };
my $used = 'SELECT used, evicted, lost FROM queen.pg_stat_queen_aborted';

# ---- dequeue, work, failure, rollback five times: dead, and only it ----

$fill->('poison', 4);
is(join(', ', map { $rolled_back->('poison', 10) } 1 .. 5), '1/1 2/1 3/1 4/1, 1/2, 1/3, 1/4, 1/5', 'each delivery counts, the first redelivery comes alone');
is($dead->('poison'), '', 'it has used up its deliveries');
is($taken->('poison', 10), '', 'the sixth call buries it, and delivers nothing');
is($dead->('poison'), '1/5', 'it is dead');
is(join(', ', map { $taken->('poison', 10) } 1 .. 4), '2/2, 3/2, 4/2, ', 'what was delivered along with it comes alone');
is($dead->('poison'), '1/5', 'and nothing else is dead');
is($sql->($used), '0|0|0', 'nothing is counted any more');

# a burial that is rolled back is one again, and what its transaction would take behind it is not taken along
$fill->('burial', 2);
$rolled_back->('burial', 1) for 1 .. 5;
is($sql->('BEGIN; ' . $take->('burial', 10) . '; ' . $take->('burial', 10) . '; ROLLBACK') . $dead->('burial'), "\n", 'a call that buries gives nothing, and nor does its transaction');
is($taken->('burial', 10) . $dead->('burial') . $taken->('burial', 10), '1/52/1', 'the next one buries it all the same');

# what rolls back is written into the row by the next delivery, and by savepoints too
$fill->('points', 1);
is($sql->('BEGIN; SAVEPOINT a; ' . $take->('points', 1) . '; ROLLBACK TO a; ' . $take->('points', 1) . '; ROLLBACK'), "1/1\n1/2", 'a savepoint that was rolled back counts within its transaction');
is($taken->('points', 1), '1/3', '… and beyond');
is($sql->('SELECT delivery_attempts FROM queen.messages m JOIN queen.queues q USING (log_id) WHERE name = \'points\''), '3', '… and then in the row');

# a batch takes no place as long as nothing fails, and if it does only for its first messages: what is counted for others stays
$sql->("SELECT queen.push('a log', to_jsonb(n)) FROM generate_series(1, 3) n; SELECT queen.subscribe('a log', 'default')");
my $popped = sub { return $sql->("BEGIN; SELECT coalesce(string_agg(msg_offset || '/' || attempt, ' '), '') FROM queen.pop('a log', auto_ack => true, max_messages => 1); ROLLBACK") };
is(join(' ', map { $popped->() } 1 .. 2), '0/1 0/2', "a log's head fails");
$fill->('batch', 30000);
$sql->("SELECT count(*) FROM queen.dequeue('batch', 10000, '1 h')") for 1 .. 2;
is($sql->($used), '1|0|0', 'twenty thousand deliveries take no place');
$sql->("BEGIN; SELECT count(*) FROM queen.dequeue('batch', 10000); ROLLBACK");
is($sql->($used), '1001|0|9000', 'of ten thousand that roll back a thousand are counted');
is($popped->(), '0/3', "… and the log's head still is");
is(join(' ', map { $taken->('batch', 10, ", visibility => '1 h'") } 1 .. 2), '20001/2 20002/2', 'those are the first');
$sql->("BEGIN; SAVEPOINT a; SELECT count(*) FROM queen.dequeue('batch', 10000); ROLLBACK TO a; COMMIT");
$sql->("DO \$\$ BEGIN FOR i IN 1 .. 998 LOOP PERFORM count(*) FROM queen.dequeue('batch', 10, '1 h'); COMMIT; END LOOP; END \$\$");
is($sql->($used), '1|0|9000', '… and they come alone, each in its turn');
is($taken->('batch', 10000) =~ tr/ //, 8999, '… and the others in a batch');

# one that has to come alone is passed by, and hides nobody
$fill->('alone', 3);
$rolled_back->('alone', 1);
$sql->("SELECT queen.enqueue('alone', '\"high\"', 'high')");
is($taken->('alone', 10), '"high"/1 2/1 3/1', 'a call that has taken something passes it by');
is($taken->('alone', 10), '1/2', '… and the next one takes it');

# … but not for ever, though each call takes something else before
$sql->("SELECT queen.create_queue('passed', 'work', '{\"retry_delay\": 0, \"max_delivery_attempts\": 100}')");
my $round = sub {
	return $sql->("SELECT string_agg(message::text, ' ') FROM (SELECT CASE WHEN message = '0' THEN queen.reject(message_id, receipt) ELSE queen.acknowledge(message_id, receipt) END, message
		FROM queen.dequeue('passed', " . (shift // 10) . ')) w');
};
$sql->("SELECT queen.enqueue('passed', '0')");
$round->();
$fill->('passed', 2);
$rolled_back->('passed', 10);
my @rounds = map { $round->() } 1 .. 24;
is(join(' ', grep { $rounds[$_ - 1] ne '0' } 1 .. 24) . ": @rounds[11, 22]", '12 23: 1 2', 'ten calls pass it by, of whatever session');
# … the one that was enqueued first before others, also those that more calls have passed by
$sql->("SELECT queen.purge_queue('passed'); SELECT queen.enqueue('passed', '\"old\"', 'low'); SELECT queen.enqueue('passed', '\"young\"')");
$rolled_back->('passed', 10);
$sql->("SELECT queen.enqueue('passed', '0', 'high')");
@rounds = map { $round->() } 1 .. 5;
push @rounds, map { $sql->("SELECT queen.enqueue('passed', '1')"); $round->(2) } 1 .. 5;
is(join(', ', @rounds, $round->()), join(', ', ('0') x 5, ('0 1') x 5, '"old"'), 'the oldest one is the first to come');

# ---- marks ----

my $reads = sub { $sql->('SELECT pg_stat_clear_snapshot()'); sleep(0.1); return $sql->("SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE indexrelname IN ('messages_ready_idx', 'messages_in_flight_idx')") };
my $holder = background($node);
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$fill->('marks', 4000);
my $drain = sub {
	my ($queue, $calls) = @_;
	return $sql->("DO \$\$ DECLARE d queen.delivery; BEGIN FOR i IN 1 .. $calls LOOP FOR d IN SELECT * FROM queen.dequeue('$queue', 10, '1 s') LOOP PERFORM queen.acknowledge(d.message_id, d.receipt); END LOOP; COMMIT; END LOOP; END \$\$");
};
$drain->('marks', 100);
my $before = $reads->();
$drain->('marks', 300);
my $per_call = ($reads->() - $before) / 300;
# ten of its own, and a few of the one before; from the bottom it would be thousands
cmp_ok($per_call, '<', 60, 'with a snapshot held a dequeue reads what it takes, not what others have taken') or diag($per_call);
$before = $reads->();
$taken->('marks', 1) for 1 .. 20;
cmp_ok(($reads->() - $before) / 20, '<', 250, 'right after a drain, too');
$holder->query_safe('COMMIT');

# a commit far below the mark is found at once, also of a transaction that has done more than is noted one by one
$sql->("SELECT queen.create_queue('late', 'work')");
my $late = background($node);
$late->query_safe("BEGIN; SELECT count(queen.enqueue('late', '\"late\"'))");
$fill->('late', 50);
is($taken->('late', 100) =~ tr/ //, 49, 'what came later is taken');
is($taken->('late', 100), '', 'nothing is left');
$late->query_safe('COMMIT');
is($taken->('late', 100), '"late"/1', 'what was enqueued before and committed now is there');
$late->query_safe("BEGIN; SELECT count(queen.enqueue('many ' || i, '1')) FROM generate_series(1, 6000) i; SELECT count(queen.enqueue('late', '\"much\"'))");
is($taken->('late', 100), '', 'not yet');
$late->query_safe('COMMIT');
is($taken->('late', 100), '"much"/1', 'a transaction with ten thousand notes is not forgotten');
$late->query_safe("BEGIN; " . $take->('late', 1) . "; SAVEPOINT s; SELECT count(queen.enqueue('late', '\"sub\"')); RELEASE s");
$late->query_safe('COMMIT');
is($taken->('late', 100), '"sub"/1', 'nor is a savepoint that was released');

# … and what many savepoints have done to one queue is not many things: marks of others stay, so that who finds nothing does not even look
my $looks = sub { $sql->('SELECT pg_stat_clear_snapshot()'); sleep(0.1); return $sql->("SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname IN ('messages_ready_idx', 'messages_in_flight_idx')") };
my $looked;
foreach (1 .. 5)
{
	$late->query_safe("BEGIN; DO \$\$ BEGIN FOR i IN 1 .. 6000 LOOP BEGIN PERFORM queen.enqueue('blocks', '1'); EXCEPTION WHEN OTHERS THEN RAISE; END; END LOOP; END \$\$");
	$sql->("SELECT queen.enqueue('late', '0')");
	my $began = time;
	$taken->('late', 100, ", visibility => '1 h'") for 1 .. 2;
	$looked = $looks->();
	$late->query_safe('COMMIT');
	$taken->('late', 100);
	$looked = $looks->() - $looked;
	# a scan from the bottom comes after 5 s
	last if time - $began < 4;
	$looked = 'not in time';
}
is($looked, 0, 'six thousand blocks with exceptions are noted, too');
is($taken->('blocks', 10000) =~ tr/ // % 6000, 5999, 'and what they have enqueued is found');

is($sql->("BEGIN; SELECT queen.enqueue('late', '\"own\"') IS NOT NULL; " . $take->('late', 100) . '; COMMIT'), "t\n\"own\"/1", 'nor is what a transaction has enqueued itself');

# SQL that writes the table
is($taken->('late', 100), '', 'the marks are at the end');
$sql->("INSERT INTO queen.messages (message_id, log_id, enqueue_order, enqueued_at, expires_at, priority, shard, delivery_attempts, state, message)
	SELECT '01a22a47-f93b-72a8-9510-e48d22f938ee', log_id, 1, now(), now() + interval '1 h', 2, 0, 0, 'READY', '\"by SQL\"' FROM queen.queues WHERE name = 'late'");
is($taken->('late', 100), '"by SQL"/1', 'what SQL has inserted is found at once');

# a savepoint that gives back more than is noted one by one, while its transaction goes on
$late->query_safe("BEGIN; SAVEPOINT s; SELECT count(d.message_id) FROM generate_series(1, 6000) i, queen.dequeue('many ' || i) d");
is($taken->('many 6000', 1), '', 'somebody has it');
$late->query_safe('ROLLBACK TO s');
like($taken->('many 6000', 1), qr{^1/[12]$}, 'nor is so much that a savepoint gives back, while its transaction goes on');
$late->query_safe('COMMIT');

# ---- waiting ----

sub waiter
{
	my ($queue, $timeout) = @_;
	my $w = { out => '', err => '', began => time };
	my $statement = $take->($queue, 1, ", wait => '" . ($timeout // '50 s') . "'") . ' /* waiter */';

	$w->{h} = IPC::Run::start([ 'psql', '-qXAt', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-c', $statement ], '<', \undef, '>', \$w->{out}, '2>', \$w->{err});
	wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%waiter%' AND wait_event_type = 'Extension' AND pid <> pg_backend_pid()", "a waiter at $queue");
	return $w;
}
sub wakes
{
	my ($what, $w, $does, $answer) = @_;
	my $began = time;

	ref $does ? $does->() : $sql->($does);
	$w->{h}->finish;
	is($w->{out} =~ s/\s+$//r . $w->{err}, $answer, $what);
	cmp_ok(time - $began, '<', 20, "$what: soon");
}

wakes('the birth of its queue wakes it', waiter('wait'), "SELECT queen.enqueue('wait', '1')", '1/1');
wakes('an enqueue wakes it', waiter('wait'), "SELECT queen.enqueue('wait', '2', 'low')", '2/1');
my $other = background($node);
$sql->("SELECT queen.enqueue('wait', '3')");
$other->query_safe('BEGIN; ' . $take->('wait', 1));
wakes('a dequeue that is rolled back wakes it', waiter('wait'), sub { $other->query_safe('ROLLBACK') }, '3/2');
$sql->("SELECT queen.create_queue('wait', 'work', '{\"retry_delay\": 0}'); SELECT queen.enqueue('wait', '4'); CREATE TABLE held AS SELECT * FROM queen.dequeue('wait', 1, '1 h')");
wakes('a reject wakes it', waiter('wait'), 'SELECT queen.reject(message_id, receipt) FROM held', '4/2');
$sql->("SELECT queen.enqueue('wait', '5'); TRUNCATE held; INSERT INTO held SELECT * FROM queen.dequeue('wait', 1, '1 h')");
wakes('a visibility that is ended wakes it', waiter('wait'), "SELECT queen.change_visibility(message_id, receipt, '0') FROM held", '5/2');
$sql->("SELECT queen.pause('wait'); SELECT queen.enqueue('wait', '6')");
wakes('a resume wakes it', waiter('wait'), "SELECT queen.resume('wait')", '6/1');
$sql->("SELECT queen.create_queue('wait', 'work', '{\"max_delivery_attempts\": 1}'); SELECT queen.enqueue('wait', '7'); SELECT queen.reject(message_id, receipt) FROM queen.dequeue('wait')");
wakes('a redrive wakes it', waiter('wait'), "SELECT queen.redrive('wait')", '7/1');
$sql->("SELECT queen.create_queue('wait', 'work', '{\"max_delivery_attempts\": 5}'); SELECT queen.enqueue('wait', '8'); SELECT count(*) FROM queen.dequeue('wait', 1, '2 s')");
wakes('it knows when a visibility ends', waiter('wait'), 'SELECT 1', '8/2');
is($sql->($take->('wait', 1, ", wait => '0.2 s'")), '', 'its time may be over');

# ---- rows that somebody has kept from others, and then done nothing to ----

# a receipt that is late when its wait for the row is over: until its transaction ends it hides the message
foreach my $end ('COMMIT', 'ROLLBACK')
{
	$sql->("SELECT queen.enqueue('held', '\"$end\"'); TRUNCATE held; INSERT INTO held SELECT * FROM queen.dequeue('held', 1, '2 s')");
	$other->query_safe("BEGIN; SELECT queen.change_visibility(message_id, receipt, '1 h') FROM held");
	my $slow = background($node);
	$slow->query_until(qr/acknowledging/, "\\echo acknowledging\nBEGIN;\nSELECT 'late: ' || queen.acknowledge(message_id, receipt) FROM held;\n");
	wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%acknowledge%' AND pid <> pg_backend_pid()", 'a late acknowledge');
	sleep(2.1);
	$other->query_safe('ROLLBACK');
	like($slow->query('SELECT 1'), qr/late: false/, 'a receipt whose time came while it waited is none');
	is($taken->('held', 1), '', '… but it has the row');
	wakes("… until its $end", waiter('held'), sub { $slow->query_safe($end) }, "\"$end\"/2");
	$slow->quit;
}

# what is not changed needs nothing of what it takes to write indexes; many letters need it once
$sql->("SELECT queen.create_queue('once', 'work', '{\"max_delivery_attempts\": 1}'); CREATE INDEX extra ON queen.messages (shard)");
$fill->('once', 200);
$sql->("SELECT count(*) FROM (SELECT queen.reject(message_id, receipt) FROM queen.dequeue('once', 199)) r; CREATE TABLE one AS SELECT * FROM queen.dequeue('once')");
$other->query_safe('BEGIN; ALTER INDEX queen.extra SET TABLESPACE pg_default');
is(($node->psql('postgres', "SET lock_timeout = '5s'; SELECT queen.acknowledge(message_id, receipt) FROM one"))[1], 't', 'an acknowledge opens no index that it does not read');
$other->query_safe('COMMIT');
is($sql->("BEGIN; SELECT queen.redrive('once'); SELECT sum(pg_stat_get_xact_numscans(indexrelid)) < 20 FROM pg_index WHERE indrelid = 'queen.queues'::regclass; COMMIT"), "199\nt", 'a redrive looks for its queue once');
$sql->('DROP INDEX queen.extra');

# an update that fails when the row is written, an index's entry not: here by an index that waits, and raises
$sql->("CREATE FUNCTION fails(attempts smallint) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN IF current_setting(''application_name'') = ''fails'' AND attempts > 0 THEN PERFORM pg_advisory_lock_shared(1); RAISE division_by_zero; END IF; RETURN 0; END';
	CREATE INDEX failing ON queen.messages (fails(delivery_attempts)); SELECT queen.enqueue('fails', '1'); SELECT pg_advisory_unlock_all()");
$other->query_safe('SELECT pg_advisory_lock(1)');
my $failing = background($node);
$failing->query_until(qr/dequeueing/, "SET application_name = 'fails';\n\\echo dequeueing\n" . $take->('fails', 1) . ";\n");
wait_for_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'fails' AND wait_event = 'advisory'", 'an entry of an index');
is($taken->('fails', 1), '', 'a row that is being written is passed by');
wakes('an update that fails gives it back', waiter('fails'), sub { $other->query_safe('SELECT pg_advisory_unlock(1)') }, '1/1');
$failing->query('SELECT 1');
like($failing->{stderr}, qr/division_by_zero|division by zero/, '… and has failed');
$failing->quit;
$sql->('DROP FUNCTION fails CASCADE');

# ---- a crash: nothing is lost, nothing comes twice, what was counted in memory only is forgotten ----

$fill->('crash', 100);
my $held = background($node);
$held->query_safe('CREATE TABLE acked AS SELECT message FROM (SELECT message, queen.acknowledge(message_id, receipt) AS ok FROM queen.dequeue(\'crash\', 40, \'1 h\')) a WHERE ok');
$held->query_safe('CREATE TABLE leased AS SELECT message, message_id, receipt FROM queen.dequeue(\'crash\', 20, \'1 h\')');
$held->query_safe('BEGIN; ' . $take->('crash', 10) . "; SELECT queen.acknowledge(message_id, receipt) FROM leased; SELECT count(queen.enqueue('crash', '0'))");
$node->stop('immediate');
$node->start;
is($taken->('crash', 100) =~ tr/ //, 39, 'what was not taken is there');
is($sql->('SELECT count(*) FROM leased l, LATERAL (SELECT queen.acknowledge(l.message_id, l.receipt) AS ok) a WHERE ok'), '20', 'what was leased still is');
is($sql->("SELECT count(*) FROM queen.messages m JOIN queen.queues USING (log_id) WHERE name = 'crash'"), '40', 'what was acknowledged is gone');
is($sql->('SELECT count(*) FROM queen.verify()'), '0', 'all agrees');

# ---- the cleaner ----

$sql->("SELECT queen.enqueue('expiry', '1', ttl => '1 s'), queen.enqueue('expiry', '2', ttl => '1 s'), queen.enqueue('expiry', '3'); CREATE TABLE kept AS SELECT * FROM queen.dequeue('expiry', 1, '5 s')");
$node->append_conf('postgresql.conf', "queen.databases = ''\nqueen.maintain_interval = 1\n");
$node->reload;
my $left = "SELECT coalesce(string_agg(message::text, ' ' ORDER BY message), '') FROM queen.messages JOIN queen.queues USING (log_id) WHERE name = 'expiry'";
wait_for_sql($node, "SELECT ($left) = '1 3'", 'the cleaner');
pass('the keeper deletes what has expired');
is($sql->('SELECT queen.acknowledge(message_id, receipt) FROM kept'), 't', 'and leaves what is under a receipt');
$sql->("SELECT queen.enqueue('expiry', '4', ttl => '1 s'); SELECT count(*) FROM queen.dequeue('expiry', 2, '2 s')");
wait_for_sql($node, "SELECT ($left) = '3'", 'the cleaner, again');
pass('until its visibility is over');

check_log($node, qr/terminating connection because of crash/);
$node->stop;
done_testing();
