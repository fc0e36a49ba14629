# Groups under load: a subscription at latest skips nothing that its snapshot could not see; groups that are subscribed,
# moved, paused and deleted by everybody at once, while they pop, leave nothing behind and fail for no other reason than
# that somebody else has deleted or moved the group.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $seconds = $ENV{QUEEN_LOAD_SECONDS} // 10;
# queen_test's callback comes behind the flush
my $node = new_node('groups', preload => 'queen_test, queen', settings => "autovacuum_naptime = 1s\ndeadlock_timeout = 200ms\n");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->(q{
	CREATE TABLE subscribed (name text, seen pg_snapshot);
	CREATE TABLE churned (what int, answer text);

	-- one thing of those that can be done to a group; what may go wrong is what somebody else has done
	CREATE FUNCTION churn(g text, what int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		m record;
		done bigint := 0;
	BEGIN
		CASE what
			WHEN 1 THEN PERFORM queen.subscribe('churn', g, 'latest');
			WHEN 2 THEN PERFORM queen.subscribe('churn', g);
			WHEN 3 THEN PERFORM queen.subscribe('churn', g, (now() - interval '1 s')::text);
			WHEN 4, 5 THEN PERFORM queen.unsubscribe('churn', g);
			WHEN 6 THEN PERFORM queen.seek('churn', g, (random() * 100)::bigint);
			WHEN 7 THEN PERFORM queen.seek_to_end('churn', g, 'p' || 1 + (random() * 3)::int);
			WHEN 8 THEN PERFORM queen.seek_to_time('churn', g, now() - random() * interval '1 s');
			WHEN 9 THEN IF queen.pause('churn', g) THEN PERFORM queen.resume('churn', g); END IF;
			WHEN 10 THEN PERFORM sum(lag) FROM queen.lag('churn', g); PERFORM sum(lag) FROM queen.list_groups('churn');
			ELSE
				FOR m IN SELECT DISTINCT lease FROM queen.pop('churn', g, 20, max_partitions => 1 + (random() * 3)::int, auto_ack => random() < 0.3) WHERE lease IS NOT NULL LOOP
					PERFORM pg_sleep(random() * 0.002);
					done := done + queen.ack(m.lease);
				END LOOP;
		END CASE;
		RETURN 'done';
	EXCEPTION
		WHEN SQLSTATE 'QN001' THEN RETURN 'lost';
		WHEN undefined_object THEN RETURN 'unknown';
	END $$;
	CREATE PROCEDURE clean() LANGUAGE plpgsql AS $$
	BEGIN
		WHILE queen_test_retired_groups_step() LOOP
			COMMIT;
		END LOOP;
	END $$;
	SELECT queen.push('latest', '""', 'p' || i), queen.push('churn', '""', 'p' || i) FROM generate_series(1, 4) i;
});

my $push = load($node, "-c 6 -j 1 -T $seconds",
	# a message says which transaction it is of; some take their time between their flush and their end
	'push@6' => q{
\set p random(1, 4)
\set ms random(-6, 6)
BEGIN;
SELECT queen.push('latest', to_jsonb(pg_current_xact_id()::text), 'p' || :p), queen.push('churn', '1', 'p' || :p);
SELECT queen_test_run_at_commit(format('SELECT pg_sleep(%s)', 0.001 * :ms)) WHERE :ms > 0;
COMMIT;
},
	'back@1' => q{
\set p random(1, 4)
BEGIN;
SELECT queen.push('latest', to_jsonb(pg_current_xact_id()::text), 'p' || :p);
SELECT queen_test_run_at_commit('DO ''BEGIN PERFORM pg_sleep(0.002); RAISE SQLSTATE ''''40001''''; END''');
COMMIT;
});
my $subscribe = load($node, "-c 2 -j 1 -T $seconds -R 60", 'subscribe' => q{
\set n random(1, 1000000000)
BEGIN;
SELECT queen.subscribe('latest', 'g' || :client_id || '.' || :n, 'latest');
INSERT INTO subscribed VALUES ('g' || :client_id || '.' || :n, pg_current_snapshot());
COMMIT;
});
my $churn = load($node, "-c 6 -j 1 -T $seconds",
	'churn@5' => q{
\set g random(1, 3)
\set what random(1, 16)
INSERT INTO churned SELECT :what, churn('g' || :g, :what);
},
	# two in a transaction, that is rolled back; a seek behind a pop could deadlock with another, and that is the caller's
	'two@1' => q{
\set g random(1, 3)
\set what random(1, 5)
\set other random(11, 16)
BEGIN;
SELECT churn('g' || :g, :other);
SELECT churn('g' || :g, :what);
ROLLBACK;
},
	'clean@1' => q{
CALL clean();
});
finish_load($push, 'pushers');
finish_load($subscribe, 'subscribers');
finish_load($churn, 'everything that can be done to a group, by six at once');

# ---- subscriptions at latest ----

cmp_ok($sql->('SELECT count(*) FROM subscribed'), '>', 20, 'there were subscriptions');
$sql->(q{
	CREATE TABLE messages AS
	SELECT p AS partition, m.msg_offset, (m.message #>> '{}')::xid8 AS xid FROM generate_series(1, 4) n, concat('p', n) p, queen.peek('latest', p, 1, 100000) m
});
cmp_ok($sql->('SELECT count(*) FROM messages'), '>', 100, 'and pushes');
is($sql->(q{
	SELECT count(*) FROM subscribed s JOIN queen.log_groups g ON g.name = s.name JOIN queen.log_cursors c USING (group_id)
	JOIN queen.log_partitions p USING (partition_id) JOIN messages m ON m.partition = p.name
	WHERE m.msg_offset <= c.committed AND NOT pg_visible_in_snapshot(m.xid, s.seen)}),
	'0', 'none skips a message that a later snapshot does not see');
cmp_ok($sql->(q{
	SELECT count(*) FROM subscribed s JOIN queen.log_groups g ON g.name = s.name JOIN queen.log_cursors c USING (group_id)
	JOIN queen.log_partitions p USING (partition_id)
	WHERE c.committed < (SELECT max(m.msg_offset) FROM messages m WHERE m.partition = p.name AND pg_visible_in_snapshot(m.xid, s.seen))}),
	'>', 0, 'and some stand before a push that ran');

# ---- groups that come and go ----

foreach my $what (1 .. 11)
{
	cmp_ok($sql->("SELECT count(*) FROM churned WHERE least(what, 11) = $what AND answer = 'done'"), '>', 0, "churn $what was done");
}
is($sql->(q{SELECT count(*) FROM churned WHERE answer = 'unknown' AND what NOT BETWEEN 6 AND 10}), '0', 'only what needs a group misses it');
is($sql->(q{SELECT count(*) FROM churned WHERE answer = 'lost' AND what < 11}), '0', 'only acks are late');
check_cursors($node);
check_partitions($node);
$sql->(q{SELECT queen.unsubscribe('churn', 'g' || i) FROM generate_series(1, 3) i});
foreach my $try (1 .. 50)
{
	$sql->('CALL clean()');
	last if $sql->('SELECT count(*) FROM queen.log_retired_groups') eq '0';
	$sql->('SELECT pg_sleep(0.1)');
}
is($sql->('SELECT count(*) FROM queen.log_retired_groups'), '0', 'all that was retired is cleaned');
is($sql->(q{SELECT count(*) FROM queen.log_consumers WHERE group_id NOT IN (SELECT group_id FROM queen.log_groups)}), '0', 'no cursor is left of a group that is gone');
check_cursors($node);
check_log($node);
$node->stop;
done_testing();
