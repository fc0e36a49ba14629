# Random load of everything on few partitions, with maintenance of the tables and with backends cancelled and terminated,
# followed by checks against what the same transactions wrote into tables of the user's:
#   no message lost or invented; order in each partition; each group exactly once in effect.
use strict;
use warnings;

# a session of the load outlives the harness's own limit when the load is made longer
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 180 + 2 * ($ENV{QUEEN_LOAD_SECONDS} // 0) }

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;
use Time::HiRes qw(time sleep);

my $seconds = $ENV{QUEEN_LOAD_SECONDS} // 16;
my $node = new_node('load', preload => $ENV{QUEEN_LOAD_PRELOAD} // 'queen_test, queen', settings => "track_commit_timestamp = on\nautovacuum_naptime = 1s\ndeadlock_timeout = 200ms\nqueen.push_buffer_size = 64kB\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE sent (part text, tx text, seq int, client text, n int, began timestamptz);
	CREATE TABLE got (grp text, part text, off bigint, tx text, seq int, how text);
	CREATE TABLE taken (lease uuid, grp text, part text, off bigint, tx text, seq int);
	CREATE INDEX ON taken (lease);
	CREATE TABLE lost (lease uuid, grp text);
	SELECT queen.create_queue('q', options => '{"max_deliveries": 1000, "lease_time": "1 s"}');
	SELECT queen.create_queue('q', options => '{"retry_delay": "10 ms"}');

	-- k messages to random partitions, some in savepoints that roll back
	CREATE FUNCTION send(who text, num int, k int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		start timestamptz := clock_timestamp();
		tx text := gen_random_uuid();
		p text;
	BEGIN
		FOR i IN 1..k LOOP
			p := 'p' || 1 + floor(random() * 5)::int;
			BEGIN
				-- some so large that what follows waits in a file
				PERFORM queen.push('q', jsonb_build_object('tx', tx, 'seq', i, 'pad', repeat('x', CASE WHEN random() < 0.03 THEN 70000 ELSE 10 END)), partition => p);
				INSERT INTO sent VALUES (p, tx, i, who, num, start);
				IF random() < 0.2 THEN RAISE EXCEPTION 'back'; END IF;
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
		END LOOP;
	END $$;

	-- complete the messages of a lease together with the work; the lease may be lost
	CREATE FUNCTION finish(l uuid, verb text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		up bigint;
		answer text;
	BEGIN
		SELECT min(off) + floor(random() * (max(off) - min(off) + 1))::bigint INTO up FROM taken WHERE lease = l;
		IF up IS NULL THEN RETURN; END IF;
		IF random() < 0.2 THEN PERFORM queen.extend(l); END IF;
		CASE verb
			WHEN 'ack' THEN
				PERFORM queen.ack(l);
				INSERT INTO got SELECT grp, part, off, tx, seq, verb FROM taken WHERE lease = l;
			WHEN 'part' THEN
				-- up may be a hole: what lies below it is completed
				PERFORM queen.ack(l, up);
				INSERT INTO got SELECT grp, part, off, tx, seq, verb FROM taken WHERE lease = l AND off <= up;
				IF random() < 0.5 THEN PERFORM queen.release(l); END IF;
			WHEN 'nack' THEN
				SELECT off INTO up FROM taken WHERE lease = l ORDER BY random() LIMIT 1;
				answer := queen.nack(l, up, delay => make_interval(secs => floor(random() * 2) * 0.02), dead => random() < 0.1);
				INSERT INTO got SELECT grp, part, off, tx, seq, CASE WHEN off = up THEN answer ELSE verb END FROM taken WHERE lease = l AND (off < up OR answer = 'dead' AND off = up);
			WHEN 'release' THEN PERFORM queen.release(l);
		END CASE;
	EXCEPTION WHEN SQLSTATE 'QN001' THEN
		INSERT INTO lost SELECT l, grp FROM taken WHERE lease = l LIMIT 1;
	END $$;

	CREATE FUNCTION consume(g text, auto boolean) RETURNS uuid LANGUAGE plpgsql AS $$
	DECLARE
		m record;
		l uuid;
	BEGIN
		FOR m IN SELECT * FROM queen.pop('q', g, 1 + floor(random() * 20)::int, auto_ack => auto, max_partitions => CASE WHEN auto THEN 3 ELSE 1 END) LOOP
			IF auto THEN
				INSERT INTO got VALUES (g, m.partition, m.msg_offset, m.message ->> 'tx', (m.message ->> 'seq')::int, 'auto');
			ELSE
				INSERT INTO taken VALUES (m.lease, g, m.partition, m.msg_offset, m.message ->> 'tx', (m.message ->> 'seq')::int);
				l := m.lease;
			END IF;
		END LOOP;
		RETURN l;
	END $$;
});

my $push = <<'SQL';
\set n :n + 1
\set k random(1, 5)
\set lost random(1, 6)
BEGIN;
SELECT send(':who' || :client_id, :n, :k);
\if :lost = 1
ROLLBACK;
\else
\if :lost = 2
SELECT send(':who' || :client_id, :n, 1);
\endif
COMMIT;
\endif
SQL
my $push_rr = "\\set n :n + 1\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM lost;\nSELECT send(':who' || :client_id, :n, 2);\nCOMMIT;\n";
my $auto = <<'SQL';
\set lost random(1, 4)
BEGIN;
SELECT consume('auto', true);
\if :lost = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL
my $ack = <<'SQL';
\set lost random(1, 12)
\set verb random(1, 8)
\set slow random(1, 60)
SELECT coalesce(consume('GROUP', false)::text, '') AS lease \gset
\if :slow = 1
\sleep 1100 ms
\endif
BEGIN LEVEL;
SELECT finish(nullif(':lease', '')::uuid, CASE :verb WHEN 1 THEN 'release' WHEN 2 THEN 'part' WHEN 3 THEN 'part' WHEN 4 THEN 'VERB' WHEN 5 THEN 'VERB' ELSE 'ack' END);
\if :lost = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL
my $rate = '-R 300'; # consumers keep up, so that readers are at the tail, where the races are
my @runs = (
	load($node, "-c 6 -T $seconds $rate -D n=0 -D who=a", 'push@3' => $push, 'push_rr@1' => $push_rr),
	load($node, "-c 4 -T $seconds", 'auto' => $auto),
	load($node, "-c 3 -T $seconds", 'ack' => $ack =~ s/GROUP/ack/r =~ s/VERB/ack/gr =~ s/LEVEL//r),
	load($node, "-c 3 -T $seconds", 'nack' => $ack =~ s/GROUP/nack/r =~ s/VERB/nack/gr =~ s/LEVEL/ISOLATION LEVEL REPEATABLE READ/r));

# Victims: the same, but they are cancelled and terminated, often in their commit; pgbench gives up then, and starts anew.
my $end = time + $seconds - 1;
my $victims = fork;
if ($victims == 0)
{
	open STDOUT, '>', '/dev/null';
	open STDERR, '>', '/dev/null';
	for (my $n = 0; time < $end; $n++)
	{
		local $ENV{PGAPPNAME} = 'victim';
		my $run = load($node, '-c 4 -R 1500 -T ' . int($end - time + 1) . " -D n=0 -D who=victim$n.", 'push@2' => $push, 'auto' => $auto);
		$run->{h}->finish;
	}
	require POSIX;
	POSIX::_exit(0);
}

my $maintenance = fork;
if ($maintenance == 0)
{
	my @commands = ('VACUUM %s', 'ANALYZE %s', 'REINDEX TABLE CONCURRENTLY %s', 'VACUUM (INDEX_CLEANUP on) %s');
	my @tables = qw(log_segments log_cursors log_consumers log_partitions queues log_groups);
	for (my $n = 0; time < $end; $n++)
	{
		$node->psql('postgres', sprintf($commands[$n % @commands], "queen.$_")) foreach @tables;
		sleep 0.1;
	}
	require POSIX;
	POSIX::_exit(0);
}
# Transactions that fail behind their flush: they leave holes.
my $failures = fork;
if ($failures == 0)
{
	for (my $n = 0; time < $end; $n++)
	{
		$node->psql('postgres', join('', map { "BEGIN; SELECT send('fails', $n, 2), queen_test_fail_at_commit() WHERE random() < 0.7; COMMIT; SELECT pg_sleep(0.005);\n" } 1 .. 50), on_error_stop => 0);
	}
	require POSIX;
	POSIX::_exit(0);
}
my $killer = background($node);
while (time < $end)
{
	$killer->query(q{
		DO $$
		DECLARE victim int;
		BEGIN
			FOR i IN 1..50 LOOP
				PERFORM pg_stat_clear_snapshot();
				SELECT pid INTO victim FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active' AND (query ~ 'COMMIT' OR i > 40) ORDER BY random() LIMIT 1;
				EXIT WHEN FOUND;
				PERFORM pg_sleep(0.0005);
			END LOOP;
			IF random() < 0.5 THEN PERFORM pg_cancel_backend(victim); ELSE PERFORM pg_terminate_backend(victim); END IF;
		END $$});
	sleep 0.05;
}
finish_load($runs[0], 'pushers');
finish_load($runs[1], 'consumers with auto_ack');
finish_load($runs[2], 'consumers with leases');
finish_load($runs[3], 'consumers that fail, under REPEATABLE READ');
waitpid $_, 0 foreach $victims, $maintenance, $failures;
$killer->quit;

# ---- what is left ----

sleep 1.1; # the last leases
foreach my $group ('auto', 'ack', 'nack')
{
	for (1 .. 10000)
	{
		last if $sql->("SET statement_timeout = '60 s'; WITH i AS (INSERT INTO got SELECT '$group', partition, msg_offset, message ->> 'tx', (message ->> 'seq')::int, 'rest' FROM queen.pop('q', '$group', 100000, max_partitions => 100, auto_ack => true) RETURNING 1) SELECT count(*) FROM i") eq '0';
	}
}
$sql->(q{
	CREATE TABLE log AS SELECT p AS part, msg_offset AS off, message ->> 'tx' AS tx, (message ->> 'seq')::int AS seq, enqueued_at
	FROM unnest(ARRAY['p1', 'p2', 'p3', 'p4', 'p5']) p, queen.peek('q', p, max_messages => 100000);
	CREATE UNIQUE INDEX ON log (part, off);
	CREATE INDEX ON log (tx, seq);
	ANALYZE;
});
diag($sql->(q{SELECT 'load: ' || (SELECT count(*) FROM sent) || ' messages, ' || (SELECT count(DISTINCT tx) FROM sent) || ' transactions, '
	|| (SELECT count(*) FROM sent WHERE client LIKE 'victim%') || ' by victims, ' || (SELECT count(*) FROM lost) || ' leases lost, '
	|| (SELECT sum(gap) FROM (SELECT base_offset - lag(end_offset, 1, -1::bigint) OVER (PARTITION BY partition_id ORDER BY base_offset) - 1 AS gap FROM queen.log_segments) g) || ' holes, '
	|| (SELECT sum(changes) FROM queen.log_cursors) || ' changes of cursors'}));
cmp_ok($sql->('SELECT count(*) FROM sent'), '>', 1000, 'there was load');
is($sql->('SELECT count(*) FROM queen.log_cursors WHERE changes > 32'), '15', 'of three groups on five partitions, over several eras');

is($sql->('SELECT count(*) FROM sent FULL JOIN log USING (part, tx, seq) WHERE sent.n IS NULL OR log.off IS NULL'), '0', 'no message is lost or invented');
is($sql->('SELECT count(*) FROM (SELECT 1 FROM log GROUP BY part, tx, seq HAVING count(*) > 1) d'), '0', 'none is there twice');
is($sql->('SELECT count(*) FROM (SELECT enqueued_at < lag(enqueued_at) OVER (PARTITION BY part ORDER BY off) AS bad FROM log) l WHERE bad'), '0', 'time never steps back');
is($sql->(q{SELECT count(*) FROM (SELECT seq <= lag(seq) OVER (PARTITION BY part, tx ORDER BY off) AS bad FROM log) l WHERE bad}), '0', 'order of the calls in a transaction');
is($sql->(q{SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY part, client ORDER BY off) AS bad FROM log JOIN sent USING (part, tx, seq)) l WHERE bad}), '0', 'order of the transactions of a session');
is($sql->(q{
	WITH l AS (SELECT part, off, began, pg_xact_commit_timestamp(sent.xmin) AS ended FROM log JOIN sent USING (part, tx, seq))
	SELECT count(*) FROM (SELECT began > min(ended) OVER (PARTITION BY part ORDER BY off DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM l) o WHERE bad}),
	'0', 'a push that committed before another began has the lower offset');
is($sql->(q{
	SELECT count(*) FROM (SELECT g, part, off FROM log, unnest(ARRAY['auto', 'ack', 'nack']) g) l FULL JOIN got ON g = grp AND l.part = got.part AND l.off = got.off
	WHERE g IS NULL OR grp IS NULL}), '0', 'each group has had every message, and no other');
is($sql->('SELECT count(*) FROM (SELECT 1 FROM got GROUP BY grp, part, off HAVING count(*) > 1) d'), '0', 'exactly once in effect');
is($sql->(q{SELECT count(*) FROM got JOIN log USING (part, off) WHERE got.tx <> log.tx OR got.seq <> log.seq}), '0', 'with the right content');
is($sql->(q{SELECT count(*) FROM queen.dead_letters d FULL JOIN (SELECT * FROM got WHERE how = 'dead') g ON d.consumer_group = g.grp AND d.partition = g.part AND d.msg_offset = g.off
	WHERE d.dead_id IS NULL OR g.off IS NULL OR d.message ->> 'tx' <> g.tx}), '0', 'dead letters are those that were given up');
check_partitions($node);
check_cursors($node);
is($sql->(q{
	CREATE EXTENSION amcheck;
	SELECT count(bt_index_check(indexrelid, true)) > 10 FROM pg_index JOIN pg_class t ON t.oid = indrelid WHERE relnamespace = 'queen'::regnamespace}), 't', 'the indexes are whole');
check_log($node, qr/canceling statement due to user request/);
$node->stop;
done_testing();
