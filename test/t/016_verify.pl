# queen.verify beside everything: pushes with savepoints and rollbacks, pops, dead letters, groups that come and go, queues
# that are dropped and purged, retention and clean-up, a prepared transaction. It must find nothing, however often it looks.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $seconds = $ENV{QUEEN_LOAD_SECONDS} // 10;
my $node = new_node('verify', settings => "autovacuum_naptime = 1s\ndeadlock_timeout = 200ms\nmax_prepared_transactions = 5\nqueen.partition_expiry = 1\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE found (item text, object text, problem text, repaired boolean);
	CREATE TABLE looks (at timestamptz);
	CREATE TABLE answers (what text);
	-- what runs into a queue or group that somebody else has just deleted tries no more
	CREATE FUNCTION consume(q text, g text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		l uuid;
	BEGIN
		FOR l IN SELECT DISTINCT lease FROM queen.pop(q, g, 1 + (random() * 20)::int, max_partitions => 3) LOOP
			CASE (random() * 4)::int
				WHEN 0 THEN PERFORM queen.nack(l, dead => true);
				WHEN 1 THEN PERFORM queen.release(l);
				ELSE PERFORM queen.ack(l);
			END CASE;
		END LOOP;
		INSERT INTO answers VALUES ('consumed');
	EXCEPTION
		-- invalid_parameter_value: retention has deleted what was under the lease
		WHEN SQLSTATE 'QN001' OR undefined_object OR invalid_parameter_value THEN NULL;
	END $$;
	SELECT queen.create_queue('brief', options => '{"retention": 0}');
	CREATE FUNCTION change(q text, what int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		CASE what
			WHEN 1 THEN PERFORM queen.drop_queue(q);
			WHEN 2 THEN PERFORM queen.purge_queue(q);
			WHEN 3, 4 THEN PERFORM queen.unsubscribe(q, 'g' || i) FROM generate_series(1, 3) i;
			WHEN 5, 6 THEN PERFORM queen.redrive(q);
			WHEN 7 THEN PERFORM queen.purge_dead(q);
			WHEN 8 THEN PERFORM queen.seek(q, 'g1', (random() * 100)::bigint);
			WHEN 9 THEN PERFORM queen.configure(q, '{"completed_retention": 0}');
			WHEN 10 THEN PERFORM queen.configure(q, '{"retention": 0}');
			ELSE PERFORM queen.configure(q, '{"retention": null}');
		END CASE;
		INSERT INTO answers VALUES ('change ' || what);
	EXCEPTION
		WHEN undefined_object THEN NULL;
	END $$;
});

my $push = load($node, "-c 4 -j 1 -T $seconds",
	'push@4' => q{
\set q random(1, 3)
\set p random(1, 4)
\set n random(1, 5)
BEGIN;
SELECT queen.push('q' || :q, '1', 'p' || :p, dedup_key => 'k' || random()) FROM generate_series(1, :n);
SAVEPOINT s;
SELECT queen.push('q' || :q, '2', 'p' || i) FROM generate_series(1, :n) i;
ROLLBACK TO s;
SELECT queen.push('q' || :q, '3', 'p' || i) FROM generate_series(1, :n) i;
COMMIT;
},
	'back@1' => q{
\set q random(1, 3)
\set p random(1, 4)
BEGIN;
SELECT queen.push('q' || :q, '1', 'p' || :p);
SELECT queen_test_fail_at_commit() WHERE random() < 0.5;
ROLLBACK;
});
# partitions that are used once: they expire
my $brief = load($node, "-c 1 -j 1 -T $seconds -R 50", 'brief' => q{
\set p random(1, 1000000)
SELECT queen.push('brief', '1', 'p' || :p);
});
my $consume = load($node, "-c 3 -j 1 -T $seconds", 'consume' => q{
\set q random(1, 3)
\set g random(1, 3)
SELECT consume('q' || :q, 'g' || :g);
});
my $change = load($node, "-c 2 -j 1 -T $seconds", 'change' => q{
\set q random(1, 3)
\set what random(1, 11)
\set ms random(0, 20)
SELECT change('q' || :q, :what);
\sleep :ms ms
});
my $maintain = load($node, "-c 1 -j 1 -T $seconds", 'maintain' => q{
CALL queen.maintain();
});
my $prepared = 0;
my $verify = load($node, "-c 2 -j 1 -T $seconds",
	'verify@3' => q{
BEGIN;
INSERT INTO found SELECT * FROM queen.verify();
INSERT INTO looks VALUES (now());
COMMIT;
},
	# nor is there anything to mend
	'repair@1' => q{
INSERT INTO found SELECT * FROM queen.verify(true);
},
	# … by an older snapshot either
	'snapshot@1' => q{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM queen.queues;
\sleep 50 ms
INSERT INTO found SELECT * FROM queen.verify();
COMMIT;
});
# what is prepared brings no partition to life
$sql->(q{SELECT queen.push('still', '0')});
# pushes that were prepared, across everything; who drops their queue waits for them
for (my $end = time + $seconds - 2; time < $end; sleep 1)
{
	next unless $node->psql('postgres', q{BEGIN; SELECT queen.push('still', '1'); PREPARE TRANSACTION 'still'}) == 0;
	$prepared++;
	$sql->('SELECT pg_sleep(0.2)');
	$sql->(q{COMMIT PREPARED 'still'});
	$sql->(q{SELECT queen.push('still', '0')});
}
finish_load($push, 'pushers');
finish_load($brief, 'partitions that are used once');
finish_load($consume, 'consumers');
finish_load($change, 'those who drop, purge, unsubscribe, redrive, configure');
finish_load($maintain, 'maintenance');
finish_load($verify, 'verify');
is($sql->('SELECT * FROM found LIMIT 10'), '', 'nothing is found that is not so');
cmp_ok($sql->('SELECT count(*) FROM looks'), '>', 10, 'and it looked often');
is($sql->('SELECT count(DISTINCT what) FROM answers'), '12', 'everything was done');
cmp_ok($prepared, '>', 0, 'also beside a prepared push');
cmp_ok($sql->('SELECT count(partition_id) FROM queen.log_dropped'), '>', 0, 'and partitions that have expired');

# What is left is as good.
$sql->('CALL queen.maintain()');
is($sql->('SELECT * FROM queen.verify(true)'), '', 'nor afterwards');

# A standby is asked for nothing that it cannot do.
is($node->psql('postgres', 'BEGIN READ ONLY; SELECT * FROM queen.verify(); COMMIT'), 0, 'it reads only');
check_partitions($node);
check_cursors($node);
check_log($node);
$node->stop;
done_testing();
