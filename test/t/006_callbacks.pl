# Other libraries' PRE_COMMIT callbacks that push, before and after ours, and one that fails after our flush. Callbacks are
# called in the reverse order of their registration, that is of the loading.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Queen;
use Test::More;

my $node = new_node('callbacks', preload => '');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my %load = ('before the flush' => "LOAD 'queen'; LOAD 'queen_test';", 'after the flush' => "LOAD 'queen_test'; LOAD 'queen';");

my $n = 0;
foreach my $when (sort keys %load)
{
	my $q = 'q' . ++$n;

	$sql->("$load{$when} BEGIN; SELECT queen.push('$q', '1'); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '2')\$\$); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '3')\$\$); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '4', partition => 'born')\$\$); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q.born', '5')\$\$); COMMIT");
	is($sql->("SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.peek('$q')"), '1 2 3', "pushes $when");
	is($sql->("SELECT message FROM queen.peek('$q', 'born')"), '4', "to a new partition $when");
	is($sql->("SELECT message FROM queen.peek('$q.born')"), '5', "to a new queue $when");

	# nothing pushed before: the flush has had nothing to do
	$sql->("$load{$when} BEGIN; SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '6')\$\$); COMMIT");
	is($sql->("SELECT message FROM queen.peek('$q', from_offset => 3)"), '6', "the only push $when");

	# the next transaction of the session begins anew: its pushes wait for its commit
	is($sql->("$load{$when} BEGIN; SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '7')\$\$); COMMIT; BEGIN; SELECT queen.push('$q', '8'); ROLLBACK; SELECT queen.push('$q', '9'); SELECT message FROM queen.peek('$q', from_offset => 4)") =~ s/^[\s\S]*\n(?=7\n)//r,
		"7\n9", "and the next transaction, $when");

	# a pop in a callback: what this transaction has pushed is not delivered to it, written or not; what was there is
	is($sql->("$load{$when} CREATE TABLE popped AS SELECT 0 AS off LIMIT 0; BEGIN; SELECT queen.push('$q', '\"own\"', 'own'); SELECT queen_test_run_at_commit(\$\$INSERT INTO popped SELECT msg_offset FROM queen.pop('$q', 'own', 10, max_partitions => 9, auto_ack => true)\$\$); COMMIT") =~ s/.*//sr,
		'', "a pop $when");
	is($sql->("SELECT count(*) FROM popped; DROP TABLE popped"), '7', "takes what was committed, $when");
	is($sql->("SELECT string_agg(partition || message, ' ') FROM queen.pop('$q', 'own', 10, max_partitions => 9, auto_ack => true)"), 'own"own"', "and the own message is delivered later, $when");
	# seen by the next command of the same callback as its own, and not delivered either
	is($sql->("$load{$when} BEGIN; SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '\"late\"', 'own'), (SELECT count(*) FROM queen.pop('$q', 'own', auto_ack => true))\$\$); SELECT queen_test_run_at_commit(\$\$CREATE TABLE popped AS SELECT message FROM queen.peek('$q', 'own')\$\$); COMMIT; SELECT string_agg(message::text, ' ') FROM popped; DROP TABLE popped") =~ s/^\s+//r,
		'"own"', "a push and a read in one, $when");

	# a seek to the end in a callback: what this transaction has pushed, written or not, is not passed
	$sql->("$load{$when} SELECT queen.subscribe('$q', 'sought'); BEGIN; SELECT queen.push('$q', '\"sought\"', 'sought'); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '\"too\"', 'own'), queen.seek_to_end('$q', 'sought')\$\$); SELECT queen_test_run_at_commit(\$\$SELECT queen.seek_to_end('$q', 'sought')\$\$); COMMIT");
	is($sql->("SELECT string_agg(partition || message, ' ') FROM queen.pop('$q', 'sought', 10, max_partitions => 9, auto_ack => true)"), 'own"too" sought"sought"', "a seek passes no push of its own transaction, $when");

	# in a transaction that fails behind its pushes, all of it is gone
	my (undef, undef, $err) = $node->psql('postgres', "$load{$when} BEGIN; SELECT queen.push('$q', '10'); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '11')\$\$); SELECT queen_test_fail_at_commit(); COMMIT");
	like($err, qr/the commit fails/, "a commit fails $when");
	$sql->("SELECT queen.push('$q', '12')");
	is($sql->("SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.pop('$q', max_messages => 100, partition => 'Default', auto_ack => true)"), '1 2 3 6 7 9 12', "and left nothing, $when");
	# the same session goes on after such a failure
	is($node->psql('postgres', "$load{$when} BEGIN; SELECT queen.push('$q', '13'); SELECT queen_test_run_at_commit(\$\$SELECT queen.push('$q', '14')\$\$); SELECT queen_test_fail_at_commit(); COMMIT; SELECT queen.push('$q', '15')", on_error_stop => 0), '0', "the session goes on $when");
	is($sql->("SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.pop('$q', max_messages => 100, partition => 'Default', auto_ack => true)"), '15', "with its next push, $when");
}

# ---- ways to a commit that are not a plain one ----

$sql->(q{
	CREATE TABLE outbox (id int, CONSTRAINT positive CHECK (id > 0));
	CREATE FUNCTION deferred() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM queen.push('deferred', to_jsonb(NEW.id)); RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER t AFTER INSERT ON outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deferred();
	CREATE PROCEDURE many() LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..4 LOOP
			PERFORM queen.push('procedure', to_jsonb(i));
			IF i % 2 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
		PERFORM queen.push('procedure', '5');
	END $$;
});
$sql->(q{BEGIN; INSERT INTO outbox VALUES (1); SELECT queen.push('deferred', '"call"'); INSERT INTO outbox VALUES (2); COMMIT});
is($sql->(q{SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.peek('deferred')}), '"call" 1 2', 'deferred triggers that push');
$sql->('CALL many()');
is($sql->(q{SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.peek('procedure')}), '1 3 5', 'a procedure that commits and rolls back in the middle');
$sql->(q{BEGIN; SELECT queen.push('chain', '1'); COMMIT AND CHAIN; SELECT queen.push('chain', '2'); ROLLBACK AND CHAIN; SELECT queen.push('chain', '3'); COMMIT});
is($sql->(q{SELECT string_agg(message::text, ' ' ORDER BY msg_offset) FROM queen.peek('chain')}), '1 3', 'COMMIT AND CHAIN');
check_partitions($node);
check_log($node);
$node->stop;
done_testing();
